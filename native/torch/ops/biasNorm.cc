// bias_norm: y = x * exp(log_scale) * mean_c((x - bias)^2)^(-1/2), without an epsilon (Zipformer, section 3.5).
// With s the factor of a frame, m its mean square and G = sum_c(grad * x):
//   dx = grad * s - k * (x - bias), dbias = sum k * (x - bias), dlog_scale = sum G * s, where k = G * s / (m * C).
// Kept are y, which who comes next keeps as well, and s: x is y / s.
#include "torch/composed/composed.h"
#include "torch/ops/common.h"
#include "torch/ops/lanes.h"

#include <vector>

namespace serac {
namespace {

bool hasFrameLoop(const Tensor& x, const Tensor& bias, int64_t dim) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && bias.scalar_type() == at::kFloat && dim == x.dim() - 1 && x.numel() > 0;
}

void forwardFrames(const Tensor& x, const Tensor& bias, float exponent, Tensor& y, Tensor& scales) {
  const int64_t channels = bias.numel();
  const float *in = x.data_ptr<float>(), *b = bias.data_ptr<float>();
  float *out = y.data_ptr<float>(), *factor = scales.data_ptr<float>();
  at::parallel_for(0, x.numel() / channels, std::max<int64_t>(1, kGrain / channels), [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t r = begin; r < end; ++r) {
        const float* from = in + r * channels;
        const float square = sumInLanes(channels, [=](int64_t c) __attribute__((always_inline)) { return (from[c] - b[c]) * (from[c] - b[c]); });
        const float scale = exponent / __builtin_sqrtf(square / static_cast<float>(channels));
        for (int64_t c = 0; c < channels; ++c) out[r * channels + c] = from[c] * scale;
        factor[r] = scale;
      }
    });
  });
}

// Returns the gradient of log_scale; adds to dbias.
double backwardFrames(const Tensor& y, const Tensor& scales, const Tensor& bias, float exponent, const Tensor& grad, Tensor& dx, Tensor& dbias) {
  const int64_t channels = bias.numel(), rows = y.numel() / channels;
  const float *in = y.data_ptr<float>(), *factor = scales.data_ptr<float>(), *b = bias.data_ptr<float>(), *g = grad.data_ptr<float>();
  float* out = dx.data_ptr<float>();
  const int64_t parts = std::min<int64_t>(at::get_num_threads(), std::max<int64_t>(1, y.numel() / kGrain));
  std::vector<float> biasParts(static_cast<size_t>(parts * channels), 0.0f);
  std::vector<double> scaleParts(static_cast<size_t>(parts), 0.0);
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      float* db = biasParts.data() + part * channels;
      double* dscale = &scaleParts[static_cast<size_t>(part)];
      vectorized([=]<Isa isa>() __attribute__((always_inline)) {
        for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; ++r) {
          const float *yr = in + r * channels, *gr = g + r * channels;
          float* o = out + r * channels;
          const float scale = factor[r], back = scale != 0 ? 1.0f / scale : 0.0f;
          const float product = sumInLanes(channels, [=](int64_t c) __attribute__((always_inline)) { return gr[c] * yr[c]; });  // G s
          const float level = exponent * back;  // the square root of m
          const float k = product / (level * level * static_cast<float>(channels));
          *dscale += product;
          for (int64_t c = 0; c < channels; ++c) {
            const float d = k * mulAdd<isa>(yr[c], back, -b[c]);
            o[c] = mulAdd<isa>(gr[c], scale, -d);
            db[c] += d;
          }
        }
      });
    }
  });
  double dscale = 0;
  float* db = dbias.data_ptr<float>();
  for (int64_t part = 0; part < parts; ++part) {
    dscale += scaleParts[static_cast<size_t>(part)];
    for (int64_t c = 0; c < channels; ++c) db[c] += biasParts[static_cast<size_t>(part * channels + c)];
  }
  return dscale;
}

// `bias` as it is added to x along `dim`.
Tensor along(const Tensor& bias, int64_t dims, int64_t dim) {
  std::vector<int64_t> shape(static_cast<size_t>(dims), 1);
  shape[static_cast<size_t>(dim)] = bias.numel();
  return bias.view(shape);
}

struct BiasNorm : torch::autograd::Function<BiasNorm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& bias, const Tensor& logScale, int64_t dim) {
    const NoAutocast noAutocast;
    const auto [y, scales] = value(x, bias, logScale, dim);
    ctx->save_for_backward({scales.defined() ? y : x, bias, logScale, scales});
    ctx->saved_data["dim"] = dim;
    return y;
  }

  // The frames' factors are undefined without a loop over frames.
  static std::pair<Tensor, Tensor> value(const Tensor& x, const Tensor& bias, const Tensor& logScale, int64_t dim) {
    if (hasFrameLoop(x, bias, dim)) {
      const Tensor in = x.contiguous();
      Tensor y = at::empty_like(in), scales = at::empty({x.numel() / bias.numel()}, x.options().requires_grad(false));
      forwardFrames(in, bias.contiguous(), static_cast<float>(std::exp(logScale.item<double>())), y, scales);
      return {y, scales};
    }
    const auto dtype = computeDtype(x.scalar_type());
    const Tensor wide = x.to(dtype);
    const Tensor scale = (wide - along(bias.to(dtype), x.dim(), dim)).square().mean({dim}, true).rsqrt() * logScale.to(dtype).exp();
    return {(wide * scale).to(x.scalar_type()), Tensor()};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &bias = saved[1], &logScale = saved[2], &scales = saved[3];
    const int64_t dim = ctx->saved_data["dim"].toInt();
    if (scales.defined()) {
      const Tensor& y = saved[0];
      Tensor dx = at::empty_like(y), dbias = at::zeros_like(bias, at::MemoryFormat::Contiguous);
      const double dscale = backwardFrames(y, scales, bias.contiguous(), static_cast<float>(std::exp(logScale.item<double>())), grads[0].to(at::kFloat).contiguous(), dx, dbias);
      return {dx, dbias, at::full_like(logScale, dscale), {}};
    }
    const Tensor& x = saved[0];
    const auto dtype = computeDtype(x.scalar_type());
    const Tensor wide = x.to(dtype), grad = grads[0].to(dtype);
    const Tensor centred = wide - along(bias.to(dtype), x.dim(), dim);
    const Tensor square = centred.square().sum({dim}, true);
    const Tensor scale = (square / x.size(dim)).rsqrt() * logScale.to(dtype).exp();
    const Tensor product = (grad * wide).sum({dim}, true) * scale;
    const Tensor d = product / square * centred;
    std::vector<int64_t> others;
    for (int64_t i = 0; i < x.dim(); ++i)
      if (i != dim) others.push_back(i);
    const Tensor dbias = others.empty() ? d : d.sum(others);
    return {(grad * scale - d).to(x.scalar_type()), dbias.to(bias.scalar_type()), product.sum().to(logScale.scalar_type()).view(logScale.sizes()), {}};
  }
};

Tensor biasNorm(const Tensor& x, const Tensor& bias, const Tensor& logScale, int64_t channelDim) {
  checkFloating("bias_norm", x);
  TORCH_CHECK(x.dim() > 0, "bias_norm: x is a scalar, it needs a dimension of channels");
  const int64_t dim = checkDim("bias_norm", x, channelDim);
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == x.size(dim), "bias_norm: bias has shape ", bias.sizes(), ", x has ", x.size(dim), " channels");
  TORCH_CHECK(logScale.numel() == 1, "bias_norm: log_scale must be one number, it has shape ", logScale.sizes());
  if (composed()) return composition::biasNorm(x, bias, logScale, dim);
  if (wantsGrad(x) || wantsGrad(bias) || wantsGrad(logScale)) return BiasNorm::apply(x, bias, logScale, dim);
  const NoAutocast noAutocast;
  return BiasNorm::value(x, bias, logScale, dim).first;
}

}  // namespace

void registerBiasNorm(torch::Library& m) { m.def("bias_norm(Tensor x, Tensor bias, Tensor log_scale, int channel_dim=-1) -> Tensor", &biasNorm); }

}  // namespace serac
