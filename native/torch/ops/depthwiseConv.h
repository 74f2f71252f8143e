// Depthwise convolutions of x (N, C, H, W) with weight (C, 1, KH, KW), float or bfloat16, on the CPU; padding is top, bottom, left, right. See depthwise.cc.
#pragma once
#include "torch/ops/common.h"

#include <array>

namespace serac {

// (N, C, H', W') of `dtype`, its dimensions in memory in the order of those of x; `bias` may be undefined. Sums are in float.
Tensor depthwiseValue(const Tensor& x, const Tensor& weight, const Tensor& bias, at::IntArrayRef padding, at::ScalarType dtype);
// Gradients of x (of its type; undefined unless wanted), and of weight and bias in float.
std::array<Tensor, 3> depthwiseGradients(const Tensor& x, const Tensor& weight, at::IntArrayRef padding, const Tensor& grad, bool wanted);

}  // namespace serac
