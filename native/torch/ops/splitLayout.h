// Float matrices in three pieces of bfloat16 each, whose sum is the number: 8 bits, rounded, then of what is left 8 more, then the rest. They are laid out as
// AMX multiplies them: 16 lines (rows of a, or columns of b) by 32 terms of their sums are a tile of words of two terms, p and p + 16. For gemmSplit alone.
#pragma once
#if defined(__x86_64__)
#include "torch/ops/narrowLayout.h"

namespace serac {

constexpr int64_t kPieces = 3, kTileLines = 16, kTileTerms = 32, kTileWords = 16 * 16;

struct Pieces {
  __m512i high, middle, low;
};

// Words of both, rounded to bfloat16: `first` in their lower halves; from both what was rounded is taken away.
SERAC_AVX512_BF16 inline __m512i takeRounded(__m512& first, __m512& second) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i words = _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second, first));
  first = _mm512_sub_ps(first, (__m512)_mm512_slli_epi32(words, 16));
  second = _mm512_sub_ps(second, (__m512)_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  return words;
}

SERAC_AVX512_BF16 inline Pieces split(__m512 first, __m512 second) {
  const __m512i high = takeRounded(first, second), middle = takeRounded(first, second);
  // What is left has 8 bits at most.
  return {high, middle, _mm512_or_si512(_mm512_srli_epi32((__m512i)first, 16), _mm512_and_si512((__m512i)second, _mm512_set1_epi32(static_cast<int>(0xffff0000))))};
}

// 16 rows of 16 numbers become 16 columns.
SERAC_AVX512_BF16 inline void transposeFloats(__m512 (&rows)[16]) {
  __m512i words[16];
#pragma GCC unroll 16
  for (int64_t i = 0; i < 16; ++i) words[i] = (__m512i)rows[i];
  transpose(words);
#pragma GCC unroll 16
  for (int64_t i = 0; i < 16; ++i) rows[i] = (__m512)words[i];
}

// The three tiles of 16 lines and 32 terms. Lines are rows of `x`, x[line * ld + term], or (`columns`) columns, x[term * ld + line]; a tile has a row for each
// line, or (`across`) for each word. Beyond `lines` and `terms` there is 0.
template <bool columns, bool across>
SERAC_AVX512_BF16 void splitTiles(const float* x, int64_t ld, int64_t lines, int64_t terms, uint32_t* to) {
  const auto row = [=](int64_t i, int64_t half) __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))) {
    if (columns) return i + 16 * half < terms ? _mm512_maskz_loadu_ps(maskOf(lines), x + (i + 16 * half) * ld) : _mm512_setzero_ps();
    return i < lines ? _mm512_maskz_loadu_ps(maskOf(terms - 16 * half), x + i * ld + 16 * half) : _mm512_setzero_ps();
  };
  const auto put = [=](int64_t i, const Pieces& pieces) __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"))) {
    _mm512_store_si512(to + i * 16, pieces.high);
    _mm512_store_si512(to + kTileWords + i * 16, pieces.middle);
    _mm512_store_si512(to + 2 * kTileWords + i * 16, pieces.low);
  };
  if constexpr (across) {
    __m512 first[16], second[16];
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) first[i] = row(i, 0);
    transposeFloats(first);
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) second[i] = row(i, 1);
    transposeFloats(second);
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) put(i, split(first[i], second[i]));
  } else {
#pragma GCC unroll 16
    for (int64_t i = 0; i < 16; ++i) put(i, split(row(i, 0), row(i, 1)));
  }
}

}  // namespace serac
#endif
