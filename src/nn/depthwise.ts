/** Convolutions of each channel with a kernel of its own. */
import { ops, type Tensor } from "../torch/index.ts";

/**
 * @param x (N, C, T), in any order in memory, which the result keeps
 * @param weight (C, 1, kernel)
 * @param padding frames of zeros at the beginning and at the end
 * @returns (N, C, T + left + right - kernel + 1)
 */
export const depthwiseConv1d = (x: Tensor, weight: Tensor, bias: Tensor | null, [left, right]: readonly [number, number]): Tensor =>
  ops.depthwiseConv1d(x, weight, bias, left, right);

/** @param x (N, C, T, F) @param weight (C, 1, kernel, kernel) @param padding zeros around, in time and in frequency */
export const depthwiseConv2d = (x: Tensor, weight: Tensor, bias: Tensor | null, padding: readonly [number, number]): Tensor => ops.depthwiseConv2d(x, weight, bias, padding);
