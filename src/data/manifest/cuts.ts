/** Manifests as cuts, which training and decoding read. */
import { ManifestError } from "../../util/errors.ts";
import type { Cut } from "../cut.ts";
import { LeftOut } from "../filter.ts";
import { type EntryOptions, type ManifestEntry, readEntries } from "./entry.ts";
import type { ManifestSpec } from "./inputs.ts";
import { manifestPaths } from "./inputs.ts";
import type { LineError } from "./lines.ts";
import { resolveAudioPath } from "./paths.ts";

/** How to read manifests. */
export type ManifestOptions = Pick<EntryOptions, "onError" | "needDuration">;

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
    text: typeof text === "string" ? text : text.map(({ str }) => str).join(" "),
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

/**
 * Reads manifests line by line; `-` is standard input, gzip is recognised, braces and commas name several.
 * @throws ManifestError MANIFEST_* and FormatError at file:line, unless `onError` takes them
 */
export async function* readManifest(spec: ManifestSpec, options: ManifestOptions = {}): AsyncGenerator<Cut> {
  for await (const entry of readEntries(spec, options)) {
    let cut: Cut;
    try {
      cut = cutOf(entry);
    } catch (error) {
      if (!options.onError || !(error instanceof ManifestError)) throw error;
      options.onError(error);
      continue;
    }
    yield cut;
  }
}

/** All cuts of one or more manifests. @throws ManifestError MANIFEST_EMPTY when there is none, with what is wrong with the lines, counted by code */
export async function loadManifest(spec: ManifestSpec, options: ManifestOptions = {}): Promise<Cut[]> {
  const cuts: Cut[] = [];
  const leftOut = new LeftOut();
  const { onError } = options;
  const count = (error: LineError): void => {
    leftOut.add(`with ${error.code}`, error.message.slice(0, error.message.lastIndexOf(` [${error.code}]`)));
    onError?.(error);
  };
  for await (const cut of readManifest(spec, onError ? { ...options, onError: count } : options)) cuts.push(cut);
  if (cuts.length > 0) return cuts;
  const at = manifestPaths(spec).join(", ");
  if (leftOut.total === 0) throw new ManifestError("MANIFEST_EMPTY", { at, message: "no utterance that can be used", fix: "check that the file has a JSON object per line" });
  throw new ManifestError("MANIFEST_EMPTY", {
    at,
    message: `no line can be used: ${leftOut.lines().join("; ")}`,
    fix: `mend these lines; serac manifest check ${manifestPaths(spec).join(" ")} names each of them`,
  });
}
