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

template <int R>
SERAC_AVX512_BF16 void tile(const Words& a, const uint32_t* b, int64_t pairs, float* c, int64_t ldc, bool add, __mmask16 left, __mmask16 right) {
  __m512 low[R], high[R];
#pragma GCC unroll 14
  for (int r = 0; r < R; ++r) {
    low[r] = add ? _mm512_maskz_loadu_ps(left, c + r * ldc) : _mm512_setzero_ps();
    high[r] = add ? _mm512_maskz_loadu_ps(right, c + r * ldc + 16) : _mm512_setzero_ps();
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
    _mm512_mask_storeu_ps(c + r * ldc, left, low[r]);
    _mm512_mask_storeu_ps(c + r * ldc + 16, right, high[r]);
  }
}

using Tile = void (*)(const Words&, const uint32_t*, int64_t, float*, int64_t, bool, __mmask16, __mmask16);
constexpr Tile kTiles[kRows] = {tile<1>, tile<2>, tile<3>, tile<4>, tile<5>, tile<6>, tile<7>, tile<8>, tile<9>, tile<10>, tile<11>, tile<12>, tile<13>, tile<14>};

template <typename T>
SERAC_INLINE uint32_t bitsOf(T v) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) return v.x;
  c10::BFloat16 narrow;
  store(narrow, load(v));
  return narrow.x;
}

// Words of pairs of rows of x (rows, columns): to[p * step + c] holds rows 2 p and 2 p + 1 of column c, 0 beyond the last row.
template <typename T>
void pairRows(const T* x, int64_t ld, int64_t rows, int64_t columns, uint32_t* to, int64_t step) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    for (int64_t p = 0; 2 * p < rows; ++p) {
      const T *first = x + 2 * p * ld, *second = first + ld;
      uint32_t* out = to + p * step;
      if (2 * p + 1 < rows) {
#pragma GCC ivdep
        for (int64_t c = 0; c < columns; ++c) out[c] = bitsOf(first[c]) | bitsOf(second[c]) << 16;
      } else {
#pragma GCC ivdep
        for (int64_t c = 0; c < columns; ++c) out[c] = bitsOf(first[c]);
      }
    }
  });
}

// Words of pairs of columns of x (rows, columns): to[r * row + p * pair].
template <typename T>
void pairColumns(const T* x, int64_t ld, int64_t rows, int64_t columns, uint32_t* to, int64_t row, int64_t pair) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    const int64_t whole = columns / 2;
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = x + r * ld;
      uint32_t* out = to + r * row;
      if (pair == 1) {
#pragma GCC ivdep
        for (int64_t p = 0; p < whole; ++p) out[p] = bitsOf(from[2 * p]) | bitsOf(from[2 * p + 1]) << 16;
      } else {
        for (int64_t p = 0; p < whole; ++p) out[p * pair] = bitsOf(from[2 * p]) | bitsOf(from[2 * p + 1]) << 16;
      }
      if (columns % 2 != 0) out[whole * pair] = bitsOf(from[columns - 1]);
    }
  });
}

// Memory that a thread keeps for its next product.
uint32_t* scratch(std::vector<uint32_t>& kept, int64_t words) {
  if (kept.size() < static_cast<size_t>(words)) kept.resize(static_cast<size_t>(words));
  return kept.data();
}
thread_local std::vector<uint32_t> tPanels, tWords;
thread_local std::vector<float> tSums;

}  // namespace

bool hasGemmNarrow() { return currentIsa() == Isa::avx512bf16; }

template <typename A, typename B, typename C>
void gemmNarrow(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const A* a, int64_t lda, const B* b, int64_t ldb, const float* start, bool add, C* c, int64_t ldc) {
  constexpr bool kDirect = std::is_same_v<C, float>;
  if (m == 0 || n == 0) return;
  const int64_t pairs = (k + 1) / 2, panels = (n + kColumns - 1) / kColumns;
  uint32_t* const packed = scratch(tPanels, panels * pairs * kColumns);
  at::parallel_for(0, panels, std::max<int64_t>(1, 32768 / std::max<int64_t>(1, pairs * kColumns)), [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j) {
      uint32_t* const panel = packed + j * pairs * kColumns;
      const int64_t columns = std::min(kColumns, n - j * kColumns);
      if (columns < kColumns) std::memset(panel, 0, sizeof(uint32_t) * static_cast<size_t>(pairs * kColumns));
      if (transposeB)
        pairColumns(b + j * kColumns * ldb, ldb, columns, k, panel, 1, kColumns);
      else
        pairRows(b + j * kColumns, ldb, k, columns, panel, kColumns);
    }
  });
  const int64_t blocks = (m + kRowBlock - 1) / kRowBlock;
  at::parallel_for(0, blocks, std::max<int64_t>(1, 2'000'000 / std::max<int64_t>(1, kRowBlock * n * k)), [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * kRowBlock, rows = std::min(kRowBlock, m - begin);
      float* sums = nullptr;
      int64_t ld = ldc;
      if constexpr (kDirect) {
        sums = c + begin * ldc;
      } else {
        if (tSums.size() < static_cast<size_t>(kRowBlock * n)) tSums.resize(static_cast<size_t>(kRowBlock * n));
        sums = tSums.data(), ld = n;
      }
      if (start)
        for (int64_t r = 0; r < rows; ++r) std::memcpy(sums + r * ld, start, sizeof(float) * static_cast<size_t>(n));
      Words words{};
      if (transposeA) {  // stored as (k, m)
        uint32_t* const to = scratch(tWords, pairs * kRowBlock);
        pairRows(a + begin, lda, k, rows, to, kRowBlock);
        words = {to, 1, kRowBlock};
      } else {
        uint32_t* const to = scratch(tWords, pairs * kRowBlock);
        pairColumns(a + begin * lda, lda, rows, k, to, pairs, 1);
        words = {to, pairs, 1};
      }
      for (int64_t p = 0; p < std::max<int64_t>(1, pairs); p += kPairs) {
        const int64_t count = std::min(kPairs, pairs - p);
        for (int64_t j = 0; j < panels; ++j) {
          const int64_t columns = std::min(kColumns, n - j * kColumns);
          const auto mask = [](int64_t width) { return static_cast<__mmask16>(width >= 16 ? 0xffff : width <= 0 ? 0 : (1 << width) - 1); };
          for (int64_t r = 0; r < rows; r += kRows) {
            const int64_t height = std::min(kRows, rows - r);
            kTiles[height - 1]({words.data + r * words.row + p * words.pair, words.row, words.pair}, packed + (j * pairs + p) * kColumns, count, sums + r * ld + j * kColumns, ld,
                               add || start || p > 0, mask(columns), mask(columns - 16));
          }
        }
      }
      if constexpr (!kDirect)
        vectorized([=]<Isa isa>() __attribute__((always_inline)) {
          for (int64_t r = 0; r < rows; ++r) {
            C* out = c + (begin + r) * ldc;
#pragma GCC ivdep
            for (int64_t i = 0; i < n; ++i) store(out[i], sums[r * ld + i]);
          }
        });
    }
  });
}

#else

bool hasGemmNarrow() { return false; }
template <typename A, typename B, typename C>
void gemmNarrow(bool, bool, int64_t, int64_t, int64_t, const A*, int64_t, const B*, int64_t, const float*, bool, C*, int64_t) {}

#endif

template void gemmNarrow<float, float, float>(bool, bool, int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t, const float*, bool, float*, int64_t);

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
