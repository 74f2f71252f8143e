// What the Balancer adds to the gradients of frames of channels.
#pragma once
#include <ATen/ATen.h>

#include "torch/ops/channelRange.h"

namespace serac {

// Of x (..., C), float or bfloat16, contiguous, on the CPU: the lines (2, C) a and b, such that |grad| * (a x + b) is to be added to its gradient.
at::Tensor balancerLines(const at::Tensor& x, const Range& range);

}  // namespace serac
