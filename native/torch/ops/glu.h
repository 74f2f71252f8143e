// The gated linear unit of frames x (T, N, 2 C), contiguous, float or bfloat16; see glu.cc. `mask` (N, T) may be undefined.
#pragma once
#include "torch/ops/common.h"

#include <vector>

namespace serac {

Tensor gluValue(const Tensor& x, const Tensor& mask);
// The gradient of x, from that of the result; `balance` as the operator's, or empty.
Tensor gluGradient(const Tensor& x, const Tensor& mask, const std::vector<double>& balance, const Tensor& grad);
void checkGlu(const char* name, const Tensor& x, const Optional<Tensor>& mask, at::ArrayRef<double> balance);

namespace composition {
Tensor glu(const Tensor& x, const Optional<Tensor>& mask, at::ArrayRef<double> balance);
}

}  // namespace serac
