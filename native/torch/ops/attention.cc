// attention_weights: softmax over the sources of query . key + position . encoding(source - target), for frames (T, N, h d).
// attend: their products with values. Matrices are taken as they lie in memory; scores exist once, as the weights that they become.
// Under autocast weights are kept in bfloat16, products are of bfloat16 where the CPU multiplies those, and sums are in float.
#include "torch/composed/composed.h"
#include "torch/ops/columnSums.h"
#include "torch/ops/gemm.h"
#include "torch/ops/lanes.h"

namespace serac {
namespace {

// Frames (T, N, h d) as T x d matrices, one for each head and utterance.
struct Frames {
  Tensor owner;
  float* data;
  int64_t frames, batch, heads, dim;
  int64_t frame, utterance;  // strides

  Frames(const Tensor& x, int64_t h) : owner(x.stride(2) == 1 || x.size(2) <= 1 ? x : x.contiguous()) {
    data = owner.data_ptr<float>();
    frames = x.size(0), batch = x.size(1), heads = h, dim = x.size(2) / h;
    frame = std::max<int64_t>(owner.stride(0), dim), utterance = owner.stride(1);
  }
  float* at(int64_t index) const { return data + index % batch * utterance + index / batch * dim; }  // of head index / batch

  // A matrix to and from memory without holes: where it lies its rows may be powers of two apart, and fight for the same lines of the cache.
  int64_t size() const { return frames * dim; }
  const float* gather(int64_t index, float* to) const {
    const float* const from = at(index);
    for (int64_t t = 0; t < frames; ++t) std::copy_n(from + t * frame, dim, to + t * dim);
    return to;
  }
  void scatter(int64_t index, const float* from) const {
    float* const to = at(index);
    for (int64_t t = 0; t < frames; ++t) std::copy_n(from + t * dim, dim, to + t * frame);
  }
};

// exp(v) for v <= 0, and exactly 0 for what is so small that it does not count; a NaN stays one.
template <Isa isa>
SERAC_INLINE float expOrZero(float v) {
  constexpr int32_t kNaN = 0x7fc00000;
  return std::bit_cast<float>((std::bit_cast<int32_t>(expOfNegative<isa>(v)) & -static_cast<int32_t>(v > -87.0f)) | (kNaN & -static_cast<int32_t>(v != v)));
}

// One row of scores, in place; `position` are the dims of one target, `encoding` (dims, offsets) begins at the offset of source 0.
void addPositions(float* scores, int64_t sources, const float* position, const float* encoding, int64_t dims, int64_t offsets) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    float* __restrict s = scores;
    for (int64_t d = 0; d < dims; ++d) {
      const float p = position[d];
      const float* e = encoding + d * offsets;
      for (int64_t j = 0; j < sources; ++j) s[j] = mulAdd<isa>(p, e[j], s[j]);
    }
  });
}

void softmaxRow(float* scores, int64_t sources) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    const float max = maxInLanes(scores, sources);
    const float sum = sumInLanes(sources, [=](int64_t j) __attribute__((always_inline)) { return scores[j] = expOrZero<isa>(scores[j] - max); });
    const float scale = 1.0f / sum;
    for (int64_t j = 0; j < sources; ++j) scores[j] *= scale;
  });
}

// ds = a * (da - sum(a * da))
template <typename T>
void softmaxBackwardRow(const T* a, const T* da, const T* more, float* ds, int64_t sources) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    float* __restrict to = ds;
    if (more)
      for (int64_t j = 0; j < sources; ++j) to[j] = load(da[j]) + load(more[j]);
    else
      for (int64_t j = 0; j < sources; ++j) to[j] = load(da[j]);
    const float dot = sumInLanes(sources, [=](int64_t j) __attribute__((always_inline)) { return load(a[j]) * to[j]; });
    for (int64_t j = 0; j < sources; ++j) to[j] = load(a[j]) * (to[j] - dot);
  });
}

template <typename T>
void widen(const T* from, float* to, int64_t n) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    float* __restrict out = to;
    for (int64_t i = 0; i < n; ++i) out[i] = load(from[i]);
  });
}
template <typename T>
void narrow(const float* from, T* to, int64_t n) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    T* __restrict out = to;
    for (int64_t i = 0; i < n; ++i) store(out[i], from[i]);
  });
}

template <typename T>
constexpr bool isFloatType = std::is_same_v<T, float>;

// Gradients of one target's position, and of the encodings.
void positionsBackward(const float* ds, int64_t sources, const float* position, const float* encoding, float* dposition, float* dencoding, int64_t dims, int64_t offsets) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    for (int64_t d = 0; d < dims; ++d) {
      const float* e = encoding + d * offsets;
      float* __restrict de = dencoding + d * offsets;
      const float p = position[d];
      dposition[d] = sumInLanes(sources, [=](int64_t j) __attribute__((always_inline)) { return ds[j] * e[j]; });
      for (int64_t j = 0; j < sources; ++j) de[j] = mulAdd<isa>(p, ds[j], de[j]);
    }
  });
}

// (offsets, h dims) as (h, dims, offsets), or back.
Tensor byHead(const Tensor& encoding, int64_t heads) { return encoding.view({encoding.size(0), heads, -1}).permute({1, 2, 0}).contiguous(); }

struct Mask {
  Tensor owner;
  const bool* data = nullptr;
  int64_t matrix = 0, row = 0;  // strides
  // mask broadcasts to (N, target, source)
  Mask(const Optional<Tensor>& mask, int64_t utterances, int64_t targets, int64_t sources) {
    if (!mask.has_value() || !mask->defined()) return;
    owner = mask->contiguous().expand({utterances, targets, sources});
    data = owner.data_ptr<bool>();
    matrix = owner.stride(0), row = owner.stride(1);
    if (sources > 1 && owner.stride(2) == 0) owner = owner.contiguous(), data = owner.data_ptr<bool>(), matrix = owner.stride(0), row = owner.stride(1);
  }
};

constexpr float kMasked = -1000;  // in place of minus infinity: a row without any source must not become NaN
constexpr int64_t kTargets = 64;  // whose scores stay in the second cache until they are weights

// -1, 0 or 1: on which side of the limits a score lies
void signsBeyond(const float* scores, int64_t sources, float limit, int8_t* sign) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    for (int64_t j = 0; j < sources; ++j) sign[j] = static_cast<int8_t>((scores[j] > limit) - (scores[j] < -limit));
  });
}

void maskRow(float* scores, int64_t sources, const bool* mask) {
  vectorized([=]<Isa isa>() __attribute__((always_inline)) {
    for (int64_t j = 0; j < sources; ++j) scores[j] = mask[j] ? kMasked : scores[j];
  });
}

struct Weights : torch::autograd::Function<Weights> {
  struct Options {
    int64_t heads;
    double limit, penalty;  // where limit > 0
    at::ScalarType dtype;   // of the weights
  };

  // The weights, and the signs of scores beyond the limit.
  static std::pair<Tensor, Tensor> value(const Tensor& query, const Tensor& key, const Optional<Tensor>& position, const Optional<Tensor>& encoding, const Optional<Tensor>& mask, Options o) {
    const Frames q(query, o.heads), k(key, o.heads);
    const int64_t frames = q.frames, matrices = q.batch * q.heads;
    Tensor weights = at::empty({matrices, frames, frames}, query.options().dtype(o.dtype).requires_grad(false));
    Tensor signs = o.limit > 0 ? at::empty(weights.sizes(), weights.options().dtype(at::kChar)) : Tensor();
    const bool positions = position.has_value();
    const Frames p(positions ? *position : query, o.heads);
    const Tensor encodings = positions ? byHead(*encoding, o.heads) : Tensor();
    const float* e = positions ? encodings.data_ptr<float>() : nullptr;
    const int64_t offsets = 2 * frames - 1;
    const Mask masked(mask, q.batch, frames, frames);
    int8_t* const sign = signs.defined() ? signs.data_ptr<int8_t>() : nullptr;
    forType(o.dtype, [&]<typename T>(T) {
    T* const out = weights.data_ptr<T>();
    at::parallel_for(0, matrices, 1, [&](int64_t first, int64_t last) {
      const Scratch scratch(isFloatType<T> ? 0 : kTargets * frames), matrix(q.size() + k.size());
      for (int64_t i = first; i < last; ++i) {
        const float *const queries = q.gather(i, matrix.data()), *const keys = k.gather(i, matrix.data() + q.size());
        const Factor across(!isFloatType<T>, true, frames, frames, k.dim, keys, k.dim);
        for (int64_t begin = 0; begin < frames; begin += kTargets) {
          const int64_t rows = std::min(kTargets, frames - begin), at = (i * frames + begin) * frames;
          float* scores = scratch.data();
          if constexpr (isFloatType<T>) scores = out + at;
          gemm(false, rows, queries + begin * q.dim, q.dim, across, nullptr, false, scores, frames);
          for (int64_t r = 0; r < rows; ++r) {
            const int64_t t = begin + r;
            float* const row = scores + r * frames;
            if (positions) addPositions(row, frames, p.at(i) + t * p.frame, e + i / q.batch * p.dim * offsets + frames - 1 - t, p.dim, offsets);
            if (sign) signsBeyond(row, frames, static_cast<float>(o.limit), sign + at + r * frames);
            if (masked.data) maskRow(row, frames, masked.data + i % q.batch * masked.matrix + t * masked.row);
            softmaxRow(row, frames);
          }
          if constexpr (!isFloatType<T>) narrow(scores, out + at, rows * frames);
        }
      }
    });
    });
    return {weights, signs};
  }

  static Tensor firstOf(const Tensor& weights, int64_t heads) { return weights.narrow(0, 0, weights.size(0) / heads); }

  static variable_list forward(AutogradContext* ctx, const Tensor& query, const Tensor& key, const Optional<Tensor>& position, const Optional<Tensor>& encoding, const Optional<Tensor>& mask, Options o) {
    auto [weights, signs] = value(query, key, position, encoding, mask, o);
    const bool positions = position.has_value();
    ctx->save_for_backward({query, key, positions ? *position : Tensor(), positions ? *encoding : Tensor(), weights, signs});
    ctx->saved_data["heads"] = o.heads;
    ctx->saved_data["penalty"] = o.penalty;
    ctx->set_materialize_grads(false);
    return {weights, sameStorage(firstOf(weights, o.heads))};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const int64_t heads = ctx->saved_data["heads"].toInt();
    const auto penalty = static_cast<float>(ctx->saved_data["penalty"].toDouble());
    const Tensor &query = saved[0], &key = saved[1], &weights = saved[4], &signs = saved[5];
    const bool positions = saved[2].defined();
    const Frames q(query, heads), k(key, heads), p(positions ? saved[2] : query, heads);
    const int64_t frames = q.frames, matrices = q.batch * heads, offsets = 2 * frames - 1;
    const Tensor encodings = positions ? byHead(saved[3], heads) : Tensor();
    const auto options = query.options().requires_grad(false);
    const Tensor dweights = grads[0].defined() ? grads[0].to(weights.scalar_type()).contiguous() : at::zeros(weights.sizes(), weights.options());
    const Tensor dfirst = grads[1].defined() ? grads[1].to(weights.scalar_type()).contiguous() : Tensor();
    Tensor dquery = at::empty(query.sizes(), options), dkey = at::empty(key.sizes(), options), dposition = positions ? at::empty(saved[2].sizes(), options) : Tensor();
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), matrices));
    Tensor dencodings = positions ? at::zeros({parts, heads * p.dim * offsets}, options) : Tensor();
    const Frames dq(dquery, heads), dk(dkey, heads), dp(positions ? dposition : dquery, heads);
    const float* e = positions ? encodings.data_ptr<float>() : nullptr;
    const int8_t* sign = signs.defined() ? signs.data_ptr<int8_t>() : nullptr;
    float* de = positions ? dencodings.data_ptr<float>() : nullptr;
    forType(weights.scalar_type(), [&]<typename T>(T) {
    const T *a = weights.data_ptr<T>(), *da = dweights.data_ptr<T>(), *da0 = dfirst.defined() ? dfirst.data_ptr<T>() : nullptr;
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      const Scratch scores(frames * frames), matrix(2 * q.size());
      for (int64_t part = first; part < last; ++part)
        for (int64_t i = matrices * part / parts; i < matrices * (part + 1) / parts; ++i) {
          const int64_t head = i / q.batch, at = i * frames * frames;
          for (int64_t t = 0; t < frames; ++t) {
            float* const row = scores.data() + t * frames;
            softmaxBackwardRow(a + at + t * frames, da + at + t * frames, da0 && head == 0 ? da0 + (i * frames + t) * frames : nullptr, row, frames);
            if (sign)
              for (int64_t j = 0; j < frames; ++j) row[j] += penalty * static_cast<float>(sign[at + t * frames + j]);
            if (positions) {
              const int64_t begin = head * p.dim * offsets + frames - 1 - t;
              positionsBackward(row, frames, p.at(i) + t * p.frame, e + begin, dp.at(i) + t * dp.frame, de + part * heads * p.dim * offsets + begin, p.dim, offsets);
            }
          }
          float* const product = matrix.data() + q.size();
          gemm(!isFloatType<T>, false, false, frames, q.dim, frames, scores.data(), frames, k.gather(i, matrix.data()), k.dim, 0.0f, product, q.dim);
          dq.scatter(i, product);
          gemm(!isFloatType<T>, true, false, frames, q.dim, frames, scores.data(), frames, q.gather(i, matrix.data()), q.dim, 0.0f, product, k.dim);
          dk.scatter(i, product);
        }
    });
    });
    Tensor dencoding;
    if (positions) dencoding = sumOfParts(dencodings).view({heads * p.dim, offsets}).t().reshape(saved[3].sizes());
    return {dquery, dkey, dposition, dencoding, {}, {}};
  }
};

std::tuple<Tensor, Tensor> attentionWeights(const Tensor& query, const Tensor& key, const Optional<Tensor>& position, const Optional<Tensor>& encoding, const Optional<Tensor>& mask, int64_t heads,
                                            double limit, double penalty) {
  constexpr const char* kName = "attention_weights";
  checkFloating(kName, query);
  TORCH_CHECK(query.dim() == 3 && key.sizes() == query.sizes() && heads > 0 && query.size(2) % heads == 0, kName, ": query ", query.sizes(), " and key ", key.sizes(), " must be (T, N, h d) for ", heads, " heads");
  const int64_t frames = query.size(0), batch = query.size(1);
  const bool positions = position.has_value() && position->defined();
  TORCH_CHECK(positions == (encoding.has_value() && encoding->defined()), kName, ": positions need encodings, and these those");
  if (positions)
    TORCH_CHECK(position->dim() == 3 && position->size(0) == frames && position->size(1) == batch && position->size(2) % heads == 0 && encoding->dim() == 2 && encoding->size(0) == 2 * frames - 1 &&
                    encoding->size(1) == position->size(2),
                kName, ": position must be (T, N, h p) and encoding (2 T - 1, h p), they have shapes ", position->sizes(), " and ", encoding->sizes(), ", query has shape ", query.sizes());
  const Optional<Tensor> none, p = positions ? position : none, e = positions ? encoding : none;
  const at::ScalarType dtype = autocastDtype(query);
  const bool own = !composed() && hasGemm() && isFloatOrNarrow(query) && isFloatOrNarrow(key) && (!positions || (isFloatOrNarrow(*p) && isFloatOrNarrow(*e))) && (dtype == at::kFloat || dtype == at::kBFloat16) && query.numel() > 0;
  if (!own) {
    const Tensor weights = composition::attentionWeights(query, key, p, e, mask, heads, limit, penalty);
    return {weights, Weights::firstOf(weights, heads)};
  }
  const NoAutocast noAutocast;
  const Tensor q = query.to(at::kFloat), k = key.to(at::kFloat);
  const Optional<Tensor> wideP = positions ? Optional<Tensor>(p->to(at::kFloat)) : none, wideE = positions ? Optional<Tensor>(e->to(at::kFloat).contiguous()) : none;
  if (wantsGrad(query) || wantsGrad(key) || (positions && (wantsGrad(*p) || wantsGrad(*e)))) {
    const auto out = Weights::apply(q, k, wideP, wideE, mask, Weights::Options{heads, limit, penalty, dtype});
    return {out[0], out[1]};
  }
  const Tensor weights = Weights::value(q, k, wideP, wideE, mask, {heads, 0, 0, dtype}).first;
  return {weights, Weights::firstOf(weights, heads)};
}

struct Attend : torch::autograd::Function<Attend> {
  // Matrix i of the weights, multiplied as it lies where the CPU multiplies bfloat16, else in float.
  template <typename T>
  struct Matrices {
    const T* data;
    int64_t step, ld, targets, sources;
    bool narrow = !isFloatType<T> && hasGemmNarrow();
    explicit Matrices(const Tensor& w) : data(w.data_ptr<T>()), step(w.stride(0)), ld(w.stride(1)), targets(w.size(1)), sources(w.size(2)) {}
    int64_t roomSize() const { return isFloatType<T> || narrow ? 0 : targets * sources; }

    // y = weights x, or their transpose times x; x and y have `dim` columns.
    void times(int64_t i, bool transposed, const float* x, int64_t dim, float* y, float* room) const {
      const int64_t rows = transposed ? sources : targets, terms = transposed ? targets : sources;
      const T* const from = data + i * step;
      if constexpr (isFloatType<T>) {
        gemm(transposed, false, rows, dim, terms, from, ld, x, dim, 0.0f, y, dim);
      } else if (narrow) {
        gemmNarrow<T, float, float>(transposed, false, rows, dim, terms, from, ld, x, dim, nullptr, false, y, dim);
      } else {
        for (int64_t t = 0; t < targets; ++t) widen(from + t * ld, room + t * sources, sources);
        gemm(transposed, false, rows, dim, terms, room, sources, x, dim, 0.0f, y, dim);
      }
    }

    // Their gradient g x^T, without holes.
    void gradient(const float* g, const float* x, int64_t dim, T* to, float* room) const {
      if constexpr (isFloatType<T>) {
        gemm(false, true, targets, sources, dim, g, dim, x, dim, 0.0f, to, sources);
      } else if (narrow) {
        gemmNarrow<float, float, T>(false, true, targets, sources, dim, g, dim, x, dim, nullptr, false, to, sources);
      } else {
        gemm(false, true, targets, sources, dim, g, dim, x, dim, 0.0f, room, sources);
        serac::narrow(room, to, targets * sources);
      }
    }
  };

  static Tensor value(const Tensor& weights, const Tensor& values) {
    const int64_t heads = weights.size(0) / values.size(1);
    const Tensor w = weights.stride(2) == 1 ? weights : weights.contiguous();
    Tensor y = at::empty({weights.size(1), values.size(1), values.size(2)}, values.options().requires_grad(false));
    const Frames v(values, heads), out(y, heads);
    forType(w.scalar_type(), [&]<typename T>(T) {
      const Matrices<T> matrices(w);
      at::parallel_for(0, weights.size(0), 1, [&](int64_t first, int64_t last) {
        const Scratch room(matrices.roomSize()), matrix(v.size() + out.size());
        float* const product = matrix.data() + v.size();
        for (int64_t i = first; i < last; ++i) {
          matrices.times(i, false, v.gather(i, matrix.data()), v.dim, product, room.data());
          out.scatter(i, product);
        }
      });
    });
    return y;
  }

  static Tensor forward(AutogradContext* ctx, const Tensor& weights, const Tensor& values) {
    ctx->save_for_backward({weights, values});
    return value(weights, values);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor &weights = saved[0], &values = saved[1];
    const int64_t heads = weights.size(0) / values.size(1), size = weights.size(1) * weights.size(2);
    const Tensor w = weights.stride(2) == 1 ? weights : weights.contiguous();
    const auto options = values.options().requires_grad(false);
    Tensor dweights = weights.requires_grad() ? at::empty(weights.sizes(), options.dtype(weights.scalar_type())) : Tensor(), dvalues = at::empty(values.sizes(), options);
    const Frames v(values, heads), g(grads[0], heads), dv(dvalues, heads);
    forType(w.scalar_type(), [&]<typename T>(T) {
      T* const da = dweights.defined() ? dweights.data_ptr<T>() : nullptr;
      const Matrices<T> matrices(w);
      at::parallel_for(0, weights.size(0), 1, [&](int64_t first, int64_t last) {
        const Scratch room(matrices.roomSize()), matrix(g.size() + v.size());
        float* const value = matrix.data() + g.size();
        for (int64_t i = first; i < last; ++i) {
          const float* const grad = g.gather(i, matrix.data());
          matrices.times(i, true, grad, v.dim, value, room.data());
          dv.scatter(i, value);
          if (da) matrices.gradient(grad, v.gather(i, value), v.dim, da + i * size, room.data());
        }
      });
    });
    return {dweights, dvalues};
  }
};

Tensor attend(const Tensor& weights, const Tensor& values) {
  constexpr const char* kName = "attend";
  checkFloating(kName, values);
  TORCH_CHECK(weights.dim() == 3 && values.dim() == 3 && values.size(1) > 0 && weights.size(0) % values.size(1) == 0 && weights.size(0) > 0 && weights.size(2) == values.size(0) &&
                  values.size(2) % (weights.size(0) / values.size(1)) == 0,
              kName, ": weights must be (h N, target, source) and values (source, N, h d), they have shapes ", weights.sizes(), " and ", values.sizes());
  const at::ScalarType dtype = autocastDtype(values);
  const bool own = !composed() && hasGemm() && isFloatOrNarrow(weights) && isFloatOrNarrow(values) && (dtype == at::kFloat || dtype == at::kBFloat16) && weights.numel() > 0 && values.numel() > 0;
  if (!own) return composition::attend(weights, values);
  const NoAutocast noAutocast;
  const Tensor wide = values.to(at::kFloat);
  return (wantsGrad(weights) || wantsGrad(values) ? Attend::apply(weights, wide) : Attend::value(weights, wide)).to(dtype);
}

}  // namespace

void registerAttention(torch::Library& m) {
  m.def(
      "attention_weights(Tensor query, Tensor key, Tensor? position, Tensor? encoding, Tensor? mask, int heads, float limit=0., float penalty=0.) -> (Tensor weights, Tensor first)",
      &attentionWeights);
  m.def("attend(Tensor weights, Tensor values) -> Tensor", &attend);
}

}  // namespace serac
