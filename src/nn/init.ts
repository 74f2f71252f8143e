/** Initial values of parameters. */
import { type Generator, rand, type Tensor } from "../torch/index.ts";

/** What every constructor of a layer with parameters takes. */
export interface Init {
  /** Draws the initial weights. */
  generator: Generator;
}

/** Uniform in [-bound, bound]. */
export const uniform = (shape: readonly number[], bound: number, { generator }: Init): Tensor =>
  rand(shape, { generator, device: generator.device })
    .mul_(2 * bound)
    .sub_(bound);

/**
 * Weight and bias of a linear or convolutional layer, by PyTorch's default: uniform in 1 / sqrt(fanIn) around 0.
 * With `initialScale` the weight is multiplied by it, and the bias is uniform in [-0.1, 0.1] times it (icefall's ScaledLinear, ScaledConv2d).
 * @param shape of the weight: outputs first; the product of the others is the fan-in
 */
export function weightAndBias(shape: readonly number[], { generator, initialScale }: Init & { initialScale?: number }): { weight: Tensor; bias: Tensor } {
  const fanIn = shape.slice(1).reduce((a, b) => a * b, 1);
  const bound = 1 / Math.sqrt(fanIn);
  return {
    weight: uniform(shape, bound * (initialScale ?? 1), { generator }),
    bias: uniform([shape[0] as number], initialScale === undefined ? bound : 0.1 * initialScale, { generator }),
  };
}
