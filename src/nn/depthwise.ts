/** Convolutions of each channel with a kernel of its own. */
import { type Tensor, conv1d, conv2d } from "../torch/index.ts";

/** @param x (N, C, T) @param weight (C, 1, kernel) @param padding frames of zeros at both ends */
export const depthwiseConv1d = (x: Tensor, weight: Tensor, bias: Tensor | null, padding: number): Tensor => conv1d(x, weight, bias, 1, padding, 1, x.size(1));

/** @param x (N, C, T, F) @param weight (C, 1, kernel, kernel) @param padding zeros around */
export const depthwiseConv2d = (x: Tensor, weight: Tensor, bias: Tensor | null, padding: number): Tensor => conv2d(x, weight, bias, 1, padding, 1, x.size(1));
