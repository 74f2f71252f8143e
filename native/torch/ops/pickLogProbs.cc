// pick_log_probs: of log_softmax(logits) over the last dimension only what is asked for: the symbol of each row, and the blank. logits are kept as
// they are, with one number a row, instead of all log-probabilities.
#include "torch/composed/composed.h"
#include "torch/ops/logProbs.h"

namespace serac {
namespace {

struct PickLogProbs : torch::autograd::Function<PickLogProbs> {
  static variable_list forward(AutogradContext* ctx, const Tensor& logits, const Tensor& symbols, int64_t blank) {
    const int64_t size = logits.size(-1), rows = symbols.numel();
    const auto options = logits.options().requires_grad(false);
    Tensor norms = at::empty(symbols.sizes(), options), picked = at::empty(symbols.sizes(), options), blanks = at::empty(symbols.sizes(), options);
    const float* x = logits.data_ptr<float>();
    const int64_t* ids = symbols.data_ptr<int64_t>();
    float *norm = norms.data_ptr<float>(), *to = picked.data_ptr<float>(), *toBlank = blanks.data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / size), [=](int64_t begin, int64_t end) {
      vectorized([=]<Isa isa>() __attribute__((always_inline)) {
        for (int64_t r = begin; r < end; ++r) {
          const float* row = x + r * size;
          norm[r] = logSumExp<isa>(row, size);
          to[r] = row[ids[r]] - norm[r];
          toBlank[r] = row[blank] - norm[r];
        }
      });
    });
    ctx->save_for_backward({logits, symbols, norms});
    ctx->saved_data["blank"] = blank;
    return {picked, blanks};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &logits = saved[0], &symbols = saved[1], &norms = saved[2];
    const int64_t blank = ctx->saved_data["blank"].toInt(), size = logits.size(-1), rows = symbols.numel();
    const Tensor gradPicked = grads[0].contiguous(), gradBlank = grads[1].contiguous();
    Tensor out = at::empty(logits.sizes(), logits.options().requires_grad(false));
    const float *x = logits.data_ptr<float>(), *norm = norms.data_ptr<float>(), *g = gradPicked.data_ptr<float>(), *gb = gradBlank.data_ptr<float>();
    const int64_t* ids = symbols.data_ptr<int64_t>();
    float* to = out.data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / size), [=](int64_t begin, int64_t end) {
      vectorized([=]<Isa isa>() __attribute__((always_inline)) {
        for (int64_t r = begin; r < end; ++r) logitsGradient<isa>(x + r * size, size, norm[r], ids[r], g[r], blank, gb[r], to + r * size);
      });
    });
    return {out, {}, {}};
  }
};

std::tuple<Tensor, Tensor> pickLogProbs(const Tensor& logits, const Tensor& symbols, int64_t blank) {
  checkFloating("pick_log_probs", logits);
  TORCH_CHECK(logits.dim() > 0 && symbols.sizes() == logits.sizes().slice(0, static_cast<size_t>(logits.dim() - 1)) && symbols.scalar_type() == at::kLong, "pick_log_probs: symbols must be int64, one for each row of logits ",
              logits.sizes(), ", they are ", symbols.scalar_type(), " of shape ", symbols.sizes());
  TORCH_CHECK(blank >= 0 && blank < logits.size(-1), "pick_log_probs: blank ", blank, " is none of ", logits.size(-1), " symbols");
  if (composed() || !logits.is_cpu() || logits.scalar_type() != at::kFloat || logits.numel() == 0) return composition::pickLogProbs(logits, symbols, blank);
  TORCH_CHECK(symbols.min().item<int64_t>() >= 0 && symbols.max().item<int64_t>() < logits.size(-1), "pick_log_probs: a symbol is none of ", logits.size(-1));
  const NoAutocast noAutocast;
  const auto out = PickLogProbs::apply(logits.contiguous(), symbols.contiguous(), blank);
  return {out[0], out[1]};
}

}  // namespace

void registerPickLogProbs(torch::Library& m) { m.def("pick_log_probs(Tensor logits, Tensor symbols, int blank) -> (Tensor picked, Tensor blanks)", &pickLogProbs); }

}  // namespace serac
