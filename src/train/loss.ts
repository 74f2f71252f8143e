/** The loss of a batch, from its parts and their warm-up. Source: icefall zipformer/train.py, compute_loss. */
import type { Batch } from "../data/index.ts";
import { type AsrLosses, asrLoss } from "../losses/index.ts";
import type { AsrModel } from "../models/index.ts";
import { fromTypedArray, type Tensor } from "../torch/index.ts";
import type { Random } from "../util/random.ts";
import { crCopies, crSpecAugment } from "./crCopies.ts";
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

/** As icefall's logs have them. */
const lossNames: Record<LossName, string> = { simple: "simple_loss", pruned: "pruned_loss", ctc: "ctc_loss", cr: "cr_loss", attention: "attn_decoder_loss" };

/** Weights of the transducer's two losses after b updates: the simple one leads at first. */
export function transducerScales(b: number, { warmStep, simpleLossScale }: Pick<TrainOptions, "warmStep" | "simpleLossScale">): { simple: number; pruned: number } {
  const done = Math.min(1, b / warmStep);
  return { simple: done < 1 ? 1 - done * (1 - simpleLossScale) : simpleLossScale, pruned: done < 1 ? 0.1 + 0.9 * done : 1 };
}

/** The batch count that schedules of regularisers follow after b updates: how many it would be with batches of the reference duration. Source: get_adjusted_batch_count of the recipe. */
export function adjustedBatchCount(
  b: number,
  { maxDuration, refDuration, batchCountOffset = 0 }: Pick<TrainOptions, "maxDuration" | "refDuration"> & Partial<Pick<TrainOptions, "batchCountOffset">>,
): number {
  return (b * maxDuration) / refDuration + batchCountOffset;
}

/**
 * Forward pass and losses of a batch.
 * @param y token ids of each utterance, in the batch's order
 * @param b updates done
 * @param random while training: where the masks of CR-CTC's copies are drawn from
 */
export function batchLoss(model: AsrModel, batch: LossInputs, y: readonly (readonly number[])[], options: TrainOptions, b: number, random?: Random): BatchLoss {
  const { useCrCtc, timeMaskRatio, specAugTimeWarpFactor: timeWarpFactor } = options;
  const rows = useCrCtc ? crCopies(batch, random && crSpecAugment({ timeMaskRatio, timeWarpFactor }), random) : batch;
  const x = fromTypedArray(rows.inputs, [rows.inputLens.length, rows.frames, rows.bins], { device: options.device });
  const parts = asrLoss(model, {
    x,
    xLens: rows.inputLens,
    y,
    crCtc: useCrCtc,
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
    cr: options.crLossScale * (options.recipe === "2026" ? Math.min(b / options.warmStep, 1) : 1),
    attention: options.attentionDecoderLossScale,
  };
  let loss: Tensor | undefined;
  const sums: LossSums = { loss: 0, frames: batch.inputLens.reduce((sum, frames) => sum + Math.floor(frames / 4), 0) };
  for (const [name, weight] of Object.entries(weights) as [LossName, number][]) {
    const part = parts[name];
    if (!part || (weight === 0 && name !== "cr")) continue;
    sums[lossNames[name]] = part.item();
    const weighted = part.mul(weight);
    loss = loss ? loss.add(weighted) : weighted;
  }
  if (!loss) throw new Error("internal: no loss is on");
  sums.loss = loss.item();
  return { loss, sums };
}

/** A loss times a factor; the loss itself where that is 1. */
export const scaled = (loss: Tensor, factor: number): Tensor => (factor === 1 ? loss : loss.mul(factor));
