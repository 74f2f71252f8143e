// ScaledAdam's passes over memory (icefall zipformer/optim.py; Zipformer, section 3.6), for parameters of one shape that are stacked in one tensor:
// scaled_adam_sums reads parameters and gradients once, scaled_adam_update_ reads and writes everything once.
// What is one number a parameter (its size, its rate) comes in tensors of n and is the caller's business.
#include "torch/ops/common.h"
#include "torch/ops/simd.h"

#include <array>
#include <cmath>
#include <vector>

namespace serac {
namespace {

constexpr int64_t kChunk = 8192;  // elements that are summed in single precision, in lanes
constexpr int kLanes = 16;

template <typename scalar>
using Sums = std::array<scalar, 3>;  // of g * g, v * g, v * v

template <Isa isa, typename scalar>
SERAC_INLINE void chunkSums(const scalar* v, const scalar* g, int64_t size, double* to) {
  scalar gg[kLanes] = {}, vg[kLanes] = {}, vv[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      gg[l] += g[i + l] * g[i + l];
      vg[l] += v[i + l] * g[i + l];
      vv[l] += v[i + l] * v[i + l];
    }
  for (; i < size; ++i) gg[0] += g[i] * g[i], vg[0] += v[i] * g[i], vv[0] += v[i] * v[i];
  for (int l = 0; l < kLanes; ++l) to[0] += gg[l], to[1] += vg[l], to[2] += vv[l];
}

// Parameters of one shape, and their gradients without holes in memory.
struct Group {
  Tensor values;
  std::vector<Tensor> gradients;
  int64_t count;
  int64_t size;

  Group(const char* name, const Tensor& stacked, at::TensorList list) : values(stacked), count(stacked.dim() > 0 ? stacked.size(0) : 0), size(count > 0 ? stacked.numel() / count : 0) {
    TORCH_CHECK(values.is_cpu() && (values.scalar_type() == at::kFloat || values.scalar_type() == at::kDouble), name, ": values must be float or double, on the CPU");
    TORCH_CHECK(values.is_contiguous(), name, ": values must be contiguous");
    TORCH_CHECK(static_cast<int64_t>(list.size()) == count, name, ": ", list.size(), " gradients for ", count, " parameters");
    for (const Tensor& gradient : list) {
      TORCH_CHECK(gradient.numel() == size && gradient.is_cpu(), name, ": a gradient of shape ", gradient.sizes(), " for parameters of ", size, " elements");
      gradients.push_back(gradient.to(values.scalar_type()).contiguous());
    }
  }
};

template <typename scalar>
void sumsOf(const Group& group, double* out) {
  const int64_t perItem = std::max<int64_t>(1, (group.size + kChunk - 1) / kChunk);
  std::vector<Sums<double>> parts(static_cast<size_t>(group.count * perItem), Sums<double>{});
  const scalar* values = group.values.data_ptr<scalar>();
  std::vector<const scalar*> gradients;
  for (const Tensor& gradient : group.gradients) gradients.push_back(gradient.data_ptr<scalar>());
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, std::min(group.size, kChunk)));
  at::parallel_for(0, group.count * perItem, grain, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      const int64_t item = part / perItem, begin = part % perItem * kChunk, size = std::min(kChunk, group.size - begin);
      const scalar *v = values + item * group.size + begin, *g = gradients[static_cast<size_t>(item)] + begin;
      double* to = parts[static_cast<size_t>(part)].data();
      vectorized([=]<Isa isa>() __attribute__((always_inline)) { chunkSums<isa>(v, g, size, to); });
    }
  });
  // Added in one order, whatever the number of threads.
  for (int64_t part = 0; part < group.count * perItem; ++part)
    for (int k = 0; k < 3; ++k) out[k * group.count + part / perItem] += parts[static_cast<size_t>(part)][static_cast<size_t>(k)];
}

Tensor sums(const Tensor& values, at::TensorList gradients) {
  const Group group("scaled_adam_sums", values, gradients);
  Tensor out = at::zeros({3, group.count}, at::kDouble);
  if (values.scalar_type() == at::kDouble)
    sumsOf<double>(group, out.data_ptr<double>());
  else
    sumsOf<float>(group, out.data_ptr<double>());
  return out;
}

template <typename scalar>
struct Constants {
  scalar beta1, beta2, squareScale, correction, eps, limit;
};

template <Isa isa, typename scalar>
SERAC_INLINE void updateRange(scalar* v, const scalar* g, scalar* square, scalar* delta, int64_t size, scalar rate, scalar growth, Constants<scalar> c) {
  for (int64_t i = 0; i < size; ++i) {
    const scalar s = c.beta2 * square[i] + c.squareScale * (g[i] * g[i]);
    square[i] = s;
    const scalar denominator = std::sqrt(s * c.correction) + c.eps;
    const scalar d = c.beta1 * delta[i] - rate * (g[i] / denominator) + growth * v[i];
    delta[i] = d;
    const scalar moved = v[i] + d;
    const scalar atMost = moved > c.limit ? c.limit : moved;  // a NaN stays one
    v[i] = atMost < -c.limit ? -c.limit : atMost;
  }
}

template <typename scalar>
void updateGroup(const Group& group, Tensor& expAvgSq, Tensor& delta, const double* rates, const double* growths, Constants<scalar> constants) {
  scalar *values = group.values.data_ptr<scalar>(), *squares = expAvgSq.data_ptr<scalar>(), *deltas = delta.data_ptr<scalar>();
  std::vector<const scalar*> gradients;
  for (const Tensor& gradient : group.gradients) gradients.push_back(gradient.data_ptr<scalar>());
  at::parallel_for(0, group.count * group.size, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t at = first; at < last;) {
      const int64_t item = at / group.size, begin = at % group.size, size = std::min(last - at, group.size - begin);
      scalar *v = values + at, *square = squares + at, *d = deltas + at;
      const scalar* g = gradients[static_cast<size_t>(item)] + begin;
      const scalar rate = static_cast<scalar>(rates[item]), growth = static_cast<scalar>(growths[item]);
      vectorized([=]<Isa isa>() __attribute__((always_inline)) { updateRange<isa>(v, g, square, d, size, rate, growth, constants); });
      at += size;
    }
  });
}

void checkState(const char* what, const Tensor& state, const Tensor& values) {
  TORCH_CHECK(state.sizes() == values.sizes() && state.scalar_type() == values.scalar_type() && state.is_contiguous(), "scaled_adam_update_: ", what, " must be like values, ", values.sizes());
}

Tensor& update(Tensor& values, at::TensorList gradients, Tensor& expAvgSq, Tensor& delta, const Tensor& rates, const Tensor& growths, double beta1, double beta2, double eps, double correction,
               double gradScale, double limit) {
  const Group group("scaled_adam_update_", values, gradients);
  checkState("exp_avg_sq", expAvgSq, values);
  checkState("delta", delta, values);
  TORCH_CHECK(rates.numel() == group.count && growths.numel() == group.count, "scaled_adam_update_: one rate and one growth for each of ", group.count, " parameters");
  const Tensor rate = rates.to(at::kDouble).contiguous(), growth = growths.to(at::kDouble).contiguous();
  const auto run = [&]<typename scalar>(scalar) {
    const Constants<scalar> constants{static_cast<scalar>(beta1),          static_cast<scalar>(beta2), static_cast<scalar>((1 - beta2) * gradScale * gradScale),
                                      static_cast<scalar>(1 / correction), static_cast<scalar>(eps),   static_cast<scalar>(limit)};
    updateGroup<scalar>(group, expAvgSq, delta, rate.data_ptr<double>(), growth.data_ptr<double>(), constants);
  };
  if (values.scalar_type() == at::kDouble)
    run(double{});
  else
    run(float{});
  return values;
}

}  // namespace

void registerScaledAdam(torch::Library& m) {
  m.def("scaled_adam_sums(Tensor values, Tensor[] gradients) -> Tensor", sums);
  m.def(
      "scaled_adam_update_(Tensor(a!) values, Tensor[] gradients, Tensor(b!) exp_avg_sq, Tensor(c!) delta, Tensor rates, Tensor growths, float beta1, float beta2, float eps, float correction, "
      "float grad_scale, float limit) -> Tensor(a!)",
      update);
}

}  // namespace serac
