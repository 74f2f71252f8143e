// Depthwise convolutions of x (N, C, H, W) with weight (C, 1, KH, KW), on the CPU, in float; padding is top, bottom, left, right. See depthwise.cc.
#pragma once
#include "torch/ops/common.h"

#include <array>

namespace serac {

// (N, C, H', W'), its dimensions in memory in the order of those of x; `bias` may be undefined.
Tensor depthwiseValue(const Tensor& x, const Tensor& weight, const Tensor& bias, at::IntArrayRef padding);
// Gradients of x (undefined unless wanted), weight and bias.
std::array<Tensor, 3> depthwiseGradients(const Tensor& x, const Tensor& weight, at::IntArrayRef padding, const Tensor& grad, bool wanted);

}  // namespace serac
