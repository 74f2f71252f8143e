/** Where a line's audio lies, and what the headers of its files say together. */
import { isSkipped } from "../entry.ts";
import { audioOf } from "../keys.ts";
import type { ManifestLine } from "../lines.ts";
import { type PathSource, resolveAudioPath } from "../paths.ts";
import type { HeaderResult } from "./headers.ts";

export interface AudioPlace {
  /** The line has `_skipme`. */
  skip: boolean;
  /** What the audio is called by; undefined where the line has none. */
  name: string | undefined;
  /** From where each of its paths was taken. */
  from: readonly PathSource[];
  /** Files whose headers are to be read. */
  files: readonly string[];
}

export function placeOf(line: ManifestLine): AudioPlace {
  const skip = isSkipped(line.value);
  const audio = skip ? undefined : audioOf(line.value);
  if (audio === undefined) return { skip, name: undefined, from: [], files: [] };
  const places = (typeof audio === "string" ? [audio] : audio).map((one) => resolveAudioPath(one, line.path));
  return {
    skip,
    name: places.map(({ path }) => path).join("\n"),
    from: places.map(({ from }) => from),
    files: places.filter(({ from }) => from !== "member" && from !== "url").map(({ path }) => path),
  };
}

/** The header of an utterance whose channels lie in several files. */
export function mergeHeaders(headers: readonly (HeaderResult | undefined)[]): HeaderResult | undefined {
  const [first, ...others] = headers;
  if (first === undefined || others.length === 0) return first;
  const failed = headers.find((header) => header !== undefined && "failure" in header);
  if (failed !== undefined || "failure" in first) return failed;
  return { ...first, channels: first.channels + others.reduce((sum, header) => sum + (header !== undefined && !("failure" in header) ? header.channels : 0), 0) };
}
