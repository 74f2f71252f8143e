#include "torch/ops/common.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include <mutex>

namespace serac {

at::ScalarType autocastDtype(const Tensor& x) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  const auto device = x.device().type();
  if (at::autocast::is_autocast_available(device) && at::autocast::is_autocast_enabled(device) && x.scalar_type() != at::kDouble) return at::autocast::get_autocast_dtype(device);
#else
  if (x.scalar_type() == at::kDouble) return at::kDouble;
  if (x.is_cpu() && at::autocast::is_cpu_enabled()) return at::autocast::get_autocast_cpu_dtype();
  if (x.is_cuda() && at::autocast::is_enabled()) return at::autocast::get_autocast_gpu_dtype();
#endif
  return x.scalar_type();
}

void checkFloating(const char* name, const Tensor& x) { TORCH_CHECK(at::isFloatingType(x.scalar_type()), name, ": expected a floating-point tensor, got ", x.scalar_type()); }

int64_t checkDim(const char* name, const Tensor& x, int64_t dim) {
  TORCH_CHECK(dim >= -x.dim() && dim < x.dim(), name, ": dimension ", dim, " does not exist, x has shape ", x.sizes());
  return dim < 0 ? dim + x.dim() : dim;
}

Tensor dense(const Tensor& x) { return x.is_non_overlapping_and_dense() ? x : x.contiguous(); }

Tensor denseLike(const Tensor& x, const Tensor& like) {
  if (x.strides() == like.strides()) return x;
  return at::empty_strided(like.sizes(), like.strides(), x.options()).copy_(x);
}

Seed drawSeed(const char* name, const OptionalGenerator& generator) {
  TORCH_CHECK(!generator.has_value() || (*generator).device().is_cpu(), name, ": the generator of a CPU tensor must be a CPU generator");
  auto* source = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  const std::lock_guard<std::mutex> lock(source->mutex_);
  const uint64_t bits = source->random64();
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

}  // namespace serac
