/**
 * The batches of an epoch that are likeliest to exhaust memory, found by their durations: to try before training.
 * Source: lhotse, dataset/sampling/utils.py (find_pessimistic_batches), which also looks at supervisions.
 */
import type { BatchStream, SampledBatch } from "./batchStream.ts";

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
const longest = (values: readonly number[]): number => values.reduce((most, value) => Math.max(most, value), 0);

/** What a batch can have most of. The first three names are lhotse's. */
const criteria = {
  singleLongestCut: longest,
  largestBatchCutsDuration: sum,
  maxNumCuts: (durations: readonly number[]) => durations.length,
  /** Seconds with padding, which is what memory goes by. */
  largestPaddedBatch: (durations: readonly number[]) => durations.length * longest(durations),
} as const;

/** Names of the criteria. */
export type PessimisticCriterion = keyof typeof criteria;

/** A batch and what it has most of: seconds, or cuts. */
export interface PessimisticBatch<T> {
  batch: SampledBatch<T>;
  value: number;
}

/**
 * Runs through an epoch. Of equal batches the first is taken; an empty epoch gives none.
 * @param stream from its beginning
 */
export async function pessimisticBatches<T>(stream: BatchStream<T>): Promise<Partial<Record<PessimisticCriterion, PessimisticBatch<T>>>> {
  const found: Partial<Record<PessimisticCriterion, PessimisticBatch<T>>> = {};
  for await (const batch of stream)
    for (const name of Object.keys(criteria) as PessimisticCriterion[]) {
      const value = criteria[name](batch.durations);
      if (value > (found[name]?.value ?? 0)) found[name] = { batch, value };
    }
  return found;
}
