/** Loss and word error rate on the validation set. */
import type { SourceCut, SpeechBatch } from "../data/index.ts";
import { ctcGreedySearch, greedySearch } from "../decode/index.ts";
import type { AsrModel } from "../models/index.ts";
import { addCounts, align, countErrors, type ErrorCounts, type SentencePiece, splitWords } from "../text/index.ts";
import { fromTypedArray, noGrad, scope } from "../torch/index.ts";
import { batchLoss } from "./loss.ts";
import { addLosses, type LossSums } from "./metrics.ts";
import type { TrainOptions } from "./options.ts";
import { checkBins } from "./trainData.ts";

export interface Validation {
  /** Of the batches whose loss is finite; of the last one where no batch's is. */
  sums: LossSums;
  /** Batches whose loss is not finite. */
  notFinite: number;
  /** Present where `wer` was asked for. */
  errors: ErrorCounts | undefined;
}

/**
 * Runs the model over the batches without gradients; the model must be in evaluation mode.
 * @returns undefined where `signal` was aborted meanwhile
 */
export async function validate(
  model: AsrModel,
  batches: AsyncIterable<SpeechBatch>,
  tokenizer: SentencePiece,
  options: TrainOptions,
  { b, wer, signal }: { b: number; wer: boolean; signal?: AbortSignal | undefined },
): Promise<Validation | undefined> {
  let sums: LossSums = { frames: 0 };
  let bad: LossSums | undefined;
  let notFinite = 0;
  let errors: ErrorCounts | undefined;
  for await (const batch of batches) {
    if (signal?.aborted) return undefined;
    checkBins(batch, options);
    const y = batch.cuts.map((cut) => Array.from(tokenizer.encode(cut.text)));
    noGrad(() =>
      scope(() => {
        const { sums: found } = batchLoss(model, batch, y, options, b);
        if (Number.isFinite(found.loss)) sums = addLosses(sums, found);
        else {
          bad = found;
          notFinite++;
        }
      }),
    );
    if (!wer) continue;
    const search = model.transducer ? greedySearch : ctcGreedySearch;
    const results = scope(() => search(model, fromTypedArray(batch.inputs, [batch.cuts.length, batch.frames, batch.bins], { device: options.device }), batch.inputLens));
    results.forEach(({ tokens }, i) => {
      const found = countErrors(align(splitWords((batch.cuts[i] as SourceCut).text), splitWords(tokenizer.decode(tokens))));
      errors = errors ? addCounts(errors, found) : found;
    });
  }
  return { sums: sums.frames === 0 && bad ? bad : sums, notFinite, errors };
}
