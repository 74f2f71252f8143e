/** Batches of utterances of like duration, so that a batch pads little. Reads metadata only, never audio. */
import { ConfigError } from "../util/errors.ts";
import { Random } from "../util/random.ts";
import type { Cut } from "./cut.ts";

/** How to make batches. */
export interface BucketOptions {
  /** Most seconds of padded audio in a batch: cuts times the longest of them. */
  maxDuration: number;
  /** Number of groups by duration, of equal total length. */
  numBuckets?: number;
  shuffle?: boolean;
  /** Leaves out each bucket's last batch when it is not full. */
  dropLast?: boolean;
  seed?: number;
  /** Each epoch has another order. */
  epoch?: number;
}

/**
 * Batches of one epoch: every cut is in exactly one, unless `dropLast` leaves it out. No batch has more than `maxDuration`
 * seconds of padded audio; a cut that is longer alone makes a batch of its own. The same options give the same batches.
 * @throws ConfigError CONFIG_BAD_VALUE
 */
export function bucketBatches(cuts: readonly Cut[], { maxDuration, numBuckets = 30, shuffle = true, dropLast = false, seed = 0, epoch = 0 }: BucketOptions): Cut[][] {
  if (!(maxDuration > 0)) throw new ConfigError("CONFIG_BAD_VALUE", { message: `maxDuration is ${maxDuration}, expected seconds above 0` });
  if (!(numBuckets >= 1)) throw new ConfigError("CONFIG_BAD_VALUE", { message: `numBuckets is ${numBuckets}, expected 1 or more` });
  const random = new Random(seed * 1_000_003 + epoch);
  const order = shuffle ? random.shuffle([...cuts]) : [...cuts];
  const batches: Cut[][] = [];
  for (const bucket of splitByDuration(order, numBuckets)) batches.push(...fill(bucket, maxDuration, dropLast));
  return shuffle ? random.shuffle(batches) : batches;
}

/** Buckets of equal total duration, each in the order given. */
function splitByDuration(cuts: readonly Cut[], numBuckets: number): Cut[][] {
  const sorted = [...cuts].sort((a, b) => a.duration - b.duration);
  const total = sorted.reduce((sum, cut) => sum + cut.duration, 0);
  const bounds: number[] = [];
  let sum = 0;
  for (const cut of sorted) {
    sum += cut.duration;
    if (bounds.length < numBuckets - 1 && sum >= (total * (bounds.length + 1)) / numBuckets) bounds.push(cut.duration);
  }
  const buckets: Cut[][] = Array.from({ length: bounds.length + 1 }, () => []);
  for (const cut of cuts) {
    let low = 0;
    let high = bounds.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((bounds[middle] as number) < cut.duration) low = middle + 1;
      else high = middle;
    }
    (buckets[low] as Cut[]).push(cut);
  }
  return buckets;
}

function fill(cuts: readonly Cut[], maxDuration: number, dropLast: boolean): Cut[][] {
  const batches: Cut[][] = [];
  let batch: Cut[] = [];
  let longest = 0;
  for (const cut of cuts) {
    const next = Math.max(longest, cut.duration);
    if (batch.length > 0 && next * (batch.length + 1) > maxDuration) {
      batches.push(batch);
      batch = [];
      longest = 0;
    }
    batch.push(cut);
    longest = Math.max(longest, cut.duration);
  }
  if (batch.length > 0 && !dropLast) batches.push(batch);
  return batches;
}
