/**
 * Semi-sorted batches: utterances sorted by their length and some noise, so that a batch pads little and no two epochs are alike.
 * Sources: Zhenhao Ge et al., "Speed up training with variable length inputs by efficient batching strategies", Interspeech 2021; NeMo, ssb sampler.
 */
import { Random } from "../../util/random.ts";

/** How to make semi-sorted batches. */
export interface SemiSortedOptions {
  batchSize: number;
  worldSize?: number;
  dropLast?: boolean;
  /** Another order of the batches each epoch. */
  shuffle?: boolean;
  /** Noise is drawn from -b to b, where b is this share of half the range of lengths. */
  randomizationFactor?: number;
  seed?: number;
  epoch?: number;
}

/** Places of the utterances of a batch; the last `repeated` of them are in another batch too. */
export interface SemiSortedBatch {
  items: number[];
  repeated: number;
}

/**
 * The batches of each rank, as many for every rank: where they do not divide, utterances drawn at random fill up.
 * @param durations seconds of all utterances
 */
export function semiSortedBatches(
  durations: readonly number[],
  { batchSize, worldSize = 1, dropLast = false, shuffle = true, randomizationFactor = 0.1, seed = 42, epoch = 0 }: SemiSortedOptions,
): SemiSortedBatch[][] {
  const random = new Random(seed * 1_000_003 + epoch);
  let shortest = Number.POSITIVE_INFINITY;
  let longest = Number.NEGATIVE_INFINITY;
  for (const duration of durations) {
    shortest = Math.min(shortest, duration);
    longest = Math.max(longest, duration);
  }
  const bound = ((longest - shortest) * randomizationFactor) / 2;
  const keys = Float64Array.from(durations, (duration) => duration + (2 * random.uniform() - 1) * bound);
  let order = durations.map((_, i) => i).sort((a, b) => (keys[a] as number) - (keys[b] as number) || a - b);
  if (dropLast) {
    const dropped = new Set(random.shuffle([...order]).slice(0, order.length % batchSize));
    order = order.filter((item) => !dropped.has(item));
  }
  const batches = Math.ceil(order.length / batchSize);
  const padded = batches === 0 ? 0 : ((worldSize - (batches % worldSize)) % worldSize) * batchSize;
  const places: { item: number; repeated: boolean }[] = order.map((item) => ({ item, repeated: false }));
  for (let i = 0; i < padded; i++) places.push({ item: order[random.integer(0, order.length)] as number, repeated: true });
  const ranks = Array.from({ length: worldSize }, (_, rank) => {
    const mine = places.filter((_, i) => i % worldSize === rank);
    return Array.from({ length: Math.ceil(mine.length / batchSize) }, (_, i): SemiSortedBatch => {
      const batch = mine.slice(i * batchSize, (i + 1) * batchSize);
      return { items: batch.map(({ item }) => item), repeated: batch.filter(({ repeated }) => repeated).length };
    });
  });
  if (!shuffle) return ranks;
  const orderOfBatches = new Random(seed + epoch + 1).shuffle(Array.from({ length: ranks[0]?.length ?? 0 }, (_, i) => i));
  return ranks.map((rank) => orderOfBatches.map((i) => rank[i] as SemiSortedBatch));
}
