// gated_attend: y * (weights @ (values * tanh(s))), for frames (T, N, H) and the weights (N, target, source) of one head: NonlinAttention's products.
// s, values and y lie in one projection and are kept as they are; everything between is computed again on the way back.
#include "torch/composed/composed.h"
#include "torch/ops/gemm.h"
#include "torch/ops/tanh.h"

namespace serac {
namespace {

// One utterance of frames (T, N, H), whose channels are without holes.
template <typename T>
struct Utterance {
  T* data;
  int64_t frame;  // stride
  Utterance(const Tensor& x, int64_t n) : data(x.data_ptr<T>() + n * x.stride(1)), frame(x.stride(0)) {}
  T* at(int64_t t) const { return data + t * frame; }
};

Tensor withoutHoles(const Tensor& x) { return x.stride(2) == 1 || x.size(2) <= 1 ? x : x.contiguous(); }

struct GatedAttend : torch::autograd::Function<GatedAttend> {
  // Matrix n of the weights, in float; into `room` where it is not.
  static const float* weightsOf(const Tensor& weights, int64_t n, float* room) {
    const int64_t size = weights.size(1) * weights.size(2);
    if (weights.scalar_type() == at::kFloat) return weights.data_ptr<float>() + n * size;
    const c10::BFloat16* from = weights.data_ptr<c10::BFloat16>() + n * size;
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      float* __restrict to = room;
      for (int64_t i = 0; i < size; ++i) to[i] = load(from[i]);
    });
    return room;
  }

  // values * tanh(s) of an utterance (T, H)
  template <typename T>
  static void gate(const Utterance<T>& s, const Utterance<T>& values, int64_t frames, int64_t channels, float* out) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t t = 0; t < frames; ++t) {
        const T *a = s.at(t), *v = values.at(t);
        float* __restrict to = out + t * channels;
        for (int64_t c = 0; c < channels; ++c) to[c] = load(v[c]) * tanhOf<isa>(load(a[c]));
      }
    });
  }

  static Tensor value(const Tensor& weights, const Tensor& s, const Tensor& values, const Tensor& y) {
    const int64_t frames = y.size(0), channels = y.size(2);
    Tensor out = at::empty(y.sizes(), y.options().requires_grad(false));
    forType(y.scalar_type(), [&]<typename T>(T) {
      at::parallel_for(0, y.size(1), 1, [&](int64_t first, int64_t last) {
        const Scratch room(weights.scalar_type() == at::kFloat ? 0 : frames * frames), gated(frames * channels), attended(frames * channels);
        for (int64_t n = first; n < last; ++n) {
          gate<T>({s, n}, {values, n}, frames, channels, gated.data());
          gemm(false, false, frames, channels, frames, weightsOf(weights, n, room.data()), frames, gated.data(), channels, 0.0f, attended.data(), channels);
          const Utterance<T> factor(y, n), to(out, n);
          const float* from = attended.data();
          vectorized([=]<Isa isa>() __attribute__((always_inline)) {
            for (int64_t t = 0; t < frames; ++t) {
              const T* f = factor.at(t);
              T* __restrict o = to.at(t);
              for (int64_t c = 0; c < channels; ++c) store(o[c], load(f[c]) * from[t * channels + c]);
            }
          });
        }
      });
    });
    return out;
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& weights, const Tensor& s, const Tensor& values, const Tensor& y) {
    ctx->save_for_backward({weights, s, values, y});
    return value(weights, s, values, y);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &weights = saved[0], &s = saved[1], &values = saved[2], &y = saved[3];
    const Tensor grad = grads[0].to(y.scalar_type()).contiguous();
    const int64_t frames = y.size(0), channels = y.size(2);
    const auto options = y.options().requires_grad(false);
    Tensor dweights = weights.requires_grad() ? at::empty(weights.sizes(), weights.options().requires_grad(false)) : Tensor();
    Tensor ds = at::empty(y.sizes(), options), dvalues = at::empty(y.sizes(), options), dy = at::empty(y.sizes(), options);
    const bool wide = weights.scalar_type() == at::kFloat;
    forType(y.scalar_type(), [&]<typename T>(T) {
      at::parallel_for(0, y.size(1), 1, [&](int64_t first, int64_t last) {
        const Scratch room(wide ? 0 : frames * frames), gated(frames * channels), attended(frames * channels), dgated(frames * channels);
        for (int64_t n = first; n < last; ++n) {
          const Utterance<T> a(s, n), v(values, n), factor(y, n), up(grad, n), toS(ds, n), toValues(dvalues, n), toY(dy, n);
          const float* const w = weightsOf(weights, n, room.data());
          gate<T>(a, v, frames, channels, gated.data());
          gemm(false, false, frames, channels, frames, w, frames, gated.data(), channels, 0.0f, attended.data(), channels);
          float* const between = attended.data();  // becomes the gradient of what was attended to
          vectorized([=]<Isa isa>() __attribute__((always_inline)) {
            for (int64_t t = 0; t < frames; ++t) {
              const T *f = factor.at(t), *g = up.at(t);
              T* __restrict o = toY.at(t);
              float* __restrict d = between + t * channels;
              for (int64_t c = 0; c < channels; ++c) {
                const float gradient = load(g[c]);
                store(o[c], gradient * d[c]);
                d[c] = gradient * load(f[c]);
              }
            }
          });
          gemm(true, false, frames, channels, frames, w, frames, between, channels, 0.0f, dgated.data(), channels);
          if (dweights.defined()) {
            float* const to = wide ? dweights.data_ptr<float>() + n * frames * frames : room.data();  // the weights are no longer needed
            gemm(false, true, frames, frames, channels, between, channels, gated.data(), channels, 0.0f, to, frames);
            if (!wide) {
              c10::BFloat16* const out = dweights.data_ptr<c10::BFloat16>() + n * frames * frames;
              vectorized([=]<Isa isa>() __attribute__((always_inline)) {
                for (int64_t i = 0; i < frames * frames; ++i) store(out[i], to[i]);
              });
            }
          }
          const float* const dg = dgated.data();
          vectorized([=]<Isa isa>() __attribute__((always_inline)) {
            for (int64_t t = 0; t < frames; ++t) {
              const T *from = a.at(t), *value = v.at(t);
              const float* d = dg + t * channels;
              T *__restrict o = toS.at(t), *__restrict p = toValues.at(t);
              for (int64_t c = 0; c < channels; ++c) {
                const float h = tanhOf<isa>(load(from[c]));
                store(p[c], d[c] * h);
                store(o[c], d[c] * load(value[c]) * mulAdd<isa>(-h, h, 1.0f));
              }
            }
          });
        }
      });
    });
    return {dweights, ds, dvalues, dy};
  }
};

Tensor gatedAttend(const Tensor& weights, const Tensor& s, const Tensor& values, const Tensor& y) {
  constexpr const char* kName = "gated_attend";
  checkFloating(kName, y);
  TORCH_CHECK(y.dim() == 3 && s.sizes() == y.sizes() && values.sizes() == y.sizes(), kName, ": s, values and y must be (T, N, H), they have shapes ", s.sizes(), ", ", values.sizes(), " and ", y.sizes());
  TORCH_CHECK(weights.dim() == 3 && weights.size(0) == y.size(1) && weights.size(1) == y.size(0) && weights.size(2) == y.size(0), kName, ": weights must be (N, T, T), they have shape ", weights.sizes(), ", y has shape ", y.sizes());
  const at::ScalarType dtype = autocastDtype(y);
  const bool own = !composed() && hasGemm() && isFloatOrNarrow(weights) && isFloatOrNarrow(y) && s.scalar_type() == y.scalar_type() && values.scalar_type() == y.scalar_type() && dtype == y.scalar_type() && y.numel() > 0;
  if (y.numel() == 0) return y * (values * s.tanh()) + 0 * weights.sum();  // nothing, with gradients for all
  if (!own) return y * composition::attend(weights, values * s.tanh());
  const NoAutocast noAutocast;
  const Tensor w = weights.contiguous(), a = withoutHoles(s), v = withoutHoles(values), f = withoutHoles(y);
  const bool gradient = wantsGrad(weights) || wantsGrad(s) || wantsGrad(values) || wantsGrad(y);
  return gradient ? GatedAttend::apply(w, a, v, f) : GatedAttend::value(w, a, v, f);
}

}  // namespace

void registerGatedAttend(torch::Library& m) { m.def("gated_attend(Tensor weights, Tensor s, Tensor values, Tensor y) -> Tensor", &gatedAttend); }

}  // namespace serac
