// bypass: input + (output - input) * scale, for frames (T, N, C) and a scale (C) or (N, C): one pass forward, one backward. Every frame of output stands
// for `repeat` frames of input, the last for what is left: they are not laid out.
#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"

#include <vector>

namespace serac {
namespace {

// Row r of input (T N, C) meets row outRow(r) of output.
struct Rows {
  int64_t frames, batch, channels, repeat, perUtterance;  // perUtterance: 0 where all utterances have the same scale
  Rows(const Tensor& input, const Tensor& scale, int64_t r) : frames(input.size(0)), batch(input.size(1)), channels(input.size(2)), repeat(r), perUtterance(scale.dim() == 2 ? channels : 0) {}
  int64_t outFrames() const { return (frames + repeat - 1) / repeat; }
};

struct Bypass : torch::autograd::Function<Bypass> {
  static Tensor value(const Tensor& input, const Tensor& output, const Tensor& scale, int64_t repeat) {
    const Rows rows(input, scale, repeat);
    Tensor y = at::empty(input.sizes(), input.options().requires_grad(false));
    const float *in = input.data_ptr<float>(), *out = output.data_ptr<float>(), *s = scale.data_ptr<float>();
    float* to = y.data_ptr<float>();
    at::parallel_for(0, rows.frames * rows.batch, std::max<int64_t>(1, kGrain / rows.channels), [=](int64_t begin, int64_t end) {
      vectorized([=]<Isa isa>() __attribute__((always_inline)) {
        const int64_t channels = rows.channels;
        for (int64_t r = begin; r < end; ++r) {
          const int64_t n = r % rows.batch, outRow = r / rows.batch / rows.repeat * rows.batch + n;
          const float *__restrict a = in + r * channels, *__restrict b = out + outRow * channels, *__restrict w = s + n * rows.perUtterance;
          float* __restrict y_ = to + r * channels;
          for (int64_t c = 0; c < channels; ++c) y_[c] = mulAdd<isa>(b[c] - a[c], w[c], a[c]);
        }
      });
    });
    return y;
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& input, const Tensor& output, const Tensor& scale, int64_t repeat) {
    ctx->save_for_backward({input, output, scale});
    ctx->saved_data["repeat"] = repeat;
    return value(input, output, scale, repeat);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &input = saved[0], &output = saved[1], &scale = saved[2];
    const Rows rows(input, scale, ctx->saved_data["repeat"].toInt());
    const Tensor grad = grads[0].contiguous();
    const auto options = input.options().requires_grad(false);
    Tensor dinput = at::empty(input.sizes(), options), doutput = rows.repeat == 1 ? at::empty(output.sizes(), options) : at::zeros(output.sizes(), options);
    const int64_t outFrames = rows.outFrames(), parts = std::max<int64_t>(1, std::min<int64_t>({at::get_num_threads(), outFrames, input.numel() / kGrain}));
    Tensor dscale = at::zeros({parts, rows.batch, rows.channels}, options);  // by utterance: few enough terms to be added in float
    const float *in = input.data_ptr<float>(), *out = output.data_ptr<float>(), *s = scale.data_ptr<float>(), *g = grad.data_ptr<float>();
    float *din = dinput.data_ptr<float>(), *dout = doutput.data_ptr<float>(), *ds = dscale.data_ptr<float>();
    at::parallel_for(0, parts, 1, [=](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part)
        vectorized([=]<Isa isa>() __attribute__((always_inline)) {
          const int64_t channels = rows.channels, batch = rows.batch;
          const int64_t begin = outFrames * part / parts * rows.repeat, end = std::min(outFrames * (part + 1) / parts * rows.repeat, rows.frames);  // all that one frame of output stands for
          for (int64_t r = begin * batch; r < end * batch; ++r) {
            const int64_t n = r % batch, outRow = r / batch / rows.repeat * batch + n;
            const float *__restrict a = in + r * channels, *__restrict b = out + outRow * channels, *__restrict up = g + r * channels, *__restrict w = s + n * rows.perUtterance;
            float *__restrict da = din + r * channels, *__restrict db = dout + outRow * channels, *__restrict dw = ds + (part * batch + n) * channels;
            for (int64_t c = 0; c < channels; ++c) {
              const float d = up[c] * w[c];
              da[c] = up[c] - d;
              dw[c] = mulAdd<isa>(up[c], b[c] - a[c], dw[c]);
            }
            if (rows.repeat == 1)
              for (int64_t c = 0; c < channels; ++c) db[c] = up[c] * w[c];
            else
              for (int64_t c = 0; c < channels; ++c) db[c] = mulAdd<isa>(up[c], w[c], db[c]);
          }
        });
    });
    const Tensor sum = sumOfParts(dscale);
    return {dinput, doutput, scale.dim() == 2 ? sum : sum.sum({0}), {}};
  }
};

// Frames (T', N, C) `repeat` times each, T of them.
Tensor repeated(const Tensor& x, int64_t repeat, int64_t frames) {
  if (repeat == 1) return x;
  return x.unsqueeze(1).expand({x.size(0), repeat, x.size(1), x.size(2)}).reshape({x.size(0) * repeat, x.size(1), x.size(2)}).narrow(0, 0, frames);
}

Tensor bypass(const Tensor& input, const Tensor& output, const Tensor& scale, int64_t repeat) {
  checkFloating("bypass", input);
  TORCH_CHECK(repeat > 0, "bypass: repeat is ", repeat, ", it must be at least 1");
  TORCH_CHECK(input.dim() == 3 && output.dim() == 3 && output.size(0) == (input.size(0) + repeat - 1) / repeat && output.sizes().slice(1) == input.sizes().slice(1),
              "bypass: input and output must be (T, N, C) and (T / ", repeat, ", N, C), they have shapes ", input.sizes(), " and ", output.sizes());
  TORCH_CHECK((scale.dim() == 1 || (scale.dim() == 2 && scale.size(0) == input.size(1))) && scale.size(-1) == input.size(2), "bypass: scale must be (C) or (N, C), it has shape ", scale.sizes(), ", input has shape ", input.sizes());
  const bool own = !composed() && input.numel() > 0 && isFloatOrNarrow(input) && isFloatOrNarrow(output) && scale.is_cpu() && scale.scalar_type() == at::kFloat;
  if (!own) return input + (repeated(output, repeat, input.size(0)) - input) * scale;
  const NoAutocast noAutocast;
  const Tensor a = input.to(at::kFloat).contiguous(), b = output.to(at::kFloat).contiguous(), s = scale.contiguous();
  return wantsGrad(input) || wantsGrad(output) || wantsGrad(scale) ? Bypass::apply(a, b, s, repeat) : Bypass::value(a, b, s, repeat);
}

}  // namespace

void registerBypass(torch::Library& m) { m.def("bypass(Tensor input, Tensor output, Tensor scale, int repeat=1) -> Tensor", &bypass); }

}  // namespace serac
