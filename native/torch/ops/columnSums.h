// Sums over the rows of a matrix, and of what threads summed by parts.
#pragma once
#include "torch/ops/common.h"
#include "torch/ops/simd.h"

#include <vector>

namespace serac {

// x (rows, columns), float or bfloat16, contiguous, on the CPU. Rows are summed in float by blocks and these in double, in one order.
template <typename T>
void sumColumns(const T* x, int64_t rows, int64_t columns, float* out) {
  constexpr int64_t kRows = 64;
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), rows * columns / kGrain));
  const auto size = static_cast<size_t>(columns);
  std::vector<std::vector<double>> partial(static_cast<size_t>(parts), std::vector<double>(size, 0.0));
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    std::vector<float> block(size);
    float* const sums = block.data();
    for (int64_t part = first; part < last; ++part) {
      double* const total = partial[static_cast<size_t>(part)].data();
      const int64_t end = rows * (part + 1) / parts;
      for (int64_t begin = rows * part / parts; begin < end; begin += kRows) {
        const int64_t stop = std::min(begin + kRows, end);
        vectorized([=]<Isa isa>() __attribute__((always_inline)) {
          float* __restrict s = sums;
          for (int64_t c = 0; c < columns; ++c) s[c] = 0;
          for (int64_t r = begin; r < stop; ++r) {
            const T* __restrict row = x + r * columns;
            for (int64_t c = 0; c < columns; ++c) s[c] += load(row[c]);
          }
          for (int64_t c = 0; c < columns; ++c) total[c] += static_cast<double>(s[c]);
        });
      }
    }
  });
  for (size_t c = 0; c < size; ++c) {
    double sum = 0;
    for (const auto& part : partial) sum += part[c];
    out[c] = static_cast<float>(sum);
  }
}

// The same of a tensor, in float.
inline Tensor columnSums(const Tensor& x) {
  if (!x.is_cpu() || (x.scalar_type() != at::kFloat && x.scalar_type() != at::kBFloat16)) return x.sum({0}, false, computeDtype(x.scalar_type()));
  const Tensor in = x.contiguous();
  Tensor out = at::empty({x.size(1)}, x.options().dtype(at::kFloat).requires_grad(false));
  if (x.scalar_type() == at::kFloat)
    sumColumns(in.data_ptr<float>(), x.size(0), x.size(1), out.data_ptr<float>());
  else
    sumColumns(in.data_ptr<c10::BFloat16>(), x.size(0), x.size(1), out.data_ptr<float>());
  return out;
}

// What threads summed by parts (parts, ...), in order.
inline Tensor sumOfParts(const Tensor& parts) {
  const int64_t count = parts.size(0);
  if (count == 1) return parts.squeeze(0);
  if (count == 0 || !parts.is_cpu() || parts.scalar_type() != at::kFloat || !parts.is_contiguous()) return parts.sum({0});
  Tensor sum = at::empty(parts.sizes().slice(1), parts.options().requires_grad(false));
  const int64_t size = sum.numel();
  const float* from = parts.data_ptr<float>();
  float* to = sum.data_ptr<float>();
  at::parallel_for(0, size, kGrain, [=](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 2048;  // stays in the first cache while all parts are added
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t n = std::min(kBlock, end - first);
        float* __restrict s = to + first;
        for (int64_t part = 0; part < count; ++part) {
          const float* __restrict p = from + part * size + first;
          if (part == 0)
            for (int64_t i = 0; i < n; ++i) s[i] = p[i];
          else
            for (int64_t i = 0; i < n; ++i) s[i] += p[i];
        }
      }
    });
  });
  return sum;
}

}  // namespace serac
