// Elements as the instructions for bfloat16 take them: words of two that belong to neighbouring terms of the sums, rounded from float where they are not
// bfloat16 yet. For gemmNarrow alone.
#pragma once
#if defined(__x86_64__)
#include <c10/util/BFloat16.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

// GCC 12 finds the undefined vectors inside of its own intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define SERAC_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")))

namespace serac {

// Of 16 lanes the first `count`.
inline __mmask16 maskOf(int64_t count) { return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1); }

// 16 elements from `x`, as far as `mask` goes, in the low halves of words.
SERAC_AVX512_BF16 inline __m512i lowHalves(const float* x, __mmask16 mask) { return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x))); }
SERAC_AVX512_BF16 inline __m512i lowHalves(const c10::BFloat16* x, __mmask16 mask) { return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x)); }

// 16 words of pairs of neighbours from `x`, of which there are `count` elements.
SERAC_AVX512_BF16 inline __m512i pairs(const float* x, int64_t count) {
  return (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(maskOf(count - 16), x + 16), _mm512_maskz_loadu_ps(maskOf(count), x));
}
SERAC_AVX512_BF16 inline __m512i pairs(const c10::BFloat16* x, int64_t count) {
  const __mmask32 mask = count >= 32 ? 0xffffffffu : (uint32_t{1} << count) - 1;
  return _mm512_maskz_loadu_epi16(mask, x);
}

// Words of pairs of rows of x (rows, columns): to[p * step + c] holds rows 2 p and 2 p + 1 of column c, 0 beyond the last row.
template <typename T>
SERAC_AVX512_BF16 void pairRows(const T* x, int64_t ld, int64_t rows, int64_t columns, uint32_t* to, int64_t step) {
  for (int64_t p = 0; 2 * p < rows; ++p) {
    const T* const first = x + 2 * p * ld;
    const bool second = 2 * p + 1 < rows;
    for (int64_t c = 0; c < columns; c += 16) {
      const __mmask16 mask = maskOf(columns - c);
      __m512i words = lowHalves(first + c, mask);
      if (second) words = _mm512_or_si512(words, _mm512_slli_epi32(lowHalves(first + ld + c, mask), 16));
      _mm512_mask_storeu_epi32(to + p * step + c, mask, words);
    }
  }
}

// Words of pairs of columns of x (rows, columns): to[r * row + p], for whole sixteens of p, 0 beyond the last column.
template <typename T>
SERAC_AVX512_BF16 void pairColumns(const T* x, int64_t ld, int64_t rows, int64_t columns, uint32_t* to, int64_t row) {
  const int64_t words = (columns + 1) / 2;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t p = 0; p < words; p += 16) _mm512_storeu_si512(to + r * row + p, pairs(x + r * ld + 2 * p, columns - 2 * p));
}

// 16 rows of 16 words become 16 columns.
SERAC_AVX512_BF16 inline void transpose(__m512i (&v)[16]) {
  __m512i w[16];
#pragma GCC unroll 8
  for (int r = 0; r < 16; r += 2) w[r] = _mm512_unpacklo_epi32(v[r], v[r + 1]), w[r + 1] = _mm512_unpackhi_epi32(v[r], v[r + 1]);
#pragma GCC unroll 4
  for (int r = 0; r < 16; r += 4) {  // v[r + i]: words i, i + 4, i + 8, i + 12 of rows r to r + 3
    v[r] = _mm512_unpacklo_epi64(w[r], w[r + 2]), v[r + 1] = _mm512_unpackhi_epi64(w[r], w[r + 2]);
    v[r + 2] = _mm512_unpacklo_epi64(w[r + 1], w[r + 3]), v[r + 3] = _mm512_unpackhi_epi64(w[r + 1], w[r + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88), b = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xdd);
    const __m512i c = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88), d = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xdd);
    w[i] = _mm512_shuffle_i32x4(a, c, 0x88), w[8 + i] = _mm512_shuffle_i32x4(a, c, 0xdd);
    w[4 + i] = _mm512_shuffle_i32x4(b, d, 0x88), w[12 + i] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = w[i];
}

// The words of pairs of columns of at most 16 rows, transposed: to[p * step + r], for whole sixteens of p, 0 beyond the last row and column.
template <typename T>
SERAC_AVX512_BF16 void pairColumnsAcross(const T* x, int64_t ld, int64_t rows, int64_t columns, uint32_t* to, int64_t step) {
  const int64_t words = (columns + 1) / 2;
  for (int64_t p = 0; p < words; p += 16) {
    __m512i v[16];
#pragma GCC unroll 16
    for (int64_t r = 0; r < 16; ++r) v[r] = r < rows ? pairs(x + r * ld + 2 * p, columns - 2 * p) : _mm512_setzero_si512();
    transpose(v);
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) _mm512_storeu_si512(to + (p + i) * step, v[i]);
  }
}

// The words of pairs of rows of at most 16 columns, transposed: to[c * row + p], for whole sixteens of p, 0 beyond the last row.
template <typename T>
SERAC_AVX512_BF16 void pairRowsAcross(const T* x, int64_t ld, int64_t rows, int64_t columns, uint32_t* to, int64_t row) {
  const __mmask16 mask = maskOf(columns);
  for (int64_t p = 0; 2 * p < rows; p += 16) {
    __m512i v[16];
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) {
      const T* const first = x + 2 * (p + i) * ld;
      v[i] = 2 * (p + i) < rows ? lowHalves(first, mask) : _mm512_setzero_si512();
      if (2 * (p + i) + 1 < rows) v[i] = _mm512_or_si512(v[i], _mm512_slli_epi32(lowHalves(first + ld, mask), 16));
    }
    transpose(v);
    for (int64_t c = 0; c < columns; ++c) _mm512_storeu_si512(to + c * row + p, v[c]);
  }
}

}  // namespace serac
#endif
