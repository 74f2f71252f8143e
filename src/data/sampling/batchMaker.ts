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
  /** Batches of the epoch, where all are planned beforehand. */
  readonly length?: number | undefined;
  /** Items that are in none of them, because their bucket's last batch is not full. */
  readonly dropped?: number | undefined;
  /** @returns the next batch; undefined at the end, and at every call after it */
  next(): Promise<ItemBatch | undefined>;
  /** @returns what gives the place behind the last batch that `next` gave, when it is asked for: marks are cheap, states need not be */
  mark(): () => Json;
  close(): Promise<void>;
}

/** @returns a copy of a batch that nobody changes any more */
export const copyBatch = ({ refs, durations, bucket, repeated }: ItemBatch): ItemBatch => ({ refs: [...refs], durations: [...durations], bucket, repeated });

/** Numbers of the items that a state holds: all that stand under "refs" in it, but for what its stream keeps for itself. */
export function heldRefs(state: unknown): number[] {
  if (typeof state !== "object" || state === null) return [];
  if (Array.isArray(state)) return typeof state[0] === "object" ? state.flatMap(heldRefs) : [];
  return Object.entries(state).flatMap(([key, value]) => (key === "refs" ? (value as number[]) : key === "feed" ? [] : heldRefs(value)));
}
