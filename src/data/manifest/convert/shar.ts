/**
 * lhotse Shar folders: cuts.000000.jsonl.gz beside recording.000000.tar, whose members are pairs of audio and its Recording.
 * Source: lhotse, shar/writers/shar.py and shar/readers/lazy.py.
 */
import { readdirSync, readFileSync } from "node:fs";
import { extname, join, resolve } from "node:path";
import { type AudioFormat, encodeAudio, readAudio } from "../../../audio/index.ts";
import { fileError, writeFileAtomic } from "../../../formats/atomic.ts";
import { dumpPython, JsonSyntaxError, type PyObject, type PyValue, parsePython, pyFloat } from "../../../formats/pythonJson.ts";
import { readTar } from "../../../formats/tar/index.ts";
import { FormatError, ManifestError } from "../../../util/errors.ts";
import { memberName, type SharItem, writeShards } from "../../sharWriter.ts";
import { flattenPath } from "../../tarred/convert/names.ts";
import { readManifestLines } from "../lines.ts";
import { isText, type Losses, listOf, objectOf, sameValue, type Utterance } from "./common.ts";
import { type CutOf, cutOfUtterance, type Segments, utterancesOfCut } from "./lhotse.ts";

/** Encodings of the members. `original` copies files as they are, where the utterance is a whole file. */
export const sharAudioFormats = ["wav", "flac", "mp3", "opus", "original"] as const;
export type SharAudioFormat = (typeof sharAudioFormats)[number];

/**
 * Writes a Shar folder. Ids lose slashes and leading points, because they are names of members.
 * @throws ManifestError MANIFEST_OUTPUT_EXISTS where the folder has shards; AudioError, FormatError
 */
export function writeShar(
  folder: string,
  utterances: AsyncIterable<Utterance>,
  losses: Losses,
  { shardSize = 1000, audioFormat = "flac" }: { shardSize?: number; audioFormat?: SharAudioFormat } = {},
): Promise<number> {
  const ids = new Set<string>();
  const items = async function* (): AsyncGenerator<SharItem> {
    for await (const utterance of utterances) {
      const made = await cutOfUtterance(nameable(utterance), losses, ids);
      if (made !== undefined) yield await itemOf(made, utterance, { audioFormat, losses });
    }
  };
  return writeShards(folder, items(), { fields: ["recording"], shardSize });
}

/** What is stored of an utterance, and its cut, which begins where the stored audio does. */
async function itemOf(
  { cut, id, files, start, duration, rate, frames, channels }: CutOf,
  utterance: Utterance,
  { audioFormat, losses }: { audioFormat: SharAudioFormat; losses: Losses },
): Promise<SharItem> {
  const whole = start === 0 && Math.abs(duration - frames / rate) < 0.5 / rate;
  let bytes: Uint8Array;
  let extension: string = audioFormat;
  let samples = frames;
  const [first = ""] = files;
  if (audioFormat === "original" && whole && files.length === 1) {
    bytes = readFileSync(first);
    extension = extname(first).slice(1).toLowerCase() || "original";
  } else {
    if (audioFormat === "original") losses.add("parts of files, which were encoded as FLAC", utterance.at);
    extension = audioFormat === "original" ? "flac" : audioFormat;
    const parts = await Promise.all(files.map((file) => readAudio(file, whole ? {} : { offset: start, duration })));
    const audio = { sampleRate: rate, channels: parts.flatMap((part) => part.channels) };
    samples = audio.channels[0]?.length ?? 0;
    bytes = await encodeAudio(audio, extension as AudioFormat);
  }
  const placeholder: PyValue[] = [
    new Map<string, PyValue>([
      ["type", "shar"],
      ["channels", Array.from({ length: channels }, (_, i) => i)],
      ["source", ""],
    ]),
  ];
  const recording: PyObject = new Map(objectOf(cut.get("recording")) as PyObject);
  recording.set("sources", placeholder);
  recording.set("num_samples", samples);
  recording.set("duration", pyFloat(samples / rate));
  cut.set("start", 0);
  cut.set("duration", pyFloat(samples / rate));
  keepDuration(cut, utterance, samples / rate);
  for (const one of listOf(cut.get("supervisions"))) objectOf(one)?.set("duration", pyFloat(samples / rate));
  cut.set("recording", recording);
  return { id, cut, members: { recording: { extension, bytes, manifest: recording } } };
}

/** What the manifest said stands in `custom`, where it is not what the member has. */
function keepDuration(cut: PyObject, { object }: Utterance, seconds: number): void {
  const said = object.get("duration");
  if (said === undefined || sameValue(said, pyFloat(seconds))) return;
  const custom = objectOf(cut.get("custom"));
  if (custom !== undefined) custom.set("duration", said);
  else {
    const type = cut.get("type") as PyValue;
    cut.delete("type"); // stays the last key, as lhotse writes it
    cut.set("custom", new Map([["duration", said]]));
    cut.set("type", type);
  }
}

/** The same utterance with an id that can name a member. */
function nameable(utterance: Utterance): Utterance {
  const { object } = utterance;
  const id = object.get("id");
  const audio = object.get("audio_filepath") ?? object.get("audio_filename") ?? object.get("audio_file");
  const offset = object.get("offset");
  const source =
    isText(id) && id !== ""
      ? id
      : isText(audio)
        ? flattenPath(audio.replace(/^[./]+/, "")).base + (offset === undefined || offset === null ? "" : `-${dumpPython(offset)}-${dumpPython(object.get("duration") ?? null)}`)
        : undefined;
  if (source === undefined) return utterance;
  return { ...utterance, object: new Map(object).set("id", memberName(source)) };
}

/** Shards of a folder, by number. @throws FormatError FILE_MISSING, or MANIFEST_SHAR_BAD where the fields have different shards */
function shardsIn(folder: string): { cuts: string; recording: string }[] {
  let names: string[];
  try {
    names = readdirSync(folder).sort();
  } catch (error) {
    throw fileError(folder, "read", error);
  }
  const cuts = names.filter((name) => /^cuts\..*jsonl(\.gz)?$/.test(name));
  const recordings = names.filter((name) => /^recording\..*tar(\.gz)?$/.test(name));
  if (cuts.length === 0) throw new FormatError("FILE_MISSING", { at: folder, message: "no cuts.*.jsonl.gz: not a Shar folder" });
  if (cuts.length !== recordings.length)
    throw new ManifestError("MANIFEST_SHAR_BAD", { at: folder, message: `${cuts.length} shards of cuts and ${recordings.length} of recordings`, fix: "copy the folder again" });
  return cuts.map((name, i) => ({ cuts: join(folder, name), recording: join(folder, recordings[i] as string) }));
}

function recordingOf(bytes: Uint8Array | undefined, at: string): PyValue {
  try {
    return parsePython(Buffer.from(bytes ?? []).toString("utf8"));
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    throw new ManifestError("MANIFEST_SHAR_BAD", { at, message: `the recording is not JSON (${cause.message})`, fix: "copy or write the shard again", cause });
  }
}

/**
 * The utterances of a Shar folder; their audio is written to `audioFolder`, byte for byte.
 * @throws ManifestError MANIFEST_SHAR_BAD where cuts and members do not go together; FormatError of reading and writing
 */
export async function* readShar(folder: string, audioFolder: string, segments: Segments, losses: Losses): AsyncGenerator<Utterance> {
  for (const shard of shardsIn(folder)) {
    const members = readTar(shard.recording)[Symbol.asyncIterator]();
    try {
      for await (const { text, line, path } of readManifestLines([shard.cuts])) {
        const at = `${path}:${line}`;
        const cut = parsePython(text) as PyObject;
        const id = String(cut.get("id"));
        const data = await members.next();
        const meta = await members.next();
        if (data.done || meta.done)
          throw new ManifestError("MANIFEST_SHAR_BAD", { at: shard.recording, message: `ends before the cut ${id} of ${at}`, fix: "copy or write the shard again" });
        const { name, data: bytes } = data.value;
        const extension = extname(name);
        if (name.slice(0, name.length - extension.length) !== id.replace(/^\/+/, ""))
          throw new ManifestError("MANIFEST_SHAR_BAD", {
            at: `${shard.recording}:${name}`,
            message: `expected the audio of the cut ${id} of ${at}`,
            fix: "cuts and recordings must come in the same order",
          });
        if (extension === ".nodata" || bytes === undefined) {
          losses.drop("cuts without audio", at);
          continue;
        }
        const recording = recordingOf(meta.value.data, `${shard.recording}:${meta.value.name}`);
        if (recording instanceof Map) cut.set("recording", recording);
        const suffix = extension === ".original" ? "" : extension;
        const file = join(resolve(audioFolder), `${id.replace(/[/\\]/g, "_").replace(/^\.+/, "")}${suffix}`);
        writeFileAtomic(file, bytes, { durable: false });
        yield* utterancesOfCut(cut, at, segments, losses, [file]);
      }
      if (!(await members.next()).done)
        throw new ManifestError("MANIFEST_SHAR_BAD", { at: shard.recording, message: `holds more recordings than ${shard.cuts} has cuts`, fix: "copy or write the shard again" });
    } finally {
      await members.return?.(undefined);
    }
  }
}
