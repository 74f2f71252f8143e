/**
 * Batches from buckets that a stream keeps filled. A bounded number of items is held; a batch is drawn from one bucket, so that it pads little.
 * After lhotse's DynamicBucketingSampler, without its faults: no batch is over its limits (a cut that does not fit starts the bucket's next
 * batch), which bucket comes next depends on seed and epoch, and drawing costs the same for any size of bucket.
 * With a single bucket it is a shuffle buffer.
 */
import type { Random, RandomState } from "../../util/random.ts";
import type { BatchMaker, ItemBatch } from "./batchMaker.ts";
import { BucketBuffer, type SavedBuffer } from "./bucketBuffer.ts";
import type { Feed } from "./feed.ts";
import type { ItemQueue } from "./itemQueue.ts";
import type { Filling } from "./limits.ts";
import type { Json } from "./source.ts";

/** How to draw. */
export interface DrawOptions {
  buckets: number;
  /** Items that are held. */
  bufferSize: number;
  shuffle: boolean;
  dropLast: boolean;
  /** Batches that are drawn from one bucket in a row: one for each rank, so that ranks work on like batches. */
  worldSize: number;
}

interface SavedBuckets extends SavedBuffer {
  random: RandomState;
  choice: { bucket: number; used: number };
}

/** An epoch of it. */
export class SeracBucketing implements BatchMaker {
  private readonly buffer: BucketBuffer;
  private readonly filling: Filling;
  private readonly options: DrawOptions;
  private readonly random: Random;
  private choice = { bucket: 0, used: 0 };

  constructor(feed: Feed, filling: Filling, random: Random, options: DrawOptions, saved?: SavedBuckets) {
    this.buffer = new BucketBuffer(feed, options.buckets, options.bufferSize, saved);
    this.filling = filling;
    this.options = options;
    this.random = random;
    if (!saved) return;
    this.random.restore(saved.random);
    this.choice = { ...saved.choice };
  }

  async next(): Promise<ItemBatch | undefined> {
    const { buffer } = this;
    await buffer.start();
    const index = this.choose();
    if (index < 0) return undefined;
    const batch = this.draw(buffer.buckets[index] as ItemQueue, index);
    await buffer.refill(batch.refs.length);
    return batch;
  }

  /** @returns a bucket to draw from, or -1 at the end */
  private choose(): number {
    const { options, choice } = this;
    const { buckets, feed } = this.buffer;
    if (choice.used % options.worldSize === 0) choice.bucket = this.random.integer(0, buckets.length);
    choice.used = (choice.used + 1) % options.worldSize;
    const ready = this.nearest(choice.bucket, (bucket, i) => this.isReady(bucket, i));
    if (ready >= 0 || (options.dropLast && feed.ended)) return ready;
    // None is full: the epoch ends, or the buffer is small for the limits.
    return this.nearest(choice.bucket, ({ size }) => size > 0);
  }

  /** The bucket nearest to `from` for which `test` holds, the shorter one of two as near; -1 where there is none. */
  private nearest(from: number, test: (bucket: ItemQueue, index: number) => boolean): number {
    const { buckets } = this.buffer;
    for (let distance = 0; distance < buckets.length; distance++) {
      for (const i of distance === 0 ? [from] : [from - distance, from + distance]) {
        const bucket = buckets[i];
        if (bucket && test(bucket, i)) return i;
      }
    }
    return -1;
  }

  /** Whether a full batch can be made, as far as the bucket's first items tell. */
  private isReady(bucket: ItemQueue, index: number): boolean {
    const { filling } = this;
    const { durations, head, end } = bucket;
    filling.start(index);
    for (let i = head; i < end; i++) {
      const duration = durations[i] as number;
      if (!filling.fits(duration)) return true; // the batch ends before it, or it is one of its own
      filling.add(duration);
      if (filling.isFull) return true;
    }
    return false;
  }

  private draw(bucket: ItemQueue, index: number): ItemBatch {
    const { filling, random } = this;
    const { shuffle } = this.options;
    const batch: ItemBatch = { refs: [], durations: [], bucket: index, repeated: 0 };
    filling.start(index);
    while (bucket.size > 0 && !filling.isFull) {
      const place = !shuffle || (bucket.carried && batch.refs.length === 0) ? bucket.head : bucket.head + (bucket.size === 1 ? 0 : random.integer(0, bucket.size));
      const duration = bucket.durations[place] as number;
      if (batch.refs.length > 0 && !filling.fits(duration)) {
        bucket.carry(place);
        break;
      }
      filling.add(duration);
      batch.refs.push(bucket.refs[place] as number);
      batch.durations.push(duration);
      bucket.carried = false;
      if (shuffle) bucket.takeAt(place);
      else bucket.takeFirst();
    }
    return batch;
  }

  mark(): () => Json {
    const buffer = this.buffer.mark();
    const random = this.random.state();
    const choice = { ...this.choice };
    return () => ({ ...buffer(), random, choice });
  }

  close(): Promise<void> {
    return this.buffer.feed.close();
  }
}
