// depthwise_conv1d, depthwise_conv2d: one filter per channel, stride 1. On the CPU by the loops of depthwise.h, whose sums are in float;
// for double and on other devices by libtorch's convolution. Under autocast the result has autocast's dtype, as convolutions have.
#include "torch/ops/depthwise.h"

#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"
#include "torch/ops/depthwiseConv.h"

namespace serac {
namespace {

// A (N, C, H, W) tensor as the loops see it.
template <typename T>
Strided<T> stridedOf(const Tensor& x) {
  return {x.data_ptr<T>(), x.stride(0), x.stride(1), x.stride(2), x.stride(3)};
}

// An empty (N, C, outHeight, outWidth) tensor whose dimensions lie in memory in the order of those of x.
Tensor emptyLike(const Tensor& x, int64_t height, int64_t width, at::ScalarType dtype) {
  std::vector<int64_t> order{0, 1, 2, 3};
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x.stride(a) > x.stride(b); });
  const std::vector<int64_t> sizes{x.size(0), x.size(1), height, width};
  std::vector<int64_t> strides(4);
  int64_t step = 1;
  for (int i = 3; i >= 0; --i) {
    const auto d = static_cast<size_t>(order[static_cast<size_t>(i)]);
    strides[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  return at::empty_strided(sizes, strides, x.options().dtype(dtype).requires_grad(false));
}

DepthwiseShape shapeOf(const Tensor& x, const Tensor& weight, at::IntArrayRef padding) {
  return {x.size(0), x.size(1), x.size(2), x.size(3), weight.size(2), weight.size(3), padding[0], padding[1], padding[2], padding[3]};
}

// Tasks per thread such that one is worth starting.
int64_t grain(const DepthwiseShape& s) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.outHeight() * s.outWidth() * s.taps() * depthwiseBlock() / 8)); }

}  // namespace

Tensor depthwiseValue(const Tensor& x, const Tensor& weight, const Tensor& bias, at::IntArrayRef padding, at::ScalarType dtype) {
  const DepthwiseShape s = shapeOf(x, weight, padding);
  const Tensor w = weight.to(at::kFloat).contiguous(), b = bias.defined() ? bias.to(at::kFloat).contiguous() : bias;
  Tensor y = emptyLike(x, s.outHeight(), s.outWidth(), dtype);
  if (y.numel() == 0) return y;
  const float *taps = w.data_ptr<float>(), *start = b.defined() ? b.data_ptr<float>() : nullptr;
  const int64_t blocks = (s.channels + depthwiseBlock() - 1) / depthwiseBlock();
  forType(x.scalar_type(), [&]<typename X>(X) {
    forType(dtype, [&]<typename Y>(Y) {
      const Strided<X> from = stridedOf<X>(x);
      const Strided<Y> to = stridedOf<Y>(y);
      at::parallel_for(0, s.batch * blocks, grain(s), [&](int64_t begin, int64_t end) {
        vectorized([&]<Isa isa>() __attribute__((always_inline)) { depthwiseForward<isa>(s, from, taps, start, to, begin, end); });
      });
    });
  });
  return y;
}

std::array<Tensor, 3> depthwiseGradients(const Tensor& x, const Tensor& weight, at::IntArrayRef padding, const Tensor& grad, bool wanted) {
  const DepthwiseShape s = shapeOf(x, weight, padding);
  const Tensor w = weight.to(at::kFloat).contiguous();
  const auto options = w.options().requires_grad(false);
  Tensor dx = wanted ? emptyLike(x, s.height, s.width, x.scalar_type()) : Tensor();
  Tensor dweight = at::zeros({s.batch, s.channels, s.taps()}, options), dbias = at::zeros({s.batch, s.channels}, options);
  if (grad.numel() > 0) {
    const float* taps = w.data_ptr<float>();
    float *dw = dweight.data_ptr<float>(), *db = dbias.data_ptr<float>();
    const int64_t blocks = (s.channels + depthwiseBlock() - 1) / depthwiseBlock();
    forType(x.scalar_type(), [&]<typename X>(X) {
      forType(grad.scalar_type(), [&]<typename G>(G) {
        const Strided<X> from = stridedOf<X>(x), down = dx.defined() ? stridedOf<X>(dx) : Strided<X>{nullptr, 0, 0, 0, 0};
        const Strided<G> up = stridedOf<G>(grad);
        at::parallel_for(0, s.batch * blocks, grain(s), [&](int64_t begin, int64_t end) {
          vectorized([&]<Isa isa>() __attribute__((always_inline)) { depthwiseBackward<isa>(s, from, taps, up, down, dw, db, begin, end); });
        });
      });
    });
  } else if (dx.defined()) {
    dx.zero_();
  }
  return {dx, sumOfParts(dweight).view(weight.sizes()), sumOfParts(dbias)};
}

namespace {

// All in four dimensions; padding is top, bottom, left, right.
struct Depthwise : torch::autograd::Function<Depthwise> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, std::vector<int64_t> padding, int64_t dtype) {
    const NoAutocast noAutocast;
    const bool hasBias = bias.has_value() && bias->defined();
    ctx->save_for_backward({x, weight});
    ctx->saved_data["padding"] = padding;
    ctx->saved_data["bias"] = hasBias ? static_cast<int64_t>(bias->scalar_type()) : int64_t{-1};
    return depthwiseValue(x, weight, hasBias ? *bias : Tensor(), padding, static_cast<at::ScalarType>(dtype));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const int64_t biasDtype = ctx->saved_data["bias"].toInt();
    const auto [dx, dweight, dbias] = depthwiseGradients(x, weight, ctx->saved_data["padding"].toIntVector(), grads[0], x.requires_grad());
    return {dx, dweight.to(weight.scalar_type()), biasDtype < 0 ? Tensor() : dbias.to(static_cast<at::ScalarType>(biasDtype)), {}, {}};
  }
};

Tensor convolve(const char* name, const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, const std::vector<int64_t>& padding) {
  const DepthwiseShape s = shapeOf(x, weight, padding);
  const bool hasBias = bias.has_value() && bias->defined();
  TORCH_CHECK(weight.size(0) == s.channels && weight.size(1) == 1, name, ": weight has shape ", weight.sizes(), ", x has ", s.channels, " channels");
  TORCH_CHECK(s.taps() > 0, name, ": the kernel is empty");
  if (hasBias) TORCH_CHECK(bias->dim() == 1 && bias->size(0) == s.channels, name, ": bias has shape ", bias->sizes(), ", x has ", s.channels, " channels");
  for (const int64_t p : padding) TORCH_CHECK(p >= 0, name, ": padding ", p, " is negative");
  TORCH_CHECK(s.outHeight() >= 0 && s.outWidth() >= 0, name, ": x of shape ", x.sizes(), " with its padding is smaller than the kernel");
  TORCH_CHECK(x.device() == weight.device(), name, ": x is on ", x.device(), ", weight on ", weight.device());
  const at::ScalarType dtype = autocastDtype(x);
  if (composed() || !isFloatOrNarrow(x) || (dtype != at::kFloat && dtype != at::kBFloat16)) {
    const bool even = padding[0] == padding[1] && padding[2] == padding[3];  // as libtorch's convolution pads
    const Tensor in = even ? x : at::constant_pad_nd(x, {padding[2], padding[3], padding[0], padding[1]});
    const std::vector<int64_t> one{1, 1}, none{0, 0}, around = even ? std::vector<int64_t>{padding[0], padding[2]} : none;
    return at::convolution(in.to(dtype), weight.to(dtype), hasBias ? bias->to(dtype) : Tensor(), one, around, one, false, none, s.channels);
  }
  // Padding above what the kernel reaches past the edge makes outputs that see no input; the loops pad the gradient for less only.
  TORCH_CHECK(std::max(padding[0], padding[1]) < s.kernelHeight && std::max(padding[2], padding[3]) < s.kernelWidth, name, ": the padding must be smaller than the kernel");
  return Depthwise::apply(x, weight, bias, padding, static_cast<int64_t>(dtype));
}

Tensor depthwiseConv1d(const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, int64_t left, int64_t right) {
  constexpr const char* kName = "depthwise_conv1d";
  checkFloating(kName, x);
  TORCH_CHECK(x.dim() == 3, kName, ": x must be (N, C, T), it has shape ", x.sizes());
  TORCH_CHECK(weight.dim() == 3, kName, ": weight must be (C, 1, K), it has shape ", weight.sizes());
  return convolve(kName, x.unsqueeze(2), weight.unsqueeze(2), bias, {0, 0, left, right}).squeeze(2);
}

Tensor depthwiseConv2d(const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, at::IntArrayRef padding) {
  constexpr const char* kName = "depthwise_conv2d";
  checkFloating(kName, x);
  TORCH_CHECK(x.dim() == 4, kName, ": x must be (N, C, H, W), it has shape ", x.sizes());
  TORCH_CHECK(weight.dim() == 4, kName, ": weight must be (C, 1, KH, KW), it has shape ", weight.sizes());
  TORCH_CHECK(padding.size() == 2, kName, ": padding must be two numbers, those of H and of W");
  return convolve(kName, x, weight, bias, {padding[0], padding[0], padding[1], padding[1]});
}

}  // namespace

void registerDepthwise(torch::Library& m) {
  m.def("depthwise_conv1d(Tensor x, Tensor weight, Tensor? bias, int left, int right) -> Tensor", &depthwiseConv1d);
  m.def("depthwise_conv2d(Tensor x, Tensor weight, Tensor? bias, int[2] padding) -> Tensor", &depthwiseConv2d);
}

}  // namespace serac
