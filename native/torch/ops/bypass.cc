// bypass: input + (output - input) * scale, for frames (T, N, C) and a scale (C) or (N, C): one pass forward, one backward.
#include "torch/composed/composed.h"
#include "torch/ops/simd.h"

#include <vector>

namespace serac {
namespace {

struct Bypass : torch::autograd::Function<Bypass> {
  static Tensor value(const Tensor& input, const Tensor& output, const Tensor& scale) {
    const int64_t batch = input.size(1), channels = input.size(2), rows = input.size(0) * batch, perUtterance = scale.dim() == 2 ? channels : 0;
    Tensor y = at::empty(input.sizes(), input.options().requires_grad(false));
    const float *in = input.data_ptr<float>(), *out = output.data_ptr<float>(), *s = scale.data_ptr<float>();
    float* to = y.data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / channels), [=](int64_t begin, int64_t end) {
      vectorized([=]<Isa isa>() __attribute__((always_inline)) {
        for (int64_t r = begin; r < end; ++r) {
          const float *__restrict a = in + r * channels, *__restrict b = out + r * channels, *__restrict w = s + r % batch * perUtterance;
          float* __restrict y_ = to + r * channels;
          for (int64_t c = 0; c < channels; ++c) y_[c] = mulAdd<isa>(b[c] - a[c], w[c], a[c]);
        }
      });
    });
    return y;
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& input, const Tensor& output, const Tensor& scale) {
    ctx->save_for_backward({input, output, scale});
    return value(input, output, scale);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &input = saved[0], &output = saved[1], &scale = saved[2];
    const int64_t batch = input.size(1), channels = input.size(2), rows = input.size(0) * batch, perUtterance = scale.dim() == 2 ? channels : 0;
    const Tensor grad = grads[0].contiguous();
    const auto options = input.options().requires_grad(false);
    Tensor dinput = at::empty(input.sizes(), options), doutput = at::empty(input.sizes(), options);
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), rows * channels / kGrain));
    Tensor dscale = at::zeros({parts, batch, channels}, options);  // by utterance: few enough terms to be added in float
    const float *in = input.data_ptr<float>(), *out = output.data_ptr<float>(), *s = scale.data_ptr<float>(), *g = grad.data_ptr<float>();
    float *din = dinput.data_ptr<float>(), *dout = doutput.data_ptr<float>(), *ds = dscale.data_ptr<float>();
    at::parallel_for(0, parts, 1, [=](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part)
        vectorized([=]<Isa isa>() __attribute__((always_inline)) {
          for (int64_t r = rows * part / parts; r < rows * (part + 1) / parts; ++r) {
            const float *__restrict a = in + r * channels, *__restrict b = out + r * channels, *__restrict up = g + r * channels, *__restrict w = s + r % batch * perUtterance;
            float *__restrict da = din + r * channels, *__restrict db = dout + r * channels, *__restrict dw = ds + (part * batch + r % batch) * channels;
            for (int64_t c = 0; c < channels; ++c) {
              const float d = up[c] * w[c];
              db[c] = d;
              da[c] = up[c] - d;
              dw[c] = mulAdd<isa>(up[c], b[c] - a[c], dw[c]);
            }
          }
        });
    });
    const Tensor sum = dscale.sum({0});
    return {dinput, doutput, scale.dim() == 2 ? sum : sum.sum({0})};
  }
};

Tensor bypass(const Tensor& input, const Tensor& output, const Tensor& scale) {
  checkFloating("bypass", input);
  TORCH_CHECK(input.dim() == 3 && output.sizes() == input.sizes(), "bypass: input and output must be (T, N, C), they have shapes ", input.sizes(), " and ", output.sizes());
  TORCH_CHECK((scale.dim() == 1 || (scale.dim() == 2 && scale.size(0) == input.size(1))) && scale.size(-1) == input.size(2), "bypass: scale must be (C) or (N, C), it has shape ", scale.sizes(), ", input has shape ", input.sizes());
  bool own = !composed() && input.numel() > 0;
  for (const Tensor* t : {&input, &output}) own = own && t->is_cpu() && (t->scalar_type() == at::kFloat || t->scalar_type() == at::kBFloat16);
  own = own && scale.is_cpu() && scale.scalar_type() == at::kFloat;
  if (!own) return input + (output - input) * scale;
  const NoAutocast noAutocast;
  const Tensor a = input.to(at::kFloat).contiguous(), b = output.to(at::kFloat).contiguous(), s = scale.contiguous();
  return wantsGrad(input) || wantsGrad(output) || wantsGrad(scale) ? Bypass::apply(a, b, s) : Bypass::value(a, b, s);
}

}  // namespace

void registerBypass(torch::Library& m) { m.def("bypass(Tensor input, Tensor output, Tensor scale) -> Tensor", &bypass); }

}  // namespace serac
