/** The bins of a sampler: those that are given, or an estimate from some of the source's durations. */
import { ConfigError } from "../../util/errors.ts";
import { estimateDurationBins } from "../durationBins.ts";
import type { DurationBins } from "./bins.ts";
import type { ItemBounds } from "./columnSource.ts";
import type { SamplerSettings } from "./samplerOptions.ts";
import type { ItemSource } from "./source.ts";

/** The bins that are given, or an estimate of them; undefined where the sampler has no buckets. */
export async function chooseBins<T>(source: ItemSource<T>, settings: SamplerSettings): Promise<DurationBins | undefined> {
  const { kind, mode, durationBins, numBuckets, numCutsForBinsEstimate, seed, bounds } = settings;
  if (kind === "simple" || kind === "dynamic" || (kind === "static" && mode === "lhotse")) return undefined;
  if (durationBins) return durationBins;
  if (numBuckets === 1) return [];
  const lhotse = mode === "lhotse";
  const durations = await someDurations(source, { count: numCutsForBinsEstimate, seed, shuffle: !lhotse, bounds: lhotse ? undefined : bounds });
  if (lhotse && durations.length < numBuckets)
    throw new ConfigError("SAMPLER_BINS", { at: source.name, message: `${numBuckets} buckets for ${durations.length} utterances`, fix: "ask for fewer buckets, or give bins" });
  if (durations.length < 2) return [];
  const bins = estimateDurationBins(durations, Math.min(numBuckets, durations.length));
  return lhotse ? bins : bins.filter((bin, i) => bin !== bins[i - 1]);
}

/** Durations of some items: the first ones, or some at random where the source can shuffle. */
async function someDurations(
  source: ItemSource<unknown>,
  {
    count,
    seed,
    shuffle,
    bounds: { minDuration = 0, maxDuration = Number.POSITIVE_INFINITY } = {},
  }: { count: number; seed: number; shuffle: boolean; bounds: ItemBounds | undefined },
): Promise<Float64Array> {
  const stream = await source.open({ epoch: 0, seed, shuffle });
  const durations: number[] = [];
  try {
    while (durations.length < count) {
      const block = await stream.read(count - durations.length);
      if (!block) break;
      for (let i = 0; i < block.count; i++) {
        const duration = block.durations[i] as number;
        if (duration >= minDuration && duration <= maxDuration) durations.push(duration);
      }
      source.release(block.refs.slice(0, block.count));
    }
  } finally {
    await stream.close();
  }
  return Float64Array.from(durations);
}

/** A buffer that holds less than a batch for each bucket gives batches that are not full, all through the epoch. */
export function smallBuffer({ kind, bufferSize, maxDuration }: SamplerSettings, bins: DurationBins | undefined): string[] {
  if (kind !== "bucketing" || !bins || bins.length === 0 || maxDuration === undefined) return [];
  const mean = bins.reduce<number>((sum, bin) => sum + (typeof bin === "number" ? bin : bin[0]), 0) / bins.length;
  const held = (bufferSize * mean) / (bins.length + 1);
  if (held >= maxDuration) return [];
  return [
    `${bufferSize} utterances in ${bins.length + 1} buckets are about ${held.toFixed(0)} s in each, less than the ${maxDuration} s of a batch: batches will not be full; hold more utterances`,
  ];
}
