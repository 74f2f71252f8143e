/**
 * Sources whose items are all known: their durations lie in a column in memory, and each is found by its number. Shuffled over the whole epoch,
 * divided among readers without reading what is another's, and restored at once from any place.
 */
import { ConfigError } from "../../util/errors.ts";
import { badDuration } from "../lineIndex/index.ts";
import { hashNumbers } from "./fingerprint.ts";
import { Permutation } from "./permutation.ts";
import type { EpochOptions, ItemBlock, ItemSource, ItemStream, Json, StreamPosition } from "./source.ts";

/** What a column source is made of. */
export interface Columns<T> {
  name: string;
  /** Seconds, of all items. */
  durations: Float64Array;
  /** Output tokens, where they are counted. */
  tokens?: Float64Array | undefined;
  load(rows: ArrayLike<number>): Promise<T[]>;
  where(row: number): string;
  /** Tells other contents from these, beyond durations and tokens. */
  fingerprint(): string;
}

/** Bounds of what is kept; both are inclusive, as NeMo's. */
export interface ItemBounds {
  minDuration?: number | undefined;
  maxDuration?: number | undefined;
}

/** A source over columns. */
export class ColumnSource<T> implements ItemSource<T> {
  readonly name: string;
  readonly divisible = true;
  private readonly columns: Columns<T>;
  /** The rows that were kept, in order; undefined where all were. */
  private readonly rows: Uint32Array | undefined;
  private known: string | undefined;

  /** @throws ManifestError MANIFEST_BAD_DURATION for a duration that is not above 0 */
  constructor(columns: Columns<T>, rows?: Uint32Array) {
    this.name = columns.name;
    this.columns = columns;
    this.rows = rows;
    if (rows) return; // a part of what was looked at
    const { durations } = columns;
    for (let i = 0; i < durations.length; i++) {
      const duration = durations[i] as number;
      if (!(duration > 0 && duration < Number.POSITIVE_INFINITY)) throw badDuration(duration, columns.where(i));
    }
  }

  get length(): number {
    return this.rows?.length ?? this.columns.durations.length;
  }

  /** Seconds of all items. */
  get duration(): number {
    const { durations } = this.columns;
    let sum = 0;
    for (let i = 0; i < this.length; i++) sum += durations[this.row(i)] as number;
    return sum;
  }

  private row(place: number): number {
    return this.rows ? (this.rows[place] as number) : place;
  }

  /** The items for which `keep` is true, by row; and within bounds. Refs stay what they were. */
  filter({ minDuration = 0, maxDuration = Number.POSITIVE_INFINITY }: ItemBounds, keep?: (row: number, duration: number) => boolean): ColumnSource<T> {
    const { durations } = this.columns;
    const kept = new Uint32Array(this.length);
    let count = 0;
    for (let i = 0; i < this.length; i++) {
      const row = this.row(i);
      const duration = durations[row] as number;
      if (duration >= minDuration && duration <= maxDuration && (keep === undefined || keep(row, duration))) kept[count++] = row;
    }
    return count === this.length ? this : new ColumnSource(this.columns, kept.slice(0, count));
  }

  /** The items of these rows alone, in their order. Refs stay what they were. */
  only(rows: Uint32Array): ColumnSource<T> {
    return new ColumnSource(this.columns, rows);
  }

  fingerprint(): string {
    const { durations, tokens } = this.columns;
    this.known ??= [this.columns.fingerprint(), this.length, hashNumbers(durations, this.rows), ...(tokens ? [hashNumbers(tokens, this.rows)] : [])].join(" ");
    return this.known;
  }

  open(options: EpochOptions, position?: StreamPosition): ItemStream {
    return new ColumnStream({ ...this.columns, rows: this.rows, length: this.length }, options, position?.state);
  }

  load(refs: ArrayLike<number>): Promise<T[]> {
    return this.columns.load(refs);
  }

  release(): void {
    // Items are found by number: nothing is kept.
  }

  where(ref: number): string {
    return this.columns.where(ref);
  }
}

/** A source of what is in memory. @param where tells the place of an item in messages */
export function memorySource<T extends { duration: number }>(
  items: readonly T[],
  { name = "items", where = (row) => `item ${row}`, tokens, identity }: { name?: string; where?: (row: number) => string; tokens?: (item: T) => number; identity?: string } = {},
): ColumnSource<T> {
  const durations = new Float64Array(items.length);
  for (let i = 0; i < items.length; i++) durations[i] = (items[i] as T).duration;
  let counts: Float64Array | undefined;
  if (tokens) {
    counts = new Float64Array(items.length);
    for (let i = 0; i < items.length; i++) counts[i] = tokens(items[i] as T);
  }
  return new ColumnSource({
    name,
    durations,
    tokens: counts,
    load: async (rows) => Array.from(rows, (row) => items[row] as T),
    where,
    fingerprint: () => identity ?? "memory",
  });
}

interface StreamColumns {
  name: string;
  durations: Float64Array;
  tokens?: Float64Array | undefined;
  rows: Uint32Array | undefined;
  length: number;
}

const blockSize = 1024;

class ColumnStream implements ItemStream {
  private readonly columns: StreamColumns;
  private readonly order: Permutation | undefined;
  private readonly first: number;
  private readonly step: number;
  private place: number;
  private readonly block: ItemBlock;

  constructor(columns: StreamColumns, { seed, epoch, shuffle, share = { index: 0, count: 1 } }: EpochOptions, state: Json | undefined) {
    this.columns = columns;
    this.order = shuffle ? new Permutation(columns.length, seed, epoch) : undefined;
    this.first = share.index;
    this.step = share.count;
    this.place = placeIn(state, columns);
    this.block = { count: 0, refs: new Float64Array(blockSize), durations: new Float64Array(blockSize), tokens: columns.tokens ? new Float64Array(blockSize) : undefined };
  }

  read(most: number): ItemBlock | undefined {
    const { block, order, columns } = this;
    const { rows, durations, tokens, length } = columns;
    let count = 0;
    for (const stop = Math.min(most, blockSize); count < stop; count++) {
      const place = this.first + this.place * this.step;
      if (place >= length) break;
      this.place++;
      const item = order ? order.at(place) : place;
      const row = rows ? (rows[item] as number) : item;
      block.refs[count] = row;
      block.durations[count] = durations[row] as number;
      if (tokens) (block.tokens as Float64Array)[count] = tokens[row] as number;
    }
    block.count = count;
    return count === 0 ? undefined : block;
  }

  state(): Json {
    return { place: this.place };
  }

  close(): void {
    // Nothing is open.
  }
}

function placeIn(state: Json | undefined, { name, length }: StreamColumns): number {
  if (state === undefined) return 0;
  const place = typeof state === "object" && state !== null && "place" in state ? state.place : undefined;
  if (typeof place !== "number" || !Number.isInteger(place) || place < 0 || place > length)
    throw new ConfigError("SAMPLER_BAD_STATE", { at: name, message: "the state to go on from is not one of this source's", fix: "start the epoch again" });
  return place;
}
