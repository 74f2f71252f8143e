/**
 * metadata.yaml of tarred datasets: what it holds, and its text as OmegaConf writes it, byte for byte.
 * Source: NeMo, convert_to_tarred_audio_dataset.py (ASRTarredDatasetMetadata, ASRTarredDatasetConfig); PyYAML's plain scalars.
 */
import { pythonFloat } from "../../../formats/pythonNumber.ts";

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

/** @returns the local time as NeMo writes it */
export function datasetTime(date: Date = new Date()): string {
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(date.getMonth() + 1)}-${two(date.getDate())}-${date.getFullYear()} ${two(date.getHours())}-${two(date.getMinutes())}-${two(date.getSeconds())}`;
}

/** A float of PyYAML's: it has a point, also before an exponent. */
function printFloat(value: number): string {
  const text = pythonFloat(value);
  const infinite = { inf: ".inf", "-inf": "-.inf", nan: ".nan" }[text];
  return infinite ?? (text.includes("e") && !text.includes(".") ? text.replace("e", ".0e") : text);
}

/** Words that stand for themselves: names of codecs, and times as NeMo writes them. */
const plain = /^(?!(?:true|false|yes|no|on|off|null|y|n)$)[a-z]\w*$|^\d\d-\d\d-\d{4} \d\d-\d\d-\d\d$/i;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what single quotes cannot hold
const control = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\ufeff]/;

function printString(text: string): string {
  if (plain.test(text)) return text;
  return control.test(text) ? JSON.stringify(text) : `'${text.replaceAll("'", "''")}'`;
}

const printScalar = (value: string | number | boolean | null): string => (typeof value === "string" ? printString(value) : String(value));

/** Keys whose numbers are floats, also where they are whole. */
const floatKeys: ReadonlySet<string> = new Set(["max_duration", "min_duration"]);

/** The lines of a version, without indentation. */
function linesOf({ dataset_config: config, ...metadata }: Omit<TarredDatasetMetadata, "history">): string[] {
  const lines: string[] = Object.entries(metadata).map(([key, value]) => `${key}: ${printScalar(value)}`);
  lines.push("dataset_config:");
  for (const [key, value] of Object.entries(config) as [string, string | number | boolean | number[] | null][]) {
    if (!Array.isArray(value)) lines.push(`  ${key}: ${typeof value === "number" && floatKeys.has(key) ? printFloat(value) : printScalar(value)}`);
    else if (value.length === 0) lines.push(`  ${key}: []`);
    else lines.push(`  ${key}:`, ...value.map((one) => `  - ${printFloat(one)}`));
  }
  return lines;
}

/** @returns the text of metadata.yaml */
export function printMetadata({ history, ...metadata }: TarredDatasetMetadata): string {
  const earlier = history.flatMap((version) => linesOf(version).map((line, i) => `${i === 0 ? "- " : "  "}${line}`));
  return `${[...linesOf(metadata), history.length === 0 ? "history: []" : "history:", ...earlier].join("\n")}\n`;
}
