/** Reads metadata.yaml of tarred datasets as NeMo's tools and serac write it. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { fileError } from "../../../formats/atomic.ts";
import { ManifestError, SeracError } from "../../../util/errors.ts";
import type { TarredDatasetConfig, TarredDatasetMetadata } from "./metadata.ts";

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
