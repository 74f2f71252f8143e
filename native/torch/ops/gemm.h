// Products of float matrices as they lie in memory, from wherever they are fastest.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>

#include "torch/ops/gemmNarrow.h"
#include "torch/ops/gemmSplit.h"

namespace serac {

// False where neither oneDNN's nor BLAS's product is to be found; then gemm must not be called.
bool hasGemm();
// "oneDNN", "BLAS" or "", and "AMX and " before it where that multiplies what is large.
std::string gemmName();

// c (m, n) = a (m, k) b (k, n) + beta c, all by rows, `ld` elements from one row to the next; transposed, a is stored as (k, m), b as (n, k).
// Uses libtorch's threads, or the calling thread alone inside of a parallel region.
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

// The same with elements rounded to bfloat16 where `narrow` and the CPU multiplies those.
void gemm(bool narrow, bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

// A matrix b (k, n), or transposed (n, k), of several products, laid out once for those that need it, and where all their `rows` are so many that it pays.
// Its memory must stay.
struct Factor {
  bool transposed;
  int64_t n, k;
  const float* data;
  int64_t ld;
  std::optional<Packed> packed;       // for products of bfloat16,
  std::optional<SplitPanels> panels;  // or of pieces in bfloat16
  Factor(bool narrow, bool transposed, int64_t rows, int64_t n, int64_t k, const float* b, int64_t ldb);
};
// c (m, n) = a (m, k) b, plus c where `add`, else plus `start` (n) in every row, where it is given.
void gemm(bool transposeA, int64_t m, const float* a, int64_t lda, const Factor& b, const float* start, bool add, float* c, int64_t ldc);

// A matrix with rows or columns without holes, as gemm takes it.
struct Matrix {
  at::Tensor owner;
  const float* data;
  int64_t ld;
  bool transposed;
  // x (rows, columns), float, on the CPU; copied where it has holes in both directions.
  explicit Matrix(const at::Tensor& x);
};

// a (m, k) times b (k, n), float, on the CPU; added to `bias` (n) where it is defined.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

}  // namespace serac
