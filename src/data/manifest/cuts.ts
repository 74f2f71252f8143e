/** Manifests as cuts, which training and decoding read. */
import { type PyObject, parsePython, plainValue } from "../../formats/pythonJson.ts";
import { ManifestError } from "../../util/errors.ts";
import type { Cut } from "../cut.ts";
import { LeftOut } from "../filter.ts";
import { Losses } from "./convert/common.ts";
import { utterancesOfCut } from "./convert/lhotse.ts";
import { type EntryOptions, isSkipped, type ManifestEntry, parseEntry } from "./entry.ts";
import type { ManifestSpec } from "./inputs.ts";
import { manifestPaths } from "./inputs.ts";
import { audioKeys, firstKey } from "./keys.ts";
import { type LineError, type ManifestLine, type ManifestObject, readManifestLines } from "./lines.ts";
import { resolveAudioPath } from "./paths.ts";

/** How to read manifests. */
export type ManifestOptions = Pick<EntryOptions, "onError" | "needDuration">;

/** A transcript, or its turns one after the other. */
export const plainText = (text: ManifestEntry["text"]): string => (typeof text === "string" ? text : text.map(({ str }) => str).join(" "));

/**
 * The cut that plays an entry.
 * @param name what its recording is called
 * @param audio where that lies
 */
export function makeCut(entry: ManifestEntry, name: string, audio: Pick<Cut, "audioPath" | "audioFrom" | "member">): Cut {
  const { offset, duration, text, speaker, lang, origin } = entry;
  return {
    id: offset === undefined ? name : `${name}-${offset}-${duration}`,
    ...audio,
    offset,
    duration: duration ?? Number.NaN,
    text: plainText(text),
    speaker,
    lang,
    speed: 1,
    tracks: undefined,
    gap: 0,
    origin,
  };
}

/** The cut of an entry whose audio is a file. @throws ManifestError MANIFEST_NO_AUDIO for audio in a file a channel */
export function cutOf(entry: ManifestEntry): Cut {
  const { audioFile, origin, manifest } = entry;
  if (typeof audioFile !== "string")
    throw new ManifestError("MANIFEST_NO_AUDIO", {
      at: origin,
      message: "the audio is a list of files, one a channel, which training does not read",
      fix: "join the channels in one file",
    });
  const { path, from } = resolveAudioPath(audioFile, manifest);
  return makeCut(entry, audioFile, { audioPath: path, audioFrom: from });
}

/** True for a line of a manifest of lhotse's cuts. */
const isLhotseCut = (value: ManifestObject): boolean => firstKey(value, audioKeys) === undefined && typeof value["recording"] === "object" && value["recording"] !== null;

/**
 * The cut of a line of lhotse's: a stretch of a file with its texts, as `serac manifest convert` has it, under lhotse's id.
 * @throws ManifestError MANIFEST_NO_AUDIO for what is more than that: copies at other speeds, mixtures
 */
function cutOfLhotse({ value, text, line, path }: ManifestLine, options: ManifestOptions): Cut {
  const at = `${path}:${line}`;
  const losses = new Losses();
  const [utterance] = utterancesOfCut(parsePython(text) as PyObject, at, "cut", losses);
  if (utterance === undefined)
    throw new ManifestError("MANIFEST_NO_AUDIO", {
      at,
      message: `a cut of lhotse that is no stretch of a file: ${losses.list()[0]?.what.replace("left out: ", "")}`,
      fix: "train on it by --manifest-dir, or by a train_ds with type: lhotse",
    });
  const cut = cutOf(parseEntry({ value: plainValue(utterance.object) as ManifestObject, line, path }, options));
  const { id } = value;
  return typeof id === "string" ? { ...cut, id } : cut;
}

/** What `read` makes of the lines that are not to be skipped; those that it refuses go to `onError`. */
async function* readEach<T>(spec: ManifestSpec, onError: ((error: LineError) => void) | undefined, read: (line: ManifestLine) => T): AsyncGenerator<T> {
  for await (const line of readManifestLines(spec, onError ? { onError } : {})) {
    if (isSkipped(line.value)) continue;
    let made: T;
    try {
      made = read(line);
    } catch (error) {
      if (!onError || !(error instanceof ManifestError)) throw error;
      onError(error);
      continue;
    }
    yield made;
  }
}

/**
 * All that `read` makes of the lines of manifests.
 * @throws ManifestError MANIFEST_EMPTY when there is none, with what is wrong with the lines, counted by code
 */
export async function readAll<T>(spec: ManifestSpec, onError: ((error: LineError) => void) | undefined, read: (line: ManifestLine) => T): Promise<T[]> {
  const all: T[] = [];
  const leftOut = new LeftOut();
  const count = (error: LineError): void => {
    leftOut.add(`with ${error.code}`, error.message.slice(0, error.message.lastIndexOf(` [${error.code}]`)));
    onError?.(error);
  };
  for await (const made of readEach(spec, onError && count, read)) all.push(made);
  if (all.length > 0) return all;
  const at = manifestPaths(spec).join(", ");
  if (leftOut.total === 0) throw new ManifestError("MANIFEST_EMPTY", { at, message: "no utterance that can be used", fix: "check that the file has a JSON object per line" });
  throw new ManifestError("MANIFEST_EMPTY", {
    at,
    message: `no line can be used: ${leftOut.lines().join("; ")}`,
    fix: `mend these lines; serac manifest check ${manifestPaths(spec).join(" ")} names each of them`,
  });
}

const cutOfLine = (line: ManifestLine, options: ManifestOptions): Cut => (isLhotseCut(line.value) ? cutOfLhotse(line, options) : cutOf(parseEntry(line, options)));

/**
 * Reads manifests line by line; `-` is standard input, gzip is recognised, braces and commas name several. Lines may be cuts of lhotse.
 * @throws ManifestError MANIFEST_* and FormatError at file:line, unless `onError` takes them
 */
export function readManifest(spec: ManifestSpec, options: ManifestOptions = {}): AsyncGenerator<Cut> {
  return readEach(spec, options.onError, (line) => cutOfLine(line, options));
}

/** All cuts of one or more manifests. @throws ManifestError MANIFEST_EMPTY when there is none, with what is wrong with the lines, counted by code */
export function loadManifest(spec: ManifestSpec, options: ManifestOptions = {}): Promise<Cut[]> {
  return readAll(spec, options.onError, (line) => cutOfLine(line, options));
}
