// Sums and maxima of a row in lanes: they vectorise, and their order does not depend on the instructions.
#pragma once
#include "torch/ops/simd.h"

namespace serac {

constexpr int kLanes = 16;

// f(0) + ... + f(n - 1)
template <typename F>
SERAC_INLINE float sumInLanes(int64_t n, const F& f) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) sums[l] += f(i + l);
  for (; i < n; ++i) sums[0] += f(i);
  float sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += sums[l];
  return sum;
}

// The largest of at least one number.
SERAC_INLINE float maxInLanes(const float* row, int64_t n) {
  float highest[kLanes];
  for (int l = 0; l < kLanes; ++l) highest[l] = row[0];
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) highest[l] = row[i + l] > highest[l] ? row[i + l] : highest[l];
  for (; i < n; ++i) highest[0] = row[i] > highest[0] ? row[i] : highest[0];
  float max = highest[0];
  for (int l = 1; l < kLanes; ++l) max = highest[l] > max ? highest[l] : max;
  return max;
}

}  // namespace serac
