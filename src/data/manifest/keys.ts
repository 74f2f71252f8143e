/** The keys of NeMo's manifests and their aliases, in the order in which NeMo looks for them. Source: NeMo, manifest.py __parse_item. */
import type { ManifestObject } from "./lines.ts";

/**
 * Keys of the audio. `context` comes last: NeMo looks for it before `audio_file`, so that a question's context replaces the utterance's own audio.
 */
export const audioKeys = ["audio_filename", "audio_filepath", "audio_file", "context"] as const;
export const videoKeys = ["video_filename", "video_filepath", "video_file"] as const;
export const rttmKeys = ["rttm_file", "rttm_filename", "rttm_filepath"] as const;
export const featureKeys = ["feature_file", "feature_filename", "feature_filepath"] as const;
/** Keys of the sampling rate that readers of NeMo take. */
export const rateKeys = ["sampling_rate", "sample_rate", "orig_sample_rate"] as const;

/** @returns the first of `keys` that the object has with a value, or undefined */
export function firstKey<K extends string>(object: ManifestObject, keys: readonly K[]): K | undefined {
  for (const key of keys) if (object[key] !== undefined && object[key] !== null) return key;
  return undefined;
}

/** @returns the audio as it is written: a path, or one path a channel; undefined where it is neither */
export function audioOf(object: ManifestObject): string | readonly string[] | undefined {
  const key = firstKey(object, audioKeys);
  const value = key === undefined ? undefined : object[key];
  if (typeof value === "string") return value === "" ? undefined : value;
  if (Array.isArray(value) && value.length > 0 && value.every((path) => typeof path === "string" && path !== "")) return value as string[];
  return undefined;
}

/** @returns the duration in seconds, or undefined where the object has none that can be used */
export function durationOf(object: ManifestObject): number | undefined {
  const value = object["duration"] ?? object["context_duration"];
  return typeof value === "number" && Number.isFinite(value) && value > 0 ? value : undefined;
}

/** @returns the transcript where it stands in the line: `text`, then `normalized_text`; spans of languages are joined with spaces */
export function textOf(object: ManifestObject): string | undefined {
  const value = object["text"] ?? object["normalized_text"];
  if (typeof value === "string") return value;
  return isSpans(value) ? value.map(({ str }) => str).join(" ") : undefined;
}

/** A stretch of a transcript in one language: what manifests for aggregate tokenizers hold. */
export interface TextSpan {
  str: string;
  lang: string;
}

/** True for a list of `{"str": ..., "lang": ...}`. */
export function isSpans(value: unknown): value is TextSpan[] {
  return (
    Array.isArray(value) &&
    value.every((span: unknown) => typeof span === "object" && span !== null && typeof (span as TextSpan).str === "string" && typeof (span as TextSpan).lang === "string")
  );
}
