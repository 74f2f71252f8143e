// Balancer, Whiten and the other operators that only change gradients, as icefall's scaling.py takes them: by autograd inside of the backward pass.
#include <torch/csrc/autograd/autograd.h>

#include "torch/composed/composed.h"

namespace serac::composition {
namespace {

std::vector<int64_t> otherDims(const Tensor& x, int64_t dim) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.dim(); ++i)
    if (i != dim) dims.push_back(i);
  return dims;
}

Tensor leafOf(const Tensor& x) { return toCompute(x).detach().requires_grad_(true); }

struct Balancer : torch::autograd::Function<Balancer> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t dim, std::vector<double> range) {
    ctx->save_for_backward({x});
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["range"] = range;
    return sameStorage(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor grad = grads[0];
    if (grad.numel() == 0) return {grad, {}, {}};
    const auto r = ctx->saved_data["range"].toDoubleVector();
    const at::AutoGradMode record(true);
    const Tensor x = leafOf(ctx->get_saved_variables()[0]);
    const auto dims = otherDims(x, ctx->saved_data["dim"].toInt());
    const auto meanOf = [&](const Tensor& t) { return dims.empty() ? t : t.mean(dims, true); };
    const Tensor square = meanOf(x.pow(2)), mean = meanOf(x);
    const Tensor sd = (square - mean * mean).clamp_min(1e-20).sqrt(), rms = square.clamp_min(1e-20).sqrt();
    const Tensor m = mean / sd;
    const Tensor loss = (m - m.clamp(r[0], r[1])).abs() + (rms.clamp(r[2], r[3]) / rms).log().abs();
    const Tensor lossGrad = torch::autograd::grad({loss}, {x}, {at::ones_like(loss)})[0];
    const at::NoGradGuard noGrad;
    const Tensor level = meanOf(lossGrad.pow(2)).sqrt().clamp_min(1e-20);
    const Tensor scaled = lossGrad * (r[4] / level);
    const Tensor wide = toCompute(grad);
    return {(wide + wide.abs() * scaled).to(grad.scalar_type()), {}, {}};
  }
};

Tensor whiteningMetric(const Tensor& x, int64_t groups) {
  const int64_t channels = x.size(-1), width = channels / groups;
  const Tensor rows = x.reshape({-1, channels});
  Tensor g = rows.reshape({rows.size(0), groups, width}).transpose(0, 1);
  g = g - g.mean({1}, true);
  const Tensor covariance = at::matmul(g.transpose(1, 2), g);
  const Tensor diagonal = covariance.reshape({groups, width * width}).slice(1, 0, Optional<int64_t>(), width + 1);
  return covariance.pow(2).sum() / channels / (diagonal.mean().pow(2) + 1e-20);
}

struct Whiten : torch::autograd::Function<Whiten> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t groups, double limit, double gradScale, const Tensor& active) {
    ctx->save_for_backward({x});
    ctx->saved_data["groups"] = groups;
    ctx->saved_data["limit"] = limit;
    ctx->saved_data["grad_scale"] = gradScale;
    ctx->saved_data["active"] = active.detach();
    return sameStorage(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor grad = grads[0];
    if (grad.numel() == 0) return {grad, {}, {}, {}, {}};
    const at::AutoGradMode record(true);
    const Tensor x = leafOf(ctx->get_saved_variables()[0]);
    const Tensor metric = whiteningMetric(x, ctx->saved_data["groups"].toInt());
    const bool on = metric.item<double>() >= ctx->saved_data["limit"].toDouble();
    const at::NoGradGuard noGrad;
    ctx->saved_data["active"].toTensor().fill_(on ? 1.0 : 0.0);
    if (!on) return {grad, {}, {}, {}, {}};
    const Tensor penalty = [&] {
      const at::AutoGradMode on_(true);
      return torch::autograd::grad({metric}, {x})[0];
    }();
    const Tensor scale = toCompute(grad).norm() / (penalty.norm() + 1e-20) * ctx->saved_data["grad_scale"].toDouble();
    return {grad + (penalty * scale).to(grad.scalar_type()), {}, {}, {}, {}};
  }
};

struct LimitParamValue : torch::autograd::Function<LimitParamValue> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double min, double max) {
    ctx->save_for_backward({x});
    ctx->saved_data["min"] = min;
    ctx->saved_data["max"] = max;
    return sameStorage(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor x = ctx->get_saved_variables()[0];
    const auto sign = [&](const Tensor& turned) { return at::where(turned, at::full({}, -1.0, grads[0].options()), at::full({}, 1.0, grads[0].options())); };
    Tensor g = grads[0] * sign((grads[0] > 0).logical_and(x < ctx->saved_data["min"].toDouble()));
    g = g * sign((g < 0).logical_and(x > ctx->saved_data["max"].toDouble()));
    return {g, {}, {}};
  }
};

struct WithLoss : torch::autograd::Function<WithLoss> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& loss) {
    ctx->saved_data["shape"] = loss.sizes();
    return sameStorage(x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) { return {grads[0], at::ones(ctx->saved_data["shape"].toIntVector(), grads[0].options())}; }
};

}  // namespace

Tensor balancer(const Tensor& x, int64_t dim, double minMean, double maxMean, double minRms, double maxRms, double gradScale) {
  return Balancer::apply(x, dim, std::vector<double>{minMean, maxMean, minRms, maxRms, gradScale});
}
Tensor whiten(const Tensor& x, int64_t groups, double limit, double gradScale, const Tensor& active) { return Whiten::apply(x, groups, limit, gradScale, active); }
Tensor limitParamValue(const Tensor& x, double min, double max) { return LimitParamValue::apply(x, min, max); }
Tensor penalizeAbsValuesGt(const Tensor& x, double limit, double penalty) {
  const Tensor loss = ((x.sign() * ((x.abs() - limit) > 0)).to(at::kChar) * x) * penalty;
  return WithLoss::apply(x, loss);
}

}  // namespace serac::composition
