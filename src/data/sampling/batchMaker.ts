/** What all samplers have in common: they make the batches of an epoch one after another, for all ranks together. */
import type { Json } from "./source.ts";

/** Items of a batch, by their numbers. */
export interface ItemBatch {
  refs: number[];
  /** Seconds, in the order of `refs`. */
  durations: number[];
  /** From 0; 0 where a sampler has no buckets. */
  bucket: number;
  /** How many of the items, at the end, are in another batch too: where fewer are left than there are ranks. */
  repeated: number;
}

/** A running epoch. */
export interface BatchMaker {
  /** @returns the next batch; undefined at the end, and at every call after it */
  next(): Promise<ItemBatch | undefined>;
  /** Where it stands, behind the last batch that `next` gave. */
  state(): Json;
  /** Numbers of the items that were read and are in no batch yet. */
  held(): number[];
  close(): Promise<void>;
}
