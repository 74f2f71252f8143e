// Tiles of a product of float matrices in three pieces of bfloat16 (splitLayout.h): 32 x 32 sums by AMX. For gemmSplit alone.
#pragma once
#if defined(__x86_64__)
#include "torch/ops/narrowTileAmx.h"
#include "torch/ops/splitLayout.h"

namespace serac {

// Of 32 lines and 32 terms: for each half of the lines its pieces.
constexpr int64_t kPanelLines = 32, kChunkWords = 2 * kPieces * kTileWords;

// Lines of `x` from its begin, in chunks one behind the other; see splitTiles.
template <bool columns, bool across>
SERAC_AVX512_BF16 void splitPanel(const float* x, int64_t ld, int64_t lines, int64_t terms, uint32_t* to) {
  for (int64_t t = 0; t < terms; t += kTileTerms, to += kChunkWords)
    for (int64_t half = 0; half < lines; half += kTileLines)
      splitTiles<columns, across>(columns ? x + t * ld + half : x + half * ld + t, ld, lines - half, terms - t, to + half / kTileLines * kPieces * kTileWords);
}

// Registers 4 and 5 hold the halves of a's lines, 6 and 7 those of b's. The second half is left out where it is not wanted.
SERAC_AMX inline void loadA(const uint32_t* a, int64_t piece, bool second) {
  _tile_loadd(4, a + piece * kTileWords, kLine);
  if (second) _tile_loadd(5, a + (kPieces + piece) * kTileWords, kLine);
}
SERAC_AMX inline void loadB(const uint32_t* b, int64_t piece, bool second) {
  _tile_loadd(6, b + piece * kTileWords, kLine);
  if (second) _tile_loadd(7, b + (kPieces + piece) * kTileWords, kLine);
}
SERAC_AMX inline void multiply(bool low, bool right) {
  _tile_dpbf16ps(0, 4, 6);
  if (right) _tile_dpbf16ps(1, 4, 7);
  if (low) _tile_dpbf16ps(2, 5, 6);
  if (low && right) _tile_dpbf16ps(3, 5, 7);
}

// c = start + a b of panels of so many chunks, or c + start + a b where `add`. Of the nine products of pieces three are left out, which
// together are 2^-24 of the numbers' product at most.
SERAC_AMX inline void splitTile(const uint32_t* a, const uint32_t* b, int64_t chunks, const Sums& sums, Start start, bool add, float* c, int64_t ldc) {
  alignas(64) SumsBuffer buffer;
  const bool low = sums.low(), right = sums.right != 0;
  beginSums(sums, start, buffer);
  for (int64_t i = 0; i < chunks; ++i, a += kChunkWords, b += kChunkWords) {
    loadA(a, 0, low);
    loadB(b, 2, right);
    multiply(low, right);
    loadB(b, 1, right);
    multiply(low, right);
    loadA(a, 1, low);
    multiply(low, right);
    loadB(b, 0, right);
    multiply(low, right);
    loadA(a, 2, low);
    multiply(low, right);
    loadA(a, 0, low);
    multiply(low, right);
  }
  if (add)
    endSums<float, true>(sums, c, ldc, buffer);
  else
    endSums<float>(sums, c, ldc, buffer);
}

}  // namespace serac
#endif
