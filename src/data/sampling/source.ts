/**
 * What a sampler reads from: sources of items, seen as durations and numbers, in blocks.
 * A sampler never holds whole utterances: an item is the number by which its source finds it again and the figures that batches are made by,
 * so that millions of items a second pass through. Only the items of a batch that is trained on are made into cuts, by `load`.
 */

/** What JSON can hold: states are kept in checkpoints. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Some items in a row. The arrays may be used again for the next block: copy what is kept. */
export interface ItemBlock {
  count: number;
  /** The source's numbers of the items: whole, from 0, below 2^53. */
  refs: Float64Array;
  /** Seconds. Samplers refuse what is not above 0, at `where(ref)`. */
  durations: Float64Array;
  /** Output tokens of the items, which 2-D buckets go by; undefined where the source does not count them. */
  tokens: Float64Array | undefined;
}

/** Which items a stream gives, and in which order: the same options always give the same items. */
export interface EpochOptions {
  /** From 0. A source without end takes it as a part of its seed. */
  epoch: number;
  /** Any whole number. */
  seed: number;
  /** True for an order that depends on seed and epoch; false for the source's own. */
  shuffle: boolean;
  /** Of sources that can be divided: the items of one reader among several. All items where it is absent. */
  share?: { index: number; count: number } | undefined;
}

/** Where a stream goes on: its state, and those items read before it that are still to be loaded. */
export interface StreamPosition {
  state: Json;
  /** Numbers of the items that a sampler still holds; sources that find items by their numbers need not look at them. */
  held: readonly number[];
}

/** The items of one epoch, in their order. */
export interface ItemStream {
  /**
   * @param most how many items at most, from 1
   * @returns 1 to `most` items; undefined at the end, and at every call after it
   * @throws SeracError for what cannot be read
   */
  read(most: number): ItemBlock | undefined | Promise<ItemBlock | undefined>;
  /** Where the stream stands: behind the last item that `read` gave. */
  state(): Json;
  /** Closes files. A stream that was read to its end need not be closed. */
  close(): Promise<void> | void;
}

/**
 * A source of items of type T. Mixtures and filters are sources over sources.
 * A restored stream gives exactly the items that the saved one would have given; where items are found by number it takes no longer for a late
 * position than for an early one.
 */
export interface ItemSource<T> {
  /** For messages: "train.jsonl". */
  readonly name: string;
  /** Items of an epoch; Infinity for a source without end; undefined where only reading to the end tells. */
  readonly length: number | undefined;
  /** True where `share` divides the items, so that readers do not read what others do. */
  readonly divisible: boolean;
  /** What the items are: it changes where the data or what is taken from them changes. Two sources of one fingerprint give the same items. */
  fingerprint(): string;
  /** Starts an epoch, or goes on within it. @throws SeracError also where `position` is none of this source's */
  open(options: EpochOptions, position?: StreamPosition): ItemStream | Promise<ItemStream>;
  /**
   * Makes whole items, in the order of `refs`. Sources that read in one direction keep items from `read` until they are loaded, which can be done once.
   * @throws SeracError for what cannot be read
   */
  load(refs: ArrayLike<number>): Promise<T[]>;
  /** Tells that these items will not be loaded: they belong to batches of another rank. */
  release(refs: ArrayLike<number>): void;
  /** Where an item stands, for messages: "train.jsonl:17". */
  where(ref: number): string;
}
