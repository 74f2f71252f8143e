/**
 * metadata.yaml of tarred datasets: read as NeMo's tools write it, and written as OmegaConf writes it, byte for byte.
 * Source: NeMo, convert_to_tarred_audio_dataset.py (ASRTarredDatasetMetadata, ASRTarredDatasetConfig).
 */
import { readFileSync } from "node:fs";
import { type Document, parse, type ScalarTag, Document as YamlDocument } from "yaml";
import { fileError } from "../../../formats/atomic.ts";
import { pythonFloat } from "../../../formats/pythonNumber.ts";
import { ManifestError, SeracError } from "../../../util/errors.ts";

/** How a dataset was made; keys and their order are NeMo's. */
export interface TarredDatasetConfig {
  num_shards: number;
  shuffle: boolean;
  max_duration: number | null;
  min_duration: number | null;
  shuffle_seed: number | null;
  sort_in_shards: boolean;
  slice_with_offset: boolean;
  shard_manifests: boolean;
  keep_files_together: boolean;
  force_codec: string | null;
  force_sampling_rate: number | null;
  use_lhotse: boolean;
  use_bucketing: boolean;
  num_buckets: number | null;
  bucket_duration_bins: number[] | null;
}

/** A version of a dataset. */
export interface TarredDatasetMetadata {
  /** Local time, "MM-DD-YYYY HH-MM-SS". */
  created_datetime: string | null;
  version: number;
  num_samples_per_shard: number | null;
  is_concatenated_manifest: boolean;
  dataset_config: TarredDatasetConfig;
  /** Earlier versions, without their own histories. */
  history: Omit<TarredDatasetMetadata, "history">[];
}

/** NeMo's values for keys that a file lacks. */
const defaultConfig: TarredDatasetConfig = {
  num_shards: -1,
  shuffle: false,
  max_duration: null,
  min_duration: null,
  shuffle_seed: null,
  sort_in_shards: true,
  slice_with_offset: true,
  shard_manifests: true,
  keep_files_together: false,
  force_codec: null,
  force_sampling_rate: null,
  use_lhotse: false,
  use_bucketing: false,
  num_buckets: null,
  bucket_duration_bins: null,
};

/** @returns the local time as NeMo writes it */
export function datasetTime(date: Date = new Date()): string {
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(date.getMonth() + 1)}-${two(date.getDate())}-${date.getFullYear()} ${two(date.getHours())}-${two(date.getMinutes())}-${two(date.getSeconds())}`;
}

/** A float of PyYAML's: it has a point, also before an exponent. */
class YamlFloat {
  readonly text: string;
  constructor(value: number) {
    const text = pythonFloat(value);
    const infinite = { inf: ".inf", "-inf": "-.inf", nan: ".nan" }[text];
    this.text = infinite ?? (text.includes("e") && !text.includes(".") ? text.replace("e", ".0e") : text);
  }
}
const floatTag: ScalarTag = {
  tag: "tag:yaml.org,2002:float",
  identify: (value) => value instanceof YamlFloat,
  default: true,
  resolve: (text) => Number(text),
  stringify: ({ value }) => (value as YamlFloat).text,
};

const floatKeys = ["max_duration", "min_duration"] as const;

function printable(metadata: Omit<TarredDatasetMetadata, "history">): Record<string, unknown> {
  const config: Record<string, unknown> = { ...metadata.dataset_config };
  for (const key of floatKeys) if (typeof config[key] === "number") config[key] = new YamlFloat(config[key]);
  config["bucket_duration_bins"] = metadata.dataset_config.bucket_duration_bins?.map((value) => new YamlFloat(value)) ?? null;
  return { ...metadata, dataset_config: config };
}

/** @returns the text of metadata.yaml */
export function printMetadata({ history, ...metadata }: TarredDatasetMetadata): string {
  const tree = { ...printable(metadata), history: history.map(printable) };
  const document: Document = new YamlDocument(tree, { version: "1.1", customTags: (tags) => [floatTag, ...tags], aliasDuplicateObjects: false });
  return document.toString({ indentSeq: false, lineWidth: 0, nullStr: "null", singleQuote: true, directives: false });
}

type Kind = "integer" | "number" | "boolean" | "string" | "numbers";
const configKinds: Record<keyof TarredDatasetConfig, Kind> = {
  num_shards: "integer",
  shuffle: "boolean",
  max_duration: "number",
  min_duration: "number",
  shuffle_seed: "integer",
  sort_in_shards: "boolean",
  slice_with_offset: "boolean",
  shard_manifests: "boolean",
  keep_files_together: "boolean",
  force_codec: "string",
  force_sampling_rate: "integer",
  use_lhotse: "boolean",
  use_bucketing: "boolean",
  num_buckets: "integer",
  bucket_duration_bins: "numbers",
};

const fits: Record<Kind, (value: unknown) => boolean> = {
  integer: Number.isSafeInteger,
  number: (value) => typeof value === "number",
  boolean: (value) => typeof value === "boolean",
  string: (value) => typeof value === "string",
  numbers: (value) => Array.isArray(value) && value.every((one) => typeof one === "number"),
};

type Mapping = Record<string, unknown>;
const isMapping = (value: unknown): value is Mapping => typeof value === "object" && value !== null && !Array.isArray(value);

function readVersion(value: unknown, at: string, where: string): Omit<TarredDatasetMetadata, "history"> {
  const bad = (message: string) => new ManifestError("TARRED_METADATA", { at, message, fix: "write one with: serac tar --write_metadata" });
  if (!isMapping(value)) throw bad(`${where === "" ? "the file" : where} is no mapping of keys`);
  const given = value["dataset_config"] ?? {};
  if (!isMapping(given)) throw bad(`${where}dataset_config is no mapping of keys`);
  const config: Mapping = { ...defaultConfig };
  for (const [key, kind] of Object.entries(configKinds)) {
    const one = given[key];
    if (one === undefined) continue;
    if (one !== null && !fits[kind](one)) throw bad(`${where}dataset_config.${key} is ${JSON.stringify(one)}, expected ${kind === "numbers" ? "a list of numbers" : `a ${kind}`}`);
    config[key] = one ?? (kind === "boolean" ? false : null);
  }
  const number = (key: string, initial: number | null): number | null => {
    const one = value[key] ?? initial;
    if (one !== null && !Number.isSafeInteger(one)) throw bad(`${where}${key} is ${JSON.stringify(one)}, expected a whole number`);
    return one as number | null;
  };
  return {
    created_datetime: typeof value["created_datetime"] === "string" ? value["created_datetime"] : null,
    version: number("version", 0) ?? 0,
    num_samples_per_shard: number("num_samples_per_shard", null),
    is_concatenated_manifest: value["is_concatenated_manifest"] === true,
    dataset_config: config as unknown as TarredDatasetConfig,
  };
}

/**
 * Reads a metadata.yaml; keys that NeMo does not have are left out.
 * @param at the name that errors give
 * @throws ManifestError TARRED_METADATA
 */
export function parseMetadata(text: string, at: string): TarredDatasetMetadata {
  let value: unknown;
  try {
    value = parse(text, { version: "1.1" }); // as PyYAML reads
  } catch (cause) {
    throw new ManifestError("TARRED_METADATA", { at, message: `this is no YAML: ${cause instanceof Error ? cause.message.split("\n")[0] : String(cause)}`, cause });
  }
  const version = readVersion(value, at, "");
  const history = (value as Mapping)["history"] ?? [];
  if (!Array.isArray(history)) throw new ManifestError("TARRED_METADATA", { at, message: "history is no list" });
  return { ...version, history: history.map((one, i) => readVersion(one, at, `history[${i}].`)) };
}

/** Reads a file. @throws FormatError FILE_MISSING, FILE_UNREADABLE; ManifestError TARRED_METADATA */
export function readMetadata(path: string): TarredDatasetMetadata {
  try {
    return parseMetadata(readFileSync(path, "utf8"), path);
  } catch (error) {
    throw error instanceof SeracError ? error : fileError(path, "read", error);
  }
}
