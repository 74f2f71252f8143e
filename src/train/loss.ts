/** The loss of a batch, from its parts and their warm-up. Source: icefall zipformer/train.py, compute_loss. */
import type { Batch } from "../data/index.ts";
import { type AsrLosses, asrLoss } from "../losses/index.ts";
import type { AsrModel } from "../models/index.ts";
import { fromTypedArray, type Tensor } from "../torch/index.ts";
import type { LossSums } from "./metrics.ts";
import type { TrainOptions } from "./options.ts";

/** What losses are computed of: padded features (N, frames, bins), and the frames of each row. */
export type LossInputs = Pick<Batch, "inputs" | "frames" | "bins" | "inputLens">;

/** A batch's loss, summed over utterances, and its parts as numbers. */
export interface BatchLoss {
  /** (), with gradient. */
  loss: Tensor;
  sums: LossSums;
}

type LossName = Exclude<keyof AsrLosses, "encoderOutLens">;

/** Weights of the transducer's two losses after b updates: the simple one leads at first. */
export function transducerScales(b: number, { warmStep, simpleLossScale }: Pick<TrainOptions, "warmStep" | "simpleLossScale">): { simple: number; pruned: number } {
  const done = Math.min(1, b / warmStep);
  return { simple: done < 1 ? 1 - done * (1 - simpleLossScale) : simpleLossScale, pruned: done < 1 ? 0.1 + 0.9 * done : 1 };
}

/** The batch count that schedules of regularisers follow after b updates: it depends on how much audio an update sees, and moves every tenth. */
export function adjustedBatchCount(b: number, { maxDuration, refDuration }: Pick<TrainOptions, "maxDuration" | "refDuration">): number {
  return (10 * Math.floor(b / 10) * maxDuration) / refDuration;
}

/**
 * Forward pass and losses of a batch.
 * @param y token ids of each utterance, in the batch's order
 * @param b updates done
 */
export function batchLoss(model: AsrModel, batch: LossInputs, y: readonly (readonly number[])[], options: TrainOptions, b: number): BatchLoss {
  const x = fromTypedArray(batch.inputs, [batch.inputLens.length, batch.frames, batch.bins], { device: options.device });
  const parts = asrLoss(model, {
    x,
    xLens: batch.inputLens,
    y,
    pruneRange: options.pruneRange,
    amScale: options.amScale,
    lmScale: options.lmScale,
    labelSmoothing: options.labelSmoothing,
  });
  const scales = transducerScales(b, options);
  const weights: Record<LossName, number> = {
    simple: scales.simple,
    pruned: scales.pruned,
    ctc: options.ctcLossScale,
    cr: 0,
    attention: options.attentionDecoderLossScale,
  };
  let loss: Tensor | undefined;
  const sums: LossSums = { loss: 0, frames: batch.inputLens.reduce((sum, frames) => sum + Math.floor(frames / 4), 0) };
  for (const [name, weight] of Object.entries(weights) as [LossName, number][]) {
    const part = parts[name];
    if (!part || weight === 0) continue;
    sums[`${name}_loss`] = part.item();
    const weighted = part.mul(weight);
    loss = loss ? loss.add(weighted) : weighted;
  }
  if (!loss) throw new Error("internal: no loss is on");
  sums.loss = loss.item();
  return { loss, sums };
}
