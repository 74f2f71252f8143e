// Products of matrices whose elements are rounded to bfloat16, with sums in float: what autocast asks for, on CPUs that multiply bfloat16.
#pragma once
#include <ATen/ATen.h>
#include <c10/util/BFloat16.h>

#include <cstdint>

namespace serac {

// True where the instructions (AVX512-BF16) are there and in use (isa.h); then gemmNarrow may be called.
bool hasGemmNarrow();

// c (m, n) = a (m, k) b (k, n), plus `start` (n) in every row where it is given, plus c where `add`; as gemm. A, B and C are float or bfloat16; c of
// bfloat16 is rounded once, at the end, and cannot be added to.
template <typename A, typename B, typename C>
void gemmNarrow(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const A* a, int64_t lda, const B* b, int64_t ldb, const float* start, bool add, C* c, int64_t ldc);

// A matrix (k, n) as gemmNarrow wants it; see gemmNarrow.cc.
struct Panels {
  const uint32_t* words;
  int64_t n, k;
};
// Laid out once, for several products: b (k, n), or transposed (n, k).
struct Packed {
  at::Tensor owner;
  Panels panels{};
  template <typename B>
  Packed(bool transposed, int64_t n, int64_t k, const B* b, int64_t ldb);
};
template <typename A, typename C>
void gemmNarrow(bool transposeA, int64_t m, const A* a, int64_t lda, const Panels& b, const float* start, bool add, C* c, int64_t ldc);

// The same of tensors (m, k) and (k, n) of either type, on the CPU; `start` may be undefined.
at::Tensor productNarrow(const at::Tensor& a, const at::Tensor& b, const at::Tensor& start, at::ScalarType dtype);

}  // namespace serac
