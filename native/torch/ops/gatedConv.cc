// gated_conv1d: the depthwise convolution over time, padded to the same length, of glu(x), for frames (T, N, 2 C). What it convolves is not kept but
// computed again on the way back: one pass over x.
#include "torch/composed/composed.h"
#include "torch/ops/depthwiseConv.h"
#include "torch/ops/glu.h"

namespace serac {
namespace {

// (T, N, C) as the convolutions see it: (N, C, 1, T)
Tensor overTime(const Tensor& x) { return x.permute({1, 2, 0}).unsqueeze(2); }
Tensor overFrames(const Tensor& x) { return x.squeeze(2).permute({2, 0, 1}); }

std::vector<int64_t> paddingOf(const Tensor& weight) {
  const int64_t half = (weight.size(2) - 1) / 2;
  return {0, 0, half, half};
}

struct GatedConv : torch::autograd::Function<GatedConv> {
  static Tensor value(const Tensor& x, const Tensor& mask, const Tensor& weight, const Tensor& bias) {
    return overFrames(depthwiseValue(overTime(gluValue(x, mask)), weight.unsqueeze(2), bias, paddingOf(weight), x.scalar_type()));
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Optional<Tensor>& mask, std::vector<double> balance, const Tensor& weight, const Optional<Tensor>& bias) {
    const Tensor m = mask.has_value() ? *mask : Tensor(), b = bias.has_value() ? *bias : Tensor();
    ctx->save_for_backward({x, m, weight});
    ctx->saved_data["balance"] = balance;
    ctx->saved_data["bias"] = b.defined() ? static_cast<int64_t>(b.scalar_type()) : int64_t{-1};
    return value(x, m, weight, b);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &mask = saved[1], &weight = saved[2];
    const int64_t biasDtype = ctx->saved_data["bias"].toInt();
    const auto [dgated, dweight, dbias] = depthwiseGradients(overTime(gluValue(x, mask)), weight.unsqueeze(2), paddingOf(weight), overTime(grads[0]), true);
    return {gluGradient(x, mask, ctx->saved_data["balance"].toDoubleVector(), overFrames(dgated)), {}, {}, dweight.view(weight.sizes()).to(weight.scalar_type()),
            biasDtype < 0 ? Tensor() : dbias.to(static_cast<at::ScalarType>(biasDtype))};
  }
};

Tensor gatedConv1d(const Tensor& x, const Optional<Tensor>& givenMask, at::ArrayRef<double> balance, const Tensor& weight, const Optional<Tensor>& givenBias) {
  constexpr const char* kName = "gated_conv1d";
  const Optional<Tensor> none, mask = givenMask.has_value() && givenMask->defined() ? givenMask : none, bias = givenBias.has_value() && givenBias->defined() ? givenBias : none;
  checkGlu(kName, x, mask, balance);
  TORCH_CHECK(weight.dim() == 3 && weight.size(0) * 2 == x.size(2) && weight.size(1) == 1 && weight.size(2) % 2 == 1, kName, ": weight must be (C, 1, K), K odd, it has shape ", weight.sizes(), ", x has shape ", x.sizes());
  if (bias) TORCH_CHECK(bias->dim() == 1 && bias->size(0) == weight.size(0), kName, ": bias has shape ", bias->sizes(), ", weight has shape ", weight.sizes());
  const at::ScalarType dtype = autocastDtype(x);
  if (x.numel() == 0) return (composition::glu(x, mask, balance) + 0 * weight.sum() + (bias ? 0 * bias->sum() : at::zeros({}, x.options()))).to(dtype);  // nothing, with gradients for all
  // What autocast would round between the two is rounded here only where x is narrow already.
  const bool own = !composed() && isFloatOrNarrow(x) && isFloatOrNarrow(weight) && (!bias || isFloatOrNarrow(*bias)) && dtype == x.scalar_type();
  if (!own) {
    const Tensor y = composition::glu(x, mask, balance).permute({1, 2, 0}).to(dtype);
    const int64_t half = (weight.size(2) - 1) / 2;
    return at::conv1d(y, weight.to(dtype), bias ? bias->to(dtype) : Tensor(), 1, half, 1, weight.size(0)).permute({2, 0, 1});
  }
  const NoAutocast noAutocast;
  const Tensor in = x.contiguous();
  const Optional<Tensor> dense = mask ? Optional<Tensor>(mask->contiguous()) : none;
  if (wantsGrad(x) || wantsGrad(weight) || (bias && wantsGrad(*bias))) return GatedConv::apply(in, dense, balance.vec(), weight, bias);
  return GatedConv::value(in, dense ? *dense : Tensor(), weight, bias ? *bias : Tensor());
}

}  // namespace

void registerGatedConv(torch::Library& m) { m.def("gated_conv1d(Tensor x, Tensor? mask, float[] balance, Tensor weight, Tensor? bias=None) -> Tensor", &gatedConv1d); }

}  // namespace serac
