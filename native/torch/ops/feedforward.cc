// feedforward: W2 dropout(swoosh_l(W1 x + b1)) + b2 over the channels of frames x (T, N, C), the dropout's mask the same for all frames.
// pointwise_feedforward: the same in every place of x (N, C, H, W), the channels last in memory, without dropout.
// The hidden values, several times as many as x, exist for a tile of rows at a time: the backward pass computes them again. With `balance` (min_mean,
// max_mean, min_rms, max_rms, grad_scale) their gradients are balanced as balancer does it; their sums are taken on the way forward.
#include "torch/composed/composed.h"
#include "torch/ops/channelRange.h"
#include "torch/ops/columnSums.h"
#include "torch/ops/gemm.h"
#include "torch/ops/swooshMath.h"

#include <cstring>

namespace serac {
namespace {

// Rows of a tile: their hidden values fit into the second cache; products of bfloat16 lay out the weights anew for each tile, so those are larger.
constexpr int64_t tileOf(bool narrow) { return narrow ? 448 : 224; }

void fillRows(float* to, int64_t rows, const float* row, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * columns, row, sizeof(float) * static_cast<size_t>(columns));
}

// Weights and sizes. Biases are always there.
struct Layers {
  const float *w1, *b1, *w2, *b2;
  int64_t channels, hidden, out;
  bool narrow;
  const float *across1, *across2;  // transposed, where `narrow`: so they are quicker to lay out for every tile
  // h (rows, hidden) of x (rows, channels)
  void hide(const float* x, int64_t rows, float* h) const {
    fillRows(h, rows, b1, hidden);
    if (narrow)
      gemm(true, false, false, rows, hidden, channels, x, channels, across1, hidden, 1.0f, h, hidden);
    else
      gemm(false, true, rows, hidden, channels, x, channels, w1, channels, 1.0f, h, hidden);
  }
};

void addSums(const float* h, int64_t rows, int64_t channels, const float* pivot, float* sum, float* squares) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    float *__restrict s = sum, *__restrict q = squares;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < channels; ++c) {
        const float v = h[r * channels + c] - pivot[c];
        s[c] += v;
        q[c] = mulAdd<isa>(v, v, q[c]);
      }
  });
}

// What dropout leaves of the hidden values: (utterances, hidden), for rows of frames of utterances; null for everything.
struct Kept {
  const float* data;
  int64_t utterances;
};

void activate(float* h, int64_t begin, int64_t rows, int64_t channels, Kept kept) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    for (int64_t r = 0; r < rows; ++r) {
      float* __restrict hr = h + r * channels;
      for (int64_t c = 0; c < channels; ++c) hr[c] = swoosh<isa>(hr[c], kSwooshL);
      if (!kept.data) continue;
      const float* __restrict k = kept.data + (begin + r) % kept.utterances * channels;
      for (int64_t c = 0; c < channels; ++c) hr[c] *= k[c];
    }
  });
}

// h becomes what W2 is multiplied by, dh the gradient of h.
void activateBackward(float* h, float* dh, int64_t begin, int64_t rows, int64_t channels, const float* a, const float* b, Kept kept) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    for (int64_t r = 0; r < rows; ++r) {
      float *__restrict hr = h + r * channels, *__restrict gr = dh + r * channels;
      if (kept.data) {
        const float* __restrict k = kept.data + (begin + r) % kept.utterances * channels;
        for (int64_t c = 0; c < channels; ++c) gr[c] *= k[c];
      }
      for (int64_t c = 0; c < channels; ++c) {
        const float v = hr[c];
        float g;
        hr[c] = swooshAndLogistic<isa>(v, kSwooshL, g);
        const float d = gr[c] * (g - 0.08f);
        gr[c] = mulAdd<isa>(__builtin_fabsf(d), mulAdd<isa>(a[c], v, b[c]), d);
      }
      if (kept.data) {
        const float* __restrict k = kept.data + (begin + r) % kept.utterances * channels;
        for (int64_t c = 0; c < channels; ++c) hr[c] *= k[c];
      }
    }
  });
}

void addRows(const float* x, int64_t rows, int64_t columns, float* sum) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    float* __restrict s = sum;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) s[c] += x[r * columns + c];
  });
}

// x (rows, C) to (rows, out); `kept` (utterances, hidden) may be undefined.
struct Feedforward : torch::autograd::Function<Feedforward> {
  static Kept keptOf(const Tensor& kept) { return {kept.defined() ? kept.data_ptr<float>() : nullptr, kept.defined() ? kept.size(0) : 1}; }

  static Layers layersOf(const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, bool narrow, const Tensor& across1, const Tensor& across2) {
    return {w1.data_ptr<float>(), b1.data_ptr<float>(), w2.data_ptr<float>(), b2.data_ptr<float>(), w1.size(1), w1.size(0), w2.size(0), narrow, across1.defined() ? across1.data_ptr<float>() : nullptr, across2.defined() ? across2.data_ptr<float>() : nullptr};
  }

  // y, and the balancer's lines (2, hidden) where `range` has five numbers.
  static std::pair<Tensor, Tensor> value(const Tensor& in, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Tensor& drop, const std::vector<double>& range, bool narrow) {
    const Tensor across1 = narrow ? w1.t().contiguous() : Tensor(), across2 = narrow ? w2.t().contiguous() : Tensor();
    const Layers layers = layersOf(w1, b1, w2, b2, narrow, across1, across2);
    const int64_t places = in.size(0), hidden = layers.hidden;
    const Kept kept = keptOf(drop);
    Tensor y = at::empty({places, layers.out}, in.options().requires_grad(false));
    const float* from = in.data_ptr<float>();
    float* to = y.data_ptr<float>();
    const bool balanced = !range.empty();
    std::vector<float> pivot(static_cast<size_t>(hidden));
    if (balanced) layers.hide(from, 1, pivot.data());
    const int64_t tileRows = tileOf(layers.narrow), tiles = (places + tileRows - 1) / tileRows, parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), tiles));
    std::vector<double> sums(static_cast<size_t>(parts * 2 * hidden), 0.0);
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      const Scratch h(tileRows * hidden);
      std::vector<float> tileSums(static_cast<size_t>(2 * hidden));
      for (int64_t part = first; part < last; ++part)
        for (int64_t tile = tiles * part / parts; tile < tiles * (part + 1) / parts; ++tile) {
          const int64_t begin = tile * tileRows, rows = std::min(tileRows, places - begin);
          layers.hide(from + begin * layers.channels, rows, h.data());
          if (balanced) {
            std::fill(tileSums.begin(), tileSums.end(), 0.0f);
            addSums(h.data(), rows, hidden, pivot.data(), tileSums.data(), tileSums.data() + hidden);
            for (int64_t c = 0; c < 2 * hidden; ++c) sums[static_cast<size_t>(part * 2 * hidden + c)] += static_cast<double>(tileSums[static_cast<size_t>(c)]);
          }
          activate(h.data(), begin, rows, hidden, kept);
          float* out = to + begin * layers.out;
          fillRows(out, rows, layers.b2, layers.out);
          if (narrow)
            gemm(true, false, false, rows, layers.out, hidden, h.data(), hidden, layers.across2, layers.out, 1.0f, out, layers.out);
          else
            gemm(false, true, rows, layers.out, hidden, h.data(), hidden, layers.w2, hidden, 1.0f, out, layers.out);
        }
    });
    Tensor lines;
    if (balanced) {
      lines = at::empty({2, hidden}, y.options());
      float* line = lines.data_ptr<float>();
      for (int64_t c = 0; c < hidden; ++c) {
        double sum = 0, squares = 0;
        for (int64_t part = 0; part < parts; ++part) sum += sums[static_cast<size_t>(part * 2 * hidden + c)], squares += sums[static_cast<size_t>((part * 2 + 1) * hidden + c)];
        const Line l = lineOf(static_cast<double>(pivot[static_cast<size_t>(c)]), sum, squares, static_cast<double>(places), {range[0], range[1], range[2], range[3], range[4]});
        line[c] = l.a;
        line[hidden + c] = l.b;
      }
    }
    return {y, lines};
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Optional<Tensor>& kept, std::vector<double> range, bool narrow) {
    const Tensor drop = kept.has_value() ? *kept : Tensor();
    auto [y, lines] = value(x, w1, b1, w2, b2, drop, range, narrow);
    ctx->saved_data["narrow"] = narrow;
    ctx->save_for_backward({x, w1, b1, w2, b2, lines, drop});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &in = saved[0], &w1 = saved[1], &b1 = saved[2], &w2 = saved[3], &b2 = saved[4];
    const Tensor grad = grads[0].contiguous();
    const Kept kept = keptOf(saved[6]);
    const bool narrow = ctx->saved_data["narrow"].toBool();
    const Tensor across1 = narrow ? w1.t().contiguous() : Tensor();
    const Layers layers = layersOf(w1, b1, w2, b2, narrow, across1, {});
    const int64_t channels = layers.channels, hidden = layers.hidden, out = layers.out, places = in.size(0);
    const auto options = in.options().requires_grad(false);
    const Tensor lines = saved[5].defined() ? saved[5] : at::zeros({2, hidden}, options);
    Tensor dx = at::empty(in.sizes(), options);
    const int64_t tileRows = tileOf(layers.narrow), tiles = (places + tileRows - 1) / tileRows, parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), tiles));
    Tensor dw1 = at::zeros({parts, hidden, channels}, options), dw2 = at::zeros({parts, out, hidden}, options), db1 = at::zeros({parts, hidden}, options);
    const float *from = in.data_ptr<float>(), *up = grad.data_ptr<float>(), *a = lines.data_ptr<float>(), *b = a + hidden;
    float *to = dx.data_ptr<float>(), *dtaps1 = dw1.data_ptr<float>(), *dtaps2 = dw2.data_ptr<float>(), *dbias = db1.data_ptr<float>();
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      const Scratch h(tileRows * hidden), dh(tileRows * hidden);
      for (int64_t part = first; part < last; ++part)
        for (int64_t tile = tiles * part / parts; tile < tiles * (part + 1) / parts; ++tile) {
          const int64_t begin = tile * tileRows, rows = std::min(tileRows, places - begin);
          const float *xt = from + begin * channels, *g = up + begin * out;
          layers.hide(xt, rows, h.data());
          gemm(layers.narrow, false, false, rows, hidden, out, g, out, layers.w2, hidden, 0.0f, dh.data(), hidden);
          activateBackward(h.data(), dh.data(), begin, rows, hidden, a, b, kept);
          gemm(layers.narrow, true, false, out, hidden, rows, g, out, h.data(), hidden, 1.0f, dtaps2 + part * out * hidden, hidden);
          gemm(layers.narrow, true, false, hidden, channels, rows, dh.data(), hidden, xt, channels, 1.0f, dtaps1 + part * hidden * channels, channels);
          gemm(layers.narrow, false, false, rows, channels, hidden, dh.data(), hidden, layers.w1, channels, 0.0f, to + begin * channels, channels);
          addRows(dh.data(), rows, hidden, dbias + part * hidden);
        }
    });
    return {dx, dw1.sum({0}), db1.sum({0}), dw2.sum({0}), columnSums(grad), {}, {}, {}};
  }
};

// Rows (rows, C) in any type that autocast allows.
Tensor overRows(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Tensor& kept, at::ArrayRef<double> balance, at::ScalarType dtype) {
  const NoAutocast noAutocast;
  const bool narrow = dtype == at::kBFloat16;
  bool gradient = false;
  for (const Tensor* t : {&x, &w1, &b1, &w2, &b2}) gradient = gradient || wantsGrad(*t);
  const auto wide = [](const Tensor& t) { return t.to(at::kFloat).contiguous(); };
  const Tensor in = wide(x), first = wide(w1.flatten(1)), second = wide(w2.flatten(1));
  if (!gradient) return Feedforward::value(in, first, wide(b1), second, wide(b2), kept, {}, narrow).first.to(dtype);
  return Feedforward::apply(in, first, wide(b1), second, wide(b2), kept.defined() ? Optional<Tensor>(kept) : Optional<Tensor>(), balance.vec(), narrow).to(dtype);
}

bool isOwn(at::TensorList tensors, at::ScalarType dtype) {
  bool own = !composed() && hasGemm() && tensors[0].numel() > 0 && (dtype == at::kFloat || dtype == at::kBFloat16);
  for (const Tensor& t : tensors) own = own && t.is_cpu() && (t.scalar_type() == at::kFloat || t.scalar_type() == at::kBFloat16);
  return own;
}

Tensor balanced(const Tensor& h, int64_t dim, at::ArrayRef<double> range) {
  return range.empty() || !wantsGrad(h) ? h : composition::balancer(h, dim, range[0], range[1], range[2], range[3], range[4]);
}

void checkBiases(const char* name, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, at::ArrayRef<double> balance) {
  TORCH_CHECK(b1.dim() == 1 && b1.size(0) == w1.size(0) && b2.dim() == 1 && b2.size(0) == w2.size(0), name, ": the biases have shapes ", b1.sizes(), " and ", b2.sizes());
  TORCH_CHECK(balance.empty() || balance.size() == 5, name, ": balance must be min_mean, max_mean, min_rms, max_rms, grad_scale");
}

Tensor pointwiseFeedforward(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, at::ArrayRef<double> balance, const OptionalGenerator& generator) {
  constexpr const char* kName = "pointwise_feedforward";
  checkFloating(kName, x);
  TORCH_CHECK(x.dim() == 4 && w1.dim() == 4 && w1.size(1) == x.size(1) && w1.size(2) == 1 && w1.size(3) == 1, kName, ": x must be (N, C, H, W), it has shape ", x.sizes(), ", the first weight has shape ", w1.sizes());
  TORCH_CHECK(w2.dim() == 4 && w2.size(1) == w1.size(0) && w2.size(2) == 1 && w2.size(3) == 1, kName, ": the weights have shapes ", w1.sizes(), " and ", w2.sizes());
  checkBiases(kName, w1, b1, w2, b2, balance);
  const at::ScalarType dtype = autocastDtype(x);
  if (!isOwn({x, w1, b1, w2, b2}, dtype)) {
    const Tensor h = balanced(at::conv2d(x, w1, b1), 1, balance);
    return at::conv2d(generator.has_value() ? composition::swoosh(h, true, generator) : composition::swooshExact(h, true), w2, b2);
  }
  const Tensor places = x.permute({0, 2, 3, 1}).reshape({-1, x.size(1)});
  return overRows(places, w1, b1, w2, b2, {}, balance, dtype).view({x.size(0), x.size(2), x.size(3), w2.size(0)}).permute({0, 3, 1, 2});
}

Tensor feedforward(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, at::ArrayRef<double> balance, double p, const OptionalGenerator& generator) {
  constexpr const char* kName = "feedforward";
  checkFloating(kName, x);
  TORCH_CHECK(x.dim() == 3 && w1.dim() == 2 && w1.size(1) == x.size(2) && w2.dim() == 2 && w2.size(1) == w1.size(0), kName, ": x must be (T, N, C), it has shape ", x.sizes(), ", the weights have shapes ", w1.sizes(), " and ", w2.sizes());
  TORCH_CHECK(p >= 0 && p < 1, kName, ": dropout_p is ", p, ", it must be in [0, 1)");
  checkBiases(kName, w1, b1, w2, b2, balance);
  const at::ScalarType dtype = autocastDtype(x);
  if (!isOwn({x, w1, b1, w2, b2}, dtype)) {
    const Tensor h = balanced(at::linear(x, w1, b1), 2, balance);
    return composition::activationDropoutLinear(h, w2, b2, true, p, 0, generator);
  }
  Tensor kept;
  if (p > 0) kept = at::empty({x.size(1), w1.size(0)}, x.options().dtype(at::kFloat).requires_grad(false)).uniform_(0, 1, generator).gt_(p).div_(1 - p);
  return overRows(x.reshape({-1, x.size(2)}), w1, b1, w2, b2, kept, balance, dtype).view({x.size(0), x.size(1), w2.size(0)});
}

}  // namespace

void registerFeedforward(torch::Library& m) {
  m.def("feedforward(Tensor x, Tensor weight1, Tensor bias1, Tensor weight2, Tensor bias2, float[] balance, float dropout_p, Generator? generator=None) -> Tensor", &feedforward);
  m.def("pointwise_feedforward(Tensor x, Tensor weight1, Tensor bias1, Tensor weight2, Tensor bias2, float[] balance, Generator? generator=None) -> Tensor", &pointwiseFeedforward);
}

}  // namespace serac
