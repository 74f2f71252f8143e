// The loops of the depthwise convolutions, forward and backward. One task is one example and one block of V channels: its plane is packed as
// (height, width, V) with the zero padding in place, so that every inner loop is a fused multiply-add on whole vectors of channels, whatever the
// layout of the tensor in memory.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "torch/ops/simd.h"

namespace serac {

struct DepthwiseShape {
  int64_t batch, channels, height, width;  // of the input
  int64_t kernelHeight, kernelWidth;
  int64_t top, bottom, left, right;  // padding
  int64_t outHeight() const { return height + top + bottom - kernelHeight + 1; }
  int64_t outWidth() const { return width + left + right - kernelWidth + 1; }
  int64_t taps() const { return kernelHeight * kernelWidth; }
};

// A plane in memory, of float or bfloat16: the address of element (n, c, h, w) is data + n * batch + c * channel + h * height + w * width.
template <typename T>
struct Strided {
  T* data;
  int64_t batch, channel, height, width;
};

template <Isa isa>
inline constexpr int kVector = isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 4;

template <int V>
struct VectorOf {
  typedef float Type __attribute__((vector_size(V * 4), aligned(4), may_alias));
};

// Copies `count` channels (at most V) of a plane into the middle of a zeroed (.., paddedWidth, V) buffer.
template <int V, typename T>
SERAC_INLINE void packPlane(const T* from, const Strided<T>& s, int64_t height, int64_t width, int64_t count, float* to, int64_t paddedWidth) {
  for (int64_t h = 0; h < height; ++h) {
    const T* row = from + h * s.height;
    float* out = to + h * paddedWidth * V;
    if (s.channel == 1 && count == V) {
      for (int64_t w = 0; w < width; ++w)
        for (int l = 0; l < V; ++l) out[w * V + l] = load(row[w * s.width + l]);
    } else {
      for (int64_t l = 0; l < count; ++l)
        for (int64_t w = 0; w < width; ++w) out[w * V + l] = load(row[l * s.channel + w * s.width]);
    }
  }
}

template <int V, typename T>
SERAC_INLINE void unpackRow(const float* from, T* to, const Strided<T>& s, int64_t width, int64_t count) {
  if (s.channel == 1 && count == V) {
    for (int64_t w = 0; w < width; ++w)
      for (int l = 0; l < V; ++l) store(to[w * s.width + l], from[w * V + l]);
  } else {
    for (int64_t l = 0; l < count; ++l)
      for (int64_t w = 0; w < width; ++w) store(to[l * s.channel + w * s.width], from[w * V + l]);
  }
}

// J neighbouring outputs of one row.
template <int V, int J>
SERAC_INLINE void convolveTile(const float* x, const float* taps, const float* bias, float* out, int64_t kernelHeight, int64_t kernelWidth, int64_t paddedWidth) {
  using Vec = typename VectorOf<V>::Type;
  Vec sum[J];
  for (int j = 0; j < J; ++j) sum[j] = *reinterpret_cast<const Vec*>(bias);
  for (int64_t kh = 0; kh < kernelHeight; ++kh) {
    const float* row = x + kh * paddedWidth * V;
    for (int64_t kw = 0; kw < kernelWidth; ++kw, row += V, taps += V) {
      const Vec tap = *reinterpret_cast<const Vec*>(taps);
      for (int j = 0; j < J; ++j) sum[j] += tap * *reinterpret_cast<const Vec*>(row + j * V);
    }
  }
  for (int j = 0; j < J; ++j) *reinterpret_cast<Vec*>(out + j * V) = sum[j];
}

// One row of outputs from a packed plane; x points at the first row that it needs.
template <int V>
SERAC_INLINE void convolveRow(const float* x, const float* taps, const float* bias, float* out, int64_t width, int64_t kernelHeight, int64_t kernelWidth, int64_t paddedWidth) {
  int64_t w = 0;
  for (; w + 10 <= width; w += 10) convolveTile<V, 10>(x + w * V, taps, bias, out + w * V, kernelHeight, kernelWidth, paddedWidth);
  if (w + 9 <= width) convolveTile<V, 9>(x + w * V, taps, bias, out + w * V, kernelHeight, kernelWidth, paddedWidth), w += 9;  // 19 bins: 10 + 9
  for (; w + 5 <= width; w += 5) convolveTile<V, 5>(x + w * V, taps, bias, out + w * V, kernelHeight, kernelWidth, paddedWidth);
  for (; w + 2 <= width; w += 2) convolveTile<V, 2>(x + w * V, taps, bias, out + w * V, kernelHeight, kernelWidth, paddedWidth);
  for (; w < width; ++w) convolveTile<V, 1>(x + w * V, taps, bias, out + w * V, kernelHeight, kernelWidth, paddedWidth);
}

// Adds to dtaps[0..J) of one kernel row what one row of output gradients contributes.
template <int V, int J>
SERAC_INLINE void tapGradients(const float* x, const float* grad, float* dtaps, int64_t width) {
  using Vec = typename VectorOf<V>::Type;
  Vec sum[J];
  for (int j = 0; j < J; ++j) sum[j] = *reinterpret_cast<const Vec*>(dtaps + j * V);
  for (int64_t w = 0; w < width; ++w) {
    const Vec g = *reinterpret_cast<const Vec*>(grad + w * V);
    for (int j = 0; j < J; ++j) sum[j] += g * *reinterpret_cast<const Vec*>(x + (w + j) * V);
  }
  for (int j = 0; j < J; ++j) *reinterpret_cast<Vec*>(dtaps + j * V) = sum[j];
}

template <int V>
SERAC_INLINE void tapGradientsRow(const float* x, const float* grad, float* dtaps, int64_t kernelWidth, int64_t width) {
  int64_t k = 0;
  for (; k + 8 <= kernelWidth; k += 8) tapGradients<V, 8>(x + k * V, grad, dtaps + k * V, width);
  if (k + 7 <= kernelWidth) tapGradients<V, 7>(x + k * V, grad, dtaps + k * V, width), k += 7;
  for (; k + 3 <= kernelWidth; k += 3) tapGradients<V, 3>(x + k * V, grad, dtaps + k * V, width);
  for (; k < kernelWidth; ++k) tapGradients<V, 1>(x + k * V, grad, dtaps + k * V, width);
}

// Weights (channels, taps) of a block as (taps, V), in reverse order for the gradient of the input.
template <int V>
SERAC_INLINE void packTaps(const float* weight, int64_t taps, int64_t count, bool reversed, float* to) {
  std::memset(to, 0, sizeof(float) * static_cast<size_t>(taps * V));
  for (int64_t l = 0; l < count; ++l)
    for (int64_t k = 0; k < taps; ++k) to[(reversed ? taps - 1 - k : k) * V + l] = weight[l * taps + k];
}

// y = conv(x) for examples and blocks [begin, end) of batch * blocks.
template <Isa isa, typename X, typename Y>
SERAC_INLINE void depthwiseForward(const DepthwiseShape& s, const Strided<X>& x, const float* weight, const float* bias, const Strided<Y>& y, int64_t begin, int64_t end) {
  constexpr int V = kVector<isa>;
  const int64_t blocks = (s.channels + V - 1) / V;
  const int64_t paddedWidth = s.width + s.left + s.right, paddedHeight = s.height + s.top + s.bottom;
  std::vector<float> plane(static_cast<size_t>(paddedHeight * paddedWidth * V), 0.0f), taps(static_cast<size_t>(s.taps() * V)), row(static_cast<size_t>(s.outWidth() * V));
  for (int64_t task = begin; task < end; ++task) {
    const int64_t n = task / blocks, c = task % blocks * V, count = std::min<int64_t>(V, s.channels - c);
    if (count < V) std::fill(plane.begin(), plane.end(), 0.0f);
    packPlane<V>(x.data + n * x.batch + c * x.channel, x, s.height, s.width, count, plane.data() + (s.top * paddedWidth + s.left) * V, paddedWidth);
    packTaps<V>(weight + c * s.taps(), s.taps(), count, false, taps.data());
    float start[V] = {};
    if (bias) std::copy_n(bias + c, count, start);
    for (int64_t h = 0; h < s.outHeight(); ++h) {
      convolveRow<V>(plane.data() + h * paddedWidth * V, taps.data(), start, row.data(), s.outWidth(), s.kernelHeight, s.kernelWidth, paddedWidth);
      unpackRow<V>(row.data(), y.data + n * y.batch + c * y.channel + h * y.height, y, s.outWidth(), count);
    }
  }
}

// dx (where it has data) and, per example, dweight (batch, channels, taps) and dbias (batch, channels).
template <Isa isa, typename X, typename G>
SERAC_INLINE void depthwiseBackward(const DepthwiseShape& s, const Strided<X>& x, const float* weight, const Strided<G>& grad, const Strided<X>& dx, float* dweight, float* dbias, int64_t begin,
                                    int64_t end) {
  constexpr int V = kVector<isa>;
  using Vec = typename VectorOf<V>::Type;
  const int64_t blocks = (s.channels + V - 1) / V;
  const int64_t paddedWidth = s.width + s.left + s.right, paddedHeight = s.height + s.top + s.bottom;
  // The gradient is padded so that a convolution with the reversed kernel gives the gradient of the padded input, less its padding.
  const int64_t gradWidth = s.outWidth() + 2 * (s.kernelWidth - 1), gradHeight = s.outHeight() + 2 * (s.kernelHeight - 1);
  std::vector<float> plane(static_cast<size_t>(paddedHeight * paddedWidth * V), 0.0f), grads(static_cast<size_t>(gradHeight * gradWidth * V), 0.0f);
  std::vector<float> taps(static_cast<size_t>(s.taps() * V)), dtaps(static_cast<size_t>(s.taps() * V)), row(static_cast<size_t>(std::max<int64_t>(s.width, 1) * V));
  const float zero[V] = {};
  for (int64_t task = begin; task < end; ++task) {
    const int64_t n = task / blocks, c = task % blocks * V, count = std::min<int64_t>(V, s.channels - c);
    if (count < V) std::fill(plane.begin(), plane.end(), 0.0f), std::fill(grads.begin(), grads.end(), 0.0f);
    packPlane<V>(x.data + n * x.batch + c * x.channel, x, s.height, s.width, count, plane.data() + (s.top * paddedWidth + s.left) * V, paddedWidth);
    const float* firstGrad = grads.data() + ((s.kernelHeight - 1) * gradWidth + s.kernelWidth - 1) * V;
    packPlane<V>(grad.data + n * grad.batch + c * grad.channel, grad, s.outHeight(), s.outWidth(), count, const_cast<float*>(firstGrad), gradWidth);
    if (dx.data) {
      packTaps<V>(weight + c * s.taps(), s.taps(), count, true, taps.data());
      for (int64_t h = 0; h < s.height; ++h) {
        convolveRow<V>(grads.data() + ((h + s.top) * gradWidth + s.left) * V, taps.data(), zero, row.data(), s.width, s.kernelHeight, s.kernelWidth, gradWidth);
        unpackRow<V>(row.data(), dx.data + n * dx.batch + c * dx.channel + h * dx.height, dx, s.width, count);
      }
    }
    std::fill(dtaps.begin(), dtaps.end(), 0.0f);
    float sum[V] = {};
    for (int64_t h = 0; h < s.outHeight(); ++h) {
      const float* g = firstGrad + h * gradWidth * V;
      for (int64_t kh = 0; kh < s.kernelHeight; ++kh)
        tapGradientsRow<V>(plane.data() + (h + kh) * paddedWidth * V, g, dtaps.data() + kh * s.kernelWidth * V, s.kernelWidth, s.outWidth());
      Vec total = *reinterpret_cast<const Vec*>(sum);
      for (int64_t w = 0; w < s.outWidth(); ++w) total += *reinterpret_cast<const Vec*>(g + w * V);
      *reinterpret_cast<Vec*>(sum) = total;
    }
    for (int64_t l = 0; l < count; ++l) {
      for (int64_t k = 0; k < s.taps(); ++k) dweight[(n * s.channels + c + l) * s.taps() + k] = dtaps[static_cast<size_t>(k * V + l)];
      dbias[n * s.channels + c + l] = sum[l];
    }
  }
}

// Channels that one task takes on this CPU.
inline int64_t depthwiseBlock() {
#if defined(__x86_64__)
  return currentIsa() >= Isa::avx512 ? kVector<Isa::avx512> : currentIsa() == Isa::avx2 ? kVector<Isa::avx2> : kVector<Isa::plain>;
#else
  return kVector<Isa::plain>;
#endif
}

}  // namespace serac
