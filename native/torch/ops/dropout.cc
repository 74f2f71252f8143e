// dropout_shared: dropout whose mask is the same along one dimension (icefall's Dropout3). Only the mask is kept.
#include "torch/composed/composed.h"
#include "torch/ops/common.h"

#include <vector>

namespace serac {
namespace {

struct DropoutShared : torch::autograd::Function<DropoutShared> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, double p, int64_t dim, const OptionalGenerator& generator) {
    const NoAutocast noAutocast;
    std::vector<int64_t> shape = x.sizes().vec();
    shape[static_cast<size_t>(dim)] = 1;
    const Tensor mask = at::empty(shape, x.options().dtype(at::kFloat).requires_grad(false)).uniform_(0, 1, generator).gt_(p).to(computeDtype(x.scalar_type())).div_(1 - p).to(x.scalar_type());
    ctx->save_for_backward({mask});
    return x * mask;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    return {grads[0] * ctx->get_saved_variables()[0], {}, {}, {}};
  }
};

Tensor dropoutShared(const Tensor& x, double p, int64_t sharedDim, const OptionalGenerator& generator) {
  checkFloating("dropout_shared", x);
  TORCH_CHECK(p >= 0 && p < 1, "dropout_shared: p is ", p, ", it must be in [0, 1)");
  TORCH_CHECK(x.dim() > 0, "dropout_shared: x is a scalar");
  const int64_t dim = checkDim("dropout_shared", x, sharedDim);
  if (p == 0 || x.numel() == 0) return at::alias(x);
  return composed() ? composition::dropoutShared(x, p, dim, generator) : DropoutShared::apply(x, p, dim, generator);
}

}  // namespace

void registerDropout(torch::Library& m) { m.def("dropout_shared(Tensor x, float p, int shared_dim, Generator? generator=None) -> Tensor", &dropoutShared); }

}  // namespace serac
