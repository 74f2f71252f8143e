// Layers as icefall's scaling.py composes them.
#include <torch/csrc/autograd/autograd.h>

#include "torch/composed/composed.h"

namespace serac::composition {
namespace {

Tensor along(const Tensor& bias, int64_t dims, int64_t dim) {
  std::vector<int64_t> shape(static_cast<size_t>(dims), 1);
  shape[static_cast<size_t>(dim)] = bias.numel();
  return bias.view(shape);
}

struct BiasNorm : torch::autograd::Function<BiasNorm> {
  static Tensor value(const Tensor& x, const Tensor& bias, const Tensor& logScale, int64_t dim) {
    const Tensor scales = (x - along(bias, x.dim(), dim)).pow(2).mean({dim}, true).pow(-0.5) * logScale.exp();
    return x * scales;
  }
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& bias, const Tensor& logScale, int64_t dim) {
    const NoAutocast noAutocast;
    ctx->save_for_backward({x, bias, logScale});
    ctx->saved_data["dim"] = dim;
    return value(toCompute(x), toCompute(bias), toCompute(logScale), dim).to(x.scalar_type());
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const at::AutoGradMode record(true);
    std::vector<Tensor> leaves;
    for (const Tensor& t : saved) leaves.push_back(toCompute(t).detach().requires_grad_(true));
    const Tensor y = value(leaves[0], leaves[1], leaves[2], ctx->saved_data["dim"].toInt());
    const auto g = torch::autograd::grad({y}, leaves, {toCompute(grads[0])});
    return {g[0].to(saved[0].scalar_type()), g[1].to(saved[1].scalar_type()), g[2].to(saved[2].scalar_type()), {}};
  }
};

struct Softmax : torch::autograd::Function<Softmax> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t dim, int64_t dtype) {
    const NoAutocast noAutocast;
    const Tensor y = at::softmax(toCompute(x), dim).to(static_cast<at::ScalarType>(dtype));
    ctx->save_for_backward({y});
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["dtype"] = static_cast<int64_t>(x.scalar_type());
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor y = toCompute(ctx->get_saved_variables()[0]);
    const Tensor product = grads[0].to(y.scalar_type()) * y;
    const Tensor grad = product - y * product.sum({ctx->saved_data["dim"].toInt()}, true);
    return {grad.to(static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt())), {}, {}};
  }
};

struct DropoutShared : torch::autograd::Function<DropoutShared> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& kept, double scale) {
    const Tensor y = x * kept * scale;
    ctx->save_for_backward({y});
    ctx->saved_data["scale"] = scale;
    return y;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor y = ctx->get_saved_variables()[0];
    return {grads[0] * ctx->saved_data["scale"].toDouble() * (y != 0), {}, {}};
  }
};

Tensor uniform(const Tensor& like, int64_t sharedDim, const OptionalGenerator& generator) {
  std::vector<int64_t> shape = like.sizes().vec();
  if (sharedDim >= 0) shape[static_cast<size_t>(sharedDim)] = 1;
  return at::empty(shape, like.options().dtype(at::kFloat).requires_grad(false)).uniform_(0, 1, generator);
}

struct ActivationDropoutLinear : torch::autograd::Function<ActivationDropoutLinear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, const Optional<Tensor>& drawn, bool left, int64_t dtype) {
    const NoAutocast noAutocast;
    const bool hasBias = bias.has_value() && bias->defined();
    const auto type = static_cast<at::ScalarType>(dtype);
    const Tensor mask = drawn.has_value() ? *drawn : Tensor();
    ctx->save_for_backward({x, weight, mask});
    ctx->saved_data["left"] = left;
    ctx->saved_data["dtype"] = dtype;
    ctx->saved_data["bias"] = hasBias ? static_cast<int64_t>(bias->scalar_type()) : int64_t{-1};
    Tensor y = swooshForward(x, left);
    if (mask.defined()) y = y * mask;
    return at::linear(y.to(type), weight.to(type), hasBias ? bias->to(type) : Tensor());
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &mask = saved[2];
    const auto type = static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt());
    const int64_t biasDtype = ctx->saved_data["bias"].toInt();
    auto [y, derivative] = swooshForwardAndDerivative(x, ctx->saved_data["left"].toBool());
    if (mask.defined()) y = y * mask;
    const Tensor grad = grads[0].to(type), g = grad.reshape({-1, grad.size(-1)});
    const Tensor dweight = at::matmul(g.t(), y.reshape({-1, y.size(-1)}).to(type));
    Tensor dx = at::matmul(grad, weight.to(type)) * derivative;
    if (mask.defined()) dx = dx * mask;
    return {dx.to(x.scalar_type()), dweight.to(weight.scalar_type()), biasDtype < 0 ? Tensor() : g.sum({0}).to(static_cast<at::ScalarType>(biasDtype)), {}, {}, {}};
  }
};

}  // namespace

Tensor biasNorm(const Tensor& x, const Tensor& bias, const Tensor& logScale, int64_t dim) {
  if (wantsGrad(x) || wantsGrad(bias) || wantsGrad(logScale)) return BiasNorm::apply(x, bias, logScale, dim);
  return BiasNorm::value(toCompute(x), toCompute(bias), toCompute(logScale), dim).to(x.scalar_type());
}

Tensor softmax(const Tensor& x, int64_t dim) {
  const auto dtype = autocastDtype(x);
  return wantsGrad(x) ? Softmax::apply(x, dim, static_cast<int64_t>(dtype)) : at::softmax(toCompute(x), dim).to(dtype);
}

Tensor dropoutShared(const Tensor& x, double p, int64_t dim, const OptionalGenerator& generator) {
  return DropoutShared::apply(x, uniform(x, dim, generator) > p, 1 / (1 - p));
}

Tensor activationDropoutLinear(const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, bool left, double p, int64_t sharedDim, const OptionalGenerator& generator) {
  const Optional<Tensor> mask = p > 0 ? Optional<Tensor>(((uniform(x, sharedDim, generator) > p) * (1 / (1 - p))).to(x.scalar_type())) : Optional<Tensor>();
  return ActivationDropoutLinear::apply(x, weight, bias, mask, left, static_cast<int64_t>(autocastDtype(x)));
}

}  // namespace serac::composition
