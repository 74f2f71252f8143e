// linear: y = x W^T + b over the last dimension of x. In float on the CPU by gemm, forward and backward; else libtorch's.
#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"
#include "torch/ops/gemm.h"

namespace serac {
namespace {

Tensor rowsOf(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

struct Linear : torch::autograd::Function<Linear> {
  static Tensor value(const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias) {
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return product(rowsOf(x), weight.t(), bias.has_value() ? *bias : Tensor()).view(shape);
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["bias"] = bias.has_value() && bias->requires_grad();
    return value(x, weight, bias);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const Tensor grad = rowsOf(grads[0]).contiguous();
    Tensor dx, dweight;
    if (x.requires_grad()) dx = product(grad, weight).view(x.sizes());
    if (weight.requires_grad()) dweight = product(grad.t(), rowsOf(x));
    return {dx, dweight, ctx->saved_data["bias"].toBool() ? columnSums(grad) : Tensor()};
  }
};

Tensor linear(const Tensor& x, const Tensor& weight, const Optional<Tensor>& given) {
  checkFloating("linear", x);
  const Optional<Tensor> bias = given.has_value() && given->defined() ? given : Optional<Tensor>();
  TORCH_CHECK(x.dim() > 0 && weight.dim() == 2 && weight.size(1) == x.size(-1), "linear: weight has shape ", weight.sizes(), ", x has shape ", x.sizes());
  if (bias) TORCH_CHECK(bias->dim() == 1 && bias->size(0) == weight.size(0), "linear: bias has shape ", bias->sizes(), ", weight has shape ", weight.sizes());
  const auto isFloat = [](const Tensor& t) { return t.is_cpu() && t.scalar_type() == at::kFloat; };
  const bool own = !composed() && hasGemm() && isFloat(x) && isFloat(weight) && (!bias || isFloat(*bias)) && autocastDtype(x) == at::kFloat && x.numel() > 0;
  if (!own) return at::linear(x, weight, bias.has_value() ? *bias : Tensor());
  const NoAutocast noAutocast;
  return wantsGrad(x) || wantsGrad(weight) || (bias && wantsGrad(*bias)) ? Linear::apply(x, weight, bias) : Linear::value(x, weight, bias);
}

}  // namespace

void registerLinear(torch::Library& m) { m.def("linear(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor", &linear); }

}  // namespace serac
