// linear: y = x W^T + b over the last dimension of x. On the CPU by gemm, forward and backward, or under autocast by gemmNarrow, which reads float
// and bfloat16 alike, so that nothing is cast beforehand; else libtorch's.
#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"
#include "torch/ops/gemm.h"
#include "torch/ops/gemmNarrow.h"

namespace serac {
namespace {

Tensor rowsOf(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// a b + bias: in float, or with elements rounded to bfloat16 and a result of `dtype`.
Tensor multiply(bool narrow, const Tensor& a, const Tensor& b, const Tensor& bias, at::ScalarType dtype) { return narrow ? productNarrow(a, b, bias, dtype) : product(a, b, bias); }

struct Linear : torch::autograd::Function<Linear> {
  static Tensor value(const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, bool narrow) {
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return multiply(narrow, rowsOf(x), weight.t(), bias.has_value() ? *bias : Tensor(), narrow ? at::kBFloat16 : at::kFloat).view(shape);
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, bool narrow) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["bias"] = bias.has_value() && bias->requires_grad() ? static_cast<int64_t>(bias->scalar_type()) : int64_t{-1};
    ctx->saved_data["narrow"] = narrow;
    return value(x, weight, bias, narrow);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const bool narrow = ctx->saved_data["narrow"].toBool();
    const int64_t bias = ctx->saved_data["bias"].toInt();
    const Tensor grad = rowsOf(grads[0]).contiguous();
    Tensor dx, dweight;
    if (x.requires_grad()) dx = multiply(narrow, grad, weight, {}, x.scalar_type()).view(x.sizes());
    if (weight.requires_grad()) dweight = multiply(narrow, grad.t(), rowsOf(x), {}, weight.scalar_type());
    return {dx, dweight, bias < 0 ? Tensor() : columnSums(grad).to(static_cast<at::ScalarType>(bias)), {}};
  }
};

Tensor linear(const Tensor& x, const Tensor& weight, const Optional<Tensor>& given) {
  checkFloating("linear", x);
  const Optional<Tensor> bias = given.has_value() && given->defined() ? given : Optional<Tensor>();
  TORCH_CHECK(x.dim() > 0 && weight.dim() == 2 && weight.size(1) == x.size(-1), "linear: weight has shape ", weight.sizes(), ", x has shape ", x.sizes());
  if (bias) TORCH_CHECK(bias->dim() == 1 && bias->size(0) == weight.size(0), "linear: bias has shape ", bias->sizes(), ", weight has shape ", weight.sizes());
  const at::ScalarType dtype = autocastDtype(x);
  const bool narrow = dtype == at::kBFloat16 && hasGemmNarrow();
  const auto fits = [=](const Tensor& t) { return t.is_cpu() && (t.scalar_type() == at::kFloat || (narrow && t.scalar_type() == at::kBFloat16)); };
  const bool own = !composed() && (narrow || (dtype == at::kFloat && hasGemm())) && fits(x) && fits(weight) && (!bias || fits(*bias)) && x.numel() > 0;
  if (!own) return at::linear(x, weight, bias.has_value() ? *bias : Tensor());
  const NoAutocast noAutocast;
  return wantsGrad(x) || wantsGrad(weight) || (bias && wantsGrad(*bias)) ? Linear::apply(x, weight, bias, narrow) : Linear::value(x, weight, bias, narrow);
}

}  // namespace

void registerLinear(torch::Library& m) { m.def("linear(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor", &linear); }

}  // namespace serac
