// SwooshL and SwooshR of one number, and their derivatives.
// L(x) = log(1 + exp(x - 4)) - 0.08 x - 0.035; R(x) = log(1 + exp(x - 1)) - 0.08 x - 0.313261687 (Zipformer, arXiv 2310.11230, section 3.6).
#pragma once
#include "torch/ops/common.h"
#include "torch/ops/simd.h"

namespace serac {

struct SwooshShape {
  float shift;
  float offset;
};
constexpr SwooshShape kSwooshL{4.0f, 0.035f};
constexpr SwooshShape kSwooshR{1.0f, 0.313261687f};

template <Isa isa>
SERAC_INLINE float swoosh(float x, SwooshShape shape) {
  const float z = x - shape.shift;
  const float tail = log1pOfUnit<isa>(expOfNegative<isa>(-__builtin_fabsf(z)));
  return mulAdd<isa>(x, -0.08f, (z > 0 ? z : 0.0f) + tail - shape.offset);
}

// 1 / (1 + exp(-z)) from e / (1 + e), e = exp(-|z|); by the sign bit, because a choice between two values would keep the loops from being vectorised.
SERAC_INLINE float logisticFrom(float share, float z) { return 0.5f + __builtin_copysignf(0.5f - share, z); }

// Value and the logistic part g of the derivative, which is g - 0.08.
template <Isa isa>
SERAC_INLINE float swooshAndLogistic(float x, SwooshShape shape, float& logistic) {
  const float z = x - shape.shift;
  const float e = expOfNegative<isa>(-__builtin_fabsf(z));
  // One division for both e / (1 + e) and e / (2 + e), where it takes most of the time.
  const float part = e / ((1.0f + e) * (2.0f + e));
  logistic = logisticFrom(part * (2.0f + e), z);
  return mulAdd<isa>(x, -0.08f, (z > 0 ? z : 0.0f) + log1pOfShare<isa>(part * (1.0f + e)) - shape.offset);
}

template <Isa isa>
SERAC_INLINE float logisticOf(float x, float shift) {
  const float e = expOfNegative<isa>(-__builtin_fabsf(x - shift));
  return logisticFrom(e / (1.0f + e), x - shift);
}

// The same by library operators, for the dtypes and devices that have no loop here; x is float or double.
inline Tensor swooshByOperators(const Tensor& x, SwooshShape shape) {
  const Tensor z = x - shape.shift;
  return at::logaddexp(at::zeros({}, z.options()), z) - 0.08 * x - shape.offset;
}
inline Tensor logisticByOperators(const Tensor& x, SwooshShape shape) { return at::sigmoid(x - shape.shift); }


}  // namespace serac
