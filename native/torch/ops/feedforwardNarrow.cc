// The feed-forward with products of bfloat16. Hidden values are kept as autocast rounds them; weights are laid out once for all tiles, and what lies in
// memory in bfloat16 is multiplied as it lies.
#include "torch/ops/columnSums.h"
#include "torch/ops/feedforward.h"
#include "torch/ops/gemmNarrow.h"

namespace serac {
namespace {

using Narrow = c10::BFloat16;
constexpr int64_t kTileRows = 448;  // gradients of the weights are added to once a tile

struct ScratchNarrow {
  Tensor owner;
  explicit ScratchNarrow(int64_t n) : owner(at::empty({n}, at::kBFloat16)) {}
  Narrow* data() const { return owner.data_ptr<Narrow>(); }
};

struct FeedforwardNarrow : torch::autograd::Function<FeedforwardNarrow> {
  struct Value {
    Tensor y, hidden, lines;
  };

  static Value value(const Tensor& in, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Tensor& drop, const std::vector<double>& range, bool keep) {
    const int64_t places = in.size(0), channels = in.size(1), hidden = w1.size(0), out = w2.size(0);
    const Kept kept(drop);
    const auto options = in.options().dtype(at::kBFloat16).requires_grad(false);
    Tensor y = at::empty({places, out}, options), h = keep ? at::empty({places, hidden}, options) : Tensor();
    const Packed first(true, hidden, channels, w1.data_ptr<float>(), channels), second(true, out, hidden, w2.data_ptr<float>(), hidden);
    const float *bias1 = b1.data_ptr<float>(), *bias2 = b2.data_ptr<float>();
    Narrow *to = y.data_ptr<Narrow>(), *all = keep ? h.data_ptr<Narrow>() : nullptr;
    const Tiles tiles(places, kTileRows);
    HiddenSums sums(hidden, tiles.parts, range);
    forType(in.scalar_type(), [&]<typename X>(X) {
      const X* from = in.data_ptr<X>();
      if (sums.wanted()) gemmNarrow<X, float>(false, 1, from, channels, first.panels, bias1, false, sums.pivot.data(), hidden);
      tiles.forEach([&](int64_t part, const Tiles::Slice& mine) {
        const ScratchNarrow active(kTileRows * hidden), room(keep ? 0 : kTileRows * hidden);
        for (const auto [begin, rows] : mine) {
          Narrow* const tile = keep ? all + begin * hidden : room.data();
          gemmNarrow<X, Narrow>(false, rows, from + begin * channels, channels, first.panels, bias1, false, tile, hidden);
          if (sums.wanted()) sums.add(part, tile, rows);
          activate(tile, active.data(), begin, rows, hidden, kept);
          gemmNarrow<Narrow, Narrow>(false, rows, active.data(), hidden, second.panels, bias2, false, to + begin * out, out);
        }
      });
    });
    return {y, h, sums.lines(places, y.options())};
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Optional<Tensor>& kept, std::vector<double> range) {
    const Tensor drop = kept.has_value() ? *kept : Tensor();
    const auto [y, hidden, lines] = value(x, w1, b1, w2, b2, drop, range, true);
    ctx->save_for_backward({x, w1, w2, hidden, lines, drop});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &in = saved[0], &w1 = saved[1], &w2 = saved[2], &h = saved[3];
    const Tensor grad = grads[0].to(at::kBFloat16).contiguous();
    const Kept kept(saved[5]);
    const int64_t channels = in.size(1), hidden = w1.size(0), out = w2.size(0);
    const auto options = w1.options().requires_grad(false);
    const Tensor lines = saved[4].defined() ? saved[4] : at::zeros({2, hidden}, options);
    Tensor dx = at::empty(in.sizes(), in.options().requires_grad(false));
    const Tiles tiles(in.size(0), kTileRows);
    // Where weights are large beside x, their gradients are products of all rows at once: parts, one a thread, would take longer to add up.
    const int64_t rowCount = in.size(0);
    const bool whole = tiles.parts > 1 && rowCount < tiles.parts * channels;
    const int64_t parts = whole ? 1 : tiles.parts, allSize = whole ? rowCount * hidden : 0;
    const ScratchNarrow allActive(allSize), allDh(allSize);
    Tensor dw1 = at::empty({parts, hidden, channels}, options), dw2 = at::empty({parts, out, hidden}, options), db1 = at::zeros({tiles.parts, hidden}, options);
    const Packed first(false, channels, hidden, w1.data_ptr<float>(), channels), second(false, hidden, out, w2.data_ptr<float>(), hidden);
    const Narrow *up = grad.data_ptr<Narrow>(), *all = h.data_ptr<Narrow>();
    const float *a = lines.data_ptr<float>(), *b = a + hidden;
    float *dtaps1 = dw1.data_ptr<float>(), *dtaps2 = dw2.data_ptr<float>(), *dbias = db1.data_ptr<float>();
    forType(in.scalar_type(), [&]<typename X>(X) {
      const X* from = in.data_ptr<X>();
      X* to = dx.data_ptr<X>();
      tiles.forEach([&](int64_t part, const Tiles::Slice& mine) {
        const Scratch wide(kTileRows * hidden);
        const int64_t roomSize = whole ? 0 : kTileRows * hidden;
        const ScratchNarrow activeRoom(roomSize), dhRoom(roomSize);
        for (const auto [begin, rows] : mine) {
          Narrow *const active = whole ? allActive.data() + begin * hidden : activeRoom.data(), *const dh = whole ? allDh.data() + begin * hidden : dhRoom.data();
          const bool more = begin > mine.front().begin;  // the first tile's gradients of the weights are written, others' added
          const Narrow* g = up + begin * out;
          gemmNarrow<Narrow, float>(false, rows, g, out, second.panels, nullptr, false, wide.data(), hidden);
          activateBackward(all + begin * hidden, wide.data(), active, dh, dbias + part * hidden, begin, rows, hidden, a, b, kept);
          gemmNarrow<Narrow, X>(false, rows, dh, hidden, first.panels, nullptr, false, to + begin * channels, channels);
          if (whole) continue;
          gemmNarrow<Narrow, Narrow, float>(true, false, out, hidden, rows, g, out, active, hidden, nullptr, more, dtaps2 + part * out * hidden, hidden);
          gemmNarrow<Narrow, X, float>(true, false, hidden, channels, rows, dh, hidden, from + begin * channels, channels, nullptr, more, dtaps1 + part * hidden * channels, channels);
        }
      });
      if (!whole) return;
      gemmNarrow<Narrow, Narrow, float>(true, false, out, hidden, rowCount, up, out, allActive.data(), hidden, nullptr, false, dtaps2, hidden);
      gemmNarrow<Narrow, X, float>(true, false, hidden, channels, rowCount, allDh.data(), hidden, from, channels, nullptr, false, dtaps1, channels);
    });
    return {dx, sumOfParts(dw1), sumOfParts(db1), sumOfParts(dw2), columnSums(grad), {}, {}};
  }
};

}  // namespace

Tensor feedforwardNarrow(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2, const Tensor& kept, at::ArrayRef<double> balance, bool gradient) {
  if (!gradient) return FeedforwardNarrow::value(x, w1, b1, w2, b2, kept, {}, false).y;
  return FeedforwardNarrow::apply(x, w1, b1, w2, b2, kept.defined() ? Optional<Tensor>(kept) : Optional<Tensor>(), balance.vec());
}

}  // namespace serac
