// Attention as icefall's zipformer.py composes it.
#include "torch/composed/composed.h"

namespace serac::composition {

Tensor attentionWeights(const Tensor& query, const Tensor& key, const Optional<Tensor>& position, const Optional<Tensor>& encoding, const Optional<Tensor>& mask, int64_t heads, double limit, double penalty) {
  const int64_t frames = query.size(0), batch = query.size(1);
  const auto split = [&](const Tensor& x) { return x.reshape({frames, batch, heads, x.size(2) / heads}); };
  const Tensor q = split(query).permute({2, 1, 0, 3}), k = split(key).permute({2, 1, 3, 0});
  Tensor scores = at::matmul(q, k);  // (h, N, T, T)
  if (position.has_value()) {
    const int64_t offsets = 2 * frames - 1;
    const Tensor e = encoding->reshape({1, offsets, heads, encoding->size(1) / heads}).permute({2, 0, 3, 1});  // (h, 1, p, 2 T - 1)
    const Tensor byOffset = at::matmul(split(*position).permute({2, 1, 0, 3}), e).contiguous();
    scores = scores + byOffset.as_strided({heads, batch, frames, frames}, {byOffset.stride(0), byOffset.stride(1), byOffset.stride(2) - byOffset.stride(3), byOffset.stride(3)},
                                          byOffset.storage_offset() + byOffset.stride(3) * (frames - 1));
  }
  if (limit > 0 && wantsGrad(scores)) scores = penalizeAbsValuesGt(scores, limit, penalty);
  if (mask.has_value() && mask->defined()) {
    scores = scores.masked_fill(*mask, -1000);
  }
  return composition::softmax(scores, int64_t{-1}).flatten(0, 1);
}

Tensor attend(const Tensor& weights, const Tensor& values) {
  const int64_t batch = values.size(1), heads = weights.size(0) / batch;
  const Tensor w = weights.unflatten(0, {heads, batch});                                      // (h, N, target, source)
  const Tensor v = values.reshape({values.size(0), batch, heads, values.size(2) / heads}).permute({2, 1, 0, 3});  // (h, N, source, d)
  return at::matmul(w, v).permute({2, 1, 0, 3}).contiguous().view({weights.size(1), batch, values.size(2)});
}

}  // namespace serac::composition
