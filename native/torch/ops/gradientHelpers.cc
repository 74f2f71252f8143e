// Operators that leave a tensor as it is and change its gradient: scale_grad, limit_param_value, penalize_abs_values_gt, with_loss.
#include "torch/composed/composed.h"
#include "torch/ops/common.h"

namespace serac {
namespace {

struct ScaleGrad : torch::autograd::Function<ScaleGrad> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double alpha) {
    ctx->saved_data["alpha"] = alpha;
    return sameStorage(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) { return {grads[0] * ctx->saved_data["alpha"].toDouble(), {}}; }
};

// Turns gradients around that would push the value further out of [min, max]; it is never clamped.
struct LimitParamValue : torch::autograd::Function<LimitParamValue> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double min, double max) {
    ctx->save_for_backward({x});
    ctx->saved_data["min"] = min;
    ctx->saved_data["max"] = max;
    return sameStorage(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor x = ctx->get_saved_variables()[0];
    Tensor g = grads[0];
    g = at::where((g > 0).logical_and(x < ctx->saved_data["min"].toDouble()), -g, g);
    g = at::where((g < 0).logical_and(x > ctx->saved_data["max"].toDouble()), -g, g);
    return {g, {}, {}};
  }
};

// Adds penalty * sign(x) where |x| > limit, whatever the gradient is: so a loss scale does not scale it (icefall means it so).
struct PenalizeAbsValuesGt : torch::autograd::Function<PenalizeAbsValuesGt> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double limit, double penalty) {
    ctx->saved_data["penalty"] = penalty;
    ctx->save_for_backward({(x > limit).to(at::kChar).sub_((x < -limit).to(at::kChar))});
    return sameStorage(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor sign = ctx->get_saved_variables()[0];
    return {at::add(grads[0], sign.to(grads[0].scalar_type()), ctx->saved_data["penalty"].toDouble()), {}, {}};
  }
};

struct WithLoss : torch::autograd::Function<WithLoss> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& loss) {
    ctx->saved_data["shape"] = loss.sizes();
    ctx->saved_data["like"] = at::empty({0}, loss.options().requires_grad(false));  // keeps dtype and device, not the values
    return sameStorage(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0], at::ones(ctx->saved_data["shape"].toIntVector(), ctx->saved_data["like"].toTensor().options())};
  }
};

Tensor scaleGrad(const Tensor& x, double alpha) {
  checkFloating("scale_grad", x);
  return wantsGrad(x) ? ScaleGrad::apply(x, alpha) : at::alias(x);
}

Tensor limitParamValue(const Tensor& x, double min, double max) {
  checkFloating("limit_param_value", x);
  TORCH_CHECK(min <= max, "limit_param_value: min ", min, " is above max ", max);
  if (!wantsGrad(x)) return at::alias(x);
  return composed() ? composition::limitParamValue(x, min, max) : LimitParamValue::apply(x, min, max);
}

Tensor penalizeAbsValuesGt(const Tensor& x, double limit, double penalty) {
  checkFloating("penalize_abs_values_gt", x);
  TORCH_CHECK(limit >= 0, "penalize_abs_values_gt: limit ", limit, " is negative");
  if (!wantsGrad(x)) return at::alias(x);
  return composed() ? composition::penalizeAbsValuesGt(x, limit, penalty) : PenalizeAbsValuesGt::apply(x, limit, penalty);
}

Tensor withLoss(const Tensor& x, const Tensor& loss) {
  checkFloating("with_loss", x);
  checkFloating("with_loss", loss);
  return wantsGrad(x) || wantsGrad(loss) ? WithLoss::apply(x, loss) : at::alias(x);
}

}  // namespace

void registerGradientHelpers(torch::Library& m) {
  m.def("scale_grad(Tensor x, float alpha) -> Tensor", &scaleGrad);
  m.def("limit_param_value(Tensor x, float min, float max) -> Tensor", &limitParamValue);
  m.def("penalize_abs_values_gt(Tensor x, float limit, float penalty) -> Tensor", &penalizeAbsValuesGt);
  m.def("with_loss(Tensor x, Tensor y) -> Tensor", &withLoss);
}

}  // namespace serac
