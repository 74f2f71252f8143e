// SwooshL and SwooshR as k2 computes them on a CPU: one loop over the elements, without threads, in float.
#include <cmath>

#include "torch/composed/composed.h"
#include "torch/ops/swooshMath.h"

namespace serac::composition {
namespace {

SwooshShape shapeOf(bool left) { return left ? kSwooshL : kSwooshR; }

float softplus(float z, float e) {
  const float l = std::log1p(e);
  return std::isinf(l) ? z : l;
}

bool hasFloatLoop(const Tensor& x) { return x.is_cpu() && x.scalar_type() != at::kDouble; }

struct SwooshBytes : torch::autograd::Function<SwooshBytes> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, bool left, const OptionalGenerator& generator) {
    const SwooshShape shape = shapeOf(left);
    const Tensor in = x.to(at::kFloat).contiguous();
    const Tensor y = at::empty_like(in), bytes = at::empty(in.sizes(), in.options().dtype(at::kByte));
    const Tensor draws = at::empty_like(in).uniform_(0, 1, generator);
    const float *from = in.data_ptr<float>(), *u = draws.data_ptr<float>();
    float* to = y.data_ptr<float>();
    uint8_t* g = bytes.data_ptr<uint8_t>();
    for (int64_t i = 0; i < in.numel(); ++i) {
      const float z = from[i] - shape.shift, e = std::exp(z);
      to[i] = softplus(z, e) - 0.08f * from[i] - shape.offset;
      g[i] = static_cast<uint8_t>((1.0f - 1.0f / (1.0f + e)) * (255.0f / 1.005f) + u[i]);
    }
    ctx->save_for_backward({bytes});
    ctx->saved_data["dtype"] = static_cast<int64_t>(x.scalar_type());
    return y.to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const Tensor bytes = ctx->get_saved_variables()[0];
    const Tensor grad = grads[0].to(at::kFloat).contiguous(), out = at::empty_like(grad);
    const float* from = grad.data_ptr<float>();
    const uint8_t* g = bytes.data_ptr<uint8_t>();
    float* to = out.data_ptr<float>();
    for (int64_t i = 0; i < grad.numel(); ++i) to[i] = from[i] * (static_cast<float>(g[i]) * (1.005f / 255.0f) - 0.08f);
    return {out.to(static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt())), {}, {}};
  }
};

}  // namespace

Tensor swooshForward(const Tensor& x, bool left) {
  const SwooshShape shape = shapeOf(left);
  if (!hasFloatLoop(x)) return swooshByOperators(toCompute(x), shape).to(x.scalar_type());
  const Tensor in = x.to(at::kFloat).contiguous(), y = at::empty_like(in);
  const float* from = in.data_ptr<float>();
  float* to = y.data_ptr<float>();
  for (int64_t i = 0; i < in.numel(); ++i) {
    const float z = from[i] - shape.shift;
    to[i] = softplus(z, std::exp(z)) - 0.08f * from[i] - shape.offset;
  }
  return y.to(x.scalar_type());
}

std::pair<Tensor, Tensor> swooshForwardAndDerivative(const Tensor& x, bool left) {
  const SwooshShape shape = shapeOf(left);
  if (!hasFloatLoop(x)) {
    const Tensor wide = toCompute(x);
    return {swooshByOperators(wide, shape).to(x.scalar_type()), (logisticByOperators(wide, shape) - 0.08).to(x.scalar_type())};
  }
  const Tensor in = x.to(at::kFloat).contiguous(), y = at::empty_like(in), d = at::empty_like(in);
  const float* from = in.data_ptr<float>();
  float *to = y.data_ptr<float>(), *derivative = d.data_ptr<float>();
  for (int64_t i = 0; i < in.numel(); ++i) {
    const float z = from[i] - shape.shift, sum = 1.0f + std::exp(z), l = std::log(sum);  // log rather than log1p: so k2 where it wants both
    to[i] = (std::isinf(l) ? z : l) - 0.08f * from[i] - shape.offset;
    derivative[i] = 0.92f - 1.0f / sum;
  }
  return {y.to(x.scalar_type()), d.to(x.scalar_type())};
}

Tensor swooshExact(const Tensor& x, bool left) {
  const auto dtype = computeDtype(x.scalar_type());
  return swooshByOperators(x.to(dtype), shapeOf(left)).to(x.scalar_type());
}

Tensor swoosh(const Tensor& x, bool left, const OptionalGenerator& generator) {
  if (!wantsGrad(x)) return swooshForward(x, left);
  return hasFloatLoop(x) ? SwooshBytes::apply(x, left, generator) : swooshExact(x, left);
}

}  // namespace serac::composition
