// joiner_log_probs: what pick_log_probs finds of the logits W tanh(am + lm) + b at the cells of the lattice that pruning kept. Logits and one number a
// row are kept; the sums and their tanh, as many as cells times channels, exist for a tile of rows at a time and are computed again on the way back.
#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"
#include "torch/ops/gemm.h"
#include "torch/ops/logProbs.h"
#include "torch/ops/tanh.h"

#include <vector>

namespace serac {
namespace {

constexpr int64_t kTileRows = 256;

// Everything in float, without holes, on the CPU.
struct Cells {
  const float *am, *lm;  // (N T, J), (N U, J)
  const int64_t* ranges;  // (N T, R), in [0, U)
  int64_t frames, range, rows, channels;  // T, R, U, J
  const float* lmOf(int64_t cell) const { return lm + lmRow(cell) * channels; }
  int64_t lmRow(int64_t cell) const { return cell / range / frames * rows + ranges[cell]; }

  // The hidden values of `count` cells.
  void hide(int64_t begin, int64_t count, float* z) const {
    vectorized([=, this]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t r = 0; r < count; ++r) {
        const float *a = am + (begin + r) / range * channels, *l = lmOf(begin + r);
        float* __restrict to = z + r * channels;
        for (int64_t c = 0; c < channels; ++c) to[c] = tanhOf<isa>(a[c] + l[c]);
      }
    });
  }

  // The gradients dz of hidden values z, added to those of am and lm.
  void hideBackward(int64_t begin, int64_t count, const float* z, const float* dz, float* dam, float* dlm) const {
    vectorized([=, this]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t r = 0; r < count; ++r) {
        const float *y = z + r * channels, *g = dz + r * channels;
        float *__restrict da = dam + (begin + r) / range * channels, *__restrict dl = dlm + lmRow(begin + r) * channels;
        for (int64_t c = 0; c < channels; ++c) {
          const float d = g[c] * mulAdd<isa>(-y[c], y[c], 1.0f);
          da[c] += d;
          dl[c] += d;
        }
      }
    });
  }
};

struct JoinerLogProbs : torch::autograd::Function<JoinerLogProbs> {
  static Cells cellsOf(const Tensor& am, const Tensor& lm, const Tensor& ranges) { return {am.data_ptr<float>(), lm.data_ptr<float>(), ranges.data_ptr<int64_t>(), am.size(1), ranges.size(2), lm.size(1), am.size(2)}; }

  // Logits (cells, V), their norms, and what was picked.
  static std::array<Tensor, 4> value(const Tensor& am, const Tensor& lm, const Tensor& ranges, const Tensor& weight, const Tensor& bias, const Tensor& symbols, int64_t blank, bool narrow) {
    const Cells cells = cellsOf(am, lm, ranges);
    const int64_t count = ranges.numel(), channels = cells.channels, vocabulary = weight.size(0);
    const auto options = am.options().requires_grad(false);
    Tensor logits = at::empty({count, vocabulary}, options), norms = at::empty({count}, options), picked = at::empty(ranges.sizes(), options), blanks = at::empty(ranges.sizes(), options);
    float *x = logits.data_ptr<float>(), *norm = norms.data_ptr<float>(), *to = picked.data_ptr<float>(), *toBlank = blanks.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    const Factor toLogits(narrow, true, count, vocabulary, channels, weight.data_ptr<float>(), channels);
    const int64_t* ids = symbols.data_ptr<int64_t>();
    at::parallel_for(0, (count + kTileRows - 1) / kTileRows, 1, [&](int64_t first, int64_t last) {
      const Scratch z(kTileRows * channels);
      for (int64_t tile = first; tile < last; ++tile) {
        const int64_t begin = tile * kTileRows, rows = std::min(kTileRows, count - begin);
        cells.hide(begin, rows, z.data());
        float* const out = x + begin * vocabulary;
        gemm(false, rows, z.data(), channels, toLogits, b, false, out, vocabulary);
        vectorized([=]<Isa isa>() __attribute__((always_inline)) {
          for (int64_t r = begin; r < begin + rows; ++r) {
            const float* row = x + r * vocabulary;
            norm[r] = logSumExp<isa>(row, vocabulary);
            to[r] = row[ids[r]] - norm[r];
            toBlank[r] = row[blank] - norm[r];
          }
        });
      }
    });
    return {logits, norms, picked, blanks};
  }

  static variable_list forward(AutogradContext* ctx, const Tensor& am, const Tensor& lm, const Tensor& ranges, const Tensor& weight, const Tensor& bias, const Tensor& symbols, int64_t blank, bool narrow) {
    auto [logits, norms, picked, blanks] = value(am, lm, ranges, weight, bias, symbols, blank, narrow);
    ctx->save_for_backward({am, lm, ranges, weight, symbols, logits, norms});
    ctx->saved_data["blank"] = blank;
    ctx->saved_data["narrow"] = narrow;
    return {picked, blanks};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &am = saved[0], &lm = saved[1], &ranges = saved[2], &weight = saved[3], &symbols = saved[4], &logits = saved[5], &norms = saved[6];
    const int64_t blank = ctx->saved_data["blank"].toInt();
    const bool narrow = ctx->saved_data["narrow"].toBool();
    const Tensor gradPicked = grads[0].contiguous(), gradBlanks = grads[1].contiguous();
    const Cells cells = cellsOf(am, lm, ranges);
    const int64_t count = ranges.numel(), channels = cells.channels, vocabulary = weight.size(0);
    const int64_t frameRows = cells.range, tileFrames = std::max<int64_t>(1, kTileRows / frameRows), tileRows = tileFrames * frameRows;
    const int64_t tiles = (count + tileRows - 1) / tileRows, parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), tiles));
    const auto options = am.options().requires_grad(false);
    Tensor dam = at::zeros(am.sizes(), options), dlm = at::zeros({parts, lm.numel()}, options), dweight = at::zeros({parts, vocabulary, channels}, options), dbias = at::zeros({parts, vocabulary}, options);
    const float *x = logits.data_ptr<float>(), *norm = norms.data_ptr<float>(), *g = gradPicked.data_ptr<float>(), *gb = gradBlanks.data_ptr<float>();
    const Factor back(narrow, false, count, channels, vocabulary, weight.data_ptr<float>(), channels);
    const int64_t* ids = symbols.data_ptr<int64_t>();
    float *toAm = dam.data_ptr<float>(), *toLm = dlm.data_ptr<float>(), *toWeight = dweight.data_ptr<float>(), *toBias = dbias.data_ptr<float>();
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      const Scratch z(tileRows * channels), dz(tileRows * channels), d(tileRows * vocabulary);
      for (int64_t part = first; part < last; ++part)
        for (int64_t tile = tiles * part / parts; tile < tiles * (part + 1) / parts; ++tile) {  // whole frames: no two parts add to one frame of am
          const int64_t begin = tile * tileRows, rows = std::min(tileRows, count - begin);
          float *const logitGrads = d.data(), *const sums = toBias + part * vocabulary;
          vectorized([=]<Isa isa>() __attribute__((always_inline)) {
            float* __restrict s = sums;
            for (int64_t r = 0; r < rows; ++r) {
              float* const row = logitGrads + r * vocabulary;
              const int64_t at = begin + r;
              logitsGradient<isa>(x + at * vocabulary, vocabulary, norm[at], ids[at], g[at], blank, gb[at], row);
              for (int64_t c = 0; c < vocabulary; ++c) s[c] += row[c];
            }
          });
          cells.hide(begin, rows, z.data());
          gemm(narrow, true, false, vocabulary, channels, rows, logitGrads, vocabulary, z.data(), channels, 1.0f, toWeight + part * vocabulary * channels, channels);
          gemm(false, rows, logitGrads, vocabulary, back, nullptr, false, dz.data(), channels);
          cells.hideBackward(begin, rows, z.data(), dz.data(), toAm, toLm + part * lm.numel());
        }
    });
    return {dam, sumOfParts(dlm).view(lm.sizes()), {}, sumOfParts(dweight), sumOfParts(dbias), {}, {}, {}};
  }
};

std::tuple<Tensor, Tensor> joinerLogProbs(const Tensor& am, const Tensor& lm, const Tensor& ranges, const Tensor& weight, const Optional<Tensor>& given, const Tensor& symbols, int64_t blank) {
  constexpr const char* kName = "joiner_log_probs";
  checkFloating(kName, am);
  TORCH_CHECK(am.dim() == 3 && lm.dim() == 3 && lm.size(0) == am.size(0) && lm.size(2) == am.size(2), kName, ": am must be (N, T, J) and lm (N, S + 1, J), they have shapes ", am.sizes(), " and ", lm.sizes());
  TORCH_CHECK(ranges.dim() == 3 && ranges.size(0) == am.size(0) && ranges.size(1) == am.size(1) && ranges.scalar_type() == at::kLong, kName, ": ranges must be int64 of shape (N, T, R), they are ", ranges.scalar_type(), " of shape ",
              ranges.sizes(), " for am of shape ", am.sizes());
  TORCH_CHECK(symbols.sizes() == ranges.sizes() && symbols.scalar_type() == at::kLong, kName, ": symbols must be int64 of the shape of ranges ", ranges.sizes(), ", they are ", symbols.scalar_type(), " of shape ", symbols.sizes());
  const Optional<Tensor> bias = given.has_value() && given->defined() ? given : Optional<Tensor>();
  TORCH_CHECK(weight.dim() == 2 && weight.size(1) == am.size(2) && (!bias || (bias->dim() == 1 && bias->size(0) == weight.size(0))), kName, ": weight must be (V, J) and bias (V), weight has shape ", weight.sizes(), ", am has shape ", am.sizes());
  TORCH_CHECK(blank >= 0 && blank < weight.size(0), kName, ": blank ", blank, " is none of ", weight.size(0), " symbols");
  const at::ScalarType dtype = autocastDtype(am);
  bool own = !composed() && hasGemm() && ranges.numel() > 0 && am.size(2) > 0 && (dtype == at::kFloat || dtype == at::kBFloat16);
  for (const Tensor* t : {&am, &lm, &weight, bias ? &*bias : &weight}) own = own && t->is_cpu() && (t->scalar_type() == at::kFloat || t->scalar_type() == at::kBFloat16);
  if (!own) return composition::joinerLogProbs(am, lm, ranges, weight, bias, symbols, blank);
  const auto within = [](const Tensor& ids, int64_t size) { return ids.min().item<int64_t>() >= 0 && ids.max().item<int64_t>() < size; };
  TORCH_CHECK(within(symbols, weight.size(0)), kName, ": a symbol is none of ", weight.size(0));
  TORCH_CHECK(within(ranges, lm.size(1)), kName, ": a range is outside of the ", lm.size(1), " rows of lm");
  const NoAutocast noAutocast;
  const auto wide = [](const Tensor& t) { return t.to(at::kFloat).contiguous(); };
  const Tensor a = wide(am), l = wide(lm), w = wide(weight), b = bias ? wide(*bias) : at::zeros({weight.size(0)}, a.options().requires_grad(false)), r = ranges.contiguous(), s = symbols.contiguous();
  const bool narrow = dtype == at::kBFloat16;
  if (!wantsGrad(a) && !wantsGrad(l) && !wantsGrad(w) && !wantsGrad(b)) {
    auto [logits, norms, picked, blanks] = JoinerLogProbs::value(a, l, r, w, b, s, blank, narrow);
    return {picked, blanks};
  }
  const auto out = JoinerLogProbs::apply(a, l, r, w, b, s, blank, narrow);
  return {out[0], out[1]};
}

}  // namespace

void registerJoiner(torch::Library& m) {
  m.def("joiner_log_probs(Tensor am, Tensor lm, Tensor ranges, Tensor weight, Tensor? bias, Tensor symbols, int blank) -> (Tensor picked, Tensor blanks)", &joinerLogProbs);
}

}  // namespace serac
