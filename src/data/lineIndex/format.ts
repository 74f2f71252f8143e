/** What an index takes from the lines of a manifest: figures for samplers, and how a line is known again. */
import { parseJsonLine } from "../../formats/jsonl.ts";
import { parsePython, plainValue } from "../../formats/pythonJson.ts";
import { ManifestError, type SeracError } from "../../util/errors.ts";
import { isSkipped } from "../manifest/entry.ts";
import type { ManifestLine, ManifestObject } from "../manifest/lines.ts";

/** A line's object and its place. */
export type ParsedLine = Pick<ManifestLine, "value" | "line" | "path">;

/** What samplers and filters look at. */
export interface LineFigures {
  /** Seconds. */
  duration: number;
  /** Output tokens; 0 where they are not counted. */
  tokens: number;
}

/** A line that can be used and is not wanted. */
export interface UnwantedLine {
  /** "marked _skipme" */
  reason: string;
}

/** Why lines are left out that ask for it. */
export const skipReason = "marked _skipme";

/** A kind of manifest. */
export interface LineFormat {
  /**
   * Names the kind and everything that its figures depend on: an index is kept under each name. Letters, digits, - and _; "" is any line with a duration.
   * Undefined where the figures are not to be kept.
   */
  readonly key: string | undefined;
  readonly countsTokens: boolean;
  /** The figures of a line; undefined for one that is left out, and counted by the format itself. @throws ManifestError, FormatError for one that cannot be used */
  figures(line: ParsedLine): LineFigures | UnwantedLine | undefined;
  /** The seconds of a line alone. @throws ManifestError where it has none */
  duration(value: ManifestObject, at: string): number;
}

/** How to count the tokens of a line. */
export interface TokenCounter {
  /** Names the tokenizer: counts are kept under this name. Letters, digits, - and _. */
  key: string;
  count(value: ManifestObject): number;
}

/** @returns the error for a duration that no batch can be made by */
export function badDuration(duration: number, at: string): SeracError {
  return new ManifestError("MANIFEST_BAD_DURATION", {
    at,
    message: `the duration is ${duration}, expected seconds above 0`,
    fix: "mend the manifest: serac manifest check --fix OUT.jsonl MANIFEST",
  });
}

/** The value of a line; NaN and Infinity, which Python writes, are read. @throws FormatError JSONL_BAD_LINE, ManifestError MANIFEST_NOT_AN_OBJECT */
export function parseManifestLine(text: string, path: string, line: number): ManifestObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    try {
      value = plainValue(parsePython(text));
    } catch {
      value = parseJsonLine(text, path, line);
    }
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ManifestError("MANIFEST_NOT_AN_OBJECT", {
      at: `${path}:${line}`,
      message: "the line holds no JSON object",
      fix: 'write {"audio_filepath": ..., "duration": ..., "text": ...}',
    });
  return value as ManifestObject;
}

/** @throws ManifestError MANIFEST_NO_DURATION, MANIFEST_BAD_DURATION */
export function lineDuration(value: ManifestObject, at: string): number {
  const duration = value["duration"] ?? value["context_duration"];
  if (duration === undefined || duration === null)
    throw new ManifestError("MANIFEST_NO_DURATION", {
      at,
      message: 'no "duration"',
      fix: "add the length in seconds, for instance: serac manifest check --fix OUT.jsonl MANIFEST",
    });
  if (typeof duration !== "number" || !(duration > 0 && duration < Number.POSITIVE_INFINITY)) throw badDuration(duration as number, at);
  return duration;
}

/** Any lines with a `duration`. */
export function anyFormat(tokens: TokenCounter | undefined): LineFormat {
  return {
    key: tokens?.key ?? "",
    countsTokens: tokens !== undefined,
    figures: ({ value, path, line }) => (isSkipped(value) ? { reason: skipReason } : { duration: lineDuration(value, `${path}:${line}`), tokens: tokens?.count(value) ?? 0 }),
    duration: lineDuration,
  };
}
