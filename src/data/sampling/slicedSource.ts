/**
 * A part of each shard, another one in each epoch: NeMo's slice_length, which shows more of a large corpus in less time than whole shards do.
 * Source: NeMo, nemo_adapters.py; lhotse, shar/readers/lazy.py.
 */
import { ConfigError } from "../../util/errors.ts";
import { Random } from "../../util/random.ts";
import type { ColumnSource } from "./columnSource.ts";
import type { EpochOptions, ItemSource, ItemStream, StreamPosition } from "./source.ts";

/** A source of `slice` items in a row of each shard, from a place drawn by seed and epoch; shards that have no more are given whole. */
export class SlicedSource<T> implements ItemSource<T> {
  readonly name: string;
  readonly length: number;
  readonly divisible = true;
  private readonly source: ColumnSource<T>;
  private readonly sizes: readonly number[];
  private readonly slice: number;

  /** @param sizes items of each shard, which follow each other in `source` @throws ConfigError CONFIG_BAD_VALUE */
  constructor(source: ColumnSource<T>, sizes: readonly number[], slice: number) {
    if (!Number.isInteger(slice) || slice < 1)
      throw new ConfigError("CONFIG_BAD_VALUE", { at: source.name, message: `slice_length is ${slice}, expected a whole number of 1 or more` });
    this.name = source.name;
    this.source = source;
    this.sizes = sizes;
    this.slice = slice;
    this.length = sizes.reduce((sum, size) => sum + Math.min(size, slice), 0);
  }

  fingerprint(): string {
    return `${this.source.fingerprint()} slices of ${this.slice}`;
  }

  open(options: EpochOptions, position?: StreamPosition): ItemStream {
    const random = new Random(options.seed).fork(options.epoch);
    const rows = new Uint32Array(this.length);
    let first = 0;
    let count = 0;
    for (const size of this.sizes) {
      const from = size > this.slice ? random.integer(0, size - this.slice + 1) : 0;
      for (let i = 0; i < Math.min(size, this.slice); i++) rows[count++] = first + from + i;
      first += size;
    }
    return this.source.only(rows).open(options, position);
  }

  load(refs: ArrayLike<number>): Promise<T[]> {
    return this.source.load(refs);
  }

  release(): void {
    // Items are found by number: nothing is kept.
  }

  where(ref: number): string {
    return this.source.where(ref);
  }
}
