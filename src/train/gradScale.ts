/** What icefall does to the scale of the loss in mixed precision besides torch's own growth: it begins with 1, and a small one soon grows again. */
import type { GradScaler } from "../optim/index.ts";
import { TrainError } from "../util/errors.ts";

/** Whose rules: the seed's train.py, or that of June 2026. */
export type Recipe = "seed" | "2026";

/** What a scale calls for. */
export interface GradScaleVerdict {
  /** Double it. */
  grow: boolean;
  /** It is so small that gradients are likely not to be trusted: say so, keep the model once, look for infinities. */
  small: boolean;
  /** Training cannot go on. */
  hopeless: boolean;
}

/**
 * @param scale now, after the update of a batch
 * @param batchIdx batches of this epoch before this one
 */
export function gradScaleVerdict(scale: number, batchIdx: number, recipe: Recipe): GradScaleVerdict {
  const every = (batches: number): boolean => batchIdx % batches === 0;
  if (recipe === "seed" && !every(100)) return { grow: false, small: false, hopeless: false };
  const grow = recipe === "seed" ? scale < 8 || (scale < 32 && every(400)) : (every(25) && scale < 2) || (every(100) && scale < 8) || (every(400) && scale < 32);
  return { grow, small: scale < 0.01, hopeless: scale < 1e-5 };
}

/** Follows the rules after every batch. */
export class GradScaleWatch {
  private readonly scaler: GradScaler;
  private readonly recipe: Recipe;
  private readonly onSmall: (first: boolean) => void;
  private warned = false;

  /** @param onSmall is told each time that the scale is small, and whether for the first time */
  constructor(scaler: GradScaler, recipe: Recipe, onSmall: (first: boolean) => void) {
    this.scaler = scaler;
    this.recipe = recipe;
    this.onSmall = onSmall;
  }

  /** @throws TrainError TRAIN_GRADIENTS_NOT_FINITE when the scale is hopelessly small */
  afterBatch(batchIdx: number): void {
    const { scaler } = this;
    if (!scaler.enabled) return;
    const scale = scaler.factor;
    const { grow, small, hopeless } = gradScaleVerdict(scale, batchIdx, this.recipe);
    if (small) {
      this.onSmall(!this.warned);
      this.warned = true;
    }
    if (hopeless)
      throw new TrainError("TRAIN_GRADIENTS_NOT_FINITE", {
        message: `the scale of the loss has fallen to ${scale}: gradients in half precision were not finite again and again`,
        fix: "lower --base-lr, look at the utterances of the batches that were named, or train with --use-bf16 or in full precision; --inf-check tells where infinities begin",
      });
    if (grow) scaler.update(scale * 2);
  }
}
