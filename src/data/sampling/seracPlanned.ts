/**
 * All batches of an epoch planned at once: items are shuffled as a whole, dealt out to buckets of like duration, cut into batches within the
 * limits, and the batches are shuffled. The number of steps is known beforehand, and an epoch goes on at any step after one look at all items.
 */
import type { Random } from "../../util/random.ts";
import type { BatchMaker, ItemBatch } from "./batchMaker.ts";
import type { Feed, ItemList } from "./feed.ts";
import type { Filling } from "./limits.ts";
import type { Json } from "./source.ts";

/** How to plan. */
export interface PlanningOptions {
  buckets: number;
  shuffle: boolean;
  dropLast: boolean;
  /** Batches of one bucket stay together in groups of so many, one for each rank. */
  worldSize: number;
}

/** An epoch of it. */
export class SeracPlanned implements BatchMaker {
  private readonly feed: Feed;
  private readonly items: ItemList;
  /** Places of the items in the order of the batches, and where each batch begins and ends in it. */
  private readonly order: Uint32Array;
  private readonly starts: number[] = [];
  private readonly stops: number[] = [];
  /** The batches in the order in which they are given. */
  private readonly turns: Uint32Array;
  /** Items that are in no batch, because their bucket's last one is not full. */
  dropped = 0;
  private at = 0;

  constructor(feed: Feed, items: ItemList, filling: Filling, random: Random, options: PlanningOptions, saved?: { at: number }) {
    this.feed = feed;
    this.items = items;
    this.order = new Uint32Array(items.length);
    const groups = this.cut(filling, random, options);
    this.turns = takeTurns(groups, random, options);
    if (saved) this.at = saved.at;
  }

  /** Batches of the epoch. */
  get length(): number {
    return this.turns.length;
  }

  /** Fills batches bucket by bucket. @returns the numbers of each bucket's batches */
  private cut(filling: Filling, random: Random, { buckets, shuffle, dropLast }: PlanningOptions): { first: number; count: number }[] {
    const { items, order, starts, stops } = this;
    const { durations } = items;
    const sizes = new Uint32Array(buckets + 1);
    for (let i = 0; i < items.length; i++) sizes[(items.buckets[i] as number) + 1]! += 1;
    for (let bucket = 0; bucket < buckets; bucket++) sizes[bucket + 1]! += sizes[bucket] as number;
    const next = sizes.slice(0, buckets);
    for (let i = 0; i < items.length; i++) order[next[items.buckets[i] as number]!++] = i;
    const groups: { first: number; count: number }[] = [];
    for (let bucket = 0; bucket < buckets; bucket++) {
      const mine = order.subarray(sizes[bucket], sizes[bucket + 1]);
      if (shuffle) shuffleArray(mine, random);
      const first = starts.length;
      let begin = sizes[bucket] as number;
      const end = sizes[bucket + 1] as number;
      filling.start(bucket);
      for (let i = begin; i < end; i++) {
        const duration = durations[order[i] as number] as number;
        if (filling.count > 0 && !filling.fits(duration)) {
          starts.push(begin);
          stops.push(i);
          begin = i;
          filling.start(bucket);
        }
        filling.add(duration);
      }
      if (filling.count > 0 && (!dropLast || filling.isFull)) {
        starts.push(begin);
        stops.push(end);
      } else this.dropped += end - begin;
      groups.push({ first, count: starts.length - first });
    }
    return groups;
  }

  async next(): Promise<ItemBatch | undefined> {
    if (this.at === this.turns.length) return undefined;
    const number = this.turns[this.at++] as number;
    const { items, order } = this;
    const begin = this.starts[number] as number;
    const end = this.stops[number] as number;
    const bucket = items.buckets[order[begin] as number] as number;
    const batch: ItemBatch = { refs: [], durations: [], bucket, repeated: 0 };
    for (let i = begin; i < end; i++) {
      const place = order[i] as number;
      batch.refs.push(items.refs[place] as number);
      batch.durations.push(items.durations[place] as number);
    }
    return batch;
  }

  mark(): () => Json {
    const { at } = this;
    return () => ({ at }); // it reads all items again
  }

  close(): Promise<void> {
    return this.feed.close();
  }
}

/** Fisher and Yates, in place. */
function shuffleArray(values: Uint32Array, random: Random): void {
  for (let i = values.length - 1; i > 0; i--) {
    const j = random.integer(0, i + 1);
    const t = values[i] as number;
    values[i] = values[j] as number;
    values[j] = t;
  }
}

/** The order of the batches: whole groups of a bucket in random order, then the batches that are left over of each. */
function takeTurns(buckets: readonly { first: number; count: number }[], random: Random, { shuffle, worldSize }: PlanningOptions): Uint32Array {
  const total = buckets.reduce((sum, { count }) => sum + count, 0);
  const turns = new Uint32Array(total);
  if (!shuffle) return turns.map((_, i) => i);
  const groups = new Uint32Array(buckets.reduce((sum, { count }) => sum + Math.floor(count / worldSize), 0));
  const rest: number[] = [];
  let at = 0;
  for (const { first, count } of buckets) {
    const whole = Math.floor(count / worldSize) * worldSize;
    for (let i = 0; i < whole; i += worldSize) groups[at++] = first + i;
    for (let i = whole; i < count; i++) rest.push(first + i);
  }
  shuffleArray(groups, random);
  at = 0;
  for (const first of groups) for (let i = 0; i < worldSize; i++) turns[at++] = first + i;
  for (const batch of rest) turns[at++] = batch;
  return turns;
}
