// gated_attend: y * (weights @ (values * tanh(s))), for frames (T, N, H) and the weights (N, target, source) of one head: NonlinAttention's products.
// s, values and y lie in one projection and are kept as they are; everything between is computed again on the way back.
#include "torch/composed/composed.h"
#include "torch/ops/gemm.h"
#include "torch/ops/gemmNarrow.h"
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

// Matrix n of the weights (N, T, T): in float, or in bfloat16 and multiplied as it lies where the CPU does that, else widened into `room`.
struct Matrices {
  const Tensor& owner;
  int64_t frames;
  bool wide, narrow;
  explicit Matrices(const Tensor& weights) : owner(weights), frames(weights.size(1)), wide(weights.scalar_type() == at::kFloat), narrow(!wide && hasGemmNarrow()) {}
  int64_t roomSize() const { return wide || narrow ? 0 : frames * frames; }

  // y (T, H) = weights x, or their transpose times x
  void times(int64_t n, bool transposed, const float* x, int64_t channels, float* y, float* room) const {
    const int64_t size = frames * frames;
    if (narrow) return gemmNarrow<c10::BFloat16, float, float>(transposed, false, frames, channels, frames, owner.data_ptr<c10::BFloat16>() + n * size, frames, x, channels, nullptr, false, y, channels);
    const float* from = room;
    if (wide) {
      from = owner.data_ptr<float>() + n * size;
    } else {
      const c10::BFloat16* halves = owner.data_ptr<c10::BFloat16>() + n * size;
      for (int64_t i = 0; i < size; ++i) room[i] = load(halves[i]);
    }
    gemm(transposed, false, frames, channels, frames, from, frames, x, channels, 0.0f, y, channels);
  }

  // The gradient of matrix n: g (T, H) x^T
  void gradient(int64_t n, const float* g, const float* x, int64_t channels, const Tensor& to, float* room) const {
    const int64_t size = frames * frames;
    if (wide) return gemm(false, true, frames, frames, channels, g, channels, x, channels, 0.0f, to.data_ptr<float>() + n * size, frames);
    c10::BFloat16* const out = to.data_ptr<c10::BFloat16>() + n * size;
    if (narrow) return gemmNarrow<float, float, c10::BFloat16>(false, true, frames, frames, channels, g, channels, x, channels, nullptr, false, out, frames);
    gemm(false, true, frames, frames, channels, g, channels, x, channels, 0.0f, room, frames);
    for (int64_t i = 0; i < size; ++i) store(out[i], room[i]);
  }
};

struct GatedAttend : torch::autograd::Function<GatedAttend> {
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
    const Matrices matrices(weights);
    Tensor out = at::empty(y.sizes(), y.options().requires_grad(false));
    forType(y.scalar_type(), [&]<typename T>(T) {
      at::parallel_for(0, y.size(1), 1, [&](int64_t first, int64_t last) {
        const Scratch room(matrices.roomSize()), gated(frames * channels), attended(frames * channels);
        for (int64_t n = first; n < last; ++n) {
          gate<T>({s, n}, {values, n}, frames, channels, gated.data());
          matrices.times(n, false, gated.data(), channels, attended.data(), room.data());
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
    const Matrices matrices(weights);
    forType(y.scalar_type(), [&]<typename T>(T) {
      at::parallel_for(0, y.size(1), 1, [&](int64_t first, int64_t last) {
        const Scratch room(matrices.roomSize()), gated(frames * channels), attended(frames * channels), dgated(frames * channels);
        for (int64_t n = first; n < last; ++n) {
          const Utterance<T> a(s, n), v(values, n), factor(y, n), up(grad, n), toS(ds, n), toValues(dvalues, n), toY(dy, n);
          gate<T>(a, v, frames, channels, gated.data());
          matrices.times(n, false, gated.data(), channels, attended.data(), room.data());
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
          matrices.times(n, true, between, channels, dgated.data(), room.data());
          if (dweights.defined()) matrices.gradient(n, between, gated.data(), channels, dweights, room.data());
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
