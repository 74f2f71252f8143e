/** The keys of a config that make batches, as options of the sampler. */

import type { SamplerOptions } from "../sampling/index.ts";
import { nemoSampling } from "../sampling/nemoSampling.ts";
import type { LhotseDataLoadingConfig } from "./lhotseConfig.ts";

/**
 * Options of `createSampler`. Bounds of utterances are not among them: sources are filtered when they are opened.
 * @param at where the config stands, for messages
 * @throws ConfigError CONFIG_BAD_VALUE where nothing says how large a batch is, and for keys that do not go together
 */
export function samplerOptionsOf(
  config: LhotseDataLoadingConfig,
  { rank = 0, worldSize = 1, at = "config" }: { rank?: number; worldSize?: number; at?: string } = {},
): SamplerOptions {
  const finite = config.maxDuration === Number.POSITIVE_INFINITY ? undefined : config.maxDuration;
  const { sampler } = nemoSampling(
    {
      batch_size: config.batchSize ?? null,
      batch_duration: config.batchDuration ?? null,
      quadratic_duration: config.quadraticDuration ?? null,
      use_bucketing: config.useBucketing,
      bucket_batch_size: config.bucketBatchSize ?? null,
      num_buckets: config.numBuckets,
      num_cuts_for_bins_estimate: config.numCutsForBinsEstimate,
      bucket_duration_bins: config.bucketDurationBins ?? null,
      bucket_buffer_size: config.bucketBufferSize,
      bucketing_2d_strict_mode: config.bucketing2dStrictMode,
      shuffle_buffer_size: config.shuffleBufferSize,
      drop_last: config.dropLast,
      shuffle: config.shuffle,
      seed: config.seed ?? null,
      shard_seed: config.shardSeed ?? null,
      min_duration: config.minDuration,
      max_duration: finite ?? null,
      max_tps: config.maxTps ?? null,
    },
    at,
  );
  return { ...sampler, bufferSize: Math.max(1, sampler.bufferSize ?? 1), rank, worldSize };
}
