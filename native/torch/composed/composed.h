// The composition of every operator out of libtorch's own, as the reference composes it (icefall, k2): what the operators must equal, and what
// they are measured against. SERAC_COMPOSED=1, or setComposed, makes the operators themselves take it.
#pragma once
#include "torch/ops/common.h"

namespace serac {

// True while operators are to be composed. Operators ask when they are called; a backward pass goes the way of its forward pass.
bool composed();
// Returns what was set before. For the whole process.
bool setComposed(bool on);

namespace composition {

Tensor swoosh(const Tensor& x, bool left, const OptionalGenerator& generator);
Tensor swooshExact(const Tensor& x, bool left);
Tensor swooshForward(const Tensor& x, bool left);                                       // no gradient
std::pair<Tensor, Tensor> swooshForwardAndDerivative(const Tensor& x, bool left);  // no gradient
Tensor balancer(const Tensor& x, int64_t dim, double minMean, double maxMean, double minRms, double maxRms, double gradScale);
Tensor whiten(const Tensor& x, int64_t groups, double limit, double gradScale, const Tensor& active);
Tensor limitParamValue(const Tensor& x, double min, double max);
Tensor penalizeAbsValuesGt(const Tensor& x, double limit, double penalty);
Tensor biasNorm(const Tensor& x, const Tensor& bias, const Tensor& logScale, int64_t dim);
Tensor softmax(const Tensor& x, int64_t dim);
Tensor attentionWeights(const Tensor& query, const Tensor& key, const Optional<Tensor>& position, const Optional<Tensor>& encoding, const Optional<Tensor>& mask, int64_t heads, double limit, double penalty);
Tensor attend(const Tensor& weights, const Tensor& values);
Tensor dropoutShared(const Tensor& x, double p, int64_t dim, const OptionalGenerator& generator);
Tensor activationDropoutLinear(const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, bool left, double p, int64_t sharedDim, const OptionalGenerator& generator);
// Log-probabilities of a symbol of each row, and of blank.
std::tuple<Tensor, Tensor> pickLogProbs(const Tensor& logits, const Tensor& symbols, int64_t blank);
std::tuple<Tensor, Tensor> joinerLogProbs(const Tensor& am, const Tensor& lm, const Tensor& ranges, const Tensor& weight, const Optional<Tensor>& bias, const Tensor& symbols, int64_t blank);

}  // namespace composition
}  // namespace serac
