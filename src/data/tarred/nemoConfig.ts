/** The keys of NeMo's train_ds and validation_ds without Lhotse: what serac reads of them, and what it says of the others. Source: NeMo, audio_to_text_dataset.py. */
import { ConfigError } from "../../util/errors.ts";
import { boolean, choice, integer, number, type Option, type Options, parseOptions, type Schema, showValue } from "../../util/options.ts";
import { datasetSpecs, type ShardSpec } from "../shards.ts";
import { shardStrategies } from "./plan.ts";

function custom<T>(help: string, accepts: string, read: (raw: unknown) => T | undefined): Option<T | undefined> {
  return { help, kind: "strings", accepts, read };
}

const isSpec = (raw: unknown): raw is ShardSpec => (typeof raw === "string" && raw !== "") || (Array.isArray(raw) && raw.length > 0 && raw.every(isSpec));
const spec = (help: string): Option<ShardSpec | undefined> => custom(help, "a path, a pattern, or lists of them", (raw) => (isSpec(raw) ? raw : undefined));
const isCounts = (raw: unknown): raw is number[] => Array.isArray(raw) && raw.length > 0 && raw.every((item) => Number.isInteger(item) && item >= 1);

/** What is read. */
export const nemoDatasetOptions = {
  manifestFilepath: spec("manifests; a list of lists is a dataset a bucket"),
  tarredAudioFilepaths: spec("tars, in lists like those of the manifests"),
  isTarred: boolean({ help: "whether the audio is in tars; true where tars are given" }),
  sampleRate: integer({ min: 1, help: "Hz to which audio is resampled" }),
  batchSize: integer({ default: 1, min: 1, help: "utterances of a batch" }),
  shuffle: boolean({ default: false, help: "another order each epoch" }),
  shuffleN: integer({ min: 0, help: "utterances in the shuffle buffer; 4 batches where shuffle is on" }),
  minDuration: number({ help: "seconds; shorter utterances are left out" }),
  maxDuration: number({ help: "seconds; longer utterances are left out" }),
  maxUtts: integer({ min: 0, default: 0, help: "stop after so many; 0 is all" }),
  channelSelector: custom<number | "average">("a channel, or average", "a channel's number, or average", (raw) =>
    raw === "average" || (typeof raw === "number" && Number.isInteger(raw) && raw >= 0) ? raw : undefined,
  ),
  numWorkers: integer({ default: 0, min: 0, help: "loaders of each rank that share its shards; 0 is one" }),
  dropLast: boolean({ default: false, help: "leave out the last batch where it is not full" }),
  tarredShardStrategy: choice(shardStrategies as ["scatter", "replicate", "even", "repeat"], { default: "scatter", help: "NeMo's scatter and replicate, or even and repeat" }),
  shardManifests: boolean({ default: false, help: "the manifests are sharded as the tars are" }),
  bucketingStrategy: choice(["fixed_order", "synced_randomized", "fully_randomized"], { default: "synced_randomized", help: "the order of buckets" }),
  bucketingBatchSize: custom<number | readonly number[]>(
    "batch sizes of buckets: one number is multiplied, the shortest bucket most",
    "a number or a number for each bucket",
    (raw) => ((Number.isInteger(raw) && (raw as number) >= 1) || isCounts(raw) ? (raw as number | number[]) : undefined),
  ),
  bucketingWeights: custom<readonly number[]>("how often each bucket is read in an epoch", "a whole number of 1 or more for each bucket", (raw) =>
    isCounts(raw) ? raw : undefined,
  ),
  isConcat: boolean({ default: false, help: "draw from the datasets instead of reading one after another" }),
  concatSamplingTechnique: choice(["temperature", "random", "round-robin"], { default: "temperature", help: "how to draw" }),
  concatSamplingTemperature: number({ default: 5, help: "1 draws by size, more draws more evenly" }),
  concatSamplingScale: number({ default: 1, help: "length of an epoch, times the datasets'" }),
  concatSamplingProbabilities: custom<readonly number[]>("for random: a probability for each dataset", "a number of 0 or more for each dataset", (raw) =>
    Array.isArray(raw) && raw.length > 0 && raw.every((item) => typeof item === "number" && item >= 0) ? (raw as number[]) : undefined,
  ),
  concatShuffle: boolean({ default: true, help: "shuffle each of the datasets" }),
  concatSamplingSeed: integer({ min: 0, help: "seeds the draws" }),
  useSemiSortedBatching: boolean({ default: false, help: "batches of utterances of nearly the same length" }),
  randomizationFactor: number({ default: 0.1, min: 0, help: "noise on the lengths that are sorted by, as a share of their range" }),
  semiSortSamplerSeed: integer({ default: 42, min: 0, help: "seeds the order of the batches" }),
} satisfies Schema;

export type NemoDatasetConfig = Options<typeof nemoDatasetOptions>;

/** Keys that change nothing of what is read here, with what a person should know of them. */
const without: Readonly<Record<string, string>> = {
  use_dali: "there is no DALI here: audio is decoded on the CPU, ahead of training",
  parser: "texts are taken as they are; the tokenizer belongs to the model (--bpe-model)",
  normalize_transcripts: "texts are not normalised here: do that to the manifest, where it can be seen",
  normalize: "texts are not normalised here: do that to the manifest, where it can be seen",
  labels: "characters come from the model's tokenizer, not from the dataset",
  blank_index: "it belongs to the model's tokenizer",
  unk_index: "it belongs to the model's tokenizer",
  use_start_end_token: "it belongs to the model's tokenizer",
  bos_id: "it belongs to the model's tokenizer",
  eos_id: "it belongs to the model's tokenizer",
  pad_id: "batches are padded by the trainer",
  pin_memory: "memory is not pinned: there are no loader processes to copy from",
  defer_setup: "nothing has to wait: a dataset is opened when it is asked for",
  return_sample_id: "every utterance carries its id",
  int_values: "samples are floats in [-1, 1)",
  use_lhotse: "this is the reader without Lhotse",
  force_mono: "see channel_selector",
};

/** Values under which those keys say nothing. */
const quiet = (value: unknown): boolean => value === null || value === undefined || value === false;

/** Keys that would change what is read, and that serac does not have. */
const unsupported: Readonly<Record<string, string>> = {
  augmentor: "augmentation is set by serac train's own options (--speed-perturb, --enable-spec-aug)",
  trim_silence: "silence is not trimmed: cut the manifest's offset and duration instead",
  trim: "silence is not trimmed: cut the manifest's offset and duration instead",
  is_code_switched: "utterances of several languages are not joined here: serac train --concatenate-cuts joins utterances of a batch",
  hf_data_cfg: "Hugging Face datasets are not read: convert them to a manifest",
};
const unsupportedDetails = new Set(["code_switched"]);

/**
 * Reads a config as YAML gives it: names with underscores, null for what is not set.
 * @throws ConfigError CONFIG_UNKNOWN_OPTION with the nearest known key; CONFIG_BAD_VALUE for values, and for keys whose absence would change what is read
 */
export function readNemoConfig(given: Readonly<Record<string, unknown>>, onWarning: (message: string) => void): NemoDatasetConfig {
  const known: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(given)) {
    const reason = without[key];
    const missing = unsupported[key];
    if (reason !== undefined) {
      if (!quiet(value) && !(key === "parser" && value === "en") && !(key === "use_start_end_token" && value === true)) onWarning(`${key}: ${reason}`);
    } else if (missing !== undefined) {
      if (!quiet(value))
        throw new ConfigError("CONFIG_BAD_VALUE", { message: `${key} is ${showValue(value)?.slice(0, 60)}, which serac does not have: ${missing}`, fix: `leave ${key} out` });
    } else if (!unsupportedDetails.has(key) && value !== null) known[key] = value;
  }
  const config = parseOptions(nemoDatasetOptions, known, (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
  check(config);
  return config;
}

function check(config: NemoDatasetConfig): void {
  const refuse = (message: string, fix?: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", { message, fix });
  };
  const { manifestFilepath, tarredAudioFilepaths, isTarred, bucketingBatchSize, bucketingWeights, batchSize, isConcat } = config;
  if (manifestFilepath === undefined) refuse("manifest_filepath is not set: NeMo would train on nothing, without an error", "give the manifest");
  if (isTarred && tarredAudioFilepaths === undefined) refuse("is_tarred is true, but tarred_audio_filepaths is not set", "give the tars");
  const buckets = datasetSpecs(manifestFilepath as ShardSpec, "manifest_filepath").length;
  if (tarredAudioFilepaths !== undefined && isTarred !== false) {
    const tars = datasetSpecs(tarredAudioFilepaths, "tarred_audio_filepaths").length;
    if (tars !== buckets) refuse(`manifest_filepath has ${buckets} datasets, tarred_audio_filepaths ${tars}: expected one list for each`);
  }
  if (bucketingBatchSize !== undefined && batchSize !== 1) refuse(`batch_size is ${batchSize}, expected 1 where bucketing_batch_size is set`, "set batch_size: 1");
  if (typeof bucketingBatchSize === "object" && bucketingBatchSize.length !== buckets)
    refuse(`bucketing_batch_size has ${bucketingBatchSize.length} numbers for ${buckets} datasets`);
  if (bucketingWeights !== undefined && bucketingWeights.length !== buckets) refuse(`bucketing_weights has ${bucketingWeights.length} numbers for ${buckets} datasets`);
  if (config.useSemiSortedBatching && (isConcat || buckets > 1 || bucketingBatchSize !== undefined))
    refuse("use_semi_sorted_batching is for one dataset, without is_concat and bucketing", "give one dataset made of all manifests, as a flat list");
  if (!isConcat) return;
  if (buckets < 2) refuse("is_concat is true, but there is one dataset only", "give a list of lists");
  if (bucketingBatchSize !== undefined || bucketingWeights !== undefined) refuse("is_concat and bucketing exclude each other");
  if (!(config.concatSamplingTemperature > 0)) refuse(`concat_sampling_temperature is ${config.concatSamplingTemperature}, expected a number above 0`);
  if (!(config.concatSamplingScale > 0)) refuse(`concat_sampling_scale is ${config.concatSamplingScale}, expected a number above 0`);
  const p = config.concatSamplingProbabilities;
  if (config.concatSamplingTechnique === "random" && p !== undefined && (p.length !== buckets || !(p.reduce((a, b) => a + b, 0) > 0)))
    refuse(`concat_sampling_probabilities is ${showValue(p)}, expected ${buckets} numbers, not all 0, for concat_sampling_technique random`);
}
