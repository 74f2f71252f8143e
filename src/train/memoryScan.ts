/**
 * Before training, the batches that are likeliest to exhaust memory are tried: what would end training in the night ends it now, with the batch's name.
 * Nothing is learnt from them. Source: icefall zipformer/train.py, scan_pessimistic_batches_for_oom.
 */
import { writeFileSync } from "node:fs";
import { freemem } from "node:os";
import { join } from "node:path";
import type { PessimisticCriterion, SampledBatch, SourceCut, SpeechBatch } from "../data/index.ts";
import { allocatedBytes, limitMemory, peakBytes } from "../torch/index.ts";
import { SeracError, TrainError } from "../util/errors.ts";
import { showBytes } from "../util/progress.ts";
import { describeBatch } from "./badBatches.ts";
import type { TrainOptions } from "./options.ts";
import { checkBins, type TrainData } from "./trainData.ts";
import type { Updater } from "./updater.ts";

/** What a batch has most of, in words. */
const words: Record<PessimisticCriterion, (value: number) => string> = {
  singleLongestCut: (value) => `the longest utterance (${value.toFixed(2)} s)`,
  largestBatchCutsDuration: (value) => `the most audio (${value.toFixed(2)} s)`,
  maxNumCuts: (value) => `the most utterances (${value})`,
  largestPaddedBatch: (value) => `the most audio with padding (${value.toFixed(2)} s)`,
};

/** True where an error says that memory is at its end, here or in a replica. */
export function isNoMemory(error: unknown): boolean {
  for (let one: unknown = error; one instanceof Error; one = one.cause) if (one instanceof SeracError && one.code === "TORCH_NO_MEMORY") return true;
  return false;
}

/** The error for a batch that does not fit: which it is, and what to change. Its utterances are listed in bad-batch.jsonl. */
export function noMemoryFor(batch: SpeechBatch, cause: unknown, { expDir, ...options }: TrainOptions, at: string): TrainError {
  const { cuts } = batch;
  const path = join(expDir, "bad-batch.jsonl");
  let listed = `all of it is listed in ${path}`;
  try {
    writeFileSync(path, describeBatch(batch, { reason: "TRAIN_NO_MEMORY" }));
  } catch (error) {
    listed = `it could not be listed: ${error instanceof Error ? error.message : String(error)}`;
  }
  const seconds = cuts.map(({ duration }) => duration);
  const [least, most] = [Math.min(...seconds), Math.max(...seconds)];
  const first = cuts
    .slice(0, 3)
    .map(({ origin, duration }) => `${origin} (${duration.toFixed(2)} s)`)
    .join(", ");
  const block = options.trainDs !== undefined || (options.overrides ?? []).length > 0;
  const smaller = block ? "make batches smaller (batch_duration, batch_size, quadratic_duration of the train_ds)" : `lower --max-duration (it is ${options.maxDuration})`;
  const shorter = block ? "its max_duration" : `--max-utterance, which is ${options.maxUtterance}`;
  return new TrainError("TRAIN_NO_MEMORY", {
    at,
    message: `memory is too small for a batch of ${cuts.length} utterances of ${least.toFixed(2)} to ${most.toFixed(2)} s, ${(most * cuts.length).toFixed(2)} s with padding: ${first}${cuts.length > 3 ? ", ..." : ""}; ${listed}. ${cause instanceof Error ? cause.message : String(cause)}`,
    fix: `${smaller}, leave out the longest utterances (${shorter}), or train a smaller model; serac batch-sizes finds what fits`,
    cause,
  });
}

/** Bytes that CPU tensors may come to hold: what they hold, and what the machine has left for this process. */
const mostBytes = (): number => allocatedBytes() + (process.availableMemory?.() ?? freemem());

/**
 * @param epoch whose batches are looked at: all of them, or as many as it is limited to
 * @throws TrainError TRAIN_NO_MEMORY; what reading the data throws
 */
export async function scanForOomBatches(
  { options, data, updater, epoch, say }: { options: TrainOptions; data: TrainData; updater: Updater; epoch: number; say: (line: string) => void },
  signal?: AbortSignal,
): Promise<void> {
  say(`Sanity check -- see if any of the batches in epoch ${epoch} would cause OOM.`);
  const { found } = await data.train.pessimistic(epoch, options.limitTrainBatches || undefined);
  const reasons = new Map<SampledBatch<SourceCut>, string[]>();
  for (const [name, { batch, value }] of Object.entries(found) as [PessimisticCriterion, { batch: SampledBatch<SourceCut>; value: number }][])
    reasons.set(batch, [...(reasons.get(batch) ?? []), words[name](value)]);
  const onCpu = options.device === "cpu";
  peakBytes({ reset: true });
  if (onCpu) limitMemory(mostBytes()); // else the system would end the process without a word
  try {
    for (const [sampled, why] of reasons) {
      if (signal?.aborted) sampled.release();
      else await tryOne(sampled, why);
    }
  } finally {
    if (onCpu) limitMemory(undefined);
  }
  if (onCpu && !signal?.aborted) say(`Maximum memory allocated so far is ${showBytes(peakBytes())}`);

  async function tryOne(sampled: SampledBatch<SourceCut>, why: readonly string[]): Promise<void> {
    const batch = await data.train.batchOf(sampled, epoch);
    if (!batch) return;
    checkBins(batch, options);
    try {
      await updater.tryOut(batch);
    } catch (error) {
      throw isNoMemory(error) ? noMemoryFor(batch, error, options, `the batch of epoch ${epoch} with ${why.join(", ")}`) : error;
    }
  }
}
