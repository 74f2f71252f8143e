// feedforward: W2 dropout(swoosh_l(W1 x + b1)) + b2 over the channels of frames x (T, N, C), the dropout's mask the same for all frames.
// pointwise_feedforward: the same in every place of x (N, C, H, W), the channels last in memory, without dropout.
// In float the hidden values, several times as many as x, exist for a tile of rows at a time: the backward pass computes them again. Under autocast
// they are kept, in bfloat16, where products are so fast that computing them again would cost more (feedforwardNarrow.cc).
#include "torch/ops/feedforward.h"

#include "torch/ops/columnSums.h"
#include "torch/ops/gemm.h"
#include "torch/ops/isa.h"

namespace serac {
namespace {

// Hidden values of so many rows stay in the second cache, two of them on the way back. Where weights are not laid out for all tiles more rows pay: gradients
// of the weights are added to once a tile.
int64_t tileRows(int64_t hidden) {
  constexpr int64_t kCached = 160 << 10, kMost = 448, kFew = 128;  // numbers, rows
  return currentIsa() == Isa::amx ? std::clamp(kCached / std::max<int64_t>(1, hidden) / 32 * 32, kFew, kMost) : kMost;
}

// y = x W^T + b for rows of x. The bias is always there.
struct Layer {
  const float *weight, *bias;
  int64_t in, out;
  Factor forwards;
  Layer(const Tensor& w, const Tensor& b, int64_t rows) : weight(w.data_ptr<float>()), bias(b.data_ptr<float>()), in(w.size(1)), out(w.size(0)), forwards(false, true, rows, out, in, weight, in) {}
  void apply(const float* x, int64_t rows, float* y) const { gemm(false, rows, x, in, forwards, bias, false, y, out); }
};

// x (rows, C) to (rows, out); `kept` (utterances, hidden) may be undefined.
struct Feedforward : torch::autograd::Function<Feedforward> {
  // y, and the balancer's lines (2, hidden) where `range` has five numbers.
  static std::pair<Tensor, Tensor> value(const Tensor& in, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Tensor& drop, const std::vector<double>& range) {
    const int64_t places = in.size(0);
    const Layer first(w1, b1, places), second(w2, b2, places);
    const int64_t hidden = first.out;
    const Kept kept(drop);
    Tensor y = at::empty({places, second.out}, in.options().requires_grad(false));
    const float* from = in.data_ptr<float>();
    float* to = y.data_ptr<float>();
    const Tiles tiles(places, tileRows(hidden));
    HiddenSums sums(hidden, tiles.parts, range);
    if (sums.wanted()) first.apply(from, 1, sums.pivot.data());
    tiles.forEach([&](int64_t part, const Tiles::Slice& mine) {
      const Scratch h(tiles.size * hidden);
      for (const auto [begin, rows] : mine) {
        first.apply(from + begin * first.in, rows, h.data());
        if (sums.wanted()) sums.add(part, h.data(), rows);
        activate(h.data(), h.data(), begin, rows, hidden, kept);
        second.apply(h.data(), rows, to + begin * second.out);
      }
    });
    return {y, sums.lines(places, y.options())};
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Optional<Tensor>& kept, std::vector<double> range) {
    const Tensor drop = kept.has_value() ? *kept : Tensor();
    auto [y, lines] = value(x, w1, b1, w2, b2, drop, range);
    ctx->save_for_backward({x, w1, b1, w2, lines, drop});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &in = saved[0], &w1 = saved[1], &b1 = saved[2], &w2 = saved[3];
    const Tensor grad = grads[0].contiguous();
    const Kept kept(saved[5]);
    const int64_t places = in.size(0);
    const Layer first(w1, b1, places);
    const int64_t channels = first.in, hidden = first.out, out = w2.size(0);
    const Factor back1(false, false, places, channels, hidden, first.weight, channels), back2(false, false, places, hidden, out, w2.data_ptr<float>(), hidden);
    const auto options = in.options().requires_grad(false);
    const Tensor lines = saved[4].defined() ? saved[4] : at::zeros({2, hidden}, options);
    Tensor dx = at::empty(in.sizes(), options);
    const Tiles tiles(places, tileRows(hidden));
    Tensor dw1 = at::empty({tiles.parts, hidden, channels}, options), dw2 = at::empty({tiles.parts, out, hidden}, options), db1 = at::zeros({tiles.parts, hidden}, options);
    const float *from = in.data_ptr<float>(), *up = grad.data_ptr<float>(), *a = lines.data_ptr<float>(), *b = a + hidden;
    float *to = dx.data_ptr<float>(), *dtaps1 = dw1.data_ptr<float>(), *dtaps2 = dw2.data_ptr<float>(), *dbias = db1.data_ptr<float>();
    tiles.forEach([&](int64_t part, const Tiles::Slice& mine) {
      const Scratch h(tiles.size * hidden), dh(tiles.size * hidden);
      for (const auto [begin, rows] : mine) {
        const float more = begin > mine.front().begin ? 1.0f : 0.0f;  // the first tile's gradients of the weights are written, others' added
        const float *xt = from + begin * channels, *g = up + begin * out;
        first.apply(xt, rows, h.data());
        gemm(false, rows, g, out, back2, nullptr, false, dh.data(), hidden);
        activateBackward(h.data(), dh.data(), h.data(), dh.data(), dbias + part * hidden, begin, rows, hidden, a, b, kept);
        gemm(true, false, out, hidden, rows, g, out, h.data(), hidden, more, dtaps2 + part * out * hidden, hidden);
        gemm(true, false, hidden, channels, rows, dh.data(), hidden, xt, channels, more, dtaps1 + part * hidden * channels, channels);
        gemm(false, rows, dh.data(), hidden, back1, nullptr, false, to + begin * channels, channels);
      }
    });
    return {dx, sumOfParts(dw1), sumOfParts(db1), sumOfParts(dw2), columnSums(grad), {}, {}};
  }
};

// Rows (rows, C) in any type that autocast allows.
Tensor overRows(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Tensor& kept, at::ArrayRef<double> balance, at::ScalarType dtype) {
  const NoAutocast noAutocast;
  bool gradient = false;
  for (const Tensor* t : {&x, &w1, &b1, &w2, &b2}) gradient = gradient || wantsGrad(*t);
  const auto wide = [](const Tensor& t) { return t.to(at::kFloat).contiguous(); };
  const Tensor first = wide(w1.flatten(1)), second = wide(w2.flatten(1)), bias1 = wide(b1), bias2 = wide(b2);
  if (dtype == at::kBFloat16 && hasGemmNarrow()) return feedforwardNarrow(x.contiguous(), first, bias1, second, bias2, kept, balance, gradient);
  if (!gradient) return Feedforward::value(wide(x), first, bias1, second, bias2, kept, {}).first.to(dtype);
  return Feedforward::apply(wide(x), first, bias1, second, bias2, kept.defined() ? Optional<Tensor>(kept) : Optional<Tensor>(), balance.vec()).to(dtype);
}

bool isOwn(at::TensorList tensors, at::ScalarType dtype) {
  bool own = !composed() && hasGemm() && tensors[0].numel() > 0 && (dtype == at::kFloat || dtype == at::kBFloat16);
  for (const Tensor& t : tensors) own = own && isFloatOrNarrow(t);
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
