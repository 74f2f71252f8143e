// whitening_metric and whiten. For x as frames (n, G, c), centred per channel, S_g = X_g^T X_g:
//   metric = b / (a^2 + 1e-20), a the mean of all diagonal entries, b = sum(S^2) / (G c); it is at least 1, and 1 where every S_g is a multiple of I.
// Its gradient is X_g (S_g - (b a / (a^2 + 1e-20)) I) * 4 / (G c (a^2 + 1e-20)); X is centred, so centring adds nothing to it. (icefall's Whiten.)
#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"
#include "torch/ops/gemm.h"
#include "torch/ops/gemmNarrow.h"
#include "torch/ops/lanes.h"

#include <cmath>
#include <vector>

namespace serac {
namespace {

constexpr double kTiny = 1e-20;

struct Statistics {
  Tensor x;           // (n, C), centred; or in bfloat16 as it came, beside its mean
  Tensor mean;        // (C), where x is not centred
  Tensor covariance;  // (G, c, c)
  Tensor a, b;
  Tensor metric() const { return b / (a.square() + kTiny); }
};

bool hasLoop(const Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat && hasGemm(); }
bool hasNarrowLoop(const Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kBFloat16 && hasGemmNarrow(); }

// As multiplyGroups, of numbers in bfloat16, whose products are exact in float: the covariance is that of centred numbers.
void covarianceNarrow(const Statistics& s, int64_t groups) {
  using Narrow = c10::BFloat16;
  const int64_t rows = s.x.size(0), channels = s.x.size(1), width = channels / groups;
  const Narrow* x = s.x.data_ptr<Narrow>();
  float* const to = s.covariance.data_ptr<float>();
  const auto product = [=](int64_t g) { gemmNarrow<Narrow, Narrow, float>(true, false, width, width, rows, x + g * width, channels, x + g * width, channels, nullptr, false, to + g * width * width, width); };
  if (groups == 1)
    product(0);
  else  // each too small to be divided
    at::parallel_for(0, groups, 1, [&](int64_t first, int64_t last) {
      for (int64_t g = first; g < last; ++g) product(g);
    });
  const Tensor mean = s.mean.view({groups, width});
  Tensor(s.covariance).sub_(mean.unsqueeze(2) * mean.unsqueeze(1), static_cast<double>(rows));
}

// (n, C) as (G, n, c), a view
Tensor grouped(const Tensor& x, int64_t groups) { return x.view({x.size(0), groups, -1}).transpose(0, 1); }

// The products of the groups of a (n, C), or its transpose, with those of b; `out` is (G, c, c) or (n, C).
void multiplyGroups(bool transposed, const Tensor& a, const Tensor& b, const Tensor& out, int64_t groups) {
  const int64_t rows = a.size(0), channels = a.size(1), width = channels / groups;
  const float *from = a.data_ptr<float>(), *by = b.data_ptr<float>();
  float* to = out.data_ptr<float>();
  for (int64_t g = 0; g < groups; ++g) {
    if (transposed)
      gemm(true, false, width, width, rows, from + g * width, channels, by + g * width, channels, 0.0f, to + g * width * width, width);
    else
      gemm(false, false, rows, width, width, from + g * width, channels, by + g * width * width, width, 0.0f, to + g * width, channels);
  }
}

Statistics statistics(const Tensor& x, int64_t groups) {
  const int64_t channels = x.size(-1), width = channels / groups;
  Statistics s;
  const Tensor rows = (hasNarrowLoop(x) ? x : toCompute(x)).reshape({-1, channels}).contiguous();
  if (hasNarrowLoop(rows)) {
    s.x = rows;
    s.mean = columnSums(rows).div_(static_cast<double>(rows.size(0)));
    s.covariance = at::empty({groups, width, width}, s.mean.options());
    covarianceNarrow(s, groups);
  } else if (hasLoop(rows)) {
    s.x = rows - columnSums(rows).div_(static_cast<double>(rows.size(0)));
    s.covariance = at::empty({groups, width, width}, s.x.options().requires_grad(false));
    multiplyGroups(true, s.x, s.x, s.covariance, groups);
  } else {
    s.x = rows - rows.mean({0}, true);
    s.covariance = at::bmm(grouped(s.x, groups).transpose(1, 2), grouped(s.x, groups));
  }
  s.a = s.covariance.diagonal(0, 1, 2).mean();
  s.b = s.covariance.square().sum() / channels;
  return s;
}

// x_g m_g of all groups, x centred, as (n, C) in float
Tensor timesGroups(const Statistics& s, const Tensor& m) {
  const Tensor& x = s.x;
  if (s.mean.defined()) {
    using Narrow = c10::BFloat16;
    const int64_t groups = m.size(0), width = m.size(1), channels = x.size(1);
    const Tensor start = at::bmm(s.mean.view({groups, 1, width}), m).neg();  // what the mean adds
    Tensor out = at::empty(x.sizes(), m.options());
    for (int64_t g = 0; g < groups; ++g)
      gemmNarrow<Narrow, float, float>(false, false, x.size(0), width, width, x.data_ptr<Narrow>() + g * width, channels, m.data_ptr<float>() + g * width * width, width, start.data_ptr<float>() + g * width, false,
                                       out.data_ptr<float>() + g * width, channels);
    return out;
  }
  if (!hasLoop(x)) return at::bmm(grouped(x, m.size(0)), m).transpose(0, 1).reshape(x.sizes());
  Tensor out = at::empty_like(x);
  multiplyGroups(false, x, m, out, m.size(0));
  return out;
}

// By blocks in float and these in double, in one order whatever the threads.
template <typename T>
double sumOfSquares(const T* x, int64_t n) {
  constexpr int64_t kBlock = 4096;
  std::vector<double> sums(static_cast<size_t>((n + kBlock - 1) / kBlock));
  at::parallel_for(0, static_cast<int64_t>(sums.size()), kGrain / kBlock, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block)
      vectorized([=, &sums]<Isa isa>() __attribute__((always_inline)) {
        const T* from = x + block * kBlock;
        sums[static_cast<size_t>(block)] = static_cast<double>(sumInLanes(std::min(kBlock, n - block * kBlock), [=](int64_t i) __attribute__((always_inline)) { return load(from[i]) * load(from[i]); }));
      });
  });
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

// to = g + extra * scale, of n numbers
template <typename G, typename T>
void addScaled(const G* g, const float* extra, float scale, T* to, int64_t n) {
  at::parallel_for(0, n, kGrain, [=](int64_t begin, int64_t end) {
    vectorized([=]<Isa isa>() __attribute__((always_inline)) {
      const G* __restrict from = g;
      T* __restrict out = to;
      for (int64_t i = begin; i < end; ++i) store(out[i], mulAdd<isa>(extra[i], scale, load(from[i])));
    });
  });
}

// The gradient of x and, beside it, `extra` at `part` of its size; in the type of x.
Tensor withExtra(const Tensor& x, const Tensor& grad, const Tensor& extra, double part) {
  const auto scaleOf = [part](double size, double extraSize) { return size * part / (extraSize + kTiny); };
  if (!isFloatOrNarrow(x) || !isFloatOrNarrow(grad) || extra.scalar_type() != at::kFloat || !extra.is_contiguous()) {
    const Tensor g = toCompute(grad);
    return at::add(g, extra, scaleOf(g.norm().item<double>(), extra.norm().item<double>())).to(x.scalar_type());
  }
  const Tensor in = grad.contiguous();
  Tensor out = at::empty(x.sizes(), x.options().requires_grad(false));
  const float* more = extra.data_ptr<float>();
  const int64_t n = x.numel();
  forType(in.scalar_type(), [&]<typename G>(G) {
    const G* g = in.data_ptr<G>();
    const auto scale = static_cast<float>(scaleOf(std::sqrt(sumOfSquares(g, n)), std::sqrt(sumOfSquares(more, n))));
    forType(x.scalar_type(), [&]<typename T>(T) { addScaled(g, more, scale, out.data_ptr<T>(), n); });
  });
  return out;
}

void check(const char* name, const Tensor& x, int64_t groups) {
  checkFloating(name, x);
  TORCH_CHECK(x.dim() > 0, name, ": x is a scalar, its last dimension must be the channels");
  TORCH_CHECK(groups > 0 && x.size(-1) > 0 && x.size(-1) % groups == 0, name, ": ", x.size(-1), " channels do not divide into ", groups, " groups");
}

struct Whiten : torch::autograd::Function<Whiten> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, int64_t groups, double limit, double gradScale, const Tensor& active) {
    ctx->save_for_backward({x});
    ctx->saved_data["groups"] = groups;
    ctx->saved_data["limit"] = limit;
    ctx->saved_data["grad_scale"] = gradScale;
    ctx->saved_data["active"] = active.detach();  // written by every backward pass, so its version must not be watched
    return sameStorage(x);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    at::NoGradGuard noGrad;
    const Tensor x = ctx->get_saved_variables()[0];
    Tensor out = grads[0];
    if (x.numel() > 0) {
      const Statistics s = statistics(x, ctx->saved_data["groups"].toInt());
      const bool active = s.metric().item<double>() >= ctx->saved_data["limit"].toDouble();
      ctx->saved_data["active"].toTensor().fill_(active ? 1.0 : 0.0);
      if (active) {
        const Tensor a2 = s.a.square() + kTiny;
        Tensor inner = s.covariance.clone();
        inner.diagonal(0, 1, 2).sub_(s.b * s.a / a2);
        const Tensor extra = timesGroups(s, inner.mul_(4 / (a2 * x.size(-1)))).view(x.sizes());
        out = withExtra(x, grads[0], extra, ctx->saved_data["grad_scale"].toDouble());
      }
    }
    return {out, {}, {}, {}, {}};
  }
};

Tensor whiten(const Tensor& x, int64_t groups, double limit, double gradScale, const Tensor& active) {
  check("whiten", x, groups);
  TORCH_CHECK(active.numel() == 1 && at::isFloatingType(active.scalar_type()) && !active.requires_grad(), "whiten: active must be one number without a gradient");
  if (!wantsGrad(x)) return at::alias(x);
  return composed() ? composition::whiten(x, groups, limit, gradScale, active) : Whiten::apply(x, groups, limit, gradScale, active);
}

Tensor whiteningMetric(const Tensor& x, int64_t groups) {
  check("whitening_metric", x, groups);
  TORCH_CHECK(x.numel() > 0, "whitening_metric: x is empty");
  const NoAutocast noAutocast;
  return statistics(x, groups).metric();
}

}  // namespace

void registerWhiten(torch::Library& m) {
  m.def("whiten(Tensor x, int num_groups, float limit, float grad_scale, Tensor(a!) active) -> Tensor", &whiten);
  m.def("whitening_metric(Tensor x, int num_groups) -> Tensor", &whiteningMetric);
}

}  // namespace serac
