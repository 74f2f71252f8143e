/** NeMo manifests: JSON lines with audio_filepath, duration, text. Source: NeMo's page on ASR datasets. */
import { existsSync } from "node:fs";
import { dirname, isAbsolute, resolve } from "node:path";
import { readJsonl } from "../formats/index.ts";
import type { FormatError } from "../util/errors.ts";
import { ManifestError } from "../util/errors.ts";
import type { Cut } from "./cut.ts";

/** A line of a NeMo manifest, as far as training reads it. */
export interface ManifestEntry {
  audio_filepath: string;
  duration: number;
  offset?: number;
  text?: string;
  speaker?: string | number;
  lang?: string;
}

/** How to read manifests. */
export interface ManifestOptions {
  /** Called with each line that cannot be used, which is then left out. Without it the first one throws. */
  onError?: (error: ManifestError | FormatError) => void;
  /** False for manifests to decode: lines may have no duration. */
  needDuration?: boolean;
}

const audioKeys = ["audio_filepath", "audio_filename", "audio_file"] as const;

/** Beside the manifest first, then the working directory; where neither has it, beside the manifest. */
function resolveAudio(path: string, manifest: string): string {
  if (isAbsolute(path)) return path;
  const beside = resolve(dirname(manifest), path);
  if (manifest !== "-" && existsSync(beside)) return beside;
  const here = resolve(path);
  return existsSync(here) ? here : beside;
}

/** @throws ManifestError when the value is no utterance */
function toCut(value: unknown, manifest: string, line: number, needDuration: boolean): Cut | undefined {
  const origin = `${manifest}:${line}`;
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ManifestError("MANIFEST_NOT_AN_OBJECT", {
      at: origin,
      message: "expected a JSON object per line",
      fix: 'write {"audio_filepath": ..., "duration": ..., "text": ...}',
    });
  const entry = value as Record<string, unknown>;
  if (entry._skipme) return undefined;
  const audio = audioKeys.map((key) => entry[key]).find((path) => path !== undefined);
  if (typeof audio !== "string" || audio === "")
    throw new ManifestError("MANIFEST_NO_AUDIO", {
      at: origin,
      message: audio === undefined ? 'no "audio_filepath"' : '"audio_filepath" is not a path',
      fix: "give the path of the audio, absolute or relative to the manifest",
    });
  const { duration, offset, text, speaker, lang } = entry;
  if (duration === undefined || duration === null) {
    if (needDuration) throw new ManifestError("MANIFEST_NO_DURATION", { at: origin, message: 'no "duration"', fix: "add the length in seconds" });
  } else if (typeof duration !== "number" || !Number.isFinite(duration) || duration <= 0) {
    throw new ManifestError("MANIFEST_BAD_DURATION", {
      at: origin,
      message: `"duration" is ${JSON.stringify(duration)}, expected seconds above 0`,
      fix: "give the length in seconds as a number",
    });
  }
  if (offset !== undefined && offset !== null && (typeof offset !== "number" || !Number.isFinite(offset) || offset < 0))
    throw new ManifestError("MANIFEST_BAD_OFFSET", {
      at: origin,
      message: `"offset" is ${JSON.stringify(offset)}, expected seconds from 0`,
      fix: "give the start in seconds as a number",
    });
  if (text !== undefined && text !== null && typeof text !== "string")
    throw new ManifestError("MANIFEST_BAD_TEXT", {
      at: origin,
      message: `"text" is ${JSON.stringify(text)?.slice(0, 40)}, expected a string`,
      fix: "write the transcript as a string",
    });
  const start = typeof offset === "number" ? offset : undefined;
  return {
    id: start === undefined ? audio : `${audio}-${start}-${duration}`,
    audioPath: resolveAudio(audio, manifest),
    offset: start,
    duration: typeof duration === "number" ? duration : Number.NaN,
    text: typeof text === "string" ? text : "",
    speaker: typeof speaker === "string" || typeof speaker === "number" ? String(speaker) : undefined,
    lang: typeof lang === "string" ? lang : undefined,
    speed: 1,
    tracks: undefined,
    gap: 0,
    origin,
  };
}

/**
 * Reads a manifest line by line; `-` is standard input, gzip is recognised.
 * @throws ManifestError MANIFEST_* and FormatError at file:line, unless `onError` takes them
 */
export async function* readManifest(path: string, { onError, needDuration = true }: ManifestOptions = {}): AsyncGenerator<Cut> {
  for await (const { value, line } of readJsonl(path, onError ? { onError } : {})) {
    let cut: Cut | undefined;
    try {
      cut = toCut(value, path, line, needDuration);
    } catch (error) {
      if (!onError || !(error instanceof ManifestError)) throw error;
      onError(error);
    }
    if (cut) yield cut;
  }
}

/** All cuts of one or more manifests, given as paths or as one string with commas. @throws ManifestError MANIFEST_EMPTY when there is none */
export async function loadManifest(paths: string | readonly string[], options: ManifestOptions = {}): Promise<Cut[]> {
  const list = typeof paths === "string" ? paths.split(",").map((path) => path.trim()) : paths;
  const cuts: Cut[] = [];
  for (const path of list) for await (const cut of readManifest(path, options)) cuts.push(cut);
  if (cuts.length === 0)
    throw new ManifestError("MANIFEST_EMPTY", { at: list.join(", "), message: "no utterance that can be used", fix: "check that the file has a JSON object per line" });
  return cuts;
}
