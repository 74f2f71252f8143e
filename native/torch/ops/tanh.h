// The hyperbolic tangent in loops.
#pragma once
#include "torch/ops/simd.h"

namespace serac {

// tanh, to about 1e-7: near 0 a polynomial in x (Cephes, tanhf), which cannot cancel out as the quotient of exponentials does.
template <Isa isa>
SERAC_INLINE float tanhOf(float x) {
  const float size = __builtin_fabsf(x), e = expOfNegative<isa>(-2.0f * size);
  const float far = __builtin_copysignf((1.0f - e) / (1.0f + e), x);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = mulAdd<isa>(p, z, 2.06390887954e-2f);
  p = mulAdd<isa>(p, z, -5.37397155531e-2f);
  p = mulAdd<isa>(p, z, 1.33314422036e-1f);
  p = mulAdd<isa>(p, z, -3.33332819422e-1f);
  const float near = mulAdd<isa>(p * z, x, x);
  const int32_t isNear = -static_cast<int32_t>(size < 0.625f);
  return std::bit_cast<float>((std::bit_cast<int32_t>(near) & isNear) | (std::bit_cast<int32_t>(far) & ~isNear));
}

}  // namespace serac
