/** What a config will read, told before training: hours, shares, bins, padding, batches and steps. Durations are looked at, no audio. */
import { createSampler, type DurationBins } from "../sampling/index.ts";
import type { OpenedSources } from "./open.ts";
import { samplerOptionsOf } from "./samplerOptions.ts";

/** A dataset of a config. */
export interface InspectedSource {
  name: string;
  kind: string;
  /** Where the config names it. */
  at: string;
  utterances: number;
  /** With the copies of perturb_speed. */
  hours: number;
  /** Share of the utterances that are drawn, and of their seconds. */
  share: number;
  shareOfHours: number;
  /** How often each of its utterances comes while as many are drawn as there are in all. */
  passes: number;
  leftOut: { reason: string; count: number; example: string }[];
}

/** What a config will read. */
export interface Inspection {
  sources: InspectedSource[];
  utterances: number;
  hours: number;
  infinite: boolean;
  /** Undefined without a batch size. */
  batches:
    | {
        bins: DurationBins | undefined;
        buckets: number;
        worldSize: number;
        /** Of an epoch on each rank; of what was looked at where the source has no end, or there are more. */
        steps: number;
        complete: boolean;
        utterances: number;
        /** Utterances that come twice so that all ranks have as many steps. */
        repeated: number;
        utterancesPerBatch: { least: number; mean: number; most: number };
        /** Seconds of a padded batch. */
        secondsPerBatch: { mean: number; most: number };
        /** Seconds of padding of all seconds of the padded batches. */
        paddingRatio: number;
        leftOut: { reason: string; count: number; example: string }[];
      }
    | undefined;
}

/** How much to look at. */
export interface InspectOptions {
  worldSize?: number;
  /** Batches of all ranks after which it stops. */
  maxBatches?: number;
}

const entries = (counts: ReadonlyMap<string, { count: number; example: string }>) => Array.from(counts, ([reason, { count, example }]) => ({ reason, count, example }));

/**
 * Goes through the batches of the first epoch without loading anything.
 * @param makesBatches false looks at the sources alone
 * @throws what createSampler throws: SAMPLER_TOO_LONG, SAMPLER_BINS and others
 */
export async function inspectSources(
  { source, config, places, leaves, infinite }: OpenedSources,
  { worldSize = 1, maxBatches = 20_000 }: InspectOptions = {},
  makesBatches = true,
): Promise<Inspection> {
  const utterances = leaves.reduce((sum, leaf) => sum + leaf.source.length, 0);
  const seconds = leaves.reduce((sum, leaf) => sum + leaf.seconds, 0);
  const drawn = leaves.reduce((sum, leaf) => sum + (leaf.share * leaf.seconds) / leaf.source.length, 0);
  const sources = leaves.map(
    (leaf): InspectedSource => ({
      name: leaf.name,
      kind: leaf.kind,
      at: leaf.at,
      utterances: leaf.source.length,
      hours: leaf.seconds / 3600,
      share: leaf.share,
      shareOfHours: (leaf.share * leaf.seconds) / leaf.source.length / drawn,
      passes: (leaf.share * utterances) / leaf.source.length,
      leftOut: entries(leaf.leftOut.counts),
    }),
  );
  const inspection: Inspection = { sources, utterances, hours: seconds / 3600, infinite, batches: undefined };
  if (!makesBatches) return inspection;
  const at = (places.get("max_duration") ?? [...places.values()][0])?.at ?? "config";
  const sampler = await createSampler(source, { ...samplerOptionsOf(config, { worldSize, at }), tooLong: "skip" });
  const streams = await Promise.all(
    Array.from({ length: worldSize }, (_, rank) =>
      rank === 0 ? sampler.epoch(0) : createSampler(source, { ...samplerOptionsOf(config, { worldSize, rank, at }), tooLong: "skip" }).then((one) => one.epoch(0)),
    ),
  );
  let steps = 0;
  let complete = false;
  let count = 0;
  let repeated = 0;
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  let padded = 0;
  let audio = 0;
  let longest = 0;
  while (steps * worldSize < maxBatches) {
    const batches = await Promise.all(streams.map((stream) => stream.next()));
    if (batches.some((batch) => batch === undefined)) {
      complete = true;
      break;
    }
    steps++;
    for (const batch of batches) {
      if (!batch) continue;
      const { durations } = batch;
      let most1 = 0;
      for (const duration of durations) {
        audio += duration;
        if (duration > most1) most1 = duration;
      }
      const size = durations.length * most1;
      padded += size;
      longest = Math.max(longest, size);
      count += durations.length;
      repeated += batch.repeated;
      least = Math.min(least, durations.length);
      most = Math.max(most, durations.length);
    }
  }
  const batches = steps * worldSize;
  return {
    ...inspection,
    batches: {
      bins: sampler.bins,
      buckets: sampler.bucketCount,
      worldSize,
      steps,
      complete,
      utterances: count - repeated,
      repeated,
      utterancesPerBatch: { least: batches === 0 ? 0 : least, mean: batches === 0 ? 0 : count / batches, most },
      secondsPerBatch: { mean: batches === 0 ? 0 : padded / batches, most: longest },
      paddingRatio: padded === 0 ? 0 : 1 - audio / padded,
      leftOut: entries(sampler.leftOut.counts),
    },
  };
}
