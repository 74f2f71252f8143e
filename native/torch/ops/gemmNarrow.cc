// A tile of 14 x 32 sums stays in the registers of AVX-512. Of b, panels of 32 columns are laid out by pairs of rows, as the instruction takes
// them: pair p of panel j is 32 words of two bfloat16. Of a, a word holds two elements of a row, wherever it lies.
#include "torch/ops/gemmNarrow.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "torch/ops/common.h"
#include "torch/ops/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
// GCC 12 finds the undefined vectors inside of its own intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define SERAC_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")))
#endif

namespace serac {

#if defined(__x86_64__)

namespace {

constexpr int64_t kRows = 14, kColumns = 32;
constexpr int64_t kPairs = 256;     // of a block: its panel of b stays in the first cache
constexpr int64_t kRowBlock = 112;  // rows that one thread takes at a time

// Words of a: element pair p of row r is data[r * row + p * pair].
struct Words {
  const uint32_t* data;
  int64_t row, pair;
};

// Of 16 lanes the first `count`.
inline __mmask16 maskOf(int64_t count) { return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1); }

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
  for (int64_t p = 0; p < pairs; ++p, b += kColumns, words += a.pair) {
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
constexpr Tile<C> kTiles[kRows] = {tile<1, C>, tile<2, C>, tile<3, C>, tile<4, C>, tile<5, C>, tile<6, C>, tile<7, C>, tile<8, C>, tile<9, C>, tile<10, C>, tile<11, C>, tile<12, C>, tile<13, C>, tile<14, C>};

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

// Words of pairs of columns of x (rows, columns): to[r * row + p].
template <typename T>
SERAC_AVX512_BF16 void pairColumns(const T* x, int64_t ld, int64_t rows, int64_t columns, uint32_t* to, int64_t row) {
  const int64_t words = (columns + 1) / 2;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t p = 0; p < words; p += 16) _mm512_mask_storeu_epi32(to + r * row + p, maskOf(words - p), pairs(x + r * ld + 2 * p, columns - 2 * p));
}

// The same of at most 16 rows, transposed: to[p * kColumns + r].
template <typename T>
SERAC_AVX512_BF16 void pairColumnsAcross(const T* x, int64_t ld, int64_t rows, int64_t columns, uint32_t* to) {
  const int64_t words = (columns + 1) / 2;
  for (int64_t p = 0; p < words; p += 16) {
    __m512i v[16], w[16];
#pragma GCC unroll 16
    for (int64_t r = 0; r < 16; ++r) v[r] = r < rows ? pairs(x + r * ld + 2 * p, columns - 2 * p) : _mm512_setzero_si512();
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
    const int64_t count = std::min<int64_t>(16, words - p);
    for (int64_t i = 0; i < count; ++i) _mm512_storeu_si512(to + (p + i) * kColumns, w[i]);
  }
}

// Memory that a thread keeps for its next product.
uint32_t* scratch(std::vector<uint32_t>& kept, int64_t words) {
  if (kept.size() < static_cast<size_t>(words)) kept.resize(static_cast<size_t>(words));
  return kept.data();
}
thread_local std::vector<uint32_t> tPanels, tWords;
thread_local std::vector<float> tSums;

int64_t panelsOf(int64_t n) { return (n + kColumns - 1) / kColumns; }
int64_t pairsOf(int64_t k) { return (k + 1) / 2; }

// b (k, n), or transposed (n, k), in panels: panelsOf(n) * pairsOf(k) * kColumns words.
template <typename B>
void layOut(bool transposed, int64_t n, int64_t k, const B* b, int64_t ldb, uint32_t* packed) {
  const int64_t size = pairsOf(k) * kColumns;
  at::parallel_for(0, panelsOf(n), std::max<int64_t>(1, 32768 / std::max<int64_t>(1, size)), [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j) {
      uint32_t* const panel = packed + j * size;
      const int64_t columns = std::min(kColumns, n - j * kColumns);
      if (columns < kColumns) std::memset(panel, 0, sizeof(uint32_t) * static_cast<size_t>(size));
      if (transposed)
        for (int64_t half = 0; half < columns; half += 16) pairColumnsAcross(b + (j * kColumns + half) * ldb, ldb, std::min<int64_t>(16, columns - half), k, panel + half);
      else
        pairRows(b + j * kColumns, ldb, k, columns, panel, kColumns);
    }
  });
}

}  // namespace

bool hasGemmNarrow() { return currentIsa() == Isa::avx512bf16; }

template <typename A, typename C>
void gemmNarrow(bool transposeA, int64_t m, const A* a, int64_t lda, const Panels& b, const float* start, bool add, C* c, int64_t ldc) {
  const int64_t n = b.n, k = b.k, pairs = pairsOf(k), panels = panelsOf(n);
  if (m == 0 || n == 0) return;
  const int64_t blocks = (m + kRowBlock - 1) / kRowBlock;
  at::parallel_for(0, blocks, std::max<int64_t>(1, 2'000'000 / std::max<int64_t>(1, kRowBlock * n * k)), [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kRowBlock, rows = std::min(kRowBlock, m - begin);
      Words words{};
      if (transposeA) {  // stored as (k, m)
        uint32_t* const to = scratch(tWords, pairs * kRowBlock);
        pairRows(a + begin, lda, k, rows, to, kRowBlock);
        words = {to, 1, kRowBlock};
      } else if (std::is_same_v<A, c10::BFloat16> && k % 2 == 0 && lda % 2 == 0 && reinterpret_cast<uintptr_t>(a) % 4 == 0) {  // words as they lie
        words = {reinterpret_cast<const uint32_t*>(a + begin * lda), lda / 2, 1};
      } else {
        uint32_t* const to = scratch(tWords, pairs * kRowBlock);
        pairColumns(a + begin * lda, lda, rows, k, to, pairs);
        words = {to, pairs, 1};
      }
      // Between blocks of k sums are in float: in c itself where it is.
      C* const out = c + begin * ldc;
      float* sums = nullptr;
      int64_t ld = n;
      if constexpr (std::is_same_v<C, float>) {
        sums = out, ld = ldc;
      } else if (pairs > kPairs) {
        if (tSums.size() < static_cast<size_t>(kRowBlock * n)) tSums.resize(static_cast<size_t>(kRowBlock * n));
        sums = tSums.data();
      }
      for (int64_t p = 0; p < std::max<int64_t>(1, pairs); p += kPairs) {
        const int64_t count = std::min(kPairs, pairs - p);
        const bool done = p + kPairs >= pairs;
        for (int64_t j = 0; j < panels; ++j) {
          const int64_t column = j * kColumns;
          const __mmask16 left = maskOf(n - column), right = maskOf(n - column - 16);
          for (int64_t r = 0; r < rows; r += kRows) {
            const int64_t height = std::min(kRows, rows - r);
            const Words from{words.data + r * words.row + p * words.pair, words.row, words.pair};
            const uint32_t* const panel = b.words + (j * pairs + p) * kColumns;
            const Start at = p > 0 || add ? Start{sums + r * ld + column, ld} : start ? Start{start + column, 0} : Start{nullptr, 0};
            if (done)
              kTiles<C>[height - 1](from, panel, count, at, out + r * ldc + column, ldc, left, right);
            else
              kTiles<float>[height - 1](from, panel, count, at, sums + r * ld + column, ld, left, right);
          }
        }
      }
    }
  });
}

template <typename B>
Packed::Packed(bool transposed, int64_t n, int64_t k, const B* b, int64_t ldb) : owner(at::empty({panelsOf(n) * pairsOf(k) * kColumns}, at::kInt)), panels{reinterpret_cast<uint32_t*>(owner.data_ptr<int32_t>()), n, k} {
  layOut(transposed, n, k, b, ldb, reinterpret_cast<uint32_t*>(owner.data_ptr<int32_t>()));
}

template <typename A, typename B, typename C>
void gemmNarrow(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const A* a, int64_t lda, const B* b, int64_t ldb, const float* start, bool add, C* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  uint32_t* const packed = scratch(tPanels, panelsOf(n) * pairsOf(k) * kColumns);
  layOut(transposeB, n, k, b, ldb, packed);
  gemmNarrow(transposeA, m, a, lda, Panels{packed, n, k}, start, add, c, ldc);
}

#else

bool hasGemmNarrow() { return false; }
template <typename A, typename C>
void gemmNarrow(bool, int64_t, const A*, int64_t, const Panels&, const float*, bool, C*, int64_t) {}
template <typename B>
Packed::Packed(bool, int64_t n, int64_t k, const B*, int64_t) : panels{nullptr, n, k} {}
template <typename A, typename B, typename C>
void gemmNarrow(bool, bool, int64_t, int64_t, int64_t, const A*, int64_t, const B*, int64_t, const float*, bool, C*, int64_t) {}

#endif

using Narrow = c10::BFloat16;
#define SERAC_GEMM_NARROW(A, C)                                                                                                                                                            \
  template void gemmNarrow<A, float, C>(bool, bool, int64_t, int64_t, int64_t, const A*, int64_t, const float*, int64_t, const float*, bool, C*, int64_t);                                  \
  template void gemmNarrow<A, Narrow, C>(bool, bool, int64_t, int64_t, int64_t, const A*, int64_t, const Narrow*, int64_t, const float*, bool, C*, int64_t);                                \
  template void gemmNarrow<A, C>(bool, int64_t, const A*, int64_t, const Panels&, const float*, bool, C*, int64_t);
SERAC_GEMM_NARROW(float, float)
SERAC_GEMM_NARROW(float, Narrow)
SERAC_GEMM_NARROW(Narrow, float)
SERAC_GEMM_NARROW(Narrow, Narrow)
template Packed::Packed(bool, int64_t, int64_t, const float*, int64_t);

namespace {

// Rows or columns of x without holes: whether it is stored transposed, and the leading dimension. Copied where neither is.
struct Stored {
  at::Tensor owner;
  bool transposed;
  int64_t ld;
  explicit Stored(const at::Tensor& x) : owner(x) {
    transposed = x.stride(1) != 1 && x.stride(0) == 1 && x.stride(1) >= x.size(0);
    if (!transposed && !(x.stride(1) == 1 && x.stride(0) >= x.size(1))) owner = x.contiguous();
    ld = transposed ? owner.stride(1) : owner.stride(0);
  }
};

}  // namespace

at::Tensor productNarrow(const at::Tensor& a, const at::Tensor& b, const at::Tensor& start, at::ScalarType dtype) {
  const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
  at::Tensor c = at::empty({m, n}, a.options().dtype(dtype).requires_grad(false));
  const at::Tensor row = start.defined() ? start.to(at::kFloat).contiguous() : start;
  const Stored left(a), right(b);
  forType(a.scalar_type(), [&]<typename A>(A) {
    forType(b.scalar_type(), [&]<typename B>(B) {
      forType(dtype, [&]<typename C>(C) {
        gemmNarrow<A, B, C>(left.transposed, right.transposed, m, n, k, left.owner.data_ptr<A>(), left.ld, right.owner.data_ptr<B>(), right.ld, row.defined() ? row.data_ptr<float>() : nullptr, false,
                            c.data_ptr<C>(), n);
      });
    });
  });
  return c;
}

}  // namespace serac
