// conv2d: a convolution of few channels over (N, C, H, W), the channels last in memory. The patches of a tile of outputs are laid out as the rows
// of a matrix that stays in the cache, and multiplied; forward and backward. Else libtorch's convolution.
#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"
#include "torch/ops/gemm.h"

#include <cstring>

namespace serac {
namespace {

struct Shape {
  int64_t batch, channels, height, width;  // of the input
  int64_t out, kernelHeight, kernelWidth, strideHeight, strideWidth, padHeight, padWidth;
  int64_t outHeight() const { return (height + 2 * padHeight - kernelHeight) / strideHeight + 1; }
  int64_t outWidth() const { return (width + 2 * padWidth - kernelWidth) / strideWidth + 1; }
  int64_t places() const { return batch * outHeight() * outWidth(); }
  int64_t patch() const { return kernelHeight * kernelWidth * channels; }
  // Rows of outputs in a tile: its patches take about a quarter of a megabyte.
  int64_t tile() const { return std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(1, patch() * outWidth())); }
};

// Calls f(source row, first source column, columns, offset in the patch) for the part of each kernel row that lies inside of the input.
template <typename F>
void forKernelRows(const Shape& s, int64_t h, int64_t w, F&& f) {
  const int64_t column = w * s.strideWidth - s.padWidth;
  const int64_t first = std::max<int64_t>(0, -column), last = std::min(s.kernelWidth, s.width - column);
  for (int64_t k = 0; k < s.kernelHeight; ++k) {
    const int64_t row = h * s.strideHeight - s.padHeight + k;
    if (row >= 0 && row < s.height && first < last) f(row, column + first, last - first, (k * s.kernelWidth + first) * s.channels);
  }
}

bool reachesOut(const Shape& s, int64_t h, int64_t w) {
  const int64_t row = h * s.strideHeight - s.padHeight, column = w * s.strideWidth - s.padWidth;
  return row < 0 || column < 0 || row + s.kernelHeight > s.height || column + s.kernelWidth > s.width;
}

// Copies numbers; those of one channel are too few for a call.
void copyNumbers(const float* from, float* to, int64_t n) {
  switch (n) {
    case 3: to[2] = from[2]; [[fallthrough]];
    case 2: to[1] = from[1]; [[fallthrough]];
    case 1: to[0] = from[0]; return;
    default: std::memcpy(to, from, sizeof(float) * static_cast<size_t>(n));
  }
}

// The patches of output rows [begin, end) of one example.
void gather(const Shape& s, const float* x, int64_t begin, int64_t end, float* patches) {
  for (int64_t h = begin; h < end; ++h)
    for (int64_t w = 0; w < s.outWidth(); ++w, patches += s.patch()) {
      if (reachesOut(s, h, w)) std::memset(patches, 0, sizeof(float) * static_cast<size_t>(s.patch()));
      forKernelRows(s, h, w, [&](int64_t row, int64_t column, int64_t columns, int64_t offset) {
        copyNumbers(x + (row * s.width + column) * s.channels, patches + offset, columns * s.channels);
      });
    }
}

// Adds patches back to where they came from.
void scatter(const Shape& s, const float* patches, int64_t begin, int64_t end, float* x) {
  for (int64_t h = begin; h < end; ++h)
    for (int64_t w = 0; w < s.outWidth(); ++w, patches += s.patch())
      forKernelRows(s, h, w, [&](int64_t row, int64_t column, int64_t columns, int64_t offset) {
        float* __restrict to = x + (row * s.width + column) * s.channels;
        const float* __restrict from = patches + offset;
        for (int64_t i = 0; i < columns * s.channels; ++i) to[i] += from[i];
      });
}

Tensor channelsLast(const Tensor& x) { return x.permute({0, 2, 3, 1}).contiguous(); }

struct Convolution : torch::autograd::Function<Convolution> {
  static Shape shapeOf(const Tensor& x, const Tensor& weight, at::IntArrayRef stride, at::IntArrayRef padding) {
    return {x.size(0), x.size(1), x.size(2), x.size(3), weight.size(0), weight.size(2), weight.size(3), stride[0], stride[1], padding[0], padding[1]};
  }

  static Tensor value(const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, const Shape& s, bool narrow) {
    const Tensor in = channelsLast(x), w = channelsLast(weight), b = bias.has_value() ? bias->contiguous() : Tensor();
    Tensor y = at::empty({s.batch, s.outHeight(), s.outWidth(), s.out}, in.options().requires_grad(false));
    const float *from = in.data_ptr<float>(), *start = b.defined() ? b.data_ptr<float>() : nullptr;
    const Factor kernels(narrow, true, s.places(), s.out, s.patch(), w.data_ptr<float>(), s.patch());
    float* to = y.data_ptr<float>();
    const int64_t tile = s.tile(), tiles = (s.outHeight() + tile - 1) / tile, rowSize = s.outWidth() * s.out;
    at::parallel_for(0, s.batch * tiles, 1, [&](int64_t first, int64_t last) {
      const Scratch patches(tile * s.outWidth() * s.patch());
      for (int64_t i = first; i < last; ++i) {
        const int64_t n = i / tiles, begin = i % tiles * tile, end = std::min(begin + tile, s.outHeight()), rows = (end - begin) * s.outWidth();
        gather(s, from + n * s.height * s.width * s.channels, begin, end, patches.data());
        float* out = to + (n * s.outHeight() + begin) * rowSize;
        gemm(false, rows, patches.data(), s.patch(), kernels, start, false, out, s.out);
      }
    });
    return y.permute({0, 3, 1, 2});
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Optional<Tensor>& bias, std::vector<int64_t> stride, std::vector<int64_t> padding, bool narrow) {
    ctx->saved_data["narrow"] = narrow;
    ctx->save_for_backward({x, weight});
    ctx->saved_data["bias"] = bias.has_value() && bias->requires_grad();
    ctx->saved_data["stride"] = stride;
    ctx->saved_data["padding"] = padding;
    return sameStorage(value(x, weight, bias, shapeOf(x, weight, stride, padding), narrow));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const auto stride = ctx->saved_data["stride"].toIntVector(), padding = ctx->saved_data["padding"].toIntVector();
    const Shape s = shapeOf(x, weight, stride, padding);
    const Tensor in = channelsLast(x), w = channelsLast(weight), grad = channelsLast(grads[0]);
    const bool down = x.requires_grad(), narrow = ctx->saved_data["narrow"].toBool();
    Tensor dx = down ? at::zeros(in.sizes(), in.options().requires_grad(false)) : Tensor();
    // One part of the examples a thread; each has its own gradient of the weights, and they are added in order.
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), s.batch));
    Tensor dw = at::zeros({parts, s.out, s.patch()}, w.options().requires_grad(false));
    const float *from = in.data_ptr<float>(), *up = grad.data_ptr<float>();
    const Factor kernels(narrow, false, s.places(), s.patch(), s.out, w.data_ptr<float>(), s.patch());
    float *to = down ? dx.data_ptr<float>() : nullptr, *dtaps = dw.data_ptr<float>();
    const int64_t tile = s.tile(), rowSize = s.outWidth() * s.out, planeSize = s.height * s.width * s.channels;
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      const Scratch patches(tile * s.outWidth() * s.patch());
      for (int64_t part = first; part < last; ++part)
        for (int64_t n = s.batch * part / parts; n < s.batch * (part + 1) / parts; ++n)
          for (int64_t begin = 0; begin < s.outHeight(); begin += tile) {
            const int64_t end = std::min(begin + tile, s.outHeight()), rows = (end - begin) * s.outWidth();
            const float* g = up + (n * s.outHeight() + begin) * rowSize;
            gather(s, from + n * planeSize, begin, end, patches.data());
            gemm(narrow, true, false, s.out, s.patch(), rows, g, s.out, patches.data(), s.patch(), 1.0f, dtaps + part * s.out * s.patch(), s.patch());
            if (!down) continue;
            gemm(false, rows, g, s.out, kernels, nullptr, false, patches.data(), s.patch());
            scatter(s, patches.data(), begin, end, to + n * planeSize);
          }
    });
    const Tensor dweight = sumOfParts(dw).view(w.sizes()).permute({0, 3, 1, 2});
    return {down ? dx.permute({0, 3, 1, 2}) : Tensor(), dweight, ctx->saved_data["bias"].toBool() ? columnSums(grad.view({-1, s.out})) : Tensor(), {}, {}, {}};
  }
};

Tensor conv2d(const Tensor& x, const Tensor& weight, const Optional<Tensor>& given, at::IntArrayRef stride, at::IntArrayRef padding) {
  checkFloating("conv2d", x);
  const Optional<Tensor> bias = given.has_value() && given->defined() ? given : Optional<Tensor>();
  TORCH_CHECK(x.dim() == 4 && weight.dim() == 4 && weight.size(1) == x.size(1), "conv2d: x must be (N, C, H, W), it has shape ", x.sizes(), ", weight has shape ", weight.sizes());
  TORCH_CHECK(stride.size() == 2 && padding.size() == 2 && stride[0] > 0 && stride[1] > 0, "conv2d: stride and padding must be two numbers, those of H and of W");
  const at::ScalarType dtype = autocastDtype(x);
  const bool own = !composed() && hasGemm() && isFloatOrNarrow(x) && isFloatOrNarrow(weight) && (!bias || isFloatOrNarrow(*bias)) && (dtype == at::kFloat || dtype == at::kBFloat16) && x.numel() > 0;
  if (!own) return at::conv2d(x, weight, bias.has_value() ? *bias : Tensor(), stride, padding);
  const Shape s = Convolution::shapeOf(x, weight, stride, padding);
  TORCH_CHECK(s.height + 2 * s.padHeight >= s.kernelHeight && s.width + 2 * s.padWidth >= s.kernelWidth && s.patch() > 0, "conv2d: x of shape ", x.sizes(), " with its padding is smaller than the kernel ", weight.sizes());
  if (bias) TORCH_CHECK(bias->dim() == 1 && bias->size(0) == s.out, "conv2d: bias has shape ", bias->sizes(), ", weight has shape ", weight.sizes());
  const NoAutocast noAutocast;
  const bool narrow = dtype == at::kBFloat16;
  const Tensor in = x.to(at::kFloat), w = weight.to(at::kFloat);
  const Optional<Tensor> b = bias ? Optional<Tensor>(bias->to(at::kFloat)) : bias;
  if (!wantsGrad(x) && !wantsGrad(weight) && !(bias && wantsGrad(*bias))) return Convolution::value(in, w, b, s, narrow).to(dtype);
  return Convolution::apply(in, w, b, stride.vec(), padding.vec(), narrow).to(dtype);
}

}  // namespace

void registerConv2d(torch::Library& m) { m.def("conv2d(Tensor x, Tensor weight, Tensor? bias, int[2] stride, int[2] padding) -> Tensor", &conv2d); }

}  // namespace serac
