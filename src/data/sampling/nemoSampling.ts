/**
 * The sampling keys of NeMo's LhotseDataLoadingConfig as options of a sampler, with NeMo's rules about which of them go together.
 * Words differ: `max_duration` and `min_duration` bound an utterance here, and `batch_duration` is the seconds of a batch.
 * Source: NeMo, common/data/lhotse/dataloader.py.
 */
import { ConfigError } from "../../util/errors.ts";
import type { DurationBins } from "./bins.ts";
import type { ItemBounds } from "./columnSource.ts";
import type { SamplerOptions } from "./samplerOptions.ts";

/** The keys, in NeMo's spelling; null is not given. */
export interface NemoSamplingConfig {
  batch_size?: number | null;
  batch_duration?: number | null;
  quadratic_duration?: number | null;
  use_bucketing?: boolean | null;
  bucket_batch_size?: readonly number[] | null;
  num_buckets?: number | null;
  num_cuts_for_bins_estimate?: number | null;
  bucket_duration_bins?: DurationBins | null;
  bucket_buffer_size?: number | null;
  concurrent_bucketing?: boolean | null;
  bucketing_2d_strict_mode?: boolean | null;
  shuffle_buffer_size?: number | null;
  drop_last?: boolean | null;
  shuffle?: boolean | null;
  seed?: number | string | null;
  shard_seed?: number | string | null;
  min_duration?: number | null;
  max_duration?: number | null;
  max_tps?: number | readonly number[] | null;
}

/** What a sampler takes, and which utterances there are to be. */
export interface NemoSampling {
  sampler: SamplerOptions;
  bounds: ItemBounds;
}

/** @returns the seed, where it is a number; undefined for "trng" and "randomized", which draw one */
const numberOf = (seed: number | string | null | undefined): number | undefined => (typeof seed === "number" ? seed : undefined);

/**
 * @param at where the configuration stands, for messages
 * @throws ConfigError CONFIG_BAD_VALUE for keys that do not go together, SAMPLER_BINS
 */
export function nemoSampling(config: NemoSamplingConfig, at = "the configuration"): NemoSampling {
  const bad = (message: string, fix: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", { at, message, fix });
  };
  const { min_duration: minDuration, max_duration: maxDuration, bucket_duration_bins: bins, bucket_batch_size: sizes, num_buckets: numBuckets = 30 } = config;
  const bucketing = config.use_bucketing === true || (bins ?? undefined) !== undefined || (sizes ?? undefined) !== undefined;
  const two = Array.isArray(bins?.[0]);
  if (sizes && !bins) bad("bucket_batch_size is given without bucket_duration_bins", "estimate them: serac bins MANIFEST");
  if (two && !sizes) bad("2-D bucket_duration_bins need bucket_batch_size", "give a batch size for each bin: serac batch-sizes finds them");
  if ((config.batch_size ?? undefined) === undefined && (config.batch_duration ?? undefined) === undefined && !sizes)
    bad(
      "nothing says how large a batch is",
      maxDuration !== undefined && maxDuration !== null
        ? "give batch_duration: here max_duration is the longest utterance, not the seconds of a batch as in icefall and lhotse"
        : "give batch_duration (seconds), batch_size (utterances), or bucket_duration_bins and bucket_batch_size",
    );
  const finite = typeof maxDuration === "number" && Number.isFinite(maxDuration);
  const low = Math.max(minDuration ?? 0, 0);
  const count = numBuckets ?? 30;
  const durationBins = bins ?? (bucketing && finite ? Array.from({ length: count - 1 }, (_, i) => low + ((i + 1) * ((maxDuration as number) - low)) / count) : undefined);
  return {
    bounds: { minDuration: minDuration ?? undefined, maxDuration: finite ? (maxDuration as number) : undefined },
    sampler: {
      kind: bucketing ? "bucketing" : "dynamic",
      maxCuts: config.batch_size ?? undefined,
      maxDuration: config.batch_duration ?? undefined,
      quadraticDuration: config.quadratic_duration ?? undefined,
      bucketBatchSize: sizes ?? undefined,
      durationBins: durationBins ?? undefined,
      numBuckets: count,
      numCutsForBinsEstimate: config.num_cuts_for_bins_estimate ?? 10_000,
      // NeMo adds the two: its sampler has one buffer for both.
      bufferSize: bucketing ? (config.bucket_buffer_size ?? 10_000) + (config.shuffle_buffer_size ?? 10_000) : (config.shuffle_buffer_size ?? 10_000),
      strict2d: config.bucketing_2d_strict_mode ?? true,
      maxTps: two ? (config.max_tps ?? undefined) : undefined,
      shuffle: config.shuffle ?? false,
      dropLast: config.drop_last ?? false,
      seed: numberOf(config.shard_seed) ?? numberOf(config.seed) ?? 0,
    },
  };
}
