/**
 * The batches of lhotse's SimpleCutSampler and BucketingSampler, which hold all cuts in memory.
 * Sources: lhotse 1.33, dataset/sampling/simple.py, data_source.py, bucketing.py (behaviour).
 */
import { PythonRandom, type PythonRandomState } from "../../util/pythonRandom.ts";
import { pairwiseSum } from "../durationBins.ts";
import type { BatchMaker, ItemBatch } from "./batchMaker.ts";
import type { Filling } from "./limits.ts";
import { type GroupMaker, LhotseRanks } from "./ranks.ts";
import type { Json } from "./source.ts";

/** Refs and durations of items, in order. */
export interface Items {
  refs: ArrayLike<number>;
  durations: ArrayLike<number>;
}

interface SavedSimple {
  at: number;
  remaining: number;
}

/** SimpleCutSampler: cuts in order, or shuffled as a whole; a batch ends before the cut with which it would be over its limits. */
export class LhotseSimple implements BatchMaker {
  private readonly items: Items;
  private readonly order: Uint32Array;
  private readonly filling: Filling;
  private readonly dropLast: boolean;
  private readonly bucket: number;
  private at = 0;
  /** Seconds that are left, with Python's rounding errors: by these the bucketing sampler chooses. */
  private left = 0;

  constructor(
    items: Items,
    filling: Filling,
    { seed, shuffle, dropLast, bucket = 0 }: { seed: number; shuffle: boolean; dropLast: boolean; bucket?: number },
    saved?: SavedSimple,
  ) {
    this.items = items;
    this.filling = filling;
    this.dropLast = dropLast;
    this.bucket = bucket;
    const count = items.refs.length;
    this.order = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
      this.order[i] = i;
      this.left += items.durations[i] as number;
    }
    if (shuffle) new PythonRandom(seed).shuffle<number, Uint32Array>(this.order);
    if (saved) {
      this.at = saved.at;
      this.left = saved.remaining;
    }
  }

  get remaining(): number {
    return Math.max(0, this.left);
  }

  async next(): Promise<ItemBatch | undefined> {
    const { filling, items, order } = this;
    const batch: ItemBatch = { refs: [], durations: [], bucket: this.bucket, repeated: 0 };
    filling.start(this.bucket);
    for (;;) {
      if (this.at === order.length) return batch.refs.length > 0 && (!this.dropLast || filling.isFull) ? batch : undefined;
      const place = order[this.at++] as number;
      const duration = items.durations[place] as number;
      this.left -= duration;
      filling.add(duration);
      if (filling.isExceeded && batch.refs.length > 0) {
        this.at--;
        this.left += duration;
        return batch;
      }
      batch.refs.push(items.refs[place] as number);
      batch.durations.push(duration);
    }
  }

  mark(): () => Json {
    const { at, left: remaining } = this;
    return () => ({ at, remaining });
  }

  async close(): Promise<void> {
    // Nothing is open.
  }
}

/** How BucketingSampler is set up. */
export interface LhotseStaticOptions {
  numBuckets: number;
  seed: number;
  epoch: number;
  shuffle: boolean;
  dropLast: boolean;
  worldSize: number;
}

interface SavedStatic {
  random: PythonRandomState;
  depleted: boolean[];
  buckets: SavedSimple[];
}

/** BucketingSampler: sorted cuts in buckets of equal total length; of two buckets drawn at random the fuller one is the likelier. */
export class LhotseStatic implements GroupMaker {
  private readonly random: PythonRandom;
  private readonly simple: LhotseSimple[];
  private readonly groups: LhotseRanks[];
  private readonly depleted: boolean[];

  constructor(items: Items, filling: Filling, { numBuckets, seed, epoch, shuffle, dropLast, worldSize }: LhotseStaticOptions, saved?: SavedStatic) {
    this.random = new PythonRandom(seed + epoch);
    this.simple = equalDurationBuckets(items, numBuckets).map(
      (bucket, i) => new LhotseSimple(bucket, filling, { seed: epoch, shuffle, dropLast, bucket: i }, saved?.buckets[i]), // lhotse gives its buckets no seed
    );
    this.groups = this.simple.map((maker) => new LhotseRanks(maker, worldSize, dropLast));
    this.depleted = saved ? [...saved.depleted] : this.simple.map(() => false);
    if (saved) this.random.restore(saved.random);
  }

  private choose(): number {
    const open = this.depleted.flatMap((depleted, i) => (depleted ? [] : [i]));
    if (open.length === 1) return open[0] as number;
    const first = this.random.choice(open);
    const second = this.random.choice(open);
    const a = (this.simple[first] as LhotseSimple).remaining;
    const b = (this.simple[second] as LhotseSimple).remaining;
    if (a + b === 0) return first;
    return this.random.random() > a / (a + b) ? second : first;
  }

  async next(): Promise<ItemBatch[] | undefined> {
    while (this.depleted.includes(false)) {
      const bucket = this.choose();
      const group = await (this.groups[bucket] as LhotseRanks).next();
      if (group) return group;
      this.depleted[bucket] = true;
    }
    return undefined;
  }

  mark(): () => Json {
    const random = this.random.state();
    const depleted = [...this.depleted];
    const buckets = this.simple.map((maker) => maker.mark());
    return () => ({ random, depleted, buckets: buckets.map((mark) => mark()) });
  }

  async close(): Promise<void> {
    // Nothing is open.
  }
}

/** lhotse's create_buckets_equal_duration: the shortest and the longest cuts by turns, each into the bucket that is being filled at its end. */
function equalDurationBuckets({ refs, durations }: Items, numBuckets: number): { refs: number[]; durations: number[] }[] {
  const count = refs.length;
  const sorted = Array.from({ length: count }, (_, i) => i).sort((a, b) => (durations[a] as number) - (durations[b] as number) || a - b);
  const lengths = Float64Array.from(sorted, (i) => durations[i] as number);
  const full = pairwiseSum(lengths) / numBuckets;
  // The turns: which sorted cut comes as the i-th, and with whose duration. lhotse pairs turns and durations by place, so both are kept.
  const turns: number[] = [];
  for (let i = 0; i < count; i += 2) turns.push(i);
  for (let i = count - (1 + (count % 2)); i > 0; i -= 2) turns.push(i);
  const placeOfTurn = new Uint32Array(count);
  turns.forEach((turn, place) => {
    placeOfTurn[turn] = place;
  });
  const filled = new Float64Array(numBuckets);
  const bucketOf = new Uint32Array(count);
  let first = 0;
  let last = numBuckets - 1;
  let middle = -1;
  for (let turn = 0; turn < count; turn++) {
    const place = placeOfTurn[turn] as number;
    const duration = lengths[place] as number;
    if (middle < 0 && first === last) middle = first;
    if (turn % 2 === 0) {
      if ((filled[first] as number) + duration > full) first = first === middle ? Math.max(0, Math.min(middle - 1, numBuckets - 1)) : Math.min(first + 1, numBuckets - 1);
      filled[first]! += duration;
      bucketOf[place] = first;
    } else {
      if ((filled[last] as number) + duration > full) last = last === middle ? Math.max(middle + 1, 0) : Math.max(last - 1, 0);
      filled[last]! += duration;
      bucketOf[place] = last;
    }
  }
  const buckets = Array.from({ length: numBuckets }, () => ({ refs: [] as number[], durations: [] as number[] }));
  sorted.forEach((item, place) => {
    const bucket = buckets[bucketOf[place] as number] as { refs: number[]; durations: number[] };
    bucket.refs.push(refs[item] as number);
    bucket.durations.push(durations[item] as number);
  });
  return buckets;
}
