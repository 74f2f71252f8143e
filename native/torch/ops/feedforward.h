// What both feed-forward kernels share: the split into tiles, the hidden values' sums, and what lies between the two products.
#pragma once
#include "torch/composed/composed.h"
#include "torch/ops/channelRange.h"
#include "torch/ops/swooshMath.h"

#include <vector>

namespace serac {

// The feed-forward of rows x (rows, C), float or bfloat16, contiguous, with products of bfloat16; weights and biases float. In bfloat16.
Tensor feedforwardNarrow(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Tensor& kept, at::ArrayRef<double> balance, bool gradient);

// Rows in tiles of the same size, but for the last, and tiles in parts, one a thread: as many for each.
struct Tiles {
  struct Tile {
    int64_t begin, rows;
  };
  using Slice = std::vector<Tile>;
  static constexpr int64_t kFew = 32;  // rows that are not worth a second thread
  int64_t rows, size, count, parts;
  // `most` rows in a tile
  Tiles(int64_t rowCount, int64_t most) : rows(rowCount) {
    const auto over = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    const int64_t threads = rowCount < kFew ? 1 : at::get_num_threads(), wanted = over(over(rows, most), threads) * threads;
    size = std::max<int64_t>(1, over(rows, std::max<int64_t>(1, wanted)));
    count = over(rows, size);
    parts = std::max<int64_t>(1, std::min(threads, count));
  }

  // f(part, its tiles), in parallel
  template <typename F>
  void forEach(const F& f) const {
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        Slice mine;
        for (int64_t tile = count * part / parts; tile < count * (part + 1) / parts; ++tile) mine.push_back({tile * size, std::min(size, rows - tile * size)});
        f(part, mine);
      }
    });
  }
};

// What dropout leaves of the hidden values: (utterances, hidden), for rows of frames of utterances; null for everything.
struct Kept {
  const float* data;
  int64_t utterances;
  explicit Kept(const Tensor& kept) : data(kept.defined() ? kept.data_ptr<float>() : nullptr), utterances(kept.defined() ? kept.size(0) : 1) {}
  const float* of(int64_t row, int64_t channels) const { return data + row % utterances * channels; }
};

// Sums of the hidden values and of their squares, from which the balancer's lines come; wanted where `range` has five numbers.
struct HiddenSums {
  int64_t hidden, parts;
  std::vector<double> range, sums;
  std::vector<float> pivot;  // the first row: sums are of what differs from it
  HiddenSums(int64_t size, int64_t threads, std::vector<double> r)
      : hidden(size), parts(threads), range(std::move(r)), sums(range.empty() ? 0 : static_cast<size_t>(parts * 2 * hidden), 0.0), pivot(static_cast<size_t>(size)) {}
  bool wanted() const { return !range.empty(); }

  template <typename T>
  void add(int64_t part, const T* h, int64_t rows) {
    std::vector<float> tile(static_cast<size_t>(2 * hidden), 0.0f);
    vectorized([=, this, to = tile.data()]<Isa isa>() __attribute__((always_inline)) {
      float *__restrict s = to, *__restrict q = to + hidden;
      const float* first = pivot.data();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < hidden; ++c) {
          const float v = load(h[r * hidden + c]) - first[c];
          s[c] += v;
          q[c] = mulAdd<isa>(v, v, q[c]);
        }
    });
    for (int64_t c = 0; c < 2 * hidden; ++c) sums[static_cast<size_t>(part * 2 * hidden + c)] += static_cast<double>(tile[static_cast<size_t>(c)]);
  }

  // (2, hidden), or undefined where not wanted
  Tensor lines(int64_t places, const at::TensorOptions& options) const {
    if (!wanted()) return {};
    Tensor out = at::empty({2, hidden}, options.dtype(at::kFloat));
    float* line = out.data_ptr<float>();
    for (int64_t c = 0; c < hidden; ++c) {
      double sum = 0, squares = 0;
      for (int64_t part = 0; part < parts; ++part) sum += sums[static_cast<size_t>(part * 2 * hidden + c)], squares += sums[static_cast<size_t>((part * 2 + 1) * hidden + c)];
      const Line l = lineOf(static_cast<double>(pivot[static_cast<size_t>(c)]), sum, squares, static_cast<double>(places), {range[0], range[1], range[2], range[3], range[4]});
      line[c] = l.a;
      line[hidden + c] = l.b;
    }
    return out;
  }
};

// to = dropout(swoosh_l(h)), which may lie in the same place
template <typename T>
void activate(const T* h, T* to, int64_t begin, int64_t rows, int64_t channels, Kept kept) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = h + r * channels;
      T* out = to + r * channels;
      if (kept.data) {
        const float* k = kept.of(begin + r, channels);
#pragma GCC ivdep
        for (int64_t c = 0; c < channels; ++c) store(out[c], swoosh<isa>(load(from[c]), kSwooshL) * k[c]);
      } else {
#pragma GCC ivdep
        for (int64_t c = 0; c < channels; ++c) store(out[c], swoosh<isa>(load(from[c]), kSwooshL));
      }
    }
  });
}

// From h and the gradient of what W2 is multiplied by: that (`active`), the gradient of h, balanced, and its sums over the rows, added to `dbias`.
// Results may lie where inputs do.
template <typename T>
void activateBackward(const T* h, const float* grad, T* active, T* dh, float* dbias, int64_t begin, int64_t rows, int64_t channels, const float* a, const float* b, Kept kept) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = h + r * channels;
      const float* g = grad + r * channels;
      T *out = active + r * channels, *d = dh + r * channels;
      const auto row = [=](auto factor) __attribute__((always_inline)) {
#pragma GCC ivdep
        for (int64_t c = 0; c < channels; ++c) {
          const float v = load(from[c]), k = factor(c);
          float logistic;
          const float value = swooshAndLogistic<isa>(v, kSwooshL, logistic);
          const float plain = g[c] * k * (logistic - 0.08f);
          const float gradient = mulAdd<isa>(__builtin_fabsf(plain), mulAdd<isa>(a[c], v, b[c]), plain);
          store(out[c], value * k);
          store(d[c], gradient);
          dbias[c] += gradient;
        }
      };
      if (kept.data)
        row([k = kept.of(begin + r, channels)](int64_t c) __attribute__((always_inline)) { return k[c]; });
      else
        row([](int64_t) __attribute__((always_inline)) { return 1.0f; });
    }
  });
}

}  // namespace serac
