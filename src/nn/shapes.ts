/** Checks of shapes, with errors that name both. */
import type { Tensor } from "../torch/index.ts";
import { ShapeError } from "../util/errors.ts";

const text = (shape: readonly (number | string)[]): string => `(${shape.join(", ")})`;

/**
 * Checks the shape of a tensor against a pattern: numbers must be met, letters take any size.
 * @throws ShapeError SHAPE_MISMATCH
 */
export function expectShape(at: string, x: Tensor, pattern: readonly (number | string)[]): void {
  const { shape } = x;
  if (shape.length === pattern.length && pattern.every((wanted, i) => typeof wanted === "string" || wanted === shape[i])) return;
  throw new ShapeError("SHAPE_MISMATCH", { at, message: `got a tensor of shape ${text(shape)}, expected ${text(pattern)}` });
}

/** Checks the last dimension. @throws ShapeError SHAPE_MISMATCH */
export function expectChannels(at: string, x: Tensor, channels: number): void {
  if (x.shape.at(-1) !== channels)
    throw new ShapeError("SHAPE_MISMATCH", { at, message: `got a tensor of shape ${text(x.shape)}, expected ${channels} channels in the last dimension` });
}
