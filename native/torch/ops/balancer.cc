// balancer: leaves x as it is; in the backward pass adds |grad| * d, where d pulls the mean (over the standard deviation) and the rms of every
// channel into their ranges. For one channel of n values with mean m, mean square v, sd = sqrt(v - m^2), rms = sqrt(v), r = m / sd:
//   loss = |r - clamp(r, min_mean, max_mean)| + |log(clamp(rms, min_rms, max_rms) / rms)|
//   dloss/dx = a x + b, a = (-s m / sd^3 + t / v) / n, b = s (1 / sd + m^2 / sd^3) / n
// with s, t in {-1, 0, 1}: below, inside or above the range of r, of rms. d is that, brought to an rms of grad_scale. (icefall's Balancer.)
#include "torch/composed/composed.h"
#include "torch/ops/balancer.h"
#include "torch/ops/common.h"
#include "torch/ops/simd.h"

#include <vector>

namespace serac {
namespace {

// Sums over (outer, inner) of x - pivot for x laid out as (outer, channels, inner), where the pivot of a channel is its first value: float sums of
// x^2 would lose the variance of a channel whose mean is large. Parts are summed in a fixed order.
struct Sums {
  std::vector<double> sum, squares;
};

template <typename T>
std::vector<float> pivotsOf(const T* x, int64_t channels, int64_t inner) {
  std::vector<float> pivots(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) pivots[static_cast<size_t>(c)] = load(x[c * inner]);
  return pivots;
}

template <typename T>
Sums channelSums(const T* x, const std::vector<float>& pivots, int64_t outer, int64_t channels, int64_t inner) {
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), outer * channels * inner / kGrain));
  const auto size = static_cast<size_t>(channels);
  const float* pivot = pivots.data();
  std::vector<Sums> partial(static_cast<size_t>(parts), Sums{std::vector<double>(size, 0.0), std::vector<double>(size, 0.0)});
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      double* sum = partial[static_cast<size_t>(part)].sum.data();
      double* squares = partial[static_cast<size_t>(part)].squares.data();
      const int64_t begin = outer * part / parts, end = outer * (part + 1) / parts;
      if (inner == 1) {
        std::vector<float> rows(2 * size, 0.0f);
        float *s = rows.data(), *q = rows.data() + channels;
        constexpr int64_t kRows = 64;  // float sums of so many, then into the double ones
        for (int64_t block = begin; block < end; block += kRows) {
          const int64_t stop = std::min(block + kRows, end);
          std::fill(rows.begin(), rows.end(), 0.0f);
          vectorized([=]<Isa isa>() __attribute__((always_inline)) {
            float *__restrict sr = s, *__restrict qr = q;
            for (int64_t r = block; r < stop; ++r) {
              const T* row = x + r * channels;
              for (int64_t c = 0; c < channels; ++c) {
                const float v = load(row[c]) - pivot[c];
                sr[c] += v;
                qr[c] = mulAdd<isa>(v, v, qr[c]);
              }
            }
          });
          for (int64_t c = 0; c < channels; ++c) sum[c] += s[c], squares[c] += q[c];
        }
      } else {
        vectorized([=]<Isa isa>() __attribute__((always_inline)) {
          constexpr int kLanes = 16;
          for (int64_t o = begin; o < end; ++o)
            for (int64_t c = 0; c < channels; ++c) {
              const T* row = x + (o * channels + c) * inner;
              const float shift = pivot[c];
              float s[kLanes] = {}, q[kLanes] = {};
              int64_t i = 0;
              for (; i + kLanes <= inner; i += kLanes)
                for (int l = 0; l < kLanes; ++l) {
                  const float v = load(row[i + l]) - shift;
                  s[l] += v;
                  q[l] = mulAdd<isa>(v, v, q[l]);
                }
              for (; i < inner; ++i) {
                const float v = load(row[i]) - shift;
                s[0] += v;
                q[0] += v * v;
              }
              for (int l = 0; l < kLanes; ++l) sum[c] += s[l], squares[c] += q[l];
            }
        });
      }
    }
  });
  for (int64_t part = 1; part < parts; ++part)
    for (size_t c = 0; c < size; ++c) {
      partial[0].sum[c] += partial[static_cast<size_t>(part)].sum[c];
      partial[0].squares[c] += partial[static_cast<size_t>(part)].squares[c];
    }
  return std::move(partial[0]);
}

template <typename T>
void addGradient(const T* x, const T* grad, T* out, const std::vector<float>& a, const std::vector<float>& b, int64_t outer, int64_t channels, int64_t inner) {
  at::parallel_for(0, outer, std::max<int64_t>(1, kGrain / (channels * inner)), [&](int64_t begin, int64_t end) {
    const float *as = a.data(), *bs = b.data();
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      for (int64_t o = begin; o < end; ++o) {
        const T *__restrict xr = x + o * channels * inner, *__restrict gr = grad + o * channels * inner;
        T* __restrict to = out + o * channels * inner;
        if (inner == 1) {
          for (int64_t c = 0; c < channels; ++c) {
            const float g = load(gr[c]);
            store(to[c], mulAdd<isa>(__builtin_fabsf(g), mulAdd<isa>(as[c], load(xr[c]), bs[c]), g));
          }
        } else {
          for (int64_t c = 0; c < channels; ++c) {
            const float ac = as[c], bc = bs[c];
            for (int64_t i = c * inner; i < (c + 1) * inner; ++i) {
              const float g = load(gr[i]);
              store(to[i], mulAdd<isa>(__builtin_fabsf(g), mulAdd<isa>(ac, load(xr[i]), bc), g));
            }
          }
        }
      }
    });
  });
}

template <typename T>
void linesOf(const T* x, int64_t outer, int64_t channels, int64_t inner, const Range& range, float* a, float* b) {
  const std::vector<float> pivots = pivotsOf(x, channels, inner);
  const Sums sums = channelSums(x, pivots, outer, channels, inner);
  for (size_t c = 0; c < pivots.size(); ++c) {
    const Line line = lineOf(pivots[c], sums.sum[c], sums.squares[c], static_cast<double>(outer * inner), range);
    a[c] = line.a;
    b[c] = line.b;
  }
}

template <typename T>
Tensor balanceLoop(const Tensor& x, const Tensor& grad, int64_t dim, const Range& range) {
  // Channels last in memory: rows of channels; else (outer, channels, inner).
  const Tensor moved = x.movedim(dim, -1);
  const bool last = moved.is_contiguous();
  const Tensor in = last ? moved : x.contiguous();
  const Tensor g = (last ? grad.movedim(dim, -1) : grad).contiguous();
  Tensor out = at::empty_like(g);
  const int64_t channels = x.size(dim);
  int64_t inner = 1;
  if (!last)
    for (int64_t i = dim + 1; i < x.dim(); ++i) inner *= x.size(i);
  const int64_t outer = x.numel() / (channels * inner);
  std::vector<float> a(static_cast<size_t>(channels)), b(static_cast<size_t>(channels));
  linesOf(in.data_ptr<T>(), outer, channels, inner, range, a.data(), b.data());
  addGradient(in.data_ptr<T>(), g.data_ptr<T>(), out.data_ptr<T>(), a, b, outer, channels, inner);
  return last ? out.movedim(-1, dim) : out;
}

// The same by library operators, for other dtypes and devices.
Tensor balanceByOperators(const Tensor& x, const Tensor& grad, int64_t dim, const Range& range) {
  const auto dtype = computeDtype(x.scalar_type());
  const Tensor wide = x.to(dtype), g = grad.to(dtype);
  std::vector<int64_t> others;
  for (int64_t i = 0; i < x.dim(); ++i)
    if (i != dim) others.push_back(i);
  const auto mean = [&](const Tensor& t) { return others.empty() ? t : t.mean(others, true); };
  const double n = static_cast<double>(x.numel()) / static_cast<double>(x.size(dim));
  const Tensor m = mean(wide), v = mean(wide.square());
  const Tensor variance = v - m.square(), sd = variance.clamp_min(kTinyLevel).sqrt(), rms = v.clamp_min(kTinyLevel).sqrt();
  const Tensor r = m / sd;
  const Tensor s = (r > range.maxMean).to(dtype) - (r < range.minMean).to(dtype);
  const Tensor t = (rms > range.maxRms).to(dtype) - (rms < range.minRms).to(dtype);
  const Tensor cubed = (variance >= kTinyLevel).to(dtype) / (sd * sd * sd);
  const Tensor d = (t * (v >= kTinyLevel).to(dtype) / rms.square() - s * m * cubed) * wide + s * (1 / sd + m.square() * cubed);
  const Tensor level = mean(d.square()).sqrt() / n;  // d lacks the factor 1 / n
  return (g + g.abs() * d * (range.gradScale / n / level.clamp_min(kTinyLevel))).to(x.scalar_type());
}

struct Balancer : torch::autograd::Function<Balancer> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t dim, double minMean, double maxMean, double minRms, double maxRms, double gradScale) {
    ctx->save_for_backward({x});
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["range"] = std::vector<double>{minMean, maxMean, minRms, maxRms, gradScale};
    return sameStorage(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const Tensor x = ctx->get_saved_variables()[0];
    const int64_t dim = ctx->saved_data["dim"].toInt();
    const auto r = ctx->saved_data["range"].toDoubleVector();
    const Range range{r[0], r[1], r[2], r[3], r[4]};
    Tensor out = grads[0];
    if (x.numel() > 0) {
      const bool loop = x.is_cpu() && grads[0].scalar_type() == x.scalar_type();
      if (loop && x.scalar_type() == at::kFloat)
        out = balanceLoop<float>(x, grads[0], dim, range);
      else if (loop && x.scalar_type() == at::kBFloat16)
        out = balanceLoop<c10::BFloat16>(x, grads[0], dim, range);
      else
        out = balanceByOperators(x, grads[0], dim, range);
    }
    return {out, {}, {}, {}, {}, {}, {}};
  }
};

Tensor balancer(const Tensor& x, double minMean, double maxMean, double minRms, double maxRms, double gradScale, int64_t channelDim) {
  checkFloating("balancer", x);
  TORCH_CHECK(x.dim() > 0, "balancer: x is a scalar, it needs a dimension of channels");
  const int64_t dim = checkDim("balancer", x, channelDim);
  TORCH_CHECK(minMean <= maxMean, "balancer: min_mean ", minMean, " is above max_mean ", maxMean);
  TORCH_CHECK(minRms <= maxRms, "balancer: min_rms ", minRms, " is above max_rms ", maxRms);
  if (!wantsGrad(x)) return at::alias(x);
  if (composed()) return composition::balancer(x, dim, minMean, maxMean, minRms, maxRms, gradScale);
  return Balancer::apply(x, dim, minMean, maxMean, minRms, maxRms, gradScale);
}

}  // namespace

Tensor balancerLines(const Tensor& x, const Range& range) {
  const int64_t channels = x.size(-1), rows = x.numel() / channels;
  Tensor lines = at::empty({2, channels}, x.options().dtype(at::kFloat).requires_grad(false));
  float *a = lines.data_ptr<float>(), *b = a + channels;
  if (x.scalar_type() == at::kFloat)
    linesOf(x.data_ptr<float>(), rows, channels, 1, range, a, b);
  else
    linesOf(x.data_ptr<c10::BFloat16>(), rows, channels, 1, range, a, b);
  return lines;
}

void registerBalancer(torch::Library& m) {
  m.def("balancer(Tensor x, float min_mean, float max_mean, float min_rms, float max_rms, float grad_scale, int channel_dim) -> Tensor", &balancer);
}

}  // namespace serac
