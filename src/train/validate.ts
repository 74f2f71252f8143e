/** Loss and word error rate on the validation set. */
import { type Cut, type LeftOut, loadBatches } from "../data/index.ts";
import { ctcGreedySearch, greedySearch } from "../decode/index.ts";
import type { AsrModel } from "../models/index.ts";
import { addCounts, align, countErrors, type ErrorCounts, type SentencePiece, splitWords } from "../text/index.ts";
import { fromTypedArray, noGrad, scope } from "../torch/index.ts";
import { bucketBatches, leaveOutUnusable } from "./data.ts";
import { batchLoss } from "./loss.ts";
import { addLosses, type LossSums } from "./metrics.ts";
import type { TrainOptions } from "./options.ts";

export interface Validation {
  sums: LossSums;
  /** Present where `wer` was asked for. */
  errors: ErrorCounts | undefined;
}

/**
 * Runs the model over the cuts without gradients; the model must be in evaluation mode.
 * @param leftOut counts the utterances that cannot be used
 */
export async function validate(
  model: AsrModel,
  cuts: readonly Cut[],
  tokenizer: SentencePiece,
  options: TrainOptions,
  { b, wer, leftOut }: { b: number; wer: boolean; leftOut: LeftOut },
): Promise<Validation> {
  let sums: LossSums = { frames: 0 };
  let errors: ErrorCounts | undefined;
  const batches = await bucketBatches(cuts, { maxDuration: options.maxDuration });
  for await (const batch of loadBatches(batches, {
    sampleRate: options.sampleRate,
    featureDim: options.featureDim,
    ...leaveOutUnusable(leftOut, (text) => tokenizer.encode(text), options.useCtc),
  })) {
    const y = batch.cuts.map((cut) => Array.from(tokenizer.encode(cut.text)));
    noGrad(() =>
      scope(() => {
        sums = addLosses(sums, batchLoss(model, batch, y, options, b).sums);
      }),
    );
    if (!wer) continue;
    const search = model.transducer ? greedySearch : ctcGreedySearch;
    const results = scope(() => search(model, fromTypedArray(batch.inputs, [batch.cuts.length, batch.frames, batch.bins], { device: options.device }), batch.inputLens));
    results.forEach(({ tokens }, i) => {
      const found = countErrors(align(splitWords((batch.cuts[i] as Cut).text), splitWords(tokenizer.decode(tokens))));
      errors = errors ? addCounts(errors, found) : found;
    });
  }
  return { sums, errors };
}
