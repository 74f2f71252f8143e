// residual: x + part * mask, for frames (T, N, C) and a mask (N) of what an utterance keeps. Of two types in one pass, where one is narrow.
#include "torch/composed/composed.h"
#include "torch/ops/simd.h"

namespace serac {
namespace {

// to = a (where there is one) + b * mask, by rows of frames
template <typename A, typename B, typename O>
void addRows(const A* a, const B* b, const float* mask, O* to, int64_t rows, int64_t batch, int64_t channels) {
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, channels)), [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t r = begin; r < end; ++r) {
        const B* __restrict from = b + r * channels;
        O* __restrict out = to + r * channels;
        const float m = mask ? mask[r % batch] : 1.0f;
        if (a) {
          const A* __restrict x = a + r * channels;
          for (int64_t c = 0; c < channels; ++c) store(out[c], mulAdd<isa>(load(from[c]), m, load(x[c])));
        } else {
          for (int64_t c = 0; c < channels; ++c) store(out[c], load(from[c]) * m);
        }
      }
    });
  });
}

struct Residual : torch::autograd::Function<Residual> {
  static const float* maskOf(const Tensor& mask) { return mask.defined() ? mask.data_ptr<float>() : nullptr; }

  static Tensor value(const Tensor& x, const Tensor& part, const Tensor& mask) {
    Tensor y = at::empty(x.sizes(), x.options().dtype(at::promote_types(x.scalar_type(), part.scalar_type())).requires_grad(false));
    const int64_t batch = x.size(1), channels = x.size(2), rows = x.size(0) * batch;
    forType(x.scalar_type(), [&]<typename A>(A) {
      forType(part.scalar_type(), [&]<typename B>(B) {
        using O = std::conditional_t<std::is_same_v<A, c10::BFloat16> && std::is_same_v<B, c10::BFloat16>, c10::BFloat16, float>;
        addRows(x.data_ptr<A>(), part.data_ptr<B>(), maskOf(mask), y.data_ptr<O>(), rows, batch, channels);
      });
    });
    return y;
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& part, const Optional<Tensor>& mask) {
    const Tensor m = mask.has_value() ? *mask : Tensor();
    ctx->save_for_backward({m});
    ctx->saved_data["x"] = static_cast<int64_t>(x.scalar_type());
    ctx->saved_data["part"] = static_cast<int64_t>(part.scalar_type());
    return value(x, part, m);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor mask = ctx->get_saved_variables()[0];
    const auto xType = static_cast<at::ScalarType>(ctx->saved_data["x"].toInt()), partType = static_cast<at::ScalarType>(ctx->saved_data["part"].toInt());
    if (!mask.defined()) return {grads[0].to(xType), grads[0].to(partType), {}};
    const Tensor grad = grads[0].contiguous();
    Tensor dpart = at::empty(grad.sizes(), grad.options().dtype(partType));
    const int64_t batch = grad.size(1), channels = grad.size(2), rows = grad.size(0) * batch;
    forType(grad.scalar_type(), [&]<typename G>(G) {
      forType(partType, [&]<typename B>(B) { addRows<G>(nullptr, grad.data_ptr<G>(), maskOf(mask), dpart.data_ptr<B>(), rows, batch, channels); });
    });
    return {grads[0].to(xType), dpart, {}};
  }
};

Tensor residual(const Tensor& x, const Tensor& part, const Optional<Tensor>& given) {
  checkFloating("residual", x);
  const Optional<Tensor> mask = given.has_value() && given->defined() ? given : Optional<Tensor>();
  TORCH_CHECK(x.dim() == 3 && part.sizes() == x.sizes(), "residual: x and part must be (T, N, C), they have shapes ", x.sizes(), " and ", part.sizes());
  if (mask) TORCH_CHECK(mask->dim() == 1 && mask->size(0) == x.size(1), "residual: mask must be (N), it has shape ", mask->sizes(), ", x has shape ", x.sizes());
  if (composed() || !isFloatOrNarrow(x) || !isFloatOrNarrow(part) || x.numel() == 0) return mask ? x + part * mask->to(part.scalar_type()).view({1, -1, 1}) : x + part;
  const NoAutocast noAutocast;
  const Tensor a = x.contiguous(), b = part.contiguous();
  const Optional<Tensor> m = mask ? Optional<Tensor>(mask->to(at::kFloat).contiguous()) : mask;
  return wantsGrad(x) || wantsGrad(part) ? Residual::apply(a, b, m) : Residual::value(a, b, m ? *m : Tensor());
}

}  // namespace

void registerResidual(torch::Library& m) { m.def("residual(Tensor x, Tensor part, Tensor? mask=None) -> Tensor", &residual); }

}  // namespace serac
