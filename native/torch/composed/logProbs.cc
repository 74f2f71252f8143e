// As icefall's joiner and k2's rnnt_loss_pruned compose them.
#include "torch/composed/composed.h"

namespace serac::composition {

std::tuple<Tensor, Tensor> pickLogProbs(const Tensor& logits, const Tensor& symbols, int64_t blank) {
  const Tensor norms = logits.logsumexp(-1);
  return {logits.gather(-1, symbols.unsqueeze(-1)).squeeze(-1) - norms, logits.select(-1, blank).clone() - norms};
}

std::tuple<Tensor, Tensor> joinerLogProbs(const Tensor& am, const Tensor& lm, const Tensor& ranges, const Tensor& weight, const Optional<Tensor>& bias, const Tensor& symbols, int64_t blank) {
  const int64_t batch = ranges.size(0), frames = ranges.size(1), range = ranges.size(2), dim = lm.size(2);
  const Tensor kept = lm.gather(1, ranges.reshape({batch, frames * range, 1}).expand({batch, frames * range, dim})).reshape({batch, frames, range, dim});
  const Tensor sum = am.unsqueeze(2).expand({batch, frames, range, dim}) + kept;
  const Tensor logits = at::linear(sum.tanh(), weight, bias.has_value() ? *bias : Tensor());
  const NoAutocast noAutocast;
  return pickLogProbs(toCompute(logits), symbols, blank);
}

}  // namespace serac::composition
