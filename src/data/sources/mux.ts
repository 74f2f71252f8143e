/**
 * Mixtures: items of several sources, one drawn at a time by weight. Finite ones give every item once and go on without a source that has ended;
 * infinite ones begin a source again when it ends, or, with a limit of open streams, open another one drawn by weight.
 * The draws are those of lhotse's mux and infinite_mux with the same seed. Source: lhotse, lazy.py.
 */
import { ConfigError, ManifestError } from "../../util/errors.ts";
import { hashText } from "../../util/hash.ts";
import type { EpochOptions, ItemSource, ItemStream, StreamPosition } from "../sampling/index.ts";
import { MuxStream } from "./muxStream.ts";

/** What is mixed, and how. */
export interface MuxOptions {
  /** For messages. */
  name?: string;
  /** Shares of the draws, one a source, at any scale; equal where absent. */
  weights?: readonly number[] | undefined;
  /** Of the draws; an epoch adds its number. Without it the seed of the epoch is taken, and `salt` added. */
  seed?: number | undefined;
  /** Tells mixtures within mixtures apart, so that their draws are independent. */
  salt?: number;
  /** True for a mixture without end. */
  infinite?: boolean;
  /** Sources that are open at a time, for infinite mixtures of many shards. */
  maxOpenStreams?: number | undefined;
}

/** A mixture of sources, itself a source. */
export class MuxSource<T> implements ItemSource<T> {
  readonly name: string;
  readonly divisible: boolean;
  readonly sources: readonly ItemSource<T>[];
  readonly weights: readonly number[];
  private readonly seed: number | undefined;
  private readonly salt: number;
  private readonly infinite: boolean;
  private readonly maxOpenStreams: number | undefined;

  /** @throws ConfigError CONFIG_BAD_VALUE, MIX_BAD_WEIGHT; ManifestError SOURCE_EMPTY for sources known to be empty */
  constructor(sources: readonly ItemSource<T>[], { name = "mixture", weights, seed, salt = 0, infinite = false, maxOpenStreams }: MuxOptions = {}) {
    if (sources.length === 0) throw new ConfigError("CONFIG_BAD_VALUE", { at: name, message: "a mixture of no sources" });
    if (weights && weights.length !== sources.length)
      throw new ConfigError("MIX_BAD_WEIGHT", { at: name, message: `${weights.length} weights for ${sources.length} sources`, fix: "give each source a weight, or none" });
    weights?.forEach((weight, i) => {
      if (!(weight > 0 && weight < Number.POSITIVE_INFINITY))
        throw new ConfigError("MIX_BAD_WEIGHT", {
          at: name,
          message: `the weight of ${sources[i]?.name} is ${weight}, expected a number above 0`,
          fix: "leave out a source that shall not be read",
        });
    });
    if (maxOpenStreams !== undefined && (!Number.isInteger(maxOpenStreams) || maxOpenStreams < 1))
      throw new ConfigError("CONFIG_BAD_VALUE", { at: name, message: `max_open_streams is ${maxOpenStreams}, expected a whole number of 1 or more` });
    if (maxOpenStreams !== undefined && !infinite)
      throw new ConfigError("CONFIG_BAD_VALUE", {
        at: name,
        message: "max_open_streams is for mixtures without end: streams are drawn with replacement, so that a finite epoch would miss some and repeat others",
        fix: "leave out max_open_streams, or force_finite and metadata_only",
      });
    const empty = sources.find(({ length }) => length === 0);
    if (empty)
      throw new ManifestError("SOURCE_EMPTY", {
        at: empty.name,
        message: "the source has no utterance, so that it cannot be a part of a mixture",
        fix: "check its filters, or leave it out",
      });
    this.name = name;
    this.sources = sources;
    this.weights = weights ?? sources.map(() => 1);
    this.seed = seed;
    this.salt = salt;
    this.infinite = infinite;
    this.maxOpenStreams = maxOpenStreams;
    this.divisible = sources.every(({ divisible }) => divisible);
  }

  get length(): number | undefined {
    if (this.infinite) return Number.POSITIVE_INFINITY;
    let sum = 0;
    for (const { length } of this.sources) {
      if (length === undefined) return undefined;
      sum += length;
    }
    return sum;
  }

  fingerprint(): string {
    const parts = ["mux", this.infinite, this.maxOpenStreams ?? "", this.seed ?? "", this.salt, this.weights.join(" "), ...this.sources.map((source) => source.fingerprint())];
    const { high, low } = hashText(parts.join("|"));
    return high.toString(16).padStart(8, "0") + low.toString(16).padStart(8, "0");
  }

  open(options: EpochOptions, position?: StreamPosition): ItemStream | Promise<ItemStream> {
    const stream = new MuxStream(
      { name: this.name, sources: this.sources, weights: this.weights, infinite: this.infinite, maxOpenStreams: this.maxOpenStreams },
      options,
      this.seed ?? options.seed + this.salt,
    );
    return position ? stream.restore(position) : stream;
  }

  async load(refs: ArrayLike<number>): Promise<T[]> {
    const result = new Array<T>(refs.length);
    await Promise.all(
      this.bySource(refs).map(async ({ source, own, places }) => {
        const items = await source.load(own);
        places.forEach((place, i) => (result[place] = items[i] as T));
      }),
    );
    return result;
  }

  release(refs: ArrayLike<number>): void {
    for (const { source, own } of this.bySource(refs)) source.release(own);
  }

  where(ref: number): string {
    const count = this.sources.length;
    return (this.sources[ref % count] as ItemSource<T>).where(Math.floor(ref / count));
  }

  private bySource(refs: ArrayLike<number>): { source: ItemSource<T>; own: number[]; places: number[] }[] {
    const count = this.sources.length;
    const groups = new Map<number, { source: ItemSource<T>; own: number[]; places: number[] }>();
    for (let i = 0; i < refs.length; i++) {
      const ref = refs[i] as number;
      const index = ref % count;
      let group = groups.get(index);
      if (!group) groups.set(index, (group = { source: this.sources[index] as ItemSource<T>, own: [], places: [] }));
      group.own.push(Math.floor(ref / count));
      group.places.push(i);
    }
    return [...groups.values()];
  }
}
