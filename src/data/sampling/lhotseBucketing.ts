/**
 * The batches of lhotse's DynamicBucketingSampler, to the last cut, with all that is odd about them: a batch ends after the cut with which it
 * is nearly over its limit, even where that one is far longer, and the order of buckets is the same in every epoch.
 * Source: lhotse 1.33, dataset/sampling/dynamic_bucketing.py (behaviour, checked by scripts/interop/sampling.sh).
 */
import { PythonRandom, type PythonRandomState } from "../../util/pythonRandom.ts";
import type { BatchMaker, ItemBatch } from "./batchMaker.ts";
import { BucketBuffer, type SavedBuffer } from "./bucketBuffer.ts";
import type { Feed } from "./feed.ts";
import type { ItemQueue } from "./itemQueue.ts";
import type { Filling } from "./limits.ts";
import type { Json } from "./source.ts";

/** lhotse's own seed of the order of buckets when ranks are kept in step. */
const bucketSeed = 1234;

/** How lhotse draws. */
export interface LhotseBucketingOptions {
  buckets: number;
  bufferSize: number;
  shuffle: boolean;
  dropLast: boolean;
  worldSize: number;
  /** lhotse's sync_buckets. */
  syncBuckets: boolean;
}

interface SavedQueues extends SavedBuffer {
  random: PythonRandomState;
  bucketRandom: PythonRandomState;
  choice: { bucket: number; used: number };
  over: boolean;
}

/** An epoch of it. */
export class LhotseBucketing implements BatchMaker {
  private readonly buffer: BucketBuffer;
  private readonly filling: Filling;
  private readonly options: LhotseBucketingOptions;
  private readonly random: PythonRandom;
  private readonly bucketRandom = new PythonRandom(bucketSeed);
  /** The bucket that was drawn last, and how often it was used; -1 before the first. */
  private choice = { bucket: -1, used: 0 };
  private over = false;
  private indexes = new Int32Array(0);

  constructor(feed: Feed, filling: Filling, random: PythonRandom, options: LhotseBucketingOptions, saved?: SavedQueues) {
    this.buffer = new BucketBuffer(feed, options.buckets, options.bufferSize, saved);
    this.filling = filling;
    this.random = random;
    this.options = options;
    if (!saved) return;
    this.random.restore(saved.random);
    this.bucketRandom.restore(saved.bucketRandom);
    this.choice = { ...saved.choice };
    this.over = saved.over;
  }

  async next(): Promise<ItemBatch | undefined> {
    const { buffer, options } = this;
    await buffer.start();
    if (this.over) return undefined;
    const index = options.syncBuckets ? this.chooseInStep() : this.chooseFreely();
    const bucket = buffer.buckets[index];
    // Without sync_buckets lhotse draws from empty buckets too, and ends there.
    if (!bucket || bucket.size === 0) {
      if (bucket && options.shuffle) this.shuffled(bucket);
      this.over = true;
      return undefined;
    }
    const batch = options.shuffle ? this.drawShuffled(bucket, index) : this.drawInOrder(bucket, index);
    await buffer.refill(batch.refs.length);
    return batch;
  }

  private chooseFreely(): number {
    const all = this.buffer.buckets.map((_, i) => i);
    const ready = all.filter((i) => this.isReady(i));
    if (ready.length === 0 && this.options.dropLast) return -1;
    return this.random.choice(ready.length > 0 ? ready : all);
  }

  private chooseInStep(): number {
    const { choice, options } = this;
    const { buckets } = this.buffer;
    if (choice.bucket < 0 || choice.used === options.worldSize) {
      choice.bucket = this.bucketRandom.below(buckets.length);
      choice.used = 0;
    }
    choice.used++;
    const ready = this.scan((i) => this.isReady(i));
    if (ready >= 0 || options.dropLast) return ready;
    return this.scan((i) => (buckets[i] as ItemQueue).size > 0);
  }

  /** The first bucket for which `test` holds, beginning at the drawn one: then the one before, the one behind, two before, and so on. */
  private scan(test: (index: number) => boolean): number {
    const count = this.buffer.buckets.length;
    let at = this.choice.bucket;
    let lowest = at;
    let highest = at;
    for (let attempts = 1; !(at >= 0 && at < count && test(at)); attempts++) {
      if (lowest < 0 && highest >= count) return -1;
      at += attempts % 2 === 0 ? attempts : -attempts;
      lowest = Math.min(lowest, at);
      highest = Math.max(highest, at);
    }
    return at;
  }

  private isReady(index: number): boolean {
    const { filling } = this;
    const { durations, head, end } = this.buffer.buckets[index] as ItemQueue;
    filling.start(index);
    for (let i = head; i < end; i++) {
      filling.add(durations[i] as number);
      if (filling.isFull) return true;
    }
    return false;
  }

  private drawInOrder(bucket: ItemQueue, index: number): ItemBatch {
    const { filling } = this;
    const { refs, durations, head, size } = bucket;
    filling.start(index);
    let count = 0;
    while (count < size) {
      filling.add(durations[head + count++] as number);
      if (filling.isFull) break;
    }
    bucket.takeFirst(count);
    return { refs: Array.from(refs.subarray(head, head + count)), durations: Array.from(durations.subarray(head, head + count)), bucket: index, repeated: 0 };
  }

  /** Places of the bucket, from its head, in Python's random order. */
  private shuffled({ size }: ItemQueue): Int32Array {
    if (this.indexes.length < size) this.indexes = new Int32Array(2 * size);
    const indexes = this.indexes.subarray(0, size);
    for (let i = 0; i < size; i++) indexes[i] = i;
    return this.random.shuffle<number, Int32Array>(indexes);
  }

  private drawShuffled(bucket: ItemQueue, index: number): ItemBatch {
    const { filling } = this;
    const { refs, durations } = bucket; // its head stays at 0 where items are taken from all places
    const order = this.shuffled(bucket);
    const batch: ItemBatch = { refs: [], durations: [], bucket: index, repeated: 0 };
    filling.start(index);
    for (let i = 0; i < order.length; i++) {
      const place = order[i] as number;
      const duration = durations[place] as number;
      filling.add(duration);
      batch.refs.push(refs[place] as number);
      batch.durations.push(duration);
      if (filling.isFull) break;
    }
    bucket.takeAll(order.slice(0, batch.refs.length).sort());
    return batch;
  }

  mark(): () => Json {
    const buffer = this.buffer.mark();
    const random = this.random.state();
    const bucketRandom = this.bucketRandom.state();
    const choice = { ...this.choice };
    const { over } = this;
    return () => ({ ...buffer(), random, bucketRandom, choice, over });
  }

  close(): Promise<void> {
    return this.buffer.feed.close();
  }
}
