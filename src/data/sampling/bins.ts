/**
 * Which bucket an item belongs to. Two conventions are in use, and both are here by name:
 * inner edges (lhotse): n edges make n + 1 buckets, the last has no end;
 * upper bounds (with a batch size for each bucket; 2-D): n bounds make n buckets, and what is above the last belongs to none.
 * A duration that equals an edge belongs to the bucket below it. Sources: lhotse (bisect_left), NeMo's 2-D buckets.
 */
import { ConfigError } from "../../util/errors.ts";

/** Upper bounds of a 2-D bucket: seconds and tokens. */
export type Bin2d = readonly [duration: number, tokens: number];

/** 1-D or 2-D bins. */
export type DurationBins = readonly number[] | readonly Bin2d[];

/** How bins are meant. */
export interface BinOptions {
  /** "edges" are inner edges, "bounds" are upper bounds. 2-D bins are always bounds. */
  convention: "edges" | "bounds";
  /** 2-D: false lets an item with many tokens go to a bucket of longer audio; true leaves it out. */
  strict?: boolean | undefined;
  /** 2-D, strict: leaves out items with more tokens a second than this; one for all, or one for each bucket. */
  maxTps?: number | readonly number[] | undefined;
}

/** Assigns items to buckets. */
export interface Buckets {
  readonly count: number;
  /** True where tokens are looked at. */
  readonly needsTokens: boolean;
  /** @returns the bucket from 0, or -1 for an item that belongs to none */
  place(duration: number, tokens: number): number;
  /** Why an item belongs to no bucket, for messages. */
  refusal: string;
}

const is2d = (bins: DurationBins): bins is readonly Bin2d[] => Array.isArray(bins[0]);
const bad = (message: string, fix?: string): never => {
  throw new ConfigError("SAMPLER_BINS", { message, fix });
};
const show = (bin: number | Bin2d): string => (typeof bin === "number" ? String(bin) : `[${bin.join(", ")}]`);

function checkOrder(bins: DurationBins): void {
  for (let i = 0; i < bins.length; i++) {
    const bin = bins[i] as number | Bin2d;
    const [duration, tokens] = typeof bin === "number" ? [bin, 1] : bin;
    if (typeof bin !== "number" && (!Array.isArray(bin) || bin.length !== 2)) bad(`bin ${i + 1} is ${JSON.stringify(bin)}, expected [seconds, tokens]`);
    if (!(duration > 0) || !(tokens >= 0)) bad(`bin ${i + 1} is ${show(bin)}, expected ${typeof bin === "number" ? "seconds above 0" : "seconds above 0 and tokens from 0"}`);
    if (i === 0) continue;
    const before = bins[i - 1] as number | Bin2d;
    if (typeof before !== typeof bin) bad(`bin ${i + 1} is ${show(bin)} after ${show(before)}, expected all of one kind`, "give numbers, or pairs of seconds and tokens");
    const [d, t] = typeof before === "number" ? [before, 1] : before;
    if (d > duration || (d === duration && t > tokens))
      bad(`bin ${i + 1} is ${show(bin)} after ${show(before)}, expected ascending order`, "sort the bins, and their batch sizes with them");
  }
}

/**
 * @throws ConfigError SAMPLER_BINS for bins that are out of order, not above 0, or not as many as `batchSizes`
 */
export function makeBuckets(bins: DurationBins, { convention, strict = true, maxTps }: BinOptions, batchSizes?: readonly number[]): Buckets {
  checkOrder(bins);
  const two = is2d(bins);
  const bounds = two || convention === "bounds";
  if (bounds && bins.length === 0) bad("there are no bins", "give the upper bound of each bucket");
  if (batchSizes && batchSizes.length !== bins.length)
    bad(
      `${bins.length} bins and ${batchSizes.length} batch sizes, expected as many of each`,
      batchSizes.length === bins.length + 1 ? "with batch sizes the bins are upper bounds: add the longest duration as the last one" : "give a batch size for each bin",
    );
  if (Array.isArray(maxTps) && maxTps.length !== bins.length) bad(`${bins.length} bins and ${maxTps.length} values of max_tps, expected as many of each`);
  if (two) return buckets2d(bins, strict, maxTps);
  const edges = Float64Array.from(bins as readonly number[]);
  return {
    count: bounds ? edges.length : edges.length + 1,
    needsTokens: false,
    refusal: `longer than the last bin, ${edges.at(-1)} s`,
    place(duration) {
      const at = firstFrom(edges, duration);
      return bounds && at === edges.length ? -1 : at;
    },
  };
}

/** @returns the first place whose value is not below `value`: Python's bisect_left */
function firstFrom(values: Float64Array, value: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function buckets2d(bins: readonly Bin2d[], strict: boolean, maxTps: number | readonly number[] | undefined): Buckets {
  const durations = Float64Array.from(bins, ([duration]) => duration);
  const most = Float64Array.from(bins, ([, tokens]) => tokens);
  const rate = (i: number): number => (typeof maxTps === "object" ? (maxTps[i] as number) : (maxTps ?? Number.POSITIVE_INFINITY));
  return {
    count: bins.length,
    needsTokens: true,
    refusal: strict ? "longer, or with more tokens for its duration, than any 2-D bin takes" : "longer, or with more tokens, than any 2-D bin takes",
    place(duration, tokens) {
      const first = firstFrom(durations, duration);
      for (let i = first; i < durations.length; i++) {
        if (strict && durations[i] !== durations[first]) return -1;
        if (tokens <= (most[i] as number)) return strict && tokens / duration > rate(i) ? -1 : i;
      }
      return -1;
    },
  };
}
