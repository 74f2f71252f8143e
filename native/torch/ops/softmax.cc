// softmax: keeps its output only, in the dtype that autocast wants; the backward pass is in float.
#include "torch/composed/composed.h"
#include "torch/ops/common.h"

namespace serac {
namespace {

struct Softmax : torch::autograd::Function<Softmax> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t dim, int64_t dtype) {
    const NoAutocast noAutocast;
    const Tensor y = at::softmax(toCompute(x), dim).to(static_cast<at::ScalarType>(dtype));
    ctx->save_for_backward({y});
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["dtype"] = static_cast<int64_t>(x.scalar_type());
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor y = toCompute(ctx->get_saved_variables()[0]);
    const Tensor grad = grads[0].to(y.scalar_type());
    return {at::_softmax_backward_data(grad, y, ctx->saved_data["dim"].toInt(), y.scalar_type()).to(static_cast<at::ScalarType>(ctx->saved_data["dtype"].toInt())), {}, {}};
  }
};

Tensor softmax(const Tensor& x, int64_t dim) {
  checkFloating("softmax", x);
  TORCH_CHECK(x.dim() > 0, "softmax: x is a scalar");
  const int64_t d = checkDim("softmax", x, dim);
  if (composed()) return composition::softmax(x, d);
  const at::ScalarType dtype = autocastDtype(x);
  if (wantsGrad(x)) return Softmax::apply(x, d, static_cast<int64_t>(dtype));
  const NoAutocast noAutocast;
  return at::softmax(toCompute(x), d).to(dtype);
}

}  // namespace

void registerSoftmax(torch::Library& m) { m.def("softmax(Tensor x, int dim) -> Tensor", &softmax); }

}  // namespace serac
