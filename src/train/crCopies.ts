/** Two differently masked copies of a batch, for CR-CTC. Source: CR-CTC (arXiv 2410.05101); icefall zipformer/model.py and train.py, get_spec_augment. */
import { SpecAugment } from "../audio/index.ts";
import type { Random } from "../util/random.ts";
import type { LossInputs } from "./loss.ts";

/** Masks of CR-CTC: `timeMaskRatio` times as many and as much of the time as usual. The warp is that of the one whose copies they are. */
export function crSpecAugment({ timeMaskRatio, timeWarpFactor }: { timeMaskRatio: number; timeWarpFactor: number }): SpecAugment {
  return new SpecAugment({ timeWarpFactor: Math.max(0, timeWarpFactor), numFrameMasks: Math.floor(10 * timeMaskRatio), maxFramesMaskFraction: Math.min(1, 0.15 * timeMaskRatio) });
}

/**
 * Every row is warped once, its copies are masked each by itself: row i of the result and row N + i are of row i.
 * @param specAugment undefined for copies that are alike, as in validation
 */
export function crCopies({ inputs, frames, bins, inputLens }: LossInputs, specAugment: SpecAugment | undefined, random: Random | undefined): LossInputs {
  const rows = inputLens.length;
  const size = frames * bins;
  const copies = new Float32Array(2 * rows * size);
  copies.set(inputs);
  if (specAugment && random)
    inputLens.forEach((length, row) => {
      if (random.uniform() <= specAugment.options.p) specAugment.timeWarp({ frames: length, bins, data: copies.subarray(row * size, row * size + length * bins) }, random);
    });
  copies.copyWithin(rows * size, 0, rows * size);
  if (specAugment && random)
    for (let row = 0; row < 2 * rows; row++) {
      if (random.uniform() <= specAugment.options.p) specAugment.mask({ frames, bins, data: copies.subarray(row * size, (row + 1) * size) }, random);
    }
  return { inputs: copies, frames, bins, inputLens: [...inputLens, ...inputLens] };
}
