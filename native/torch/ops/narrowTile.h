// Tiles of a product of matrices of bfloat16 by AVX512-BF16: 14 x 32 sums in float, which stay in the registers. For gemmNarrow alone.
#pragma once
#if defined(__x86_64__)
#include "torch/ops/narrowLayout.h"

namespace serac {

constexpr int64_t kTileRows = 14, kTileColumns = 32;

// Words of a: element pair p of row r is data[r * row + p * pair].
struct Words {
  const uint32_t* data;
  int64_t row, pair;
};

SERAC_AVX512_BF16 inline void storeSums(float* to, __mmask16 mask, __m512 sums) { _mm512_mask_storeu_ps(to, mask, sums); }
SERAC_AVX512_BF16 inline void storeSums(c10::BFloat16* to, __mmask16 mask, __m512 sums) { _mm256_mask_storeu_epi16(to, mask, (__m256i)_mm512_cvtneps_pbh(sums)); }

// Where sums begin: at the numbers of `data`, one row after `ld`; without data at 0.
struct Start {
  const float* data;
  int64_t ld;
};

template <int R, typename C>
SERAC_AVX512_BF16 void tile(const Words& a, const uint32_t* b, int64_t pairs, Start start, C* c, int64_t ldc, __mmask16 left, __mmask16 right) {
  __m512 low[R], high[R];
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r) {
    low[r] = start.data ? _mm512_maskz_loadu_ps(left, start.data + r * start.ld) : _mm512_setzero_ps();
    high[r] = start.data ? _mm512_maskz_loadu_ps(right, start.data + r * start.ld + 16) : _mm512_setzero_ps();
  }
  const uint32_t* words = a.data;
  for (int64_t p = 0; p < pairs; ++p, b += kTileColumns, words += a.pair) {
    const auto b0 = (__m512bh)_mm512_loadu_si512(b), b1 = (__m512bh)_mm512_loadu_si512(b + 16);
#pragma GCC unroll 14
    for (int r = 0; r < R; ++r) {
      const auto x = (__m512bh)_mm512_set1_epi32(static_cast<int>(words[r * a.row]));
      low[r] = _mm512_dpbf16_ps(low[r], x, b0);
      high[r] = _mm512_dpbf16_ps(high[r], x, b1);
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r) {
    storeSums(c + r * ldc, left, low[r]);
    storeSums(c + r * ldc + 16, right, high[r]);
  }
}

template <typename C>
using Tile = void (*)(const Words&, const uint32_t*, int64_t, Start, C*, int64_t, __mmask16, __mmask16);
template <typename C>
constexpr Tile<C> kTiles[kTileRows] = {tile<1, C>, tile<2, C>, tile<3, C>, tile<4, C>, tile<5, C>, tile<6, C>, tile<7, C>, tile<8, C>, tile<9, C>, tile<10, C>, tile<11, C>, tile<12, C>, tile<13, C>, tile<14, C>};

}  // namespace serac
#endif
