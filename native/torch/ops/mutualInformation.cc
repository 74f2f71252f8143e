// mutual_information: the transducer lattice (k2's mutual_information_recursion).
//   p[s, t] = logaddexp(p[s-1, t-d] + px[s-1, t-d], p[s, t-1] + py[s, t-1]), d = 1 where modified, else 0; score = p[s_end, t_end]
// The gradients of the score are occupation counts: how likely a path is to take each step. Cells outside a boundary are never read. Counts below 2^-100
// are 0 (not in composed mode, which is k2's): products with them would leave the normal range of float, where some CPUs take many times as long.
#include "torch/composed/composed.h"
#include "torch/ops/common.h"

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

namespace serac {
namespace {

template <typename T>
T logAdd(T a, T b) {
  const T high = a > b ? a : b, low = a > b ? b : a;
  const T d = low - high;
  if (!(d > std::log(std::numeric_limits<T>::epsilon()))) return high != high || low != low ? low + high : high;  // also both -inf
  return high + std::log1p(std::exp(d));
}

struct Lattice {
  int64_t symbols, frames;  // S, T: px is (S, T + 1) or (S, T) where modified, py (S + 1, T)
  int64_t modified;
  int64_t pxColumns() const { return frames + 1 - modified; }
};

struct Boundary {
  int64_t sBegin, tBegin, sEnd, tEnd;
};

// Fills p (S + 1, T + 1) inside the boundary; returns the score.
template <typename T>
T forwardOne(const T* px, const T* py, T* p, const Lattice& l, const Boundary& b) {
  const int64_t width = l.frames + 1, columns = l.pxColumns();
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  for (int64_t s = b.sBegin; s <= b.sEnd; ++s)
    for (int64_t t = b.tBegin; t <= b.tEnd; ++t) {
      if (s == b.sBegin && t == b.tBegin) {
        p[s * width + t] = 0;
        continue;
      }
      const int64_t from = t - l.modified;
      const T up = s > b.sBegin && from >= b.tBegin ? p[(s - 1) * width + from] + px[(s - 1) * columns + from] : kNone;
      const T left = t > b.tBegin ? p[s * width + t - 1] + py[s * l.frames + t - 1] : kNone;
      p[s * width + t] = logAdd(up, left);
    }
  return p[b.sEnd * width + b.tEnd];
}

// Occupation counts, from the end to the start; q (S + 1, T + 1) holds those of the cells. As k2's CPU code: the share of the px step is
// exp(its score - the cell's), the rest is py's; a cell without a finite score counts as 0 there, and a share that is not finite makes both 0.
template <typename T>
void backwardOne(const T* px, const T* p, T* q, T* pxGrad, T* pyGrad, const Lattice& l, const Boundary& b, T least) {
  const auto orNothing = [=](T count) { return count < least ? T(0) : count; };
  const int64_t width = l.frames + 1, columns = l.pxColumns();
  q[b.sEnd * width + b.tEnd] = 1;
  for (int64_t s = b.sEnd; s >= b.sBegin; --s)
    for (int64_t t = b.tEnd; t >= b.tBegin; --t) {
      const T count = q[s * width + t];
      if (count == 0) continue;
      const T total = std::isfinite(p[s * width + t]) ? p[s * width + t] : T(0);
      const int64_t from = t - l.modified;
      const bool hasUp = s > b.sBegin && from >= b.tBegin, hasLeft = t > b.tBegin;
      T up = 0;
      if (hasUp) up = std::exp(p[(s - 1) * width + from] + px[(s - 1) * columns + from] - total);
      T left = 1 - up;
      if (!std::isfinite(up)) up = left = 0;
      if (hasUp) {
        const T share = orNothing(count * up);
        pxGrad[(s - 1) * columns + from] = share;
        q[(s - 1) * width + from] += share;
      }
      if (hasLeft) {
        const T share = orNothing(count * left);
        pyGrad[s * l.frames + t - 1] = share;
        q[s * width + t - 1] += share;
      }
    }
}

Lattice latticeOf(const Tensor& px, const Tensor& py, const Tensor& boundary, bool modified) {
  constexpr const char* kName = "mutual_information";
  TORCH_CHECK(px.dim() == 3 && py.dim() == 3, kName, ": px and py must have 3 dimensions, they have shapes ", px.sizes(), " and ", py.sizes());
  TORCH_CHECK(px.scalar_type() == py.scalar_type() && (px.scalar_type() == at::kFloat || px.scalar_type() == at::kDouble), kName,
              ": px and py must both be float or both double, they are ", px.scalar_type(), " and ", py.scalar_type());
  const Lattice l{px.size(1), py.size(2), modified ? 1 : 0};
  TORCH_CHECK(py.size(0) == px.size(0) && py.size(1) == l.symbols + 1 && px.size(2) == l.pxColumns(), kName, ": px has shape ", px.sizes(), ", so py must be (B, S + 1, T) with px (B, S, ",
              modified ? "T" : "T + 1", "), it has shape ", py.sizes());
  TORCH_CHECK(boundary.dim() == 2 && boundary.size(0) == px.size(0) && boundary.size(1) == 4 && boundary.scalar_type() == at::kLong, kName,
              ": boundary must be int64 of shape (", px.size(0), ", 4), it is ", boundary.scalar_type(), " of shape ", boundary.sizes());
  TORCH_CHECK(px.device() == py.device(), kName, ": px is on ", px.device(), ", py on ", py.device());
  return l;
}

std::vector<Boundary> boundariesOf(const Tensor& boundary, const Lattice& l) {
  const Tensor rows = boundary.cpu().contiguous();
  const int64_t* v = rows.data_ptr<int64_t>();
  std::vector<Boundary> out;
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const Boundary b{v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]};
    TORCH_CHECK(0 <= b.sBegin && b.sBegin <= b.sEnd && b.sEnd <= l.symbols && 0 <= b.tBegin && b.tBegin <= b.tEnd && b.tEnd <= l.frames, "mutual_information: boundary ", i,
                " is [", b.sBegin, ", ", b.tBegin, ", ", b.sEnd, ", ", b.tEnd, "], outside of ", l.symbols, " symbols and ", l.frames, " frames");
    out.push_back(b);
  }
  return out;
}

// CPU tensors in, CPU tensors out: scores, and the occupation counts where wanted (else empty).
template <typename T>
std::tuple<Tensor, Tensor, Tensor> run(const Tensor& px, const Tensor& py, const std::vector<Boundary>& boundaries, const Lattice& l, bool counts) {
  const int64_t batch = px.size(0), cells = (l.symbols + 1) * (l.frames + 1);
  Tensor scores = at::empty({batch}, px.options());
  Tensor pxGrad = counts ? at::zeros_like(px) : at::empty({0}, px.options());
  Tensor pyGrad = counts ? at::zeros_like(py) : at::empty({0}, py.options());
  const int64_t pxSize = l.symbols * l.pxColumns(), pySize = (l.symbols + 1) * l.frames;
  const T *pxData = px.data_ptr<T>(), *pyData = py.data_ptr<T>();
  T *score = scores.data_ptr<T>(), *pxOut = pxGrad.data_ptr<T>(), *pyOut = pyGrad.data_ptr<T>();
  const T least = composed() ? T(0) : T(0x1p-100);
  at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> p(static_cast<size_t>(cells)), q(static_cast<size_t>(counts ? cells : 0));
    for (int64_t i = begin; i < end; ++i) {
      const Boundary& b = boundaries[static_cast<size_t>(i)];
      score[i] = forwardOne(pxData + i * pxSize, pyData + i * pySize, p.data(), l, b);
      if (!counts) continue;
      std::fill(q.begin(), q.end(), T(0));
      backwardOne(pxData + i * pxSize, p.data(), q.data(), pxOut + i * pxSize, pyOut + i * pySize, l, b, least);
    }
  });
  return {scores, pxGrad, pyGrad};
}

std::tuple<Tensor, Tensor, Tensor> compute(const Tensor& px, const Tensor& py, const Tensor& boundary, const Lattice& l, bool counts) {
  const auto boundaries = boundariesOf(boundary, l);
  const Tensor x = px.detach().cpu().contiguous(), y = py.detach().cpu().contiguous();
  auto [scores, pxGrad, pyGrad] = px.scalar_type() == at::kFloat ? run<float>(x, y, boundaries, l, counts) : run<double>(x, y, boundaries, l, counts);
  return {scores.to(px.device()), pxGrad.to(px.device()), pyGrad.to(px.device())};
}

struct MutualInformation : torch::autograd::Function<MutualInformation> {
  static variable_list forward(AutogradContext* ctx, const Tensor& px, const Tensor& py, const Tensor& boundary, bool modified) {
    const NoAutocast noAutocast;
    auto [scores, pxGrad, pyGrad] = compute(px, py, boundary, latticeOf(px, py, boundary, modified), true);
    ctx->mark_non_differentiable({pxGrad, pyGrad});
    ctx->save_for_backward({pxGrad, pyGrad});
    return {scores, pxGrad, pyGrad};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const NoAutocast noAutocast;
    const auto saved = ctx->get_saved_variables();
    const Tensor grad = grads[0].to(saved[0].scalar_type()).view({-1, 1, 1});
    return {saved[0] * grad, saved[1] * grad, {}, {}};
  }
};

std::tuple<Tensor, Tensor, Tensor> mutualInformation(const Tensor& px, const Tensor& py, const Tensor& boundary, bool returnGrad, bool modified) {
  const Lattice l = latticeOf(px, py, boundary, modified);
  if (wantsGrad(px) || wantsGrad(py)) {
    auto out = MutualInformation::apply(px, py, boundary, modified);
    return {out[0], out[1], out[2]};
  }
  const NoAutocast noAutocast;
  return compute(px, py, boundary, l, returnGrad);
}

}  // namespace

void registerMutualInformation(torch::Library& m) {
  m.def(
      "mutual_information(Tensor px, Tensor py, Tensor boundary, bool return_grad=False, bool modified=False) -> (Tensor scores, Tensor px_grad, Tensor py_grad)",
      &mutualInformation);
}

}  // namespace serac
