// bias_norm: y = x * exp(log_scale) * mean_c((x - bias)^2)^(-1/2), without an epsilon (Zipformer, section 3.5).
// The backward pass recomputes the level of every frame from x. With s the factor of a frame, m its mean square and G = sum_c(grad * x):
//   dx = grad * s - k * (x - bias), dbias = sum k * (x - bias), dlog_scale = sum G * s, where k = G * s / (m * C).
#include "torch/composed/composed.h"
#include "torch/ops/common.h"
#include "torch/ops/simd.h"

#include <vector>

namespace serac {
namespace {

constexpr int kLanes = 16;

// sum over one frame of (x - bias)^2 and, with `grad`, of grad * x; in lanes, so that it vectorises in a fixed order.
template <Isa isa>
SERAC_INLINE void frameSums(const float* x, const float* bias, const float* grad, int64_t channels, float& square, float& product) {
  float squares[kLanes] = {}, products[kLanes] = {};
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const float d = x[c + l] - bias[c + l];
      squares[l] = mulAdd<isa>(d, d, squares[l]);
      if (grad) products[l] = mulAdd<isa>(grad[c + l], x[c + l], products[l]);
    }
  for (; c < channels; ++c) {
    const float d = x[c] - bias[c];
    squares[0] += d * d;
    if (grad) products[0] += grad[c] * x[c];
  }
  square = product = 0;
  for (int l = 0; l < kLanes; ++l) square += squares[l], product += products[l];
}

bool hasFrameLoop(const Tensor& x, const Tensor& bias, int64_t dim) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && bias.scalar_type() == at::kFloat && dim == x.dim() - 1 && x.numel() > 0;
}

void forwardFrames(const Tensor& x, const Tensor& bias, float exponent, Tensor& y) {
  const int64_t channels = bias.numel();
  const float *in = x.data_ptr<float>(), *b = bias.data_ptr<float>();
  float* out = y.data_ptr<float>();
  at::parallel_for(0, x.numel() / channels, std::max<int64_t>(1, kGrain / channels), [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t r = begin; r < end; ++r) {
        float square, unused;
        frameSums<isa>(in + r * channels, b, nullptr, channels, square, unused);
        const float scale = exponent / __builtin_sqrtf(square / static_cast<float>(channels));
        for (int64_t c = 0; c < channels; ++c) out[r * channels + c] = in[r * channels + c] * scale;
      }
    });
  });
}

// Returns the gradient of log_scale; adds to dbias.
double backwardFrames(const Tensor& x, const Tensor& bias, float exponent, const Tensor& grad, Tensor& dx, Tensor& dbias) {
  const int64_t channels = bias.numel(), rows = x.numel() / channels;
  const float *in = x.data_ptr<float>(), *b = bias.data_ptr<float>(), *g = grad.data_ptr<float>();
  float* out = dx.data_ptr<float>();
  const int64_t parts = std::min<int64_t>(at::get_num_threads(), std::max<int64_t>(1, x.numel() / kGrain));
  std::vector<float> biasParts(static_cast<size_t>(parts * channels), 0.0f);
  std::vector<double> scaleParts(static_cast<size_t>(parts), 0.0);
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      float* db = biasParts.data() + part * channels;
      double* dscale = &scaleParts[static_cast<size_t>(part)];
      vectorized([=]<Isa isa>() __attribute__((always_inline)) {
        for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; ++r) {
          const float *xr = in + r * channels, *gr = g + r * channels;
          float* o = out + r * channels;
          float square, product;
          frameSums<isa>(xr, b, gr, channels, square, product);
          const float scale = exponent / __builtin_sqrtf(square / static_cast<float>(channels));
          const float k = product * scale / square;
          *dscale += product * scale;
          for (int64_t c = 0; c < channels; ++c) {
            const float d = k * (xr[c] - b[c]);
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
    ctx->save_for_backward({x, bias, logScale});
    ctx->saved_data["dim"] = dim;
    return value(x, bias, logScale, dim);
  }

  static Tensor value(const Tensor& x, const Tensor& bias, const Tensor& logScale, int64_t dim) {
    if (hasFrameLoop(x, bias, dim)) {
      const Tensor in = x.contiguous();
      Tensor y = at::empty_like(in);
      forwardFrames(in, bias.contiguous(), static_cast<float>(std::exp(logScale.item<double>())), y);
      return y;
    }
    const auto dtype = computeDtype(x.scalar_type());
    const Tensor wide = x.to(dtype);
    const Tensor scale = (wide - along(bias.to(dtype), x.dim(), dim)).square().mean({dim}, true).rsqrt() * logScale.to(dtype).exp();
    return (wide * scale).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &bias = saved[1], &logScale = saved[2];
    const int64_t dim = ctx->saved_data["dim"].toInt();
    if (hasFrameLoop(x, bias, dim) && grads[0].scalar_type() == at::kFloat) {
      const Tensor in = x.contiguous();
      Tensor dx = at::empty_like(in), dbias = at::zeros_like(bias, at::MemoryFormat::Contiguous);
      const double dscale = backwardFrames(in, bias.contiguous(), static_cast<float>(std::exp(logScale.item<double>())), grads[0].contiguous(), dx, dbias);
      return {dx, dbias, at::full_like(logScale, dscale), {}};
    }
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
  return BiasNorm::value(x, bias, logScale, dim);
}

}  // namespace

void registerBiasNorm(torch::Library& m) { m.def("bias_norm(Tensor x, Tensor bias, Tensor log_scale, int channel_dim=-1) -> Tensor", &biasNorm); }

}  // namespace serac
