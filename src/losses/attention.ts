/** The loss of an attention decoder. */
import type { Tensor } from "../torch/index.ts";
import { ConfigError } from "../util/errors.ts";
import { expectShape, type Reduction, reduce } from "./lattice.ts";

/** Options of {@link labelSmoothingLoss}. */
export interface LabelSmoothingOptions {
  /** (N, S, V) unnormalised. */
  logits: Tensor;
  /** (N, S) int64: the next symbols, `ignoreIndex` where there is none. */
  targets: Tensor;
  /** -1 unless given. */
  ignoreIndex?: number;
  /** Share of the target's probability that is spread evenly over all V symbols, the target included; at least 0, below 1. 0.1 unless given. */
  labelSmoothing?: number;
  /** "sum" unless given: over all positions, not divided by lengths. "mean" divides by the number of utterances. "none" gives (N). */
  reduction?: Reduction;
}

/**
 * Cross entropy with softened targets: -sum q * log_softmax(logits), q = (1 - e) * onehot + e / V.
 * Source: icefall zipformer/label_smoothing.py.
 * @throws ShapeError SHAPE_MISMATCH; ConfigError CONFIG_BAD_VALUE when labelSmoothing is outside of [0, 1)
 */
export function labelSmoothingLoss({ logits, targets, ignoreIndex = -1, labelSmoothing = 0.1, reduction = "sum" }: LabelSmoothingOptions): Tensor {
  expectShape("logits", logits, [
    ["N", null],
    ["S", null],
    ["V", null],
  ]);
  expectShape("targets", targets, [
    ["N", logits.size(0)],
    ["S", logits.size(1)],
  ]);
  if (!(labelSmoothing >= 0 && labelSmoothing < 1)) {
    throw new ConfigError("CONFIG_BAD_VALUE", { message: `labelSmoothing is ${labelSmoothing}; it must be at least 0 and below 1` });
  }
  const ignored = targets.eq(ignoreIndex);
  const logProbs = logits.logSoftmax(2);
  const hit = logProbs.gather(2, targets.maskedFill(ignored, 0).unsqueeze(2)).squeeze(2); // (N, S)
  let losses = hit.mul(labelSmoothing - 1);
  if (labelSmoothing > 0) losses = losses.sub(logProbs.mean([2]).mul(labelSmoothing));
  return reduce(losses.maskedFill(ignored, 0).sum([1]), reduction);
}
