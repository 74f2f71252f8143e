/**
 * Writes cuts of any source as lhotse's Shar: cuts.000000.jsonl.gz beside recording.000000.tar, and features.000000.tar where asked for.
 * What a cut plays is stored: speed, channel and stretch are applied. A shard's files are put at their places together.
 * Source: lhotse, shar/writers.
 */
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeAudio } from "../../audio/index.ts";
import { fileError, makeFolder, removeQuietly, temporaryPath } from "../../formats/atomic.ts";
import { compressLilcom } from "../../formats/lilcom.ts";
import { serializeNpy } from "../../formats/npy.ts";
import { dumpPython, type PyObject, type PyValue, parsePython, pyFloat } from "../../formats/pythonJson.ts";
import { TarWriter } from "../../formats/tar/write.ts";
import { serializeWav } from "../../formats/wav.ts";
import { ManifestError } from "../../util/errors.ts";
import { readCutAudio } from "../audioSource.ts";
import { ManifestWriter } from "../manifest/writer.ts";
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

type Field = "recording" | "features";
const shardName = (field: string, shard: number, suffix: string): string => `${field}.${String(shard).padStart(6, "0")}.${suffix}`;
const map = (entries: readonly (readonly [string, PyValue | undefined])[]): PyObject => new Map(entries.filter((entry): entry is [string, PyValue] => entry[1] !== undefined));
const value = (plain: unknown): PyValue => parsePython(JSON.stringify(plain ?? null));

/** The files of one shard. */
class Shard {
  readonly cuts: ManifestWriter;
  count = 0;
  private readonly tars = new Map<Field, { writer: TarWriter; fd: number; path: string; temporary: string }>();

  constructor(folder: string, number: number, fields: readonly Field[]) {
    this.cuts = new ManifestWriter(join(folder, shardName("cuts", number, "jsonl.gz")));
    for (const field of fields) {
      const path = join(folder, shardName(field, number, "tar"));
      const temporary = temporaryPath(path);
      try {
        const fd = openSync(temporary, "w");
        this.tars.set(field, { fd, path, temporary, writer: new TarWriter(fd, { deterministicHeaders: true }) });
      } catch (error) {
        throw fileError(path, "write", error);
      }
    }
  }

  /** A pair of members, or the pair of empty ones that stands for nothing. */
  add(field: Field, id: string, stored: { extension: string; bytes: Uint8Array; manifest: PyObject } | undefined): void {
    const { writer, path } = this.tars.get(field) as NonNullable<ReturnType<typeof this.tars.get>>;
    try {
      writer.addBytes(`${id}.${stored?.extension ?? "nodata"}`, stored?.bytes ?? new Uint8Array(0));
      writer.addBytes(stored ? `${id}.json` : `${id}.nometa`, stored ? Buffer.from(`${dumpPython(stored.manifest)}\n`) : new Uint8Array(0));
    } catch (error) {
      throw fileError(path, "write", error);
    }
  }

  async close(): Promise<void> {
    for (const { writer, fd, path, temporary } of this.tars.values()) {
      try {
        writer.finish();
        closeSync(fd);
        renameSync(temporary, path);
      } catch (error) {
        throw fileError(path, "write", error);
      }
    }
    await this.cuts.close(); // last: a shard is there when its cuts are
  }

  abandon(): void {
    this.cuts.abandon();
    for (const { fd, temporary } of this.tars.values()) {
      try {
        closeSync(fd);
      } catch {
        // It was closed, or what led here matters more.
      }
      removeQuietly(temporary);
    }
  }
}

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

async function audioOf(cut: SourceCut, format: NonNullable<WriteSharOptions["recording"]>, scratch: string): Promise<{ bytes: Uint8Array; samples: number; sampleRate: number }> {
  const first = (cut.tracks?.[0] as SourceCut | undefined) ?? cut;
  const sampleRate = first.sampleRate ?? (await readCutAudio(first)).sampleRate;
  const samples = await sourceSamples(cut, sampleRate);
  const audio = { sampleRate, channels: [samples] };
  if (format === "wav") return { bytes: serializeWav(audio), samples: samples.length, sampleRate };
  const path = join(scratch, `a.${format}`);
  await writeAudio(path, audio);
  return { bytes: readFileSync(path), samples: samples.length, sampleRate };
}

async function featuresOf(cut: SourceCut, format: NonNullable<WriteSharOptions["features"]>): Promise<{ extension: string; bytes: Uint8Array; manifest: PyObject } | undefined> {
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
export async function writeSharFolder(folder: string, cuts: AsyncIterable<SourceCut> | Iterable<SourceCut>, options: WriteSharOptions = {}): Promise<number> {
  const { recording = "flac", features, shardSize = 1000, onProgress } = options;
  try {
    makeFolder(folder);
  } catch (error) {
    throw fileError(folder, "write", error);
  }
  if (readdirSync(folder).some((name) => /^cuts\.\d{6}\.jsonl/.test(name)))
    throw new ManifestError("MANIFEST_OUTPUT_EXISTS", { at: folder, message: "the folder holds shards, among which new ones would mix", fix: "name a new folder, or remove it" });
  const fields: Field[] = ["recording", ...(features ? (["features"] as const) : [])];
  const scratch = mkdtempSync(join(tmpdir(), "serac-shar-"));
  const ids = new Set<string>();
  let shard: Shard | undefined;
  let number = 0;
  let count = 0;
  try {
    for await (const cut of cuts) {
      const id = cut.id.replace(/[/\\\s]/g, "_").replace(/^\.+/, "");
      if (ids.has(id))
        throw new ManifestError("CUT_BAD", { at: cut.origin, message: `the id ${id} comes twice, and members are found by it`, fix: "give each cut an id of its own" });
      ids.add(id);
      shard ??= new Shard(folder, number, fields);
      const audio = await audioOf(cut, recording, scratch);
      const stored = features && (await featuresOf(cut, features));
      const manifest = recordingOf(id, audio.samples, audio.sampleRate);
      shard.add("recording", id, { extension: recording, bytes: audio.bytes, manifest });
      if (features) shard.add("features", id, stored || undefined);
      const seconds = audio.samples / audio.sampleRate;
      if (stored && numFrames(seconds, 0.01, audio.sampleRate) !== numFrames(cut.duration, 0.01, audio.sampleRate))
        throw new ManifestError("CUT_BAD", { at: cut.origin, message: `the audio has ${seconds} s, the cut says ${cut.duration} s`, fix: "mend the manifest" });
      await shard.cuts.writeText(
        dumpPython(
          map([
            ["id", id],
            ["start", 0],
            ["duration", pyFloat(seconds)],
            ["channel", 0],
            ["supervisions", cut.supervisions.map((one) => supervisionOf(within(one, seconds), id))],
            ["features", stored ? stored.manifest : undefined],
            ["recording", manifest],
            ["custom", Object.keys(cut.custom).length > 0 ? value(cut.custom) : undefined],
            ["type", "MonoCut"],
          ]),
        ),
      );
      count++;
      onProgress?.(count);
      if (++shard.count < shardSize) continue;
      await shard.close();
      shard = undefined;
      number++;
    }
    await shard?.close();
    return count;
  } catch (error) {
    shard?.abandon();
    throw error;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
