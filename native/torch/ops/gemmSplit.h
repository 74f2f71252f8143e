// Products of float matrices by AMX, which multiplies bfloat16: each number is the sum of three of those, and six of the nine products of such pieces are
// summed in float. The result is about as exact as that of a product in float, mostly more so, and there sooner. Of a single term it may
// be off by twice as much; of sums of 30000 terms and more of one sign, by twice as much or more (a product in float sums longer blocks).
// After Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations", 2019.
// Numbers and products of less than 2^-100 lose their lower pieces, and below the normal range of float are 0; numbers from 2^127 (2 - 2^-8) on are infinite,
// and the product of an infinite number is not a number.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace serac {

// True where AMX is in use (isa.h), and a product of such matrices large enough for it.
bool paysGemmSplit(int64_t m, int64_t n, int64_t k);

// c (m, n) = a (m, k) b (k, n), plus c where `add`; as gemm, for any sizes but 0, where AMX is in use.
void gemmSplit(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, bool add, float* c, int64_t ldc);

// A matrix b (k, n), or transposed (n, k), laid out once for several products.
struct SplitPanels {
  at::Tensor owner;
  int64_t n = 0, k = 0;
  SplitPanels() = default;
  SplitPanels(bool transposed, int64_t n, int64_t k, const float* b, int64_t ldb);
};
// Without `add` the sums of every row begin at `start` (n), where it is given.
void gemmSplit(bool transposeA, int64_t m, const float* a, int64_t lda, const SplitPanels& b, const float* start, bool add, float* c, int64_t ldc);

}  // namespace serac
