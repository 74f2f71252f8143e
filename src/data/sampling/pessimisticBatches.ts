/**
 * The batches of an epoch that are likeliest to exhaust memory, found by their durations: to try before training.
 * Source: lhotse, dataset/sampling/utils.py (find_pessimistic_batches), which also looks at supervisions.
 */
import type { EpochBatches, SampledBatch } from "./batchStream.ts";

/** What a batch can have most of: seconds, or cuts. The first three names are lhotse's. */
const criteria = ["singleLongestCut", "largestBatchCutsDuration", "maxNumCuts", /** Seconds with padding, which is what memory goes by. */ "largestPaddedBatch"] as const;

/** Names of the criteria. */
export type PessimisticCriterion = (typeof criteria)[number];

function measure({ durations }: { durations: readonly number[] }): Record<PessimisticCriterion, number> {
  let sum = 0;
  let longest = 0;
  for (const duration of durations) {
    sum += duration;
    if (duration > longest) longest = duration;
  }
  const count = durations.length;
  return { singleLongestCut: longest, largestBatchCutsDuration: sum, maxNumCuts: count, largestPaddedBatch: count * longest };
}

/** A batch and what it has most of: seconds, or cuts. */
export interface PessimisticBatch<T> {
  batch: SampledBatch<T>;
  value: number;
}

/** What was found, and among how many. */
export interface PessimisticBatches<T> {
  found: Partial<Record<PessimisticCriterion, PessimisticBatch<T>>>;
  /** Batches and cuts that were looked at. */
  batches: number;
  cuts: number;
}

/**
 * Runs through an epoch, or so much of it. Of equal batches the first is taken; an empty epoch gives none. Batches that are not given back are released.
 * @param stream from its beginning; it is closed
 * @param most ends once so many batches or cuts were looked at
 */
export async function pessimisticBatches<T>(
  stream: EpochBatches<T>,
  { batches: mostBatches = Number.POSITIVE_INFINITY, cuts: mostCuts = Number.POSITIVE_INFINITY } = {},
): Promise<PessimisticBatches<T>> {
  const found: PessimisticBatches<T>["found"] = {};
  const isHeld = (batch: SampledBatch<T>): boolean => criteria.some((name) => found[name]?.batch === batch);
  let batches = 0;
  let cuts = 0;
  while (batches < mostBatches && cuts < mostCuts) {
    const batch = await stream.next();
    if (!batch) return { found, batches, cuts };
    batches++;
    cuts += batch.durations.length;
    const values = measure(batch);
    const replaced: SampledBatch<T>[] = [batch];
    for (const name of criteria) {
      const before = found[name];
      if (before && before.value >= values[name]) continue;
      if (before) replaced.push(before.batch);
      found[name] = { batch, value: values[name] };
    }
    for (const one of replaced) if (!isHeld(one)) one.release();
  }
  await stream.close();
  return { found, batches, cuts };
}
