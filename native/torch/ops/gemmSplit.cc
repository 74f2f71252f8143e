// A thread takes some rows of c. Of the terms, blocks that fit the first cache with 32 columns of b: a's rows are laid out for a block, in the second cache,
// then b's columns, 32 at a time, each multiplied with all of the rows.
#include "torch/ops/gemmSplit.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "torch/ops/isa.h"
#include "torch/ops/room.h"
#include "torch/ops/splitTile.h"

namespace serac {

#if defined(__x86_64__)

namespace {

constexpr int64_t kTerms = 128, kRows = 448;  // of a block, at most
constexpr int64_t kPanelWords = kTerms / kTileTerms * kChunkWords;
constexpr int64_t kChained = 512;  // terms whose blocks go on from the sums before; what follows is summed from 0 and added, lest long sums lose digits
constexpr int64_t kLaidOut = int64_t{2} << 20;  // words of b that may be laid out before, 8 MiB

thread_local Room<uint32_t> tRows, tColumns;

int64_t blocksOf(int64_t size, int64_t block) { return (size + block - 1) / block; }
// The size of `count` parts of whole panels.
int64_t partOf(int64_t size, int64_t count) { return blocksOf(blocksOf(size, count), kPanelLines) * kPanelLines; }

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

struct Operand {
  const float* data;
  int64_t ld;
  bool transposed;
  // From a row and a column on.
  const float* at(int64_t row, int64_t column) const { return transposed ? data + column * ld + row : data + row * ld + column; }
};

// b by columns: 32 of them and a block of terms at a time.
struct Columns {
  Operand b;
  int64_t n, k, step = partOf(k, blocksOf(k, kTerms));
  const uint32_t* laidOut = nullptr;  // blocks of terms one behind the other, of whole panels each

  int64_t panels() const { return blocksOf(n, kPanelLines); }
  int64_t size() const { return blocksOf(k, step) * panels() * panelSize(); }
  int64_t panelSize() const { return step / kTileTerms * kChunkWords; }
  int64_t terms(int64_t term) const { return std::min(step, k - term); }
  int64_t count(int64_t column) const { return std::min(kPanelLines, n - column); }

  void layOut(int64_t term, int64_t column, uint32_t* to) const {
    (b.transposed ? splitPanel<false, true> : splitPanel<true, false>)(b.at(term, column), b.ld, count(column), terms(term), to);
  }
  // Laid out in `room` where it is not yet.
  const uint32_t* panel(int64_t term, int64_t column, uint32_t* room) const {
    if (laidOut) return laidOut + (term / step * panels() + column / kPanelLines) * panelSize();
    layOut(term, column, room);
    return room;
  }
  void layOutAll(uint32_t* to) const {
    const int64_t each = panels(), all = blocksOf(k, step) * each;
    at::parallel_for(0, all, std::max<int64_t>(1, 65536 / panelSize()), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) layOut(i / each * step, i % each * kPanelLines, to + i * panelSize());
    });
  }
};

void multiply(const Operand& a, const Columns& b, Range rows, Range columns, const float* start, bool add, float* c, int64_t ldc) {
  uint32_t* const left = tRows.of(blocksOf(rows.size(), kPanelLines) * kPanelWords);
  uint32_t* const room = tColumns.of(kPanelWords);
  alignas(kLine) SumsBuffer begin;  // rows of `start`, once for all tiles of a panel
  const AmxTiles registers;
  for (int64_t term = 0; term < b.k; term += b.step) {
    const int64_t chunks = blocksOf(b.terms(term), kTileTerms);
    for (int64_t i = 0; i < rows.size(); i += kPanelLines)
      (a.transposed ? splitPanel<true, true> : splitPanel<false, false>)(a.at(rows.begin + i, term), a.ld, std::min(kPanelLines, rows.size() - i), b.terms(term), left + i / kPanelLines * kPanelWords);
    for (int64_t j = columns.begin; j < columns.end; j += kPanelLines) {
      const uint32_t* const right = b.panel(term, j, room);
      const bool added = add || term >= kChained, begins = term == 0 && !add;
      if (start && begins)
        for (int64_t row = 0; row < kPanelLines; ++row) std::copy_n(start + j, b.count(j), begin + row * kPanelLines);
      for (int64_t i = 0; i < rows.size(); i += kPanelLines) {
        float* const to = c + (rows.begin + i) * ldc + j;
        const Sums sums{std::min(kPanelLines, rows.size() - i), maskOf(b.count(j)), maskOf(b.count(j) - 16)};
        const Start from = begins ? Start{start ? begin : nullptr, kPanelLines} : Start{added ? nullptr : to, ldc};
        splitTile(left + i / kPanelLines * kPanelWords, right, chunks, sums, from, added, to, ldc);
      }
    }
  }
}

void multiply(const Operand& a, Columns b, int64_t m, const float* start, bool add, float* c, int64_t ldc) {
  const int64_t threads = at::in_parallel_region() || m * b.n * b.k < 1'000'000 ? 1 : at::get_num_threads();
  // Each thread as many parts, which do not change the result: by rows, or, of few rows, by columns. Then every thread lays out all of a, and b's columns only
  // where it needs them.
  const bool byColumns = threads > 1 && m < b.n && m <= (b.laidOut ? kPanelLines * threads : kRows);
  const int64_t size = byColumns ? b.n : m, part = partOf(size, byColumns ? threads : blocksOf(blocksOf(m, kRows), threads) * threads), parts = blocksOf(size, part);
  at::Tensor room;
  if (!b.laidOut && !byColumns && parts > 1 && b.size() <= kLaidOut) {
    room = at::empty({b.size()}, at::kInt);
    uint32_t* const to = reinterpret_cast<uint32_t*>(room.data_ptr<int32_t>());
    b.layOutAll(to);
    b.laidOut = to;
  }
  at::parallel_for(0, parts, threads == 1 ? parts : 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Range range{i * part, std::min(size, (i + 1) * part)};
      multiply(a, b, byColumns ? Range{0, m} : range, byColumns ? range : Range{0, b.n}, start, add, c, ldc);
    }
  });
}

}  // namespace

bool paysGemmSplit(int64_t m, int64_t n, int64_t k) { return currentIsa() == Isa::amx && m >= 64 && n >= 64 && k >= 24; }

void gemmSplit(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, bool add, float* c, int64_t ldc) {
  multiply({a, lda, transposeA}, {{b, ldb, transposeB}, n, k}, m, nullptr, add, c, ldc);
}

SplitPanels::SplitPanels(bool transposed, int64_t columns, int64_t terms, const float* b, int64_t ldb) : n(columns), k(terms) {
  const Columns all{{b, ldb, transposed}, n, k};
  owner = at::empty({all.size()}, at::kInt);
  all.layOutAll(reinterpret_cast<uint32_t*>(owner.data_ptr<int32_t>()));
}

void gemmSplit(bool transposeA, int64_t m, const float* a, int64_t lda, const SplitPanels& b, const float* start, bool add, float* c, int64_t ldc) {
  Columns all{{}, b.n, b.k};
  all.laidOut = reinterpret_cast<const uint32_t*>(b.owner.data_ptr<int32_t>());
  multiply({a, lda, transposeA}, all, m, start, add, c, ldc);
}

#else

bool paysGemmSplit(int64_t, int64_t, int64_t) { return false; }
void gemmSplit(bool, bool, int64_t, int64_t, int64_t, const float*, int64_t, const float*, int64_t, bool, float*, int64_t) {}
SplitPanels::SplitPanels(bool, int64_t, int64_t, const float*, int64_t) {}
void gemmSplit(bool, int64_t, const float*, int64_t, const SplitPanels&, const float*, bool, float*, int64_t) {}

#endif

}  // namespace serac
