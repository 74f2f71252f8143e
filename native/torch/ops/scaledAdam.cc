// ScaledAdam's passes over memory (icefall zipformer/optim.py; Zipformer, section 3.6). Parameters of one shape are stacked in one tensor, a batch:
// scaled_adam_sums reads all parameters and gradients once, scaled_adam_update_ reads and writes everything once.
// What is one number a parameter (its size, its rate) comes in tensors of one element a parameter and is the caller's business.
#include "torch/ops/common.h"
#include "torch/ops/simd.h"

#include <array>
#include <cmath>
#include <vector>

namespace serac {
namespace {

constexpr int64_t kChunk = 8192;  // elements that are summed in single precision, in lanes
constexpr int kLanes = 16;

using Sums = std::array<double, 3>;  // of g * g, v * g, v * v

template <Isa isa, typename scalar>
SERAC_INLINE void chunkSums(const scalar* v, const scalar* g, int64_t size, double* to) {
  typedef scalar Vec __attribute__((vector_size(kLanes * sizeof(scalar)), aligned(alignof(scalar)), may_alias));
  Vec gg = {}, vg = {}, vv = {};
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Vec a = *reinterpret_cast<const Vec*>(v + i), b = *reinterpret_cast<const Vec*>(g + i);
    gg += b * b;
    vg += a * b;
    vv += a * a;
  }
  for (; i < size; ++i) gg[0] += g[i] * g[i], vg[0] += v[i] * g[i], vv[0] += v[i] * v[i];
  for (int l = 0; l < kLanes; ++l) to[0] += gg[l], to[1] += vg[l], to[2] += vv[l];
}

// The batches, their gradients without holes in memory, and where each parameter lies.
template <typename scalar>
struct Parameters {
  struct Item {
    size_t batch;
    int64_t offset;  // of the parameter in its batch
    int64_t size;
    const scalar* gradient;
  };
  std::vector<Item> items;
  std::vector<scalar*> values;
  std::vector<Tensor> kept;  // gradients that had to be copied

  Parameters(const char* name, at::TensorList batches, at::TensorList gradients) {
    size_t next = 0;
    for (size_t b = 0; b < batches.size(); ++b) {
      const Tensor& batch = batches[b];
      TORCH_CHECK(batch.is_cpu() && batch.scalar_type() == c10::CppTypeToScalarType<scalar>::value && batch.is_contiguous() && batch.dim() > 0, name,
                  ": values must be contiguous, on the CPU, and all float or all double");
      values.push_back(batch.data_ptr<scalar>());
      const int64_t count = batch.size(0), size = count > 0 ? batch.numel() / count : 0;
      TORCH_CHECK(next + static_cast<size_t>(count) <= gradients.size(), name, ": ", gradients.size(), " gradients are too few");
      for (int64_t i = 0; i < count; ++i) {
        const Tensor& gradient = gradients[next++];
        TORCH_CHECK(gradient.is_cpu() && gradient.numel() == size, name, ": a gradient of shape ", gradient.sizes(), " for a parameter of ", size, " elements");
        kept.push_back(gradient.to(batch.scalar_type()).contiguous());
        items.push_back({b, i * size, size, kept.back().template data_ptr<scalar>()});
      }
    }
    TORCH_CHECK(next == gradients.size(), name, ": ", gradients.size(), " gradients for ", next, " parameters");
  }

  // Stretches of at most kChunk elements of one parameter, in order.
  struct Chunk {
    size_t item;
    int64_t begin;
    int64_t size;
  };
  std::vector<Chunk> chunks() const {
    std::vector<Chunk> list;
    for (size_t i = 0; i < items.size(); ++i)
      for (int64_t begin = 0; begin < items[i].size; begin += kChunk) list.push_back({i, begin, std::min(kChunk, items[i].size - begin)});
    return list;
  }
};

// Calls f(first, last) for ranges of chunks; each is worth a fraction of a thread.
template <typename Chunks, typename F>
void overChunks(const Chunks& chunks, const F& f) {
  at::parallel_for(0, static_cast<int64_t>(chunks.size()), 8, f);
}

template <typename scalar>
Tensor sumsOf(at::TensorList batches, at::TensorList gradients) {
  const Parameters<scalar> parameters("scaled_adam_sums", batches, gradients);
  const auto chunks = parameters.chunks();
  std::vector<Sums> parts(chunks.size(), Sums{});
  overChunks(chunks, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const auto [index, begin, size] = chunks[static_cast<size_t>(c)];
      const auto& item = parameters.items[index];
      const scalar *v = parameters.values[item.batch] + item.offset + begin, *g = item.gradient + begin;
      double* to = parts[static_cast<size_t>(c)].data();
      vectorized([=]<Isa isa>() __attribute__((always_inline)) { chunkSums<isa>(v, g, size, to); });
    }
  });
  const auto count = static_cast<int64_t>(parameters.items.size());
  Tensor sums = at::zeros({3, count}, at::kDouble);
  double* out = sums.template data_ptr<double>();
  // Added in one order, whatever the number of threads.
  for (size_t c = 0; c < chunks.size(); ++c)
    for (int64_t k = 0; k < 3; ++k) out[k * count + static_cast<int64_t>(chunks[c].item)] += parts[c][static_cast<size_t>(k)];
  return sums;
}

bool areDouble(at::TensorList batches) { return batches.size() > 0 && batches[0].scalar_type() == at::kDouble; }

Tensor sums(at::TensorList batches, at::TensorList gradients) { return areDouble(batches) ? sumsOf<double>(batches, gradients) : sumsOf<float>(batches, gradients); }

template <typename scalar>
struct Constants {
  scalar beta1, beta2, squareScale, correction, eps;
};

template <Isa isa, typename scalar>
SERAC_INLINE void updateRange(scalar* v, const scalar* g, scalar* square, scalar* delta, int64_t size, scalar rate, scalar growth, scalar limit, Constants<scalar> c) {
  for (int64_t i = 0; i < size; ++i) {
    const scalar s = c.beta2 * square[i] + c.squareScale * (g[i] * g[i]);
    square[i] = s;
    const scalar denominator = std::sqrt(s * c.correction) + c.eps;
    const scalar d = c.beta1 * delta[i] - rate * (g[i] / denominator) + growth * v[i];
    delta[i] = d;
    const scalar moved = v[i] + d;
    const scalar atMost = moved > limit ? limit : moved;  // a NaN stays one
    v[i] = atMost < -limit ? -limit : atMost;
  }
}

// One element a parameter.
Tensor perParameter(const char* what, const Tensor& x, size_t count) {
  TORCH_CHECK(x.numel() == static_cast<int64_t>(count), "scaled_adam_update_: ", x.numel(), " ", what, " for ", count, " parameters");
  return x.to(at::kDouble).contiguous();
}

template <typename scalar>
std::vector<scalar*> stateOf(const char* what, at::TensorList state, at::TensorList batches) {
  TORCH_CHECK(state.size() == batches.size(), "scaled_adam_update_: ", state.size(), " tensors of ", what, " for ", batches.size(), " of values");
  std::vector<scalar*> pointers;
  for (size_t b = 0; b < state.size(); ++b) {
    TORCH_CHECK(state[b].is_cpu() && state[b].sizes() == batches[b].sizes() && state[b].scalar_type() == batches[b].scalar_type() && state[b].is_contiguous(), "scaled_adam_update_: ", what,
                " must be like its values, ", batches[b].sizes());
    pointers.push_back(state[b].data_ptr<scalar>());
  }
  return pointers;
}

struct PerParameter {
  Tensor rates, growths, limits;
};

template <typename scalar>
void updateAll(at::TensorList batches, at::TensorList gradients, at::TensorList expAvgSq, at::TensorList delta, const PerParameter& per, Constants<scalar> constants) {
  const Parameters<scalar> parameters("scaled_adam_update_", batches, gradients);
  const auto squares = stateOf<scalar>("exp_avg_sq", expAvgSq, batches), deltas = stateOf<scalar>("delta", delta, batches);
  const size_t count = parameters.items.size();
  const Tensor rateTensor = perParameter("rates", per.rates, count), growthTensor = perParameter("growths", per.growths, count), limitTensor = perParameter("limits", per.limits, count);
  const double *rates = rateTensor.data_ptr<double>(), *growths = growthTensor.data_ptr<double>(), *limits = limitTensor.data_ptr<double>();
  const auto chunks = parameters.chunks();
  overChunks(chunks, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const auto [index, begin, size] = chunks[static_cast<size_t>(c)];
      const auto& item = parameters.items[index];
      const int64_t at = item.offset + begin;
      scalar *v = parameters.values[item.batch] + at, *square = squares[item.batch] + at, *d = deltas[item.batch] + at;
      const scalar* g = item.gradient + begin;
      const auto rate = static_cast<scalar>(rates[index]), growth = static_cast<scalar>(growths[index]), limit = static_cast<scalar>(limits[index]);
      vectorized([=, size = size]<Isa isa>() __attribute__((always_inline)) { updateRange<isa>(v, g, square, d, size, rate, growth, limit, constants); });
    }
  });
}

void update(at::TensorList batches, at::TensorList gradients, at::TensorList expAvgSq, at::TensorList delta, const Tensor& rates, const Tensor& growths, const Tensor& limits, double beta1,
            double beta2, double eps, double correction, double gradScale) {
  const auto run = [&]<typename scalar>(scalar) {
    updateAll<scalar>(batches, gradients, expAvgSq, delta, {rates, growths, limits},
                      {static_cast<scalar>(beta1), static_cast<scalar>(beta2), static_cast<scalar>((1 - beta2) * gradScale * gradScale), static_cast<scalar>(1 / correction), static_cast<scalar>(eps)});
  };
  if (areDouble(batches))
    run(double{});
  else
    run(float{});
}

}  // namespace

void registerScaledAdam(torch::Library& m) {
  m.def("scaled_adam_sums(Tensor[] values, Tensor[] gradients) -> Tensor", sums);
  m.def(
      "scaled_adam_update_(Tensor(a!)[] values, Tensor[] gradients, Tensor(b!)[] exp_avg_sq, Tensor(c!)[] delta, Tensor rates, Tensor growths, Tensor limits, float beta1, float beta2, float eps, "
      "float correction, float grad_scale) -> ()",
      update);
}

}  // namespace serac
