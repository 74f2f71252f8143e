// Of b, panels of 32 columns are laid out by pairs of rows, as the instructions take them: pair p of panel j is 32 words of two bfloat16. Of a, a word
// holds two elements of a row, wherever it lies. Tiles of the product are summed by AMX (narrowTileAmx.h), else by AVX512-BF16 (narrowTile.h).
#include "torch/ops/gemmNarrow.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "torch/ops/common.h"
#include "torch/ops/isa.h"
#include "torch/ops/narrowTileAmx.h"
#include "torch/ops/room.h"

namespace serac {

#if defined(__x86_64__)

namespace {

constexpr int64_t kPairs = 256;     // of a block: its panel of b stays in the first cache
constexpr int64_t kPairsAmx = 512;
constexpr int64_t kRowBlock = 224;  // the most rows that one thread takes at a time

thread_local Room<uint32_t> tPanels, tWords;
thread_local Room<float> tSums;

int64_t panelsOf(int64_t n) { return (n + kTileColumns - 1) / kTileColumns; }
// Whole sixteens, for AMX; behind the last are zeros.
int64_t pairsOf(int64_t k) { return (k + 31) / 32 * 16; }

// b (k, n), or transposed (n, k), in panels: panelsOf(n) * pairsOf(k) * kTileColumns words.
template <typename B>
void layOut(bool transposed, int64_t n, int64_t k, const B* b, int64_t ldb, uint32_t* packed) {
  const int64_t size = pairsOf(k) * kTileColumns;
  at::parallel_for(0, panelsOf(n), std::max<int64_t>(1, 8192 / std::max<int64_t>(1, size)), [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; ++j) {
      uint32_t* const panel = packed + j * size;
      const int64_t columns = std::min(kTileColumns, n - j * kTileColumns);
      if (columns < kTileColumns) std::memset(panel, 0, sizeof(uint32_t) * static_cast<size_t>(size));
      if (transposed)
        for (int64_t half = 0; half < columns; half += 16) pairColumnsAcross(b + (j * kTileColumns + half) * ldb, ldb, std::min<int64_t>(16, columns - half), k, panel + half, kTileColumns);
      else {
        pairRows(b + j * kTileColumns, ldb, k, columns, panel, kTileColumns);
        const int64_t used = (k + 1) / 2 * kTileColumns;
        std::memset(panel + used, 0, sizeof(uint32_t) * static_cast<size_t>(size - used));
      }
    }
  });
}

}  // namespace

bool hasGemmNarrow() { return currentIsa() >= Isa::avx512bf16; }

namespace {

// Rows of a in words; copied where the kernel cannot take them as they lie.
template <typename A>
Words wordsOf(bool amx, bool transposed, const A* a, int64_t lda, int64_t begin, int64_t rows, int64_t k) {
  const int64_t pairs = pairsOf(k);
  if (transposed && !amx) {  // stored as (k, m)
    uint32_t* const to = tWords.of(pairs * kRowBlock);
    pairRows(a + begin, lda, k, rows, to, kRowBlock);
    return {to, 1, kRowBlock};
  }
  const int64_t fit = amx ? kLine : sizeof(uint32_t);  // bytes
  const bool fits = lda * 2 % fit == 0 && k * 2 % fit == 0 && reinterpret_cast<uintptr_t>(a) % fit == 0 && !(amx && rows % 16 != 0);
  if (!transposed && std::is_same_v<A, c10::BFloat16> && fits)
    return {reinterpret_cast<const uint32_t*>(a + begin * lda), lda / 2, 1};
  uint32_t* const to = tWords.of(pairs * kRowBlock);
  if (transposed)
    for (int64_t r = 0; r < rows; r += 16) pairRowsAcross(a + begin + r, lda, k, std::min<int64_t>(16, rows - r), to + r * pairs, pairs);
  else
    pairColumns(a + begin * lda, lda, rows, k, to, pairs);
  return {to, pairs, 1};
}

// Rows that a thread takes at a time, of `m`: as many for each thread, in whole tiles.
int64_t rowsOfBlock(int64_t m, int64_t step) {
  const auto over = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads(), blocks = over(over(m, kRowBlock), threads) * threads;
  return over(over(m, blocks), step) * step;
}

// The tiles of some rows of one panel.
template <typename C>
void tiles(bool amx, const Words& a, int64_t rows, const uint32_t* panel, int64_t pairs, Start start, C* c, int64_t ldc, __mmask16 left, __mmask16 right) {
  const int64_t step = amx ? kAmxRows : kTileRows;
  for (int64_t r = 0; r < rows; r += step) {
    const int64_t height = std::min(step, rows - r);
    const Start at{start.data ? start.data + r * start.ld : nullptr, start.ld};
    if (amx)
      tileAmx<C>(a.data + r * a.row, a.row, {height, left, right}, panel, pairs, at, c + r * ldc, ldc);
    else
      kTiles<C>[height - 1]({a.data + r * a.row, a.row, a.pair}, panel, pairs, at, c + r * ldc, ldc, left, right);
  }
}

}  // namespace

template <typename A, typename C>
void gemmNarrow(bool transposeA, int64_t m, const A* a, int64_t lda, const Panels& b, const float* start, bool add, C* c, int64_t ldc) {
  const int64_t n = b.n, k = b.k, pairs = (k + 1) / 2, panels = panelsOf(n);
  if (m == 0 || n == 0) return;
  const bool amx = currentIsa() == Isa::amx;
  const int64_t most = amx ? kPairsAmx : kPairs;
  const int64_t height = rowsOfBlock(m, amx ? kAmxRows : kTileRows), blocks = (m + height - 1) / height;
  at::parallel_for(0, blocks, std::max<int64_t>(1, 2'000'000 / std::max<int64_t>(1, height * n * k)), [&](int64_t first, int64_t last) {
    std::optional<AmxTiles> registers;
    if (amx) registers.emplace();
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * height, rows = std::min(height, m - begin);
      const Words words = wordsOf(amx, transposeA, a, lda, begin, rows, k);
      // Between blocks of k sums are in float: in c itself where it is.
      C* const out = c + begin * ldc;
      float* sums = nullptr;
      int64_t ld = n;
      if constexpr (std::is_same_v<C, float>) {
        sums = out, ld = ldc;
      } else if (pairs > most) {
        ld = (n + 15) / 16 * 16;
        sums = tSums.of(kRowBlock * ld);
      }
      for (int64_t p = 0; p < std::max<int64_t>(1, pairs); p += most) {
        const int64_t count = std::min(most, pairs - p);
        const bool done = p + most >= pairs;
        const Words from{words.data + p * words.pair, words.row, words.pair};
        for (int64_t j = 0; j < panels; ++j) {
          const int64_t column = j * kTileColumns;
          const __mmask16 left = maskOf(n - column), right = maskOf(n - column - 16);
          const uint32_t* const panel = b.words + (j * pairsOf(k) + p) * kTileColumns;
          const Start at = p > 0 || add ? Start{sums + column, ld} : start ? Start{start + column, 0} : Start{nullptr, 0};
          if (done)
            tiles<C>(amx, from, rows, panel, count, at, out + column, ldc, left, right);
          else
            tiles<float>(amx, from, rows, panel, count, at, sums + column, ld, left, right);
        }
      }
    }
  });
}

template <typename B>
Packed::Packed(bool transposed, int64_t n, int64_t k, const B* b, int64_t ldb) : owner(at::empty({panelsOf(n) * pairsOf(k) * kTileColumns}, at::kInt)), panels{reinterpret_cast<uint32_t*>(owner.data_ptr<int32_t>()), n, k} {
  layOut(transposed, n, k, b, ldb, reinterpret_cast<uint32_t*>(owner.data_ptr<int32_t>()));
}

template <typename A, typename B, typename C>
void gemmNarrow(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const A* a, int64_t lda, const B* b, int64_t ldb, const float* start, bool add, C* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  uint32_t* const packed = tPanels.of(panelsOf(n) * pairsOf(k) * kTileColumns);
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
