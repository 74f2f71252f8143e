// Tiles of a product of matrices of bfloat16 by AMX: 32 x 32 sums in float in four of the CPU's tile registers. For gemmNarrow alone.
#pragma once
#if defined(__x86_64__)
#include "torch/ops/narrowTile.h"

#define SERAC_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,prefer-vector-width=512")))

namespace serac {

constexpr int64_t kAmxRows = 32;
constexpr int64_t kAmxPairs = 16;  // of one instruction: a row of a tile is 16 words

struct AmxConfig {
  uint8_t palette, startRow, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
};
alignas(64) inline constexpr AmxConfig kAmxConfig{1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

// While it lives this thread's tile registers hold 16 rows of 64 bytes each.
class AmxTiles {
 public:
  SERAC_AMX AmxTiles() { _tile_loadconfig(&kAmxConfig); }
  SERAC_AMX ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

// GCC 12 does not know that tiles are read from memory: before it everything must be there.
#define SERAC_ALL_WRITTEN asm volatile("" ::: "memory")

inline bool areLines(const void* data, int64_t step) { return (reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(step)) % 64 == 0; }

// Of 32 x 32 sums, in registers 0 to 3, what is wanted: the first `rows`, and the columns of the masks.
struct Sums {
  int64_t rows;
  __mmask16 left, right;
  bool low() const { return rows > 16; }
  // Straight from and to memory where no more than the tiles is there and rows are lines of the cache; else by a buffer.
  bool direct(const float* data, int64_t ld) const { return rows == kAmxRows && right == 0xffff && ld != 0 && areLines(data, ld * 4); }
};

using SumsBuffer = float[kAmxRows * kTileColumns];

SERAC_AMX inline void beginSums(const Sums& sums, Start start, SumsBuffer& buffer) {
  const float* from = start.data;
  int64_t ld = start.ld;
  if (!from) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    return;
  }
  if (!sums.direct(from, ld)) {
    for (int64_t r = 0; r < sums.rows; ++r) {
      _mm512_store_ps(buffer + r * kTileColumns, _mm512_maskz_loadu_ps(sums.left, from + r * ld));
      _mm512_store_ps(buffer + r * kTileColumns + 16, _mm512_maskz_loadu_ps(sums.right, from + r * ld + 16));
    }
    from = buffer, ld = kTileColumns;
  }
  SERAC_ALL_WRITTEN;
  _tile_loadd(0, from, ld * 4);
  _tile_loadd(1, from + 16, ld * 4);
  if (!sums.low()) return;
  _tile_loadd(2, from + 16 * ld, ld * 4);
  _tile_loadd(3, from + 16 * ld + 16, ld * 4);
}

// To c, or, of float, added to it.
template <typename C, bool add = false>
SERAC_AMX void endSums(const Sums& sums, C* c, int64_t ldc, SumsBuffer& buffer) {
  float* to = buffer;
  int64_t ld = kTileColumns;
  if constexpr (std::is_same_v<C, float> && !add)
    if (sums.direct(c, ldc)) to = c, ld = ldc;
  _tile_stored(0, to, ld * 4);
  _tile_stored(1, to + 16, ld * 4);
  if (sums.low()) {
    _tile_stored(2, to + 16 * ld, ld * 4);
    _tile_stored(3, to + 16 * ld + 16, ld * 4);
  }
  SERAC_ALL_WRITTEN;
  if (to != buffer) return;
  for (int64_t r = 0; r < sums.rows; ++r) {
    __m512 left = _mm512_load_ps(buffer + r * kTileColumns), right = _mm512_load_ps(buffer + r * kTileColumns + 16);
    if constexpr (add) {
      left = _mm512_add_ps(left, _mm512_maskz_loadu_ps(sums.left, c + r * ldc));
      right = _mm512_add_ps(right, _mm512_maskz_loadu_ps(sums.right, c + r * ldc + 16));
    }
    storeSums(c + r * ldc, sums.left, left);
    storeSums(c + r * ldc + 16, sums.right, right);
  }
}

// c (rows <= 32, 32 columns) = start + a b. Of a, whole tiles of 16 rows are read, `row` words apart, and whole sixteens of pairs of both: of the words
// behind `pairs` those of b and of a's rows must be 0, and a's rows behind `rows` may hold anything. Only `rows` and the columns of the masks are written.
template <typename C>
SERAC_AMX void tileAmx(const uint32_t* a, int64_t row, const Sums& sums, const uint32_t* b, int64_t pairs, Start start, C* c, int64_t ldc) {
  alignas(64) SumsBuffer buffer;
  SERAC_ALL_WRITTEN;
  const bool low = sums.low();
  beginSums(sums, start, buffer);
  const int64_t stride = row * 4;
  for (int64_t p = 0; p < pairs; p += kAmxPairs, a += kAmxPairs, b += kAmxPairs * kTileColumns) {
    _tile_loadd(6, b, kTileColumns * 4);
    _tile_loadd(4, a, stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + 16, kTileColumns * 4);
    _tile_dpbf16ps(1, 4, 7);
    if (!low) continue;
    _tile_loadd(5, a + 16 * row, stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  endSums<C>(sums, c, ldc, buffer);
}

}  // namespace serac
#endif
