// downsample: the weighted sum of every `factor` frames of x (T, N, C), the last frame repeated where a group is not full. factor = numel(weights).
#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"

namespace serac {
namespace {

struct Downsample : torch::autograd::Function<Downsample> {
  static Tensor value(const Tensor& x, const Tensor& weights) {
    const int64_t factor = weights.numel(), frames = x.size(0), groups = (frames + factor - 1) / factor, size = x.size(1) * x.size(2);
    Tensor y = at::empty({groups, x.size(1), x.size(2)}, x.options().requires_grad(false));
    const float *from = x.data_ptr<float>(), *w = weights.data_ptr<float>();
    float* to = y.data_ptr<float>();
    at::parallel_for(0, groups, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, size * factor)), [=](int64_t begin, int64_t end) {
      vectorized([=]<Isa isa>() __attribute__((always_inline)) {
        for (int64_t g = begin; g < end; ++g) {
          float* __restrict out = to + g * size;
          for (int64_t i = 0; i < size; ++i) out[i] = 0;
          for (int64_t k = 0; k < factor; ++k) {
            const float* __restrict in = from + std::min(g * factor + k, frames - 1) * size;
            for (int64_t i = 0; i < size; ++i) out[i] = mulAdd<isa>(w[k], in[i], out[i]);
          }
        }
      });
    });
    return y;
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weights) {
    ctx->save_for_backward({x, weights});
    return value(x, weights);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weights = saved[1];
    const int64_t factor = weights.numel(), frames = x.size(0), groups = (frames + factor - 1) / factor, size = x.size(1) * x.size(2);
    const Tensor grad = grads[0].contiguous();
    Tensor dx = at::zeros(x.sizes(), x.options().requires_grad(false)), dweights = at::empty({groups, factor}, dx.options());
    const float *from = x.data_ptr<float>(), *w = weights.data_ptr<float>(), *up = grad.data_ptr<float>();
    float *to = dx.data_ptr<float>(), *dw = dweights.data_ptr<float>();
    at::parallel_for(0, groups, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, size * factor)), [=](int64_t begin, int64_t end) {
      vectorized([=]<Isa isa>() __attribute__((always_inline)) {
        constexpr int kLanes = 16;
        for (int64_t g = begin; g < end; ++g)
          for (int64_t k = 0; k < factor; ++k) {
            const int64_t frame = std::min(g * factor + k, frames - 1);
            const float *__restrict in = from + frame * size, *__restrict u = up + g * size;
            float* __restrict d = to + frame * size;
            for (int64_t i = 0; i < size; ++i) d[i] = mulAdd<isa>(w[k], u[i], d[i]);
            float sums[kLanes] = {};
            int64_t i = 0;
            for (; i + kLanes <= size; i += kLanes)
              for (int l = 0; l < kLanes; ++l) sums[l] = mulAdd<isa>(u[i + l], in[i + l], sums[l]);
            for (; i < size; ++i) sums[0] += u[i] * in[i];
            float sum = 0;
            for (int l = 0; l < kLanes; ++l) sum += sums[l];
            dw[g * factor + k] = sum;
          }
      });
    });
    return {dx, sumOfParts(dweights)};
  }
};

Tensor compose(const Tensor& x, const Tensor& weights) {
  const int64_t factor = weights.numel(), frames = x.size(0), groups = (frames + factor - 1) / factor, missing = groups * factor - frames;
  const Tensor filled = missing > 0 ? at::cat({x, x.slice(0, frames - 1).expand({missing, x.size(1), x.size(2)})}, 0) : x;
  return (filled.reshape({groups, factor, x.size(1), x.size(2)}) * weights.to(x.scalar_type()).view({factor, 1, 1})).sum({1});
}

Tensor downsample(const Tensor& x, const Tensor& weights) {
  checkFloating("downsample", x);
  TORCH_CHECK(x.dim() == 3 && weights.dim() == 1 && weights.numel() > 0, "downsample: x must be (T, N, C) and weights one-dimensional, they have shapes ", x.sizes(), " and ", weights.sizes());
  TORCH_CHECK(x.size(0) > 0, "downsample: x has no frames");
  bool own = !composed() && x.numel() > 0;
  for (const Tensor* t : {&x, &weights}) own = own && t->is_cpu() && t->scalar_type() == at::kFloat;
  if (!own) return compose(x, weights);
  const NoAutocast noAutocast;
  const Tensor in = x.contiguous(), w = weights.contiguous();
  return wantsGrad(x) || wantsGrad(weights) ? Downsample::apply(in, w) : Downsample::value(in, w);
}

}  // namespace

void registerDownsample(torch::Library& m) { m.def("downsample(Tensor x, Tensor weights) -> Tensor", &downsample); }

}  // namespace serac
