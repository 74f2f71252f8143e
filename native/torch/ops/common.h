// What the operators share: argument types, autocast, checks, dense layouts, draws.
#pragma once
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cstdint>
#include <string>
#include <utility>

namespace serac {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The optional of this libtorch: its own class in 1.13, std::optional in later ones.
template <typename T>
using Optional = decltype(std::declval<const c10::IValue&>().toOptional<T>());
using OptionalGenerator = Optional<at::Generator>;

void registerSwoosh(torch::Library& m);
void registerGradientHelpers(torch::Library& m);
void registerBiasNorm(torch::Library& m);
void registerBalancer(torch::Library& m);
void registerWhiten(torch::Library& m);
void registerSoftmax(torch::Library& m);
void registerDropout(torch::Library& m);
void registerActivationDropoutLinear(torch::Library& m);
void registerMutualInformation(torch::Library& m);
void registerDepthwise(torch::Library& m);
void registerScaledAdam(torch::Library& m);
void registerBmm(torch::Library& m);
void registerLinear(torch::Library& m);
void registerResidual(torch::Library& m);
void registerPickLogProbs(torch::Library& m);
void registerJoiner(torch::Library& m);
void registerGlu(torch::Library& m);
void registerGatedConv(torch::Library& m);
void registerGatedAttend(torch::Library& m);
void registerBypass(torch::Library& m);
void registerDownsample(torch::Library& m);
void registerAttention(torch::Library& m);
void registerConv2d(torch::Library& m);
void registerFeedforward(torch::Library& m);

// Our kernels choose their own precision, forward and backward alike: nothing inside one is to be recast.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

// The dtype that autocast wants on the device of `x`, or that of `x` without autocast.
at::ScalarType autocastDtype(const Tensor& x);

inline bool wantsGrad(const Tensor& x) { return x.requires_grad() && at::GradMode::is_enabled(); }

// double stays double (gradient checks), everything else is computed in float.
inline at::ScalarType computeDtype(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }
inline Tensor toCompute(const Tensor& x) { return x.to(computeDtype(x.scalar_type())); }

// The same numbers under another handle. Unlike a view it may be changed in place even when an autograd Function returns it.
inline Tensor sameStorage(const Tensor& x) { return x.detach(); }

void checkFloating(const char* name, const Tensor& x);

// Resolves a possibly negative dimension; refuses one that `x` does not have.
int64_t checkDim(const char* name, const Tensor& x, int64_t dim);

// `x` without holes in memory, in its own order of dimensions where it has one (channels last stays channels last).
Tensor dense(const Tensor& x);
// `x` with the strides of `like` (which is dense), so that both can be walked by one index.
Tensor denseLike(const Tensor& x, const Tensor& like);

// Two 32-bit numbers that choose one stream of draws; element i of the stream is a function of (seed, i) only, whatever the number of threads.
struct Seed {
  uint32_t lo = 0;
  uint32_t hi = 0;
  int64_t packed() const { return static_cast<int64_t>((static_cast<uint64_t>(hi) << 32) | lo); }
  static Seed unpack(int64_t v) { return {static_cast<uint32_t>(static_cast<uint64_t>(v)), static_cast<uint32_t>(static_cast<uint64_t>(v) >> 32)}; }
};
// Takes 64 bits from `generator` (libtorch's default CPU generator without one).
Seed drawSeed(const char* name, const OptionalGenerator& generator);

// Memory for a kernel's own use, with anything in it: from the allocator, which keeps it for the next call.
struct Scratch {
  Tensor owner;
  explicit Scratch(int64_t floats) : owner(at::empty({floats}, at::TensorOptions(at::kFloat))) {}
  float* data() const { return owner.data_ptr<float>(); }
};

// Calls f with a value of the element type: float or bfloat16.
template <typename F>
void forType(at::ScalarType dtype, F&& f) {
  if (dtype == at::kBFloat16)
    f(c10::BFloat16{});
  else
    f(float{});
}
inline bool isFloatOrNarrow(const Tensor& t) { return t.is_cpu() && (t.scalar_type() == at::kFloat || t.scalar_type() == at::kBFloat16); }

constexpr int64_t kGrain = 16384;  // elements of cheap work that are worth a thread

}  // namespace serac
