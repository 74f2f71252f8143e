/**
 * Recordings to mix in or to convolve with, from where corpora keep them: a folder of audio files (MUSAN as downloaded), a manifest of lhotse's cuts or
 * recordings, a manifest of NeMo's, or the keys of a config's source. Durations are read now, audio when it is used.
 */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { audioInfo } from "../../audio/index.ts";
import { fileError } from "../../formats/atomic.ts";
import { ManifestError } from "../../util/errors.ts";
import { cutOf } from "../manifest/cuts.ts";
import { parseEntry } from "../manifest/entry.ts";
import { type ManifestLine, readManifestLines } from "../manifest/lines.ts";
import type { SourceCut } from "../sources/cut.ts";
import { parseLhotseCut } from "../sources/lhotseCut.ts";
import { openSources } from "../sources/open.ts";

/** Where recordings are: a path, or keys as of train_ds. */
export type NoiseSpec = string | Readonly<Record<string, unknown>>;

const suffixes = /\.(wav|flac|ogg|opus|mp3)$/i;

/**
 * The recordings that a path or a config names, in a fixed order.
 * @throws ManifestError SOURCE_EMPTY, CUT_BAD and others at file:line; AudioError for a file of a folder that is no audio; FormatError of reading
 */
export async function openNoise(spec: NoiseSpec): Promise<SourceCut[]> {
  if (typeof spec !== "string") return fromConfig(spec);
  const found = await stat(spec).catch((error: unknown) => {
    throw fileError(spec, "read", error);
  });
  const cuts = found.isDirectory() ? await fromFolder(spec) : await fromManifest(spec);
  if (cuts.length === 0)
    throw new ManifestError("SOURCE_EMPTY", {
      at: spec,
      message: found.isDirectory() ? "the folder holds no audio file" : "the manifest has no line",
      fix: "name a folder with audio, or a manifest of cuts, recordings or utterances",
    });
  return cuts;
}

/** Audio files below a folder, by name. */
async function fromFolder(folder: string): Promise<SourceCut[]> {
  const paths = (await readdir(folder, { recursive: true, withFileTypes: true })).flatMap((entry) =>
    entry.isFile() && suffixes.test(entry.name) ? [join(entry.parentPath, entry.name)] : [],
  );
  paths.sort();
  const cuts: SourceCut[] = [];
  for (let first = 0; first < paths.length; first += 16)
    cuts.push(
      ...(await Promise.all(
        paths.slice(first, first + 16).map(async (path) => {
          const { durationSeconds, sampleRate } = await audioInfo(path);
          return plainCut({ id: path.slice(folder.length + 1), audioPath: path, duration: durationSeconds, origin: path, sampleRate });
        }),
      )),
    );
  return cuts;
}

const plainCut = ({ sampleRate, ...cut }: Pick<SourceCut, "id" | "audioPath" | "duration" | "origin" | "sampleRate">): SourceCut => ({
  ...cut,
  offset: undefined,
  text: "",
  speaker: undefined,
  lang: undefined,
  speed: 1,
  tracks: undefined,
  gap: 0,
  features: undefined,
  supervisions: [],
  sampleRate,
  channel: undefined,
  custom: {},
});

async function fromManifest(path: string): Promise<SourceCut[]> {
  const cuts: SourceCut[] = [];
  for await (const line of readManifestLines(path)) cuts.push(fromLine(line));
  return cuts;
}

/** What a line is, is seen by its keys, as lhotse does. */
function fromLine(line: ManifestLine): SourceCut {
  const { value, path } = line;
  const at = `${path}:${line.line}`;
  if (value["type"] === undefined && Array.isArray(value["sources"])) {
    const { id, duration } = value;
    const channel = Array.isArray(value["channel_ids"]) ? value["channel_ids"][0] : 0;
    return parseLhotseCut({ type: "MonoCut", id, start: 0, duration, channel, recording: value, supervisions: [] }, at, path);
  }
  if (value["type"] !== undefined || value["recording"] !== undefined) return parseLhotseCut(value, at, path);
  const cut = cutOf(parseEntry(line));
  return { ...plainCut({ id: cut.id, audioPath: cut.audioPath, duration: cut.duration, origin: at, sampleRate: undefined }), offset: cut.offset };
}

async function fromConfig(spec: Readonly<Record<string, unknown>>): Promise<SourceCut[]> {
  const { source } = await openSources({ ...spec, force_finite: true });
  const stream = await source.open({ epoch: 0, seed: 0, shuffle: false });
  const cuts: SourceCut[] = [];
  for (let block = await stream.read(1024); block; block = await stream.read(1024)) cuts.push(...(await source.load(block.refs.slice(0, block.count))));
  return cuts;
}
