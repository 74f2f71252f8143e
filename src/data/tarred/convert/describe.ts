/** metadata.yaml of what a conversion makes: a new dataset, or the next version of one that was appended to. */
import { join } from "node:path";
import { writeFileAtomic } from "../../../formats/atomic.ts";
import type { Base } from "./concat.ts";
import { datasetTime, printMetadata, type TarredDatasetConfig, type TarredDatasetMetadata } from "./metadata.ts";
import { type ConvertInput, type ConvertOptions, readOptions } from "./options.ts";

/** The configuration as metadata.yaml has it. */
function configOf(options: ConvertOptions, numShards: number): TarredDatasetConfig {
  return {
    num_shards: numShards,
    shuffle: options.shuffle,
    max_duration: options.maxDuration ?? null,
    min_duration: options.minDuration ?? null,
    shuffle_seed: options.shuffleSeed ?? null,
    sort_in_shards: options.sortInShards,
    slice_with_offset: options.sliceWithOffset,
    shard_manifests: options.shardManifests,
    keep_files_together: options.keepFilesTogether,
    force_codec: options.forceCodec ?? null,
    force_sampling_rate: options.forceSamplingRate ?? null,
    use_lhotse: false,
    use_bucketing: false,
    num_buckets: null,
    bucket_duration_bins: null,
  };
}

/** Duration buckets: how many, and their borders. */
export interface Buckets {
  count: number;
  bins: number[];
}

/** A new dataset. */
export function describeNew(options: ConvertOptions, size: { shards: number; perShard: number | null }, buckets: Buckets | undefined, time: string): TarredDatasetMetadata {
  const config = configOf(options, size.shards);
  if (buckets) Object.assign(config, { use_lhotse: true, use_bucketing: true, num_buckets: buckets.count, bucket_duration_bins: buckets.bins });
  return { created_datetime: time, version: 0, num_samples_per_shard: size.perShard, is_concatenated_manifest: false, dataset_config: config, history: [] };
}

/** The next version: how it was shuffled and filtered is the new command's, how audio is stored is the dataset's. */
export function describeAppended(options: ConvertOptions, base: Base, newShards: number, time: string): TarredDatasetMetadata {
  const { history, ...old } = base.metadata;
  const { shuffle, max_duration, min_duration, shuffle_seed, sort_in_shards, shard_manifests, force_sampling_rate } = configOf(options, newShards);
  const now = { ...old.dataset_config, shuffle, max_duration, min_duration, shuffle_seed, sort_in_shards, shard_manifests, force_sampling_rate };
  return {
    created_datetime: time,
    version: base.version,
    num_samples_per_shard: base.perShard,
    is_concatenated_manifest: true,
    dataset_config: { ...now, num_shards: base.firstShard + newShards },
    history: [...history, old],
  };
}

/** Writes default_metadata.yaml. @returns its path. @throws ConfigError CONFIG_BAD_VALUE; FormatError FILE_UNWRITABLE */
export function writeDefaultMetadata(input: ConvertInput): string {
  const options = readOptions({ ...input, writeMetadata: true });
  const path = join(options.targetDir, "default_metadata.yaml");
  writeFileAtomic(path, printMetadata(describeNew(options, { shards: options.numShards ?? -1, perShard: null }, undefined, datasetTime())));
  return path;
}
