// glu: a * sigmoid(b) for the halves a, b of the last dimension of x (T, N, 2 C), 0 where the mask (N, T) is true: one pass forward, one backward.
// With `balance` (min_mean, max_mean, min_rms, max_rms, grad_scale) the gradients of b are balanced as balancer does it.
#include "torch/ops/glu.h"

#include "torch/composed/composed.h"
#include "torch/ops/balancer.h"
#include "torch/ops/swooshMath.h"

namespace serac {
namespace {

template <Isa isa>
SERAC_INLINE float sigmoid(float v) {
  return logisticOf<isa>(v, 0.0f);
}

// Calls f(first row, last row) for ranges of rows of frames.
template <typename F>
void overRows(int64_t rows, int64_t columns, const F& f) {
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, columns)), f);
}

const bool* maskOf(const Tensor& mask) { return mask.defined() ? mask.data_ptr<bool>() : nullptr; }

template <typename T>
void forwardLoop(const T* x, const bool* mask, T* y, int64_t frames, int64_t batch, int64_t channels) {
  overRows(frames * batch, channels, [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t r = begin; r < end; ++r) {
        const T* __restrict a = x + r * 2 * channels;
        const T* __restrict b = x + (2 * r + 1) * channels;
        T* __restrict to = y + r * channels;
        const float keep = mask && mask[r % batch * frames + r / batch] ? 0.0f : 1.0f;
        for (int64_t c = 0; c < channels; ++c) store(to[c], keep * load(a[c]) * sigmoid<isa>(load(b[c])));
      }
    });
  });
}

template <typename T>
void backwardLoop(const T* x, const bool* mask, const T* grad, T* dx, const float* as, const float* bs, int64_t frames, int64_t batch, int64_t channels) {
  overRows(frames * batch, channels, [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t r = begin; r < end; ++r) {
        const T* __restrict a = x + r * 2 * channels;
        const T* __restrict b = x + (2 * r + 1) * channels;
        const T* __restrict g = grad + r * channels;
        T* __restrict da = dx + r * 2 * channels;
        T* __restrict db = dx + (2 * r + 1) * channels;
        const float keep = mask && mask[r % batch * frames + r / batch] ? 0.0f : 1.0f;
#pragma GCC ivdep  // the pointers never overlap
        for (int64_t c = 0; c < channels; ++c) {
          const float gate = load(b[c]), s = sigmoid<isa>(gate), up = keep * load(g[c]);
          store(da[c], up * s);
          const float d = up * load(a[c]) * s * (1.0f - s);
          store(db[c], mulAdd<isa>(__builtin_fabsf(d), mulAdd<isa>(as[c], gate, bs[c]), d));
        }
      }
    });
  });
}

}  // namespace

Tensor gluValue(const Tensor& x, const Tensor& mask) {
  const int64_t frames = x.size(0), batch = x.size(1), channels = x.size(2) / 2;
  Tensor y = at::empty({frames, batch, channels}, x.options().requires_grad(false));
  forType(x.scalar_type(), [&]<typename T>(T) { forwardLoop(x.data_ptr<T>(), maskOf(mask), y.data_ptr<T>(), frames, batch, channels); });
  return y;
}

Tensor gluGradient(const Tensor& x, const Tensor& mask, const std::vector<double>& r, const Tensor& given) {
  const int64_t frames = x.size(0), batch = x.size(1), channels = x.size(2) / 2;
  const Tensor grad = given.to(x.scalar_type()).contiguous();
  const Tensor lines = r.empty() ? at::zeros({2, channels}, x.options().dtype(at::kFloat).requires_grad(false))
                                 : balancerLines(x.slice(2, channels).contiguous(), {r[0], r[1], r[2], r[3], r[4]});
  const float *a = lines.data_ptr<float>(), *b = a + channels;
  Tensor dx = at::empty(x.sizes(), x.options().requires_grad(false));
  forType(x.scalar_type(), [&]<typename T>(T) { backwardLoop(x.data_ptr<T>(), maskOf(mask), grad.data_ptr<T>(), dx.data_ptr<T>(), a, b, frames, batch, channels); });
  return dx;
}

Tensor composition::glu(const Tensor& x, const Optional<Tensor>& mask, at::ArrayRef<double> range) {
  const auto halves = x.chunk(2, 2);
  Tensor gate = halves[1];
  if (!range.empty() && wantsGrad(gate)) gate = composition::balancer(gate, 2, range[0], range[1], range[2], range[3], range[4]);
  const Tensor y = halves[0] * gate.sigmoid();
  return mask.has_value() ? y.permute({1, 2, 0}).masked_fill(mask->unsqueeze(1), 0).permute({2, 0, 1}) : y;
}

void checkGlu(const char* name, const Tensor& x, const Optional<Tensor>& mask, at::ArrayRef<double> balance) {
  checkFloating(name, x);
  TORCH_CHECK(x.dim() == 3 && x.size(2) % 2 == 0, name, ": x must be (T, N, 2 C), it has shape ", x.sizes());
  if (mask) TORCH_CHECK(mask->dim() == 2 && mask->size(0) == x.size(1) && mask->size(1) == x.size(0) && mask->scalar_type() == at::kBool, name, ": mask must be bool (N, T), it is ", mask->scalar_type(), " of shape ", mask->sizes(), ", x has shape ", x.sizes());
  TORCH_CHECK(balance.empty() || balance.size() == 5, name, ": balance must be min_mean, max_mean, min_rms, max_rms, grad_scale");
}

namespace {

struct Glu : torch::autograd::Function<Glu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Optional<Tensor>& mask, std::vector<double> range) {
    const Tensor m = mask.has_value() ? *mask : Tensor();
    ctx->save_for_backward({x, m});
    ctx->saved_data["range"] = range;
    return gluValue(x, m);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    return {gluGradient(saved[0], saved[1], ctx->saved_data["range"].toDoubleVector(), grads[0]), {}, {}};
  }
};

Tensor glu(const Tensor& x, const Optional<Tensor>& given, at::ArrayRef<double> balance) {
  const Optional<Tensor> mask = given.has_value() && given->defined() ? given : Optional<Tensor>();
  checkGlu("glu", x, mask, balance);
  if (composed() || !isFloatOrNarrow(x) || x.numel() == 0) return composition::glu(x, mask, balance);
  const Tensor in = x.contiguous();
  const NoAutocast noAutocast;
  const Optional<Tensor> dense = mask ? Optional<Tensor>(mask->contiguous()) : mask;
  return wantsGrad(x) ? Glu::apply(in, dense, balance.vec()) : gluValue(in, dense ? *dense : Tensor());
}

}  // namespace

void registerGlu(torch::Library& m) { m.def("glu(Tensor x, Tensor? mask, float[] balance) -> Tensor", &glu); }

}  // namespace serac
