/**
 * Writes cuts of any source as lhotse's Shar: with recordings, and with features where asked for. What a cut plays is stored: speed, channel, stretch, and
 * whatever it is mixed of. Source: lhotse, shar/writers.
 */
import { encodeAudio } from "../../audio/index.ts";
import { compressLilcom } from "../../formats/lilcom.ts";
import { serializeNpy } from "../../formats/npy.ts";
import { type PyObject, type PyValue, parsePython, pyFloat } from "../../formats/pythonJson.ts";
import { ManifestError } from "../../util/errors.ts";
import { readCutAudio } from "../audioSource.ts";
import { memberName, type SharItem, type SharMember, writeShards } from "../sharWriter.ts";
import type { SourceCut, Supervision } from "./cut.ts";
import { readFeatures } from "./features.ts";
import { sourceSamples } from "./render.ts";
import { numFrames } from "./times.ts";

/** What to write. */
export interface WriteSharOptions {
  /** The audio's encoding; flac by default. */
  recording?: "wav" | "flac" | "mp3" | "opus" | undefined;
  /** The encoding of stored features; undefined writes none. Cuts without features get an empty member, as lhotse writes it. */
  features?: "lilcom" | "numpy" | undefined;
  /** Cuts of a shard. lhotse's is 1000. */
  shardSize?: number;
  onProgress?: ((cuts: number) => void) | undefined;
}

const map = (entries: readonly (readonly [string, PyValue | undefined])[]): PyObject => new Map(entries.filter((entry): entry is [string, PyValue] => entry[1] !== undefined));
const value = (plain: unknown): PyValue => parsePython(JSON.stringify(plain ?? null));

/** Supervisions that end a rounding behind the end of what is stored end with it; others stay as they are, as in lhotse. */
function within(one: Supervision, seconds: number): Supervision {
  const over = one.start + one.duration - seconds;
  return over > 0 && over < 2e-3 ? { ...one, duration: one.duration - over } : one;
}

function supervisionOf({ id, start, duration, text, language, speaker, custom, alignment }: Supervision, recordingId: string): PyObject {
  return map([
    ["id", id],
    ["recording_id", recordingId],
    ["start", pyFloat(start)],
    ["duration", pyFloat(duration)],
    ["channel", 0],
    ["text", text],
    ["language", language],
    ["speaker", speaker],
    ["custom", Object.keys(custom).length > 0 ? value(custom) : undefined],
    ["alignment", alignment && value(alignment)],
  ]);
}

function recordingOf(id: string, samples: number, sampleRate: number): PyObject {
  const placeholder = map([
    ["type", "shar"],
    ["channels", [0]],
    ["source", ""],
  ]);
  return map([
    ["id", id],
    ["sources", [placeholder]],
    ["sampling_rate", sampleRate],
    ["num_samples", samples],
    ["duration", pyFloat(samples / sampleRate)],
    ["channel_ids", [0]],
  ]);
}

async function audioOf(cut: SourceCut, format: NonNullable<WriteSharOptions["recording"]>): Promise<{ bytes: Uint8Array; samples: number; sampleRate: number }> {
  const first = (cut.tracks?.[0] as SourceCut | undefined) ?? cut;
  const sampleRate = first.sampleRate ?? (await readCutAudio(first)).sampleRate;
  const samples = await sourceSamples(cut, sampleRate);
  const audio = { sampleRate, channels: [samples] };
  return { bytes: await encodeAudio(audio, format), samples: samples.length, sampleRate };
}

async function featuresOf(cut: SourceCut, format: NonNullable<WriteSharOptions["features"]>): Promise<SharMember | undefined> {
  if (!cut.features) return undefined;
  const { frames, bins, data } = await readFeatures(cut.features);
  const array = { shape: [frames, bins], data };
  const { type, frameShift, samplingRate } = cut.features.manifest;
  const manifest = map([
    ["type", type],
    ["num_frames", frames],
    ["num_features", bins],
    ["frame_shift", frameShift],
    ["sampling_rate", samplingRate],
    ["start", 0],
    ["duration", pyFloat(cut.duration)],
    ["storage_type", "shar"],
    ["storage_path", ""],
    ["storage_key", ""],
    ["channels", 0],
  ]);
  return format === "numpy" ? { extension: "npy", bytes: serializeNpy(array), manifest } : { extension: "llc", bytes: compressLilcom(array), manifest };
}

/**
 * Writes a Shar folder. Ids lose slashes, blanks and leading points, because they are names of members.
 * @returns how many cuts were written
 * @throws ManifestError MANIFEST_OUTPUT_EXISTS where the folder has shards, CUT_BAD for an id that comes twice; AudioError, FormatError
 */
export function writeSharFolder(folder: string, cuts: AsyncIterable<SourceCut> | Iterable<SourceCut>, options: WriteSharOptions = {}): Promise<number> {
  const { recording = "flac", features, shardSize = 1000, onProgress } = options;
  const ids = new Set<string>();
  const items = async function* (): AsyncGenerator<SharItem> {
    for await (const cut of cuts) {
      const id = memberName(cut.id);
      if (ids.has(id))
        throw new ManifestError("CUT_BAD", { at: cut.origin, message: `the id ${id} comes twice, and members are found by it`, fix: "give each cut an id of its own" });
      ids.add(id);
      yield itemOf(cut, id, { recording, features });
    }
  };
  return writeShards(folder, items(), { fields: ["recording", ...(features ? ["features"] : [])], shardSize, onProgress });
}

async function itemOf(
  cut: SourceCut,
  id: string,
  { recording, features }: { recording: NonNullable<WriteSharOptions["recording"]>; features: WriteSharOptions["features"] },
): Promise<SharItem> {
  const audio = await audioOf(cut, recording);
  const stored = features && (await featuresOf(cut, features));
  const manifest = recordingOf(id, audio.samples, audio.sampleRate);
  const seconds = audio.samples / audio.sampleRate;
  if (stored && numFrames(seconds, 0.01, audio.sampleRate) !== numFrames(cut.duration, 0.01, audio.sampleRate))
    throw new ManifestError("CUT_BAD", { at: cut.origin, message: `the audio has ${seconds} s, the cut says ${cut.duration} s`, fix: "mend the manifest" });
  const line = map([
    ["id", id],
    ["start", 0],
    ["duration", pyFloat(seconds)],
    ["channel", 0],
    ["supervisions", cut.supervisions.map((one) => supervisionOf(within(one, seconds), id))],
    ["features", stored ? stored.manifest : undefined],
    ["recording", manifest],
    ["custom", Object.keys(cut.custom).length > 0 ? value(cut.custom) : undefined],
    ["type", "MonoCut"],
  ]);
  return { id, cut: line, members: { recording: { extension: recording, bytes: audio.bytes, manifest }, features: stored || undefined } };
}
