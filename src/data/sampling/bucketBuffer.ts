/** Items on their way into batches of like duration: so many are held in all buckets together, and as many come in as go out. */
import { ConfigError } from "../../util/errors.ts";
import type { Feed } from "./feed.ts";
import { ItemQueue, type SavedQueue } from "./itemQueue.ts";
import type { Json } from "./source.ts";

/** What a buffer saves; its feed's state stands beside it. */
export interface SavedBuffer {
  buckets: SavedQueue[];
  started: boolean;
}

/** Buckets and the feed that fills them. */
export class BucketBuffer {
  readonly feed: Feed;
  readonly buckets: ItemQueue[];
  private readonly size: number;
  private started: boolean;

  /** @param size items that are held @throws ConfigError SAMPLER_BAD_STATE where the saved buckets are others */
  constructor(feed: Feed, count: number, size: number, saved?: SavedBuffer) {
    if (saved && saved.buckets.length !== count)
      throw new ConfigError("SAMPLER_BAD_STATE", {
        message: `the state has ${saved.buckets.length} buckets, expected ${count}`,
        fix: "give the same bins, or start the epoch again",
      });
    this.feed = feed;
    this.size = size;
    this.started = saved?.started ?? false;
    this.buckets = Array.from({ length: count }, (_, i) => (saved ? ItemQueue.from(saved.buckets[i] as SavedQueue) : new ItemQueue()));
  }

  private readonly put = (bucket: number, ref: number, duration: number): void => {
    (this.buckets[bucket] as ItemQueue).push(ref, duration);
  };

  /** Fills it before the first batch. @throws SeracError of reading */
  async start(): Promise<void> {
    if (this.started) return;
    this.started = true;
    await this.feed.fill(this.size, this.put);
  }

  /** Takes in as many items as a batch took out. @throws SeracError of reading */
  refill(count: number): Promise<void> {
    return this.feed.fill(count, this.put);
  }

  /** As BatchMaker's. */
  mark(): () => { feed: Json; buckets: Json; started: boolean } {
    const feed = this.feed.state();
    const { started } = this;
    const buckets = this.buckets.map((bucket) => bucket.mark());
    return () => ({ feed, started, buckets: buckets.map((mark) => ({ ...mark() })) });
  }
}
