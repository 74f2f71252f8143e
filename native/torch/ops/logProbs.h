// Rows of logits: the norm of their log_softmax, and the gradient of some of its elements.
#pragma once
#include "torch/ops/lanes.h"

#include <cmath>

namespace serac {

// log(sum(exp(row)))
template <Isa isa>
SERAC_INLINE float logSumExp(const float* row, int64_t size) {
  const float max = maxInLanes(row, size);
  const float sum = sumInLanes(size, [=](int64_t i) __attribute__((always_inline)) { return expOfNegative<isa>(row[i] - max); });
  return max + std::log(sum);
}

// The gradient d of the logits of a row from those of two of its log-probabilities. What is below 2^-100 becomes 0: cells that no path visits have gradients
// whose products leave the normal range of float, where some CPUs take many times as long.
template <Isa isa>
SERAC_INLINE void logitsGradient(const float* row, int64_t size, float norm, int64_t symbol, float gradSymbol, int64_t blank, float gradBlank, float* d) {
  float* __restrict to = d;
  const float total = -(gradSymbol + gradBlank);
  for (int64_t i = 0; i < size; ++i) {
    const float log = row[i] - norm;
    const float gradient = total * expOfNegative<isa>(log < 0 ? log : 0.0f);
    to[i] = __builtin_fabsf(gradient) >= 0x1p-100f ? gradient : 0.0f;
  }
  to[symbol] += gradSymbol;
  to[blank] += gradBlank;
}

}  // namespace serac
