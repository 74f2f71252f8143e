// Rows of logits: the norm of their log_softmax, and the gradient of some of its elements.
#pragma once
#include "torch/ops/simd.h"

#include <cmath>

namespace serac {

// log(sum(exp(row)))
template <Isa isa>
SERAC_INLINE float logSumExp(const float* row, int64_t size) {
  constexpr int kLanes = 16;
  float highest[kLanes], sums[kLanes] = {};
  for (int l = 0; l < kLanes; ++l) highest[l] = row[0];
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (int l = 0; l < kLanes; ++l) highest[l] = row[i + l] > highest[l] ? row[i + l] : highest[l];
  for (; i < size; ++i) highest[0] = row[i] > highest[0] ? row[i] : highest[0];
  float max = highest[0];
  for (int l = 1; l < kLanes; ++l) max = highest[l] > max ? highest[l] : max;
  for (i = 0; i + kLanes <= size; i += kLanes)
    for (int l = 0; l < kLanes; ++l) sums[l] += expOfNegative<isa>(row[i + l] - max);
  for (; i < size; ++i) sums[0] += expOfNegative<isa>(row[i] - max);
  float sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  return max + std::log(sum);
}

// The gradient d of the logits of a row from those of two of its log-probabilities.
template <Isa isa>
SERAC_INLINE void logitsGradient(const float* row, int64_t size, float norm, int64_t symbol, float gradSymbol, int64_t blank, float gradBlank, float* d) {
  float* __restrict to = d;
  const float total = -(gradSymbol + gradBlank);
  for (int64_t i = 0; i < size; ++i) {
    const float log = row[i] - norm;
    to[i] = total * expOfNegative<isa>(log < 0 ? log : 0.0f);
  }
  to[symbol] += gradSymbol;
  to[blank] += gradBlank;
}

}  // namespace serac
