// activation_dropout_linear: linear(dropout(activation(x))), keeping x and a seed: the backward pass computes the activation, its exact derivative
// and the mask again (icefall's ActivationDropoutAndLinear). Element (o, d, i) of x as (outer, shared, inner) has the draw o * inner + i.
#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"
#include "torch/ops/gemm.h"
#include "torch/ops/gemmNarrow.h"
#include "torch/ops/swooshMath.h"

#include <vector>

namespace serac {
namespace {

struct Dropout {
  float p = 0;
  Seed seed;
  int64_t shared = 1, inner = 1;  // sizes: the dimension that shares the mask, and what follows it
  int32_t threshold() const { return static_cast<int32_t>(p * 16777216.0f); }  // of draws of 24 bits
  float scale() const { return 1.0f / (1.0f - p); }
};

Dropout dropoutOf(const Tensor& x, double p, int64_t sharedDim, Seed seed) {
  Dropout d{static_cast<float>(p), seed, 1, x.numel()};
  if (sharedDim < 0) return d;
  d.shared = x.size(sharedDim);
  d.inner = 1;
  for (int64_t i = sharedDim + 1; i < x.dim(); ++i) d.inner *= x.size(i);
  return d;
}

// Calls f(offset, draw, size) for stretches of elements that are contiguous and have consecutive draws.
template <typename F>
void forStretches(int64_t numel, const Dropout& d, F&& f) {
  constexpr int64_t kStretch = 2048;
  const int64_t pieces = (d.inner + kStretch - 1) / kStretch;  // of one row of `inner`
  const int64_t rows = numel / d.inner;
  at::parallel_for(0, rows * pieces, std::max<int64_t>(1, kGrain / std::min(kStretch, d.inner)), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t row = k / pieces, start = (k % pieces) * kStretch;
      f(row * d.inner + start, row / d.shared * d.inner + start, std::min(kStretch, d.inner - start));
    }
  });
}

template <typename T>
void activateLoop(const T* x, T* y, int64_t numel, SwooshShape shape, Dropout d) {
  forStretches(numel, d, [=](int64_t offset, int64_t draw, int64_t size) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      const T* __restrict from = x + offset;
      T* __restrict to = y + offset;
      const int32_t n = static_cast<int32_t>(size), threshold = d.threshold();
      const uint32_t lo = d.seed.lo, hi = d.seed.hi, first = static_cast<uint32_t>(draw);
      const float scale = d.scale();
      if (threshold == 0) {
        for (int32_t i = 0; i < n; ++i) store(to[i], swoosh<isa>(load(from[i]), shape));
      } else {
        for (int32_t i = 0; i < n; ++i) store(to[i], swoosh<isa>(load(from[i]), shape) * keepAtLeast(draw24(lo, hi, first + static_cast<uint32_t>(i)), threshold, scale));
      }
    });
  });
}

// y = act(x) * mask, and dx = dx * act'(x) * mask in place.
template <typename T>
void activateBackwardLoop(const T* x, T* y, T* dx, int64_t numel, SwooshShape shape, Dropout d) {
  forStretches(numel, d, [=](int64_t offset, int64_t draw, int64_t size) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      const T* __restrict from = x + offset;
      T *__restrict to = y + offset, *__restrict grad = dx + offset;
      const int32_t n = static_cast<int32_t>(size), threshold = d.threshold();
      const uint32_t lo = d.seed.lo, hi = d.seed.hi, first = static_cast<uint32_t>(draw);
      const float scale = d.scale();
      float g;
      if (threshold == 0) {
        for (int32_t i = 0; i < n; ++i) {
          store(to[i], swooshAndLogistic<isa>(load(from[i]), shape, g));
          store(grad[i], load(grad[i]) * (g - 0.08f));
        }
      } else {
        for (int32_t i = 0; i < n; ++i) {
          const float value = swooshAndLogistic<isa>(load(from[i]), shape, g);
          const float mask = keepAtLeast(draw24(lo, hi, first + static_cast<uint32_t>(i)), threshold, scale);
          store(to[i], value * mask);
          store(grad[i], load(grad[i]) * (g - 0.08f) * mask);
        }
      }
    });
  });
}

SwooshShape shapeOf(bool left) { return left ? kSwooshL : kSwooshR; }

// The mask of the loops above as a tensor that broadcasts to x; undefined without dropout.
Tensor maskByOperators(const Tensor& x, double p, int64_t sharedDim, const OptionalGenerator& generator) {
  if (p == 0) return {};
  std::vector<int64_t> shape = x.sizes().vec();
  if (sharedDim >= 0) shape[static_cast<size_t>(sharedDim)] = 1;
  return at::empty(shape, x.options().dtype(at::kFloat).requires_grad(false)).uniform_(0, 1, generator).gt_(p).div_(1 - p).to(x.scalar_type());
}

Tensor rows(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

struct Options {
  bool left;
  double p;
  int64_t sharedDim;  // -1: none
  at::ScalarType dtype;  // of the matrix product and of the result
};

struct ActivationDropoutLinear : torch::autograd::Function<ActivationDropoutLinear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, Options o, const OptionalGenerator& generator) {
    const NoAutocast noAutocast;
    const bool hasBias = bias.has_value() && bias->defined();
    Tensor mask, active;
    Seed seed;
    const Tensor in = x.contiguous();
    if (isFloatOrNarrow(x)) {
      if (o.p > 0) seed = drawSeed("activation_dropout_linear", generator);
      active = activate(in, o, seed);
    } else {
      mask = maskByOperators(x, o.p, o.sharedDim, generator);
      active = swooshByOperators(toCompute(in), shapeOf(o.left)).to(x.scalar_type());
      if (mask.defined()) active = active * mask;
    }
    ctx->save_for_backward({in, weight, mask});
    ctx->saved_data["left"] = o.left;
    ctx->saved_data["p"] = o.p;
    ctx->saved_data["shared_dim"] = o.sharedDim;
    ctx->saved_data["seed"] = seed.packed();
    ctx->saved_data["dtype"] = static_cast<int64_t>(o.dtype);
    ctx->saved_data["bias"] = hasBias ? static_cast<int64_t>(bias->scalar_type()) : int64_t{-1};
    return product(active, weight, bias, o.dtype, x);
  }

  static Tensor activate(const Tensor& in, const Options& o, Seed seed) {
    Tensor y = at::empty_like(in);
    if (in.numel() == 0) return y;
    const Dropout dropout = dropoutOf(in, o.p, o.sharedDim, seed);
    if (in.scalar_type() == at::kFloat)
      activateLoop(in.data_ptr<float>(), y.data_ptr<float>(), in.numel(), shapeOf(o.left), dropout);
    else
      activateLoop(in.data_ptr<c10::BFloat16>(), y.data_ptr<c10::BFloat16>(), in.numel(), shapeOf(o.left), dropout);
    return y;
  }

  // a b + bias in `precision`, as a tensor of `dtype`.
  static Tensor multiply(const Tensor& a, const Tensor& b, const Tensor& bias, at::ScalarType precision, at::ScalarType dtype) {
    if (precision == at::kBFloat16 && hasGemmNarrow() && isFloatOrNarrow(a) && isFloatOrNarrow(b)) return productNarrow(a, b, bias, dtype);
    const Tensor left = a.to(precision), right = b.to(precision);
    if (precision == at::kFloat && a.is_cpu() && hasGemm()) return serac::product(left, right, bias.defined() ? bias.to(precision) : bias).to(dtype);
    return (bias.defined() ? at::addmm(bias.to(precision), left, right) : at::mm(left, right)).to(dtype);
  }

  static Tensor product(const Tensor& active, const Tensor& weight, const Optional<Tensor>& bias, at::ScalarType dtype, const Tensor& x) {
    const Tensor y = multiply(rows(active), weight.t(), bias.has_value() && bias->defined() ? *bias : Tensor(), dtype, dtype);
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return y.view(shape);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &mask = saved[2];
    const bool left = ctx->saved_data["left"].toBool();
    const auto dtype = static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt());
    const int64_t biasDtype = ctx->saved_data["bias"].toInt();
    const Tensor grad = rows(grads[0]);
    Tensor dx = multiply(grad, weight, {}, dtype, x.scalar_type()).view(x.sizes());
    Tensor active;
    if (isFloatOrNarrow(x)) {
      active = at::empty_like(x);
      if (x.numel() > 0) {
        const Dropout dropout = dropoutOf(x, ctx->saved_data["p"].toDouble(), ctx->saved_data["shared_dim"].toInt(), Seed::unpack(ctx->saved_data["seed"].toInt()));
        if (x.scalar_type() == at::kFloat)
          activateBackwardLoop(x.data_ptr<float>(), active.data_ptr<float>(), dx.data_ptr<float>(), x.numel(), shapeOf(left), dropout);
        else
          activateBackwardLoop(x.data_ptr<c10::BFloat16>(), active.data_ptr<c10::BFloat16>(), dx.data_ptr<c10::BFloat16>(), x.numel(), shapeOf(left), dropout);
      }
    } else {
      const Tensor wide = toCompute(x);
      active = swooshByOperators(wide, shapeOf(left)).to(x.scalar_type());
      dx = (dx * (logisticByOperators(wide, shapeOf(left)) - 0.08)).to(x.scalar_type());
      if (mask.defined()) active = active * mask, dx = dx * mask;
    }
    const Tensor dweight = multiply(grad.t(), rows(active), {}, dtype, weight.scalar_type());
    const Tensor dbias = biasDtype < 0 ? Tensor() : columnSums(grad).to(static_cast<at::ScalarType>(biasDtype));
    return {dx, dweight, dbias, {}, {}};
  }
};

Tensor activationDropoutLinear(const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, c10::string_view activation, double p, Optional<int64_t> sharedDim,
                               bool training, const OptionalGenerator& generator) {
  constexpr const char* kName = "activation_dropout_linear";
  checkFloating(kName, x);
  TORCH_CHECK(activation == "SwooshL" || activation == "SwooshR", kName, ": activation is \"", activation, "\", it must be SwooshL or SwooshR");
  TORCH_CHECK(p >= 0 && p < 1, kName, ": dropout_p is ", p, ", it must be in [0, 1)");
  TORCH_CHECK(x.dim() > 0 && weight.dim() == 2 && weight.size(1) == x.size(-1), kName, ": weight has shape ", weight.sizes(), ", x has shape ", x.sizes());
  const bool hasBias = bias.has_value() && bias->defined();
  if (hasBias) TORCH_CHECK(bias->dim() == 1 && bias->size(0) == weight.size(0), kName, ": bias has shape ", bias->sizes(), ", weight has shape ", weight.sizes());
  const Options options{activation == "SwooshL", training ? p : 0.0, sharedDim.has_value() ? checkDim(kName, x, *sharedDim) : -1, autocastDtype(x)};
  TORCH_CHECK(options.sharedDim < 0 || options.sharedDim < x.dim() - 1, kName, ": shared_dim must not be the channels");
  if (composed()) return composition::activationDropoutLinear(x, weight, bias, options.left, options.p, options.sharedDim, generator);
  return ActivationDropoutLinear::apply(x, weight, bias, options, generator);
}

}  // namespace

void registerActivationDropoutLinear(torch::Library& m) {
  m.def(
      "activation_dropout_linear(Tensor x, Tensor weight, Tensor? bias, str activation, float dropout_p, int? shared_dim, bool training, "
      "Generator? generator=None) -> Tensor",
      &activationDropoutLinear);
}

}  // namespace serac
