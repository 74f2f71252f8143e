import { arange, type Tensor, tensor } from "../torch/index.ts";

/**
 * Which frames are padding.
 * @param lengths frames of each utterance
 * @param frames of the padded batch
 * @returns (N, T) bool, true = padded; null when no frame is
 */
export function paddingMask(lengths: readonly number[], frames: number, device = "cpu"): Tensor | null {
  if (lengths.every((length) => length >= frames)) return null;
  return arange(0, frames, { device })
    .unsqueeze(0)
    .ge(tensor(lengths, { dtype: "int64", device }).unsqueeze(1));
}
