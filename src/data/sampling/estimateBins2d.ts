/**
 * 2-D bins: buckets of equal total duration, each divided in buckets of equal total output length, as NeMo's estimate_duration_bins_2d.py makes
 * them. Unlike there, the output lengths of a bucket are those of its own utterances, and utterances with one rate of tokens are no outliers.
 */
import { ConfigError } from "../../util/errors.ts";
import { estimateDurationBins } from "../durationBins.ts";
import type { Bin2d } from "./bins.ts";

/** How to estimate. */
export interface Bins2dOptions {
  /** By duration. */
  buckets: number;
  /** By tokens, within each. */
  subBuckets: number;
  /** The last bound; the longest duration where it is infinite. */
  maxDuration?: number | undefined;
  /** Leaves out utterances whose tokens a second are so many standard deviations above the mean of their bucket. */
  outlierThreshold?: number;
}

/** What was estimated. */
export interface Bins2d {
  /** Upper bounds. */
  bins: Bin2d[];
  /** Most tokens a second in each bin, outliers left out. */
  maxTps: number[];
  /** Utterances that are outliers. */
  outliers: number;
}

/** Three digits, as the bins are printed, so that estimates and what is read from a configuration agree. */
const toMilliseconds = (seconds: number): number => Number(seconds.toFixed(3));

/** @throws ConfigError SAMPLER_BINS where there are fewer utterances than buckets */
export function estimateDurationBins2d(
  durations: Float64Array,
  tokens: Float64Array,
  { buckets, subBuckets, maxDuration = Number.POSITIVE_INFINITY, outlierThreshold = 4 }: Bins2dOptions,
): Bins2d {
  if (durations.length < Math.max(2, buckets))
    throw new ConfigError("SAMPLER_BINS", { message: `${buckets} buckets for ${durations.length} utterances`, fix: "ask for fewer buckets" });
  const seconds = Float64Array.from(durations, Math.fround); // NeMo's arrays are float32
  const order = Uint32Array.from(seconds, (_, i) => i).sort((a, b) => (seconds[a] as number) - (seconds[b] as number) || (tokens[a] as number) - (tokens[b] as number));
  const longest = seconds[order.at(-1) as number] as number;
  const last = Number.isFinite(maxDuration) ? maxDuration : Math.max(toMilliseconds(longest), Math.ceil(longest * 1000 - 1e-3) / 1000);
  const inner = (buckets > 1 ? estimateDurationBins(seconds, buckets) : []).map(toMilliseconds);
  const edges = [...inner, last];
  const result: Bins2d = { bins: [], maxTps: [], outliers: 0 };
  let from = 0;
  let merged = 1;
  for (let i = 0; i < edges.length; i++) {
    const edge = edges[i] as number;
    if (edges[i + 1] === edge) {
      merged++; // one duration fills several buckets: they become one with as many more by tokens
      continue;
    }
    let to = from;
    while (to < order.length && ((seconds[order[to] as number] as number) <= edge || i === edges.length - 1)) to++;
    divide(order.subarray(from, to), edge, subBuckets * merged);
    from = to;
    merged = 1;
  }
  return result;

  function divide(members: Uint32Array, edge: number, parts: number): void {
    const rates = Float64Array.from(members, (i) => (tokens[i] as number) / (seconds[i] as number));
    const mean = rates.reduce((sum, rate) => sum + rate, 0) / rates.length;
    const deviation = Math.sqrt(rates.reduce((sum, rate) => sum + (rate - mean) ** 2, 0) / rates.length);
    const kept = Array.from(members).filter((_, i) => deviation === 0 || ((rates[i] as number) - mean) / deviation <= outlierThreshold);
    result.outliers += members.length - kept.length;
    if (kept.length === 0) return;
    const maxTps = kept.reduce((most, i) => Math.max(most, (tokens[i] as number) / (seconds[i] as number)), 0);
    const counts = Float64Array.from(kept, (i) => tokens[i] as number).sort();
    const target = counts.reduce((sum, count) => sum + count, 0) / parts;
    const bounds: number[] = [];
    let total = 0;
    for (const count of counts) {
      if (total > target) {
        bounds.push(count);
        total = 0;
      }
      total += count;
    }
    bounds.push(counts.at(-1) as number);
    for (const bound of new Set(bounds)) {
      result.bins.push([edge, bound]);
      result.maxTps.push(maxTps);
    }
  }
}
