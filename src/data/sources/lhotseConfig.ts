/**
 * NeMo's LhotseDataLoadingConfig: one schema of its keys for YAML, the command line and the API. Defaults are NeMo's.
 * Every key of NeMo is in one of three tables: read here, without meaning here, or not there yet; COMPATIBILITY.md has a row for each.
 * Source: NeMo, common/data/lhotse/dataloader.py (2026).
 */
import { ConfigError } from "../../util/errors.ts";
import { boolean, choice, integer, number, type Option, type Options, type Schema, showValue, string } from "../../util/options.ts";
import { nearest } from "../../util/suggest.ts";
import { samplerFusions } from "../sampling/index.ts";
import type { ShardSpec } from "../shards.ts";
import { nemoDatasetOptions } from "../tarred/nemoConfig.ts";
import { type ConfigNode, isMapNode, plainConfig } from "./configTree.ts";

function custom<T>(help: string, accepts: string, read: (raw: unknown) => T | undefined): Option<T | undefined> {
  return { help, kind: "strings", accepts, read };
}

type WeightedSpec = ShardSpec | readonly (readonly [string, number])[];
const isSpec = (raw: unknown): boolean =>
  (typeof raw === "string" && raw !== "") || (Array.isArray(raw) && raw.length > 0 && raw.every((item) => isSpec(item) || typeof item === "number"));
const spec = (help: string): Option<WeightedSpec | undefined> =>
  custom(help, "a path, a pattern, a list of lists of them, or a list of [path, weight]", (raw) => (isSpec(raw) ? (raw as WeightedSpec) : undefined));
const isPositive = (raw: unknown): raw is number => typeof raw === "number" && raw > 0;
const isIn = (raw: unknown): raw is readonly number[] => Array.isArray(raw) && raw.length > 0 && raw.every(isPositive);
const is2d = (raw: unknown): raw is readonly (readonly [number, number])[] =>
  Array.isArray(raw) && raw.length > 0 && raw.every((item) => Array.isArray(item) && item.length === 2 && item.every(isPositive));
/** A bound; "inf", .inf and null mean none. */
const bound = (help: string, initial: number): Option<number> => ({
  help,
  kind: "number",
  accepts: "a number",
  default: initial,
  read: (raw) => {
    const value = raw === "inf" ? Number.POSITIVE_INFINITY : raw;
    return typeof value === "number" && !Number.isNaN(value) ? value : undefined;
  },
});

type Codec = "opus" | "mp3" | "vorbis";
const readCodecs = (raw: unknown): readonly Codec[] | undefined =>
  Array.isArray(raw) && raw.length > 0 && raw.every((one) => ["opus", "mp3", "vorbis"].includes(one as string)) ? (raw as Codec[]) : undefined;

/** The ends of an interval. */
const pair = (help: string, initial: readonly [number, number]): Option<readonly [number, number]> => ({
  help,
  kind: "strings",
  accepts: "two ascending numbers",
  default: initial,
  read: (raw) => {
    if (!Array.isArray(raw) || raw.length !== 2) return undefined;
    const [low, high] = raw as unknown[];
    return typeof low === "number" && typeof high === "number" && low < high ? [low, high] : undefined;
  },
});

/** What is read. */
export const lhotseOptions = {
  // What to read
  inputCfg: custom<ConfigNode>("a list of sources, or the YAML file that holds one", "a list of sources, or a path", (raw) => raw as ConfigNode),
  manifestFilepath: spec("manifests of NeMo"),
  tarredAudioFilepaths: spec("their tars"),
  cutsPath: spec("manifests of lhotse cuts"),
  sharPath: custom<unknown>("Shar folders", "a folder, a list of folders or of [folder, weight], or a field's paths by its name", (raw) =>
    isSpec(raw) || (typeof raw === "object" && raw !== null) ? raw : undefined,
  ),
  skipMissingManifestEntries: boolean({ default: false, help: "members without an entry are left out; they are counted in any case" }),
  // Batches
  batchSize: integer({ min: 1, help: "most utterances of a batch" }),
  batchDuration: number({ help: "most seconds of a batch, padding included" }),
  quadraticDuration: number({ help: "seconds at which an utterance counts twice" }),
  useBucketing: boolean({ default: false, help: "batches of like duration; on where bins or batch sizes of buckets are given" }),
  bucketBatchSize: custom<readonly number[]>("batch sizes of the buckets", "whole numbers of 1 or more", (raw) => (isIn(raw) && raw.every(Number.isInteger) ? raw : undefined)),
  numBuckets: integer({ default: 30, min: 1, help: "buckets, where no bins are given" }),
  numCutsForBinsEstimate: integer({ default: 10_000, min: 1, help: "utterances from which bins are estimated" }),
  bucketDurationBins: custom<readonly number[] | readonly (readonly [number, number])[]>("bins", "ascending numbers, or pairs of seconds and tokens", (raw) =>
    isIn(raw) || is2d(raw) ? raw : undefined,
  ),
  bucketBufferSize: integer({ default: 10_000, min: 1, help: "utterances held in buckets" }),
  bucketing2dStrictMode: boolean({ default: true, help: "utterances go to the first bin of their length only" }),
  shuffleBufferSize: integer({ default: 10_000, min: 0, help: "utterances held for shuffling" }),
  dropLast: boolean({ default: false, help: "leave out batches that are not full at the end" }),
  shardSeed: custom<number | "trng" | "randomized">("seeds shards and mixtures", 'a whole number, "trng" or "randomized"', (raw) =>
    raw === "trng" || raw === "randomized" || Number.isSafeInteger(raw) ? (raw as number) : undefined,
  ),
  maxOpenStreams: integer({ min: 1, help: "shards of mixtures that are drawn from at a time" }),
  reweightTemperature: custom<number | readonly number[]>("weights to this power, for all levels or one number a level", "a number from 0, or a list of them", (raw) => {
    const good = (value: unknown): boolean => typeof value === "number" && value >= 0 && value < Number.POSITIVE_INFINITY;
    return good(raw) || (Array.isArray(raw) && raw.length > 0 && raw.every(good)) ? (raw as number) : undefined;
  }),
  // Which utterances
  minDuration: bound("seconds; shorter utterances are left out", -1),
  maxDuration: bound("seconds; longer utterances are left out. The seconds of a batch are batch_duration", Number.POSITIVE_INFINITY),
  minTps: bound("tokens a second; fewer are left out", -1),
  maxTps: custom<number | readonly number[]>("tokens a second; more are left out", "a number, or one for each bin", (raw) =>
    raw === "inf" ? Number.POSITIVE_INFINITY : isPositive(raw) || isIn(raw) ? raw : undefined,
  ),
  keep: string({ default: "pass", help: "utterances with another validation_status are left out" }),
  maxCer: bound("utterances with a higher cer are left out", Number.POSITIVE_INFINITY),
  minContextSpeakerSimilarity: bound("utterances with a lower context_speaker_similarity are left out", -1),
  excludedSpeakerIds: custom<ConfigNode>("speakers that are left out", "a list, a map of lists, or a YAML file of either", (raw) => raw as ConfigNode),
  speakerFilterFields: custom<readonly string[]>("keys that may name such a speaker", "names of keys", (raw) =>
    Array.isArray(raw) && raw.length > 0 && raw.every((one) => typeof one === "string" && one !== "") ? (raw as string[]) : undefined,
  ),
  // Augmentation, done by the loader
  noisePath: custom<string | Readonly<Record<string, unknown>>>("noise to mix in", "a manifest, a folder of audio, or keys of a source", (raw) =>
    (typeof raw === "string" && raw !== "") || (typeof raw === "object" && raw !== null && !Array.isArray(raw)) ? (raw as string) : undefined,
  ),
  noiseSnr: {
    help: "signal to noise ratio, dB, or the range it is drawn from",
    kind: "strings",
    accepts: "a number, or two",
    default: [10, 20],
    read: (raw) => (typeof raw === "number" || (Array.isArray(raw) && raw.length === 2 && raw.every((one) => typeof one === "number")) ? (raw as number) : undefined),
  } as Option<number | readonly [number, number]>,
  noiseMixProb: number({ default: 0.5, min: 0, max: 1, help: "probability of an utterance to have noise" }),
  concatenateSamples: boolean({ default: false, help: "the short utterances of a batch are appended to others" }),
  concatenateGapSeconds: number({ default: 0.1, min: 0, help: "seconds of silence between them" }),
  concatenateDurationFactor: number({ default: 1, min: 0, help: "longest result, times the longest utterance of the batch" }),
  dbNorm: custom<number>("LUFS to which utterances are scaled before they are joined; null leaves them", "a number of LUFS", (raw) =>
    typeof raw === "number" && Number.isFinite(raw) ? raw : undefined,
  ),
  concatenateMergeSupervisions: boolean({ default: true, help: "one supervision for all of a row" }),
  truncateDuration: number({ help: "longer utterances are cut to these seconds" }),
  truncateOffsetType: choice(["random", "start", "end"], { default: "random", help: "which part is kept" }),
  keepExcessiveSupervisions: boolean({ default: true, help: "supervisions that reach beyond a cut part are kept" }),
  cutIntoWindowsDuration: number({ help: "utterances are cut into windows of these seconds" }),
  cutIntoWindowsHop: number({ help: "seconds from one window to the next; those of a window by default" }),
  lowpassEnabled: boolean({ default: false, help: "frequencies above a limit are taken away" }),
  lowpassFrequenciesInterval: pair("from which limits are drawn, Hz", [3500, 8000]),
  lowpassProb: number({ default: 0.5, min: 0, max: 1, help: "probability of an utterance to lose them" }),
  clippingEnabled: boolean({ default: false, help: "utterances are clipped" }),
  clippingGainDb: pair("from which gains before clipping are drawn, dB", [0, 24]),
  clippingNormalize: boolean({ default: true, help: "peaks are amplified to full scale before" }),
  clippingOversampling: integer({ default: 2, min: 1, help: "times the sampling rate at which it is done" }),
  clippingProbHard: number({ default: 0.5, min: 0, max: 1, help: "share of those whose peaks are cut off, not saturated" }),
  clippingProb: number({ default: 0.5, min: 0, max: 1, help: "probability of an utterance to be clipped" }),
  compressionEnabled: boolean({ default: false, help: "utterances go through a codec and back" }),
  compressionProb: number({ default: 0.5, min: 0, max: 1, help: "probability of an utterance to do so" }),
  compressionLevelInterval: pair("from which levels of compression are drawn, 0 to 1", [0.8, 0.99]),
  compressionCodecs: { help: "codecs that are drawn", kind: "strings", accepts: "a list of opus, mp3 and vorbis", default: ["opus"], read: readCodecs } as Option<readonly Codec[]>,
  compressionCodecWeights: custom<readonly number[]>("their shares", "a number above 0 for each", (raw) => (isIn(raw) ? raw : undefined)),
  rirEnabled: boolean({ default: false, help: "utterances are convolved with impulse responses" }),
  rirPath: string({ help: "impulse responses: a manifest or a folder; rooms are made up without it" }),
  rirProb: number({ default: 0.5, min: 0, max: 1, help: "probability of an utterance to be convolved" }),
  padMinDuration: number({ help: "shorter utterances are padded to these seconds" }),
  padDirection: choice(["right", "left", "both", "random"], { default: "right", help: "on which side" }),
  // Several configs
  multiConfig: boolean({ default: false, help: "keys whose values are maps are configs of their own" }),
  samplerFusion: choice(samplerFusions, { default: "round_robin", help: "how their batches come together" }),
  samplerWeights: custom<Readonly<Record<string, number>>>("shares of their batches, by name", "a map of names to numbers above 0", (raw) =>
    typeof raw === "object" && raw !== null && !Array.isArray(raw) && Object.values(raw).every(isPositive) ? (raw as Record<string, number>) : undefined,
  ),
  // How
  shuffle: boolean({ default: false, help: "another order each epoch" }),
  sampleRate: integer({ default: 16_000, min: 1, help: "Hz to which audio is resampled" }),
  seed: custom<number | "trng" | "randomized">("seeds everything", "a whole number", (raw) =>
    Number.isSafeInteger(raw) ? (raw as number) : raw === "trng" || raw === "randomized" ? raw : undefined,
  ),
  numWorkers: integer({ default: 0, min: 0, help: "loaders" }),
  channelSelector: custom<number | string>("a channel, or the key that holds it", "a channel from 0, or the name of a key", (raw) =>
    (typeof raw === "number" && Number.isInteger(raw) && raw >= 0) || (typeof raw === "string" && raw !== "") ? (raw as number) : undefined,
  ),
  perturbSpeed: boolean({ default: false, help: "every utterance also 0.9 and 1.1 times as fast" }),
  textField: string({ default: "text", help: "the key of the text" }),
  langField: string({ default: "lang", help: "the key of the language" }),
  extraFields: custom<ConfigNode>("values from files of text, a line an utterance", "a list of fields", (raw) => raw as ConfigNode),
  sliceLength: integer({ min: 1, help: "utterances in a row of each shard, from another place in each epoch" }),
  metadataOnly: boolean({ default: false, help: "one pass, without audio" }),
  forceFinite: boolean({ default: false, help: "one pass: sources are not begun again" }),
} satisfies Schema;

export type LhotseDataLoadingConfig = Options<typeof lhotseOptions>;

/** A key that is not read, with NeMo's default. */
interface Unread {
  default: unknown;
  why: string;
}

/** Keys that have no meaning here. */
export const meaningless: Readonly<Record<string, Unread>> = {
  use_lhotse: { default: undefined, why: "there is one reader, and it is this one" },
  tarred_random_access: { default: false, why: "NeMo's old name of skip_missing_manifest_entries, which it sets" },
  fault_tolerant_audio_loading: { default: true, why: "what happens to audio that cannot be decoded is the loader's setting (throw, skip or warn), and is counted" },
  concurrent_bucketing: { default: true, why: "buckets are filled without a thread, and the order does not depend on timing" },
  cuda_expandable_segments: { default: true, why: "it is set in the environment: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" },
  pretokenize: { default: true, why: "tokens are counted where something depends on them" },
  pin_memory: { default: false, why: "batches are not copied from loader processes" },
  force_map_dataset: { default: false, why: "every source is read at random and in order alike" },
  force_iterable_dataset: { default: false, why: "every source is read at random and in order alike" },
  indexed: { default: undefined, why: "every source is found by number; indices of tars are built where absent" },
  indexes_root: { default: undefined, why: "indices lie beside their tars" },
  index_pack_root: { default: undefined, why: "packed indices are not read" },
  index_pack: { default: undefined, why: "packed indices are not read" },
  index_pack_max_open_files: { default: 32, why: "packed indices are not read" },
  use_stateful_dataloader: { default: false, why: "every stage has a state to go on from" },
  min_tokens: { default: undefined, why: "it filters texts without audio" },
  max_tokens: { default: undefined, why: "it filters texts without audio" },
  min_tpt: { default: -1, why: "it filters texts without audio" },
  max_tpt: { default: Number.POSITIVE_INFINITY, why: "it filters texts without audio" },
  measure_total_length: { default: true, why: "it measures conversations and texts" },
  compression_enable_for_custom_fields: { default: false, why: "an utterance has no other audio than its own" },
  audio_locator_tag: { default: undefined, why: "it belongs to models that mix text and audio" },
  token_equivalent_duration: { default: undefined, why: "it belongs to models that mix text and audio" },
  quadratic_factor: { default: undefined, why: "it belongs to batch_tokens" },
};

/** Keys that would change what is read, and are not there yet. */
export const notThere: Readonly<Record<string, Unread>> = {
  prompt_format: { default: undefined, why: "tokens are counted by the function that is given, which may count prompts; batches hold texts" },
  use_multimodal_sampling: { default: false, why: "audio only" },
  batch_tokens: { default: undefined, why: "audio only: use batch_duration" },
  cut_text_into_windows_tokens: { default: undefined, why: "audio only" },
  use_packed_sequence_sampling: { default: false, why: "audio only" },
  audio_token_estimator: { default: undefined, why: "audio only" },
};

/** Other spellings: those of NeMo's documentation, of older releases, and of icefall. */
const otherSpellings: Readonly<Record<string, string>> = {
  tarred_audio_filepath: "tarred_audio_filepaths",
  manifest_filepaths: "manifest_filepath",
  cut_path: "cuts_path",
  cuts_paths: "cuts_path",
  shar_paths: "shar_path",
  tag: "tags",
};
const ofIcefall: Readonly<Record<string, string>> = {
  max_cuts: "batch_size",
  bucketing_sampler: "use_bucketing",
  manifest_dir: "cuts_path",
  enable_musan: "noise_path",
  on_the_fly_feats: "cuts_path",
};

export const snakeCase = (name: string): string => (name === "bucketing2dStrictMode" ? "bucketing_2d_strict_mode" : name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));

const bySnake = new Map(Object.keys(lhotseOptions).map((name) => [snakeCase(name), name as keyof LhotseDataLoadingConfig]));

/** NeMo's names of all keys of a config. */
export const lhotseKeys: readonly string[] = [...bySnake.keys(), ...Object.keys(meaningless), ...Object.keys(notThere)];

const legacyKeys = new Set(Object.keys(nemoDatasetOptions).map(snakeCase));
const legacy = "it belongs to NeMo's datasets without Lhotse, and changes nothing here";

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b) && Object.is(typeof a, typeof b);
const unset = (value: unknown, { default: initial }: Unread): boolean =>
  value === null || value === false || same(value, initial) || (initial === Number.POSITIVE_INFINITY && (value === "inf" || value === initial));

/** The key that a spelling stands for; what is taken under another name is said. */
export function keyOf(spelling: string, at: string, onWarning: (message: string) => void): string {
  const plain = spelling.replaceAll("-", "_");
  const snake = bySnake.has(plain) ? plain : snakeCase(plain);
  const other = otherSpellings[snake];
  if (other === undefined) return snake;
  onWarning(`${at}: ${spelling} is read as ${other}, which is the key that NeMo's code reads`);
  return other;
}

/** @returns the error for a key that nobody knows */
export function unknownKey(name: string, { at, path }: ConfigNode, known: readonly string[]): ConfigError {
  const icefall = ofIcefall[name];
  const near = nearest(name, known);
  return new ConfigError("CONFIG_UNKNOWN_OPTION", {
    at,
    message: `unknown key ${path}`,
    fix: icefall !== undefined ? `${name} is a name of icefall's; here it is ${icefall}` : near === undefined ? undefined : `did you mean ${near}?`,
  });
}

/** LUFS. Source: NeMo, db_norm's default. */
const nemoDbNorm = -25;

/** Keys whose values are read further, with their places. */
const asNodes = new Set(["input_cfg", "extra_fields", "excluded_speaker_ids"]);

/** Reads the value of a key. @throws ConfigError CONFIG_BAD_VALUE at file:line */
export function readKey(snake: string, node: ConfigNode): unknown {
  const { read, accepts } = lhotseOptions[bySnake.get(snake) as keyof typeof lhotseOptions] as Option<unknown>;
  if (node.value === "???")
    throw new ConfigError("CONFIG_BAD_VALUE", { at: node.at, message: `${node.path} is ???, which stands for a value that has to be given`, fix: `give it: ${node.path}=...` });
  const raw = asNodes.has(snake) ? node : plainConfig(node);
  const value = read(raw);
  if (value === undefined) throw new ConfigError("CONFIG_BAD_VALUE", { at: node.at, message: `${node.path} is ${showValue(raw).slice(0, 60)}, expected ${accepts}` });
  return value;
}

/** Says of a key that is not read what a person should know. @returns true where it is such a key @throws ConfigError CONFIG_BAD_VALUE where it would change what is read */
export function passOver(snake: string, node: ConfigNode, onWarning: (message: string) => void): boolean {
  const value = plainConfig(node);
  const without = meaningless[snake];
  if (without) {
    if (!unset(value, without) && snake !== "use_lhotse") onWarning(`${node.at}: ${node.path} changes nothing here: ${without.why}`);
    return true;
  }
  const absent = notThere[snake];
  if (absent) {
    if (!unset(value, absent))
      throw new ConfigError("CONFIG_BAD_VALUE", {
        at: node.at,
        message: `${node.path} is ${showValue(value).slice(0, 60)}, which serac does not have (${absent.why})`,
        fix: `leave ${snake} out`,
      });
    return true;
  }
  if (!bySnake.has(snake) && legacyKeys.has(snake)) {
    onWarning(`${node.at}: ${node.path} changes nothing here: ${legacy}`);
    return true;
  }
  return false;
}

/** Keys of a block of a config that were given, by their names here. */
export interface ReadLhotseConfig {
  config: LhotseDataLoadingConfig;
  /** Where each key was given, by NeMo's name. */
  places: ReadonlyMap<string, ConfigNode>;
}

/**
 * Reads a block of a config: the keys of train_ds.
 * @throws ConfigError CONFIG_UNKNOWN_OPTION, CONFIG_BAD_VALUE at file:line
 */
export function readLhotseConfig(block: ConfigNode, onWarning: (message: string) => void): ReadLhotseConfig {
  if (!isMapNode(block)) throw new ConfigError("CONFIG_BAD_VALUE", { at: block.at, message: `${block.path || "the file"} is no block of keys` });
  const values: Record<string, unknown> = {};
  const places = new Map<string, ConfigNode>();
  for (const [spelling, node] of block.value) {
    const snake = keyOf(spelling, node.at, onWarning);
    if (passOver(snake, node, onWarning)) {
      if (snake === "tarred_random_access" && node.value === true) values["skipMissingManifestEntries"] = true;
      continue;
    }
    const name = bySnake.get(snake);
    if (name === undefined) throw unknownKey(spelling, node, lhotseKeys);
    if (node.value === null) continue;
    values[name] = readKey(snake, node);
    places.set(snake, node);
  }
  for (const [name, { default: initial }] of Object.entries(lhotseOptions) as [string, Option<unknown>][]) values[name] ??= initial;
  // Joined utterances are normalised unless null says that they are not to be.
  if (block.value.get("db_norm")?.value !== null) values["dbNorm"] ??= nemoDbNorm;
  const config = values as LhotseDataLoadingConfig;
  check(config, places, block);
  return { config: { ...config, useBucketing: config.useBucketing || config.bucketBatchSize !== undefined || config.bucketDurationBins !== undefined }, places };
}

function check(config: LhotseDataLoadingConfig, places: ReadonlyMap<string, ConfigNode>, block: ConfigNode): void {
  const refuse = (key: string, message: string, fix?: string): never => {
    const node = places.get(key) ?? block;
    throw new ConfigError("CONFIG_BAD_VALUE", { at: node.at, message: `${node === block ? key : node.path} ${message}`, fix });
  };
  if (config.multiConfig) refuse("multi_config", "is true, so that this block holds several configs", "open them together: openBlocks() of serac/data; or name one of them");
  const { batchDuration, quadraticDuration, bucketBatchSize, bucketDurationBins, minDuration, maxDuration } = config;
  if (batchDuration !== undefined && !(batchDuration > 0)) refuse("batch_duration", `is ${batchDuration}, expected seconds above 0`);
  if (quadraticDuration !== undefined && !(quadraticDuration > 0)) refuse("quadratic_duration", `is ${quadraticDuration}, expected seconds above 0`);
  if (minDuration > maxDuration) refuse("min_duration", `is ${minDuration}, more than max_duration, ${maxDuration}: nothing would be left`);
  if (bucketBatchSize && !bucketDurationBins) refuse("bucket_batch_size", "is set without bucket_duration_bins", "give the upper bound of each bucket (serac bins prints them)");
  if (bucketBatchSize && bucketDurationBins && bucketBatchSize.length !== bucketDurationBins.length)
    refuse(
      "bucket_batch_size",
      `has ${bucketBatchSize.length} numbers for ${bucketDurationBins.length} bins`,
      "with batch sizes, bins are the upper bounds of all buckets, the last one included",
    );
  const { cutIntoWindowsDuration: window, cutIntoWindowsHop: hop, truncateDuration, excludedSpeakerIds, speakerFilterFields } = config;
  for (const [key, value] of [
    ["cut_into_windows_duration", window],
    ["cut_into_windows_hop", hop],
  ] as const)
    if (value !== undefined && !(value > 0)) refuse(key, `is ${value}, expected seconds above 0`);
  if (hop !== undefined && window === undefined) refuse("cut_into_windows_hop", "is set without cut_into_windows_duration", "give the seconds of a window");
  if (window !== undefined && truncateDuration !== undefined)
    refuse("cut_into_windows_duration", "and truncate_duration are both set: one keeps all of an utterance, the other a part", "leave out one of them");
  if (excludedSpeakerIds && !speakerFilterFields)
    refuse("excluded_speaker_ids", "is set without speaker_filter_fields", "name the keys that hold speakers: speaker_filter_fields: [speaker]");
  if (typeof config.seed === "string") refuse("seed", `is ${config.seed}, expected a whole number`, "runs are repeatable here; give another number for another run");
}
