// swoosh_l, swoosh_r: the derivative is kept in 8 bits, rounded at random (k2's), when x wants a gradient.
// swoosh_l_exact, swoosh_r_exact: the derivative is computed from x, which is all they keep.
#include "torch/composed/composed.h"
#include "torch/ops/swooshMath.h"

namespace serac {
namespace {

// g in [0, 1] is stored as floor(g * 255 / 1.005 + u) and read as byte * 1.005 / 255 - 0.08 (k2, swoosh.cu).
constexpr float kToByte = 255.0f / 1.005f;
constexpr float kFromByte = 1.005f / 255.0f;

template <typename T>
void forwardLoop(const T* x, T* y, int64_t n, SwooshShape shape) {
  at::parallel_for(0, n, kGrain, [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t i = begin; i < end; ++i) store(y[i], swoosh<isa>(load(x[i]), shape));
    });
  });
}

template <typename T>
void forwardBytesLoop(const T* x, T* y, uint8_t* bytes, int64_t n, SwooshShape shape, Seed seed) {
  at::parallel_for(0, n, kGrain, [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      const uint32_t lo = seed.lo, hi = seed.hi;
      int32_t wide[256];  // narrowing to bytes in a loop of its own keeps both vectorised
      for (int64_t block = begin; block < end; block += 256) {
        const int32_t size = static_cast<int32_t>(end - block < 256 ? end - block : 256);
        const T* __restrict from = x + block;
        T* __restrict to = y + block;
        for (int32_t i = 0; i < size; ++i) {
          float g;
          store(to[i], swooshAndLogistic<isa>(load(from[i]), shape, g));
          wide[i] = static_cast<int32_t>(mulAdd<isa>(g, kToByte, uniform(lo, hi, static_cast<uint32_t>(block) + static_cast<uint32_t>(i))));
        }
        for (int32_t i = 0; i < size; ++i) bytes[block + i] = static_cast<uint8_t>(wide[i]);
      }
    });
  });
}

template <typename T>
void backwardBytesLoop(const T* grad, const uint8_t* bytes, T* out, int64_t n) {
  at::parallel_for(0, n, kGrain, [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      const uint8_t* __restrict from = bytes;
      T* __restrict to = out;
      for (int64_t i = begin; i < end; ++i) store(to[i], load(grad[i]) * mulAdd<isa>(static_cast<float>(static_cast<int32_t>(from[i])), kFromByte, -0.08f));
    });
  });
}

template <typename T>
void backwardExactLoop(const T* grad, const T* x, T* out, int64_t n, float shift) {
  at::parallel_for(0, n, kGrain, [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t i = begin; i < end; ++i) store(out[i], load(grad[i]) * (logisticOf<isa>(load(x[i]), shift) - 0.08f));
    });
  });
}

// Calls f with a value of the element type; only for tensors that isFloatOrNarrow().
template <typename F>
void forElement(const Tensor& x, F&& f) {
  if (x.scalar_type() == at::kBFloat16)
    f(c10::BFloat16{});
  else
    f(float{});
}

SwooshShape shapeOf(bool left) { return left ? kSwooshL : kSwooshR; }

Tensor value(const Tensor& x, bool left) {
  if (!isFloatOrNarrow(x)) return swooshByOperators(toCompute(x), shapeOf(left)).to(x.scalar_type());
  const Tensor in = dense(x);
  Tensor y = at::empty_like(in);
  forElement(x, [&](auto t) {
    using T = decltype(t);
    forwardLoop(in.data_ptr<T>(), y.data_ptr<T>(), in.numel(), shapeOf(left));
  });
  return y;
}

struct SwooshBytes : torch::autograd::Function<SwooshBytes> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, bool left, const OptionalGenerator& generator) {
    const NoAutocast noAutocast;
    const SwooshShape shape = shapeOf(left);
    if (!isFloatOrNarrow(x)) {
      const Tensor wide = toCompute(x);
      Tensor u = at::empty(wide.sizes(), wide.options()).uniform_(0, 1, generator);
      ctx->save_for_backward({logisticByOperators(wide, shape).mul(kToByte).add_(u).floor_().to(at::kByte)});
      return swooshByOperators(wide, shape).to(x.scalar_type());
    }
    const Tensor in = dense(x);
    Tensor y = at::empty_like(in);
    Tensor bytes = at::empty_like(in, in.options().dtype(at::kByte));
    const Seed seed = drawSeed("swoosh", generator);
    forElement(x, [&](auto t) {
      using T = decltype(t);
      forwardBytesLoop(in.data_ptr<T>(), y.data_ptr<T>(), bytes.data_ptr<uint8_t>(), in.numel(), shape, seed);
    });
    ctx->save_for_backward({bytes});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor bytes = ctx->get_saved_variables()[0];
    if (!isFloatOrNarrow(grads[0])) {
      const Tensor wide = toCompute(grads[0]);
      return {(wide * (bytes.to(wide.scalar_type()).mul_(kFromByte).sub_(0.08))).to(grads[0].scalar_type()), {}, {}};
    }
    const Tensor grad = denseLike(grads[0], bytes);
    Tensor out = at::empty_like(grad);
    forElement(grad, [&](auto t) {
      using T = decltype(t);
      backwardBytesLoop(grad.data_ptr<T>(), bytes.data_ptr<uint8_t>(), out.data_ptr<T>(), grad.numel());
    });
    return {out, {}, {}};
  }
};

struct SwooshExact : torch::autograd::Function<SwooshExact> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, bool left) {
    const NoAutocast noAutocast;
    ctx->saved_data["left"] = left;
    ctx->save_for_backward({x});
    return value(x, left);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor x = ctx->get_saved_variables()[0];
    const SwooshShape shape = shapeOf(ctx->saved_data["left"].toBool());
    if (!isFloatOrNarrow(x) || grads[0].scalar_type() != x.scalar_type()) {
      const Tensor wide = toCompute(grads[0]);
      return {(wide * (logisticByOperators(toCompute(x), shape) - 0.08)).to(x.scalar_type()), {}};
    }
    const Tensor in = dense(x), grad = denseLike(grads[0], in);
    Tensor out = at::empty_like(in);
    forElement(x, [&](auto t) {
      using T = decltype(t);
      backwardExactLoop(grad.data_ptr<T>(), in.data_ptr<T>(), out.data_ptr<T>(), in.numel(), shape.shift);
    });
    return {out, {}};
  }
};

Tensor stochastic(const Tensor& x, bool left, const OptionalGenerator& generator) {
  checkFloating(left ? "swoosh_l" : "swoosh_r", x);
  if (composed()) return composition::swoosh(x, left, generator);
  if (wantsGrad(x)) return SwooshBytes::apply(x, left, generator);
  const NoAutocast noAutocast;
  return value(x, left);
}

Tensor exact(const Tensor& x, bool left) {
  checkFloating(left ? "swoosh_l_exact" : "swoosh_r_exact", x);
  if (composed()) return composition::swooshExact(x, left);
  if (wantsGrad(x)) return SwooshExact::apply(x, left);
  const NoAutocast noAutocast;
  return value(x, left);
}

Tensor swooshL(const Tensor& x, const OptionalGenerator& generator) { return stochastic(x, true, generator); }
Tensor swooshR(const Tensor& x, const OptionalGenerator& generator) { return stochastic(x, false, generator); }
Tensor swooshLExact(const Tensor& x) { return exact(x, true); }
Tensor swooshRExact(const Tensor& x) { return exact(x, false); }

}  // namespace

void registerSwoosh(torch::Library& m) {
  m.def("swoosh_l(Tensor x, Generator? generator=None) -> Tensor", &swooshL);
  m.def("swoosh_r(Tensor x, Generator? generator=None) -> Tensor", &swooshR);
  m.def("swoosh_l_exact(Tensor x) -> Tensor", &swooshLExact);
  m.def("swoosh_r_exact(Tensor x) -> Tensor", &swooshRExact);
}

}  // namespace serac
