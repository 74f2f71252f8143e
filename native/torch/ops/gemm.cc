// Larger products are those of gemmSplit.h on CPUs with AMX. Elsewhere oneDNN compiles its product for the CPU it runs on; an old OpenBLAS knows new CPUs
// not at all, and multiplies half as fast there. Both are libtorch's own dependencies where it is linked to them; a libtorch that has them inside shows
// neither, and is asked itself.
#include "torch/ops/gemm.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>

#include "torch/ops/isa.h"

namespace serac {
namespace {

using Sgemm = void (*)(const char* transA, const char* transB, const int* m, const int* n, const int* k, const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
                       const float* beta, float* c, const int* ldc);
using DnnlSgemm = int (*)(char transA, char transB, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

struct Found {
  DnnlSgemm dnnl = nullptr;
  Sgemm blas = nullptr;
};

const Found& found() {
  static const Found all = [] {
    Found f;
    Dl_info library{};
    if (!dladdr(reinterpret_cast<void*>(&at::get_num_threads), &library) || !library.dli_fname) return f;
    if (void* const handle = dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD)) {
      f.dnnl = reinterpret_cast<DnnlSgemm>(dlsym(handle, "dnnl_sgemm"));
      f.blas = reinterpret_cast<Sgemm>(dlsym(handle, "sgemm_"));
    }
    return f;
  }();
  return all;
}

}  // namespace

bool hasGemm() { return found().dnnl != nullptr || found().blas != nullptr; }
std::string gemmName() {
  const std::string library = found().dnnl ? "oneDNN" : found().blas ? "BLAS" : "";
  return library.empty() || currentIsa() != Isa::amx ? library : "AMX and " + library;
}

void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if ((beta == 0 || beta == 1) && paysGemmSplit(m, n, k)) return gemmSplit(transposeA, transposeB, m, n, k, a, lda, b, ldb, beta != 0, c, ldc);
  if (found().dnnl) {
    const int status = found().dnnl(transposeA ? 'T' : 'N', transposeB ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
    TORCH_CHECK(status == 0, "oneDNN refused a product of ", m, " x ", k, " and ", k, " x ", n, " (status ", status, ")");
    return;
  }
  // BLAS counts by columns, where c^T = b^T a^T is what is meant.
  const int rows = static_cast<int>(m), columns = static_cast<int>(n), inner = static_cast<int>(k), ldA = static_cast<int>(lda), ldB = static_cast<int>(ldb), ldC = static_cast<int>(ldc);
  const float one = 1;
  found().blas(transposeB ? "T" : "N", transposeA ? "T" : "N", &columns, &rows, &inner, &one, b, &ldB, a, &ldA, &beta, c, &ldC);
}

void gemm(bool narrow, bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  if (narrow && hasGemmNarrow())
    gemmNarrow<float, float, float>(transposeA, transposeB, m, n, k, a, lda, b, ldb, nullptr, beta != 0, c, ldc);
  else
    gemm(transposeA, transposeB, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

Factor::Factor(bool narrow, bool across, int64_t rows, int64_t columns, int64_t terms, const float* b, int64_t ldb) : transposed(across), n(columns), k(terms), data(b), ld(ldb) {
  constexpr int64_t kMany = 256;  // with fewer rows laying out takes longer than it spares
  if (narrow && hasGemmNarrow())
    packed.emplace(transposed, n, k, data, ld);
  else if (rows >= kMany && paysGemmSplit(rows, n, k))
    panels.emplace(transposed, n, k, data, ld);
}

void gemm(bool transposeA, int64_t m, const float* a, int64_t lda, const Factor& b, const float* start, bool add, float* c, int64_t ldc) {
  constexpr int64_t kFew = 16;  // rows that fill no tile
  if (b.packed) return gemmNarrow(transposeA, m, a, lda, b.packed->panels, start, add, c, ldc);
  if (b.panels && m >= kFew) return gemmSplit(transposeA, m, a, lda, *b.panels, start, add, c, ldc);
  if (start && !add)
    for (int64_t row = 0; row < m; ++row) std::copy_n(start, b.n, c + row * ldc);
  gemm(transposeA, b.transposed, m, b.n, b.k, a, lda, b.data, b.ld, add || start ? 1.0f : 0.0f, c, ldc);
}

Matrix::Matrix(const at::Tensor& x) : owner(x) {
  const int64_t rows = x.size(0), columns = x.size(1);
  const auto fits = [](int64_t inner, int64_t outer, int64_t size, int64_t count) { return (inner == 1 || size <= 1) && (outer >= std::max<int64_t>(1, size) || count <= 1); };
  const bool byRows = fits(x.stride(1), x.stride(0), columns, rows);
  transposed = !byRows && fits(x.stride(0), x.stride(1), rows, columns);
  if (!byRows && !transposed) owner = x.contiguous();
  const int64_t outer = transposed ? owner.stride(1) : owner.stride(0), inner = transposed ? rows : columns, count = transposed ? columns : rows;
  ld = std::max<int64_t>({1, inner, count <= 1 ? inner : outer});
  data = owner.data_ptr<float>();
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
  at::Tensor c = at::empty({m, n}, a.options().requires_grad(false));
  if (bias.defined()) c.copy_(bias.expand({m, n}));
  if (k == 0) return bias.defined() ? c : c.zero_();
  const Matrix left(a), right(b);
  gemm(left.transposed, right.transposed, m, n, k, left.data, left.ld, right.data, right.ld, bias.defined() ? 1.0f : 0.0f, c.data_ptr<float>(), n);
  return c;
}

}  // namespace serac
