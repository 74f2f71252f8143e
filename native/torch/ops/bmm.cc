// bmm: products of many small matrices, one matrix a thread. libtorch without MKL takes them one after another, each behind two views, and copies
// what is transposed. For other types than float and on other devices libtorch's bmm serves.
#include "torch/composed/composed.h"
#include "torch/ops/common.h"
#include "torch/ops/gemm.h"

namespace serac {
namespace {

// A stack of matrices as gemm reads them: rows or columns one after another.
struct Matrices {
  Tensor owner;
  const float* data;
  int64_t stride;  // from one matrix to the next
  int64_t ld;
  bool transposed;  // columns are contiguous

  explicit Matrices(const Tensor& x) : owner(x) {
    const auto fits = [](int64_t inner, int64_t outer, int64_t size, int64_t count) { return (inner == 1 || size <= 1) && (outer >= std::max<int64_t>(1, size) || count <= 1); };
    const int64_t rows = x.size(1), cols = x.size(2);
    transposed = !fits(x.stride(2), x.stride(1), cols, rows) && fits(x.stride(1), x.stride(2), rows, cols);
    if (!transposed && !fits(x.stride(2), x.stride(1), cols, rows)) owner = x.contiguous();
    const int64_t outer = transposed ? owner.stride(2) : owner.stride(1), inner = transposed ? rows : cols;
    ld = std::max<int64_t>({1, inner, (transposed ? cols : rows) <= 1 ? inner : outer});
    data = owner.data_ptr<float>();
    stride = owner.stride(0);
  }
};

bool hasLoop(const Tensor& a, const Tensor& b) {
  return a.is_cpu() && b.is_cpu() && a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat && a.numel() > 0 && b.numel() > 0 && a.size(0) > 1 && hasGemm();
}

// out (B, m, n), whose matrices are laid out by rows or by columns, becomes a b, or grows by it.
void multiply(const Tensor& left, const Tensor& right, const Tensor& result, bool add) {
  // By columns, the product of the transposed matrices is what is meant: (a b)^T = b^T a^T.
  const bool byColumns = result.stride(2) != 1 && result.size(2) > 1;
  const Tensor a = byColumns ? right.transpose(1, 2) : left, b = byColumns ? left.transpose(1, 2) : right, out = byColumns ? result.transpose(1, 2) : result;
  const Matrices left_(a), right_(b);
  const int64_t m = a.size(1), k = a.size(2), n = b.size(2), ldc = std::max<int64_t>({1, n, m > 1 ? out.stride(1) : n});
  float* const c = out.data_ptr<float>();
  const int64_t step = out.stride(0);
  const float beta = add ? 1.0f : 0.0f;
  const int64_t work = std::max<int64_t>(1, m * n * k);
  at::parallel_for(0, a.size(0), std::max<int64_t>(1, 100'000 / work), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      gemm(left_.transposed, right_.transposed, m, n, k, left_.data + i * left_.stride, left_.ld, right_.data + i * right_.stride, right_.ld, beta, c + i * step, ldc);
  });
}

// Memory for a gradient of x (B, r, c): laid out as x is where its matrices lie by rows or by columns without overlap, so that views before it need no copy.
Tensor gradientLike(const Tensor& x) {
  const Tensor like = at::empty_like(x);
  const bool rows = like.stride(2) == 1 && like.stride(1) >= like.size(2), columns = like.stride(1) == 1 && like.stride(2) >= like.size(1);
  return rows || columns ? like : at::empty(x.sizes(), x.options());
}

Tensor stackedProduct(const Tensor& a, const Tensor& b, const Optional<Tensor>& add) {
  if (!hasLoop(a, b)) {
    const Tensor y = at::bmm(a, b);
    return add ? y + add->reshape(y.sizes()) : y;
  }
  Tensor out = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  if (add) out.view(add->sizes()).copy_(*add);
  multiply(a, b, out, add.has_value());
  return out;
}

Tensor gradientOf(const Tensor& x, const Tensor& left, const Tensor& right) {
  if (!hasLoop(left, right)) return at::bmm(left, right);
  const Tensor grad = gradientLike(x);
  multiply(left, right, grad, false);
  return grad;
}

struct Bmm : torch::autograd::Function<Bmm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& a, const Tensor& b, const Optional<Tensor>& add) {
    const NoAutocast noAutocast;
    ctx->save_for_backward({a, b});
    if (add) ctx->saved_data["add"] = add->sizes().vec();
    return stackedProduct(a, b, add);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &a = saved[0], &b = saved[1];
    const Tensor grad = grads[0].to(a.scalar_type());
    Tensor dadd;
    if (const auto shape = ctx->saved_data.find("add"); shape != ctx->saved_data.end()) dadd = grads[0].reshape(shape->second.toIntVector());
    return {gradientOf(a, grad, b.transpose(1, 2)), gradientOf(b, a.transpose(1, 2), grad), dadd};
  }
};

Tensor bmm(const Tensor& a, const Tensor& b, const Optional<Tensor>& add) {
  checkFloating("bmm", a);
  checkFloating("bmm", b);
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1), "bmm: ", a.sizes(), " and ", b.sizes(), " cannot be multiplied, expected (B, m, k) and (B, k, n)");
  if (add) TORCH_CHECK(add->numel() == a.size(0) * a.size(1) * b.size(2), "bmm: add of shape ", add->sizes(), " for ", a.size(0), " products of ", a.size(1), " x ", b.size(2));
  const at::ScalarType dtype = autocastDtype(a);
  if (composed()) {
    const Tensor y = at::bmm(a.to(dtype), b.to(dtype));
    return add ? y + add->to(dtype).reshape(y.sizes()) : y;
  }
  // Outside autocast, which casts by operators with gradients.
  const Tensor left = a.to(dtype), right = b.to(dtype);
  const Optional<Tensor> sum = add ? Optional<Tensor>(add->to(dtype)) : Optional<Tensor>();
  if (wantsGrad(a) || wantsGrad(b) || (add && wantsGrad(*add))) return Bmm::apply(left, right, sum);
  const NoAutocast noAutocast;
  return stackedProduct(left, right, sum);
}

}  // namespace

void registerBmm(torch::Library& m) { m.def("bmm(Tensor a, Tensor b, Tensor? add=None) -> Tensor", &bmm); }

}  // namespace serac
