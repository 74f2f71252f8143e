// Loops that the compiler vectorises for the CPU it runs on, without -march: each is compiled for a plain x86-64, for AVX2 and for AVX-512,
// and the best that the CPU knows, or that was asked for (isa.h), is called. Elsewhere (ARM) there is one version.
#pragma once
#include <c10/util/BFloat16.h>

#include <bit>
#include <cstdint>

#include "torch/ops/isa.h"

#define SERAC_INLINE inline __attribute__((always_inline))

namespace serac {

#if defined(__x86_64__)
template <typename F>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512"))) void runAvx512(const F& f) {
  f.template operator()<Isa::avx512>();
}
template <typename F>
__attribute__((target("avx2,fma"))) void runAvx2(const F& f) {
  f.template operator()<Isa::avx2>();
}
#endif
template <typename F>
void runPlain(const F& f) {
  f.template operator()<Isa::plain>();
}

// Calls f.operator()<isa>(); it must be SERAC_INLINE, with everything hot inside it.
template <typename F>
void vectorized(const F& f) {
#if defined(__x86_64__)
  switch (currentIsa()) {
    case Isa::amx:
    case Isa::avx512bf16:
    case Isa::avx512: return runAvx512(f);
    case Isa::avx2: return runAvx2(f);
    case Isa::plain: break;
  }
#endif
  runPlain(f);
}

// a * b + c, in one rounding where the CPU has the instruction.
template <Isa isa>
SERAC_INLINE float mulAdd(float a, float b, float c) {
  if constexpr (isa == Isa::plain)
    return a * b + c;
  else
    return __builtin_fmaf(a, b, c);
}

SERAC_INLINE float load(float v) { return v; }
SERAC_INLINE float load(c10::BFloat16 v) { return std::bit_cast<float>(static_cast<uint32_t>(v.x) << 16); }
SERAC_INLINE void store(float& to, float v) { to = v; }
// Rounds to nearest even; a NaN stays one.
SERAC_INLINE void store(c10::BFloat16& to, float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  to.x = static_cast<uint16_t>(v != v ? 0x7fc0u : rounded);
}

// exp(v) for v <= 0, to about one part in 1e7; exp(-87) for what is smaller.
template <Isa isa>
SERAC_INLINE float expOfNegative(float v) {
  v = v > -87.0f ? v : -87.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = mulAdd<isa>(v, 1.44269504f, kRound);
  const float n = shifted - kRound;
  float r = mulAdd<isa>(n, -0.693359375f, v);  // ln 2 in two parts (Cody and Waite)
  r = mulAdd<isa>(n, 2.12194440e-4f, r);
  float p = 1.0f / 5040;  // Taylor series: |r| <= 0.35
  p = mulAdd<isa>(p, r, 1.0f / 720);
  p = mulAdd<isa>(p, r, 1.0f / 120);
  p = mulAdd<isa>(p, r, 1.0f / 24);
  p = mulAdd<isa>(p, r, 1.0f / 6);
  p = mulAdd<isa>(p, r, 0.5f);
  p = mulAdd<isa>(p, r, 1.0f);
  p = mulAdd<isa>(p, r, 1.0f);
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  return p * std::bit_cast<float>((exponent + 127) << 23);
}

// log(1 + t) for t in [0, 1] from s = t / (2 + t): 2 atanh(s) by its series; s is at most 1/3.
template <Isa isa>
SERAC_INLINE float log1pOfShare(float s) {
  const float q = s * s;
  float p = 1.0f / 15;
  p = mulAdd<isa>(p, q, 1.0f / 13);
  p = mulAdd<isa>(p, q, 1.0f / 11);
  p = mulAdd<isa>(p, q, 1.0f / 9);
  p = mulAdd<isa>(p, q, 1.0f / 7);
  p = mulAdd<isa>(p, q, 1.0f / 5);
  p = mulAdd<isa>(p, q, 1.0f / 3);
  p = mulAdd<isa>(p, q, 1.0f);
  return 2.0f * s * p;
}
template <Isa isa>
SERAC_INLINE float log1pOfUnit(float t) {
  return log1pOfShare<isa>(t / (2.0f + t));
}

// A 32-bit mixing function (two multiply-xorshift rounds; constants by C. Wellons' search for low bias).
SERAC_INLINE uint32_t mix(uint32_t v) {
  v ^= v >> 16;
  v *= 0x7feb352du;
  v ^= v >> 15;
  v *= 0x846ca68bu;
  v ^= v >> 16;
  return v;
}
// Draw i of the stream (lo, hi): 24 bits.
SERAC_INLINE int32_t draw24(uint32_t lo, uint32_t hi, uint32_t i) { return static_cast<int32_t>(mix(mix(i + lo) ^ hi) >> 8); }
// The same, uniform in [0, 1).
SERAC_INLINE float uniform(uint32_t lo, uint32_t hi, uint32_t i) { return static_cast<float>(draw24(lo, hi, i)) * 0x1p-24f; }
// `value` where the draw is at least `threshold`, else 0; by a bit mask, which does not keep loops from being vectorised as a choice would.
SERAC_INLINE float keepAtLeast(int32_t draw, int32_t threshold, float value) {
  return std::bit_cast<float>(std::bit_cast<int32_t>(value) & -static_cast<int32_t>(draw >= threshold));
}

}  // namespace serac
