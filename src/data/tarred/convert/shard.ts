/** Makes one shard: its tar file, written beside and renamed, and its lines of the manifest. */
import { closeSync, openSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { setImmediate } from "node:timers/promises";
import { isMainThread } from "node:worker_threads";
import { fileError, makeFolder, removeQuietly, writeFully } from "../../../formats/atomic.ts";
import { dumpPython, type PyObject } from "../../../formats/pythonJson.ts";
import { hasEscapedBytes, toFsPath } from "../../../formats/surrogateEscape.ts";
import { type TarSummary, TarWriter } from "../../../formats/tar/write.ts";
import { ManifestError, SeracError } from "../../../util/errors.ts";
import { pathKey } from "./check.ts";
import { EntryReader, type PlanRows } from "./entries.ts";
import { distinctBase, flattenPath, numberInName, splitExtension, withoutSubMark } from "./names.ts";
import type { TarCodec } from "./options.ts";
import { tarCodecs } from "./options.ts";

/** How shards are made; the same for all of a dataset. */
export interface ShardSettings {
  sliceWithOffset: boolean;
  forceCodec: TarCodec | undefined;
  forceSamplingRate: number | undefined;
  onlyManifests: boolean;
  deterministicHeaders: boolean;
  /** Files that Node's threads encode at a time, where the shard is made in the main thread; a thread of ours encodes by itself. */
  encoders: number;
  /** The entries are those of an `onlyManifests` dataset: named already, with their sources in abs_audio_filepath and source_audio_offset. */
  named: boolean;
  /** Paths (`pathKey`) whose flattened name another one has. */
  distinct: readonly string[];
}

/** A shard to make. */
export interface ShardJob {
  shard: number;
  rows: PlanRows;
  settings: ShardSettings;
  /** Where the tar file belongs, and where it is written first (on the same disk). */
  tarPath: string;
  temporaryTar: string;
  /** Where its lines of the manifest belong, and where they are written first. */
  manifestPath: string;
  temporaryManifest: string;
}

/** A finished shard. */
export interface ShardResult {
  shard: number;
  /** Of the tar file; absent with `onlyManifests`. */
  tar: TarSummary | undefined;
  entries: number;
  /** Of its lines of the manifest. */
  manifestBytes: number;
  /** Members whose name was changed, so that it is no other's. */
  renamed: number;
  /** Utterances whose audio ends before offset + duration, with a sample of them. */
  short: number;
  shortExample: string;
}

/** An audio file to be put into the archive; what is encoded is under way already. */
interface Pending {
  name: string;
  at: string;
  audio: string;
  bytes: Promise<Uint8Array> | undefined;
}

/** The codec in which a part of a file is stored where none is asked for: by the file's own name. */
export function codecOfName(path: string): TarCodec {
  const extension = splitExtension(path)[1].slice(1).toLowerCase();
  return (tarCodecs as readonly string[]).includes(extension) ? (extension as TarCodec) : "wav";
}

const seconds = (value: unknown): number => (typeof value === "number" ? value : Number((value as { value?: unknown } | undefined)?.value));

class ShardMaker {
  private readonly job: ShardJob;
  private readonly distinct: ReadonlySet<string>;
  private readonly repeats = new Map<string, number>();
  private readonly names = new Set<string>();
  private readonly firstNames = new Map<string, string>();
  readonly lines: string[] = [];
  renamed = 0;
  short = 0;
  shortExample = "";

  constructor(job: ShardJob) {
    this.job = job;
    this.distinct = new Set(job.settings.distinct);
  }

  /** What an entry of a dataset without tar files asks for. @returns undefined for a repeated file */
  restore(values: PyObject, at: string): { name: string; audio: string; encode: EncodeStep | undefined } | undefined {
    const { sliceWithOffset: slice, forceCodec, forceSamplingRate } = this.job.settings;
    const name = values.get("audio_filepath") as string;
    const audio = values.get("abs_audio_filepath");
    const bad = (key: string) => new ManifestError("TARRED_BAD_ENTRY", { at, message: `no "${key}"`, fix: "make the manifests with: serac tar --only_manifests" });
    if (typeof audio !== "string") throw bad("abs_audio_filepath");
    const repeat = /^(.+)-sub\d+(\.[^.]+)?$/s.exec(name);
    this.lines.push(`${dumpPython(values)}\n`);
    if (this.names.has(name) || (repeat !== null && this.names.has(`${repeat[1]}${repeat[2] ?? ""}`))) return undefined;
    this.names.add(name);
    const transcodes = slice || (forceCodec !== undefined && !audio.endsWith(`.${forceCodec}`));
    if (!transcodes && forceSamplingRate === undefined) return { name, audio, encode: undefined };
    const step: EncodeStep = { codec: forceCodec ?? codecOfName(audio), always: transcodes, offset: undefined, duration: undefined, sampleRate: forceSamplingRate };
    if (slice) {
      step.offset = seconds(values.get("source_audio_offset"));
      step.duration = seconds(values.get("duration"));
      if (!(step.offset >= 0)) throw bad("source_audio_offset");
    }
    return { name, audio, encode: step };
  }

  /** Names the member of an entry, and writes the entry's line. @returns what to store; undefined for a repeated file */
  plan(values: PyObject, audio: string, at: string): { name: string; encode: EncodeStep | undefined } | undefined {
    const { settings, shard } = this.job;
    const { sliceWithOffset: slice, forceCodec, forceSamplingRate } = settings;
    const flat = flattenPath(audio);
    let base = withoutSubMark(flat.base);
    if (this.distinct.size > 0 && this.distinct.has(pathKey(audio))) base = distinctBase(base, audio);
    if (base !== flat.base && !this.firstNames.has(audio)) this.renamed++;
    const encoded = slice || forceSamplingRate !== undefined ? codecOfName(audio) : undefined;
    const codec = forceCodec ?? encoded;
    // What is neither cut nor resampled keeps its bytes, and its extension as it is written.
    const transcodes = slice || (forceCodec !== undefined && !audio.endsWith(`.${forceCodec}`));
    const extension = codec === undefined ? flat.extension : `.${codec}`;
    const repeat = this.repeats.get(audio) ?? 0;
    this.repeats.set(audio, repeat + 1);

    let name: string;
    let store = true;
    if (slice) {
      const part = `${base}_${numberInName(values.get("offset") ?? null)}_${numberInName(values.get("duration") ?? null)}`;
      name = part + extension;
      for (let k = 1; this.names.has(name); k++) name = `${part}_dup${k}${extension}`;
      if (name !== part + extension) this.renamed++;
      values.set("source_audio_offset", values.get("offset") ?? null);
      values.delete("offset");
    } else if (repeat === 0) {
      name = base + extension;
    } else {
      name = `${base}-sub${repeat}${extension}`;
      store = false;
    }
    this.names.add(name);
    this.firstNames.set(audio, name);
    if (settings.onlyManifests) values.set("abs_audio_filepath", audio.startsWith("/") ? audio : `${process.cwd()}/${audio}`);
    values.set("audio_filepath", name);
    values.set("shard_id", shard);
    this.lines.push(`${dumpPython(values)}\n`);
    if (!store || settings.onlyManifests) return undefined;
    if (!transcodes && forceSamplingRate === undefined) return { name, encode: undefined };
    const step: EncodeStep = { codec: codec as TarCodec, always: transcodes, offset: undefined, duration: undefined, sampleRate: forceSamplingRate };
    if (slice) {
      step.offset = seconds(values.get("source_audio_offset"));
      step.duration = seconds(values.get("duration"));
      if (!(step.duration > 0))
        throw new ManifestError("TARRED_BAD_ENTRY", { at, message: `a part of ${step.duration} s cannot be cut`, fix: "correct the duration, or use --min_duration" });
    }
    return { name, encode: step };
  }

  /** Encodes audio. @returns the bytes; undefined where the file is to be stored as it is */
  async encode(audio: string, at: string, step: EncodeStep): Promise<Uint8Array | undefined> {
    const { transcodeAudio, transcodeAudioSync } = await import("../../../audio/transcode.ts");
    if (!step.always) {
      const { audioInfo } = await import("../../../audio/decode.ts");
      const { readFile } = await import("node:fs/promises");
      const source = hasEscapedBytes(audio) ? await readFile(toFsPath(audio)) : audio;
      if ((await audioInfo(source, audio)).sampleRate === step.sampleRate) return undefined;
    }
    const { offset, duration, sampleRate, codec } = step;
    const options = { offset, duration, sampleRate, codec };
    const result = isMainThread ? await transcodeAudio(audio, options, audio) : transcodeAudioSync(audio, options, audio);
    const got = result.frames / result.sampleRate;
    // Half a frame of the shortest codec's padding, well above what truncating to samples loses.
    if (duration !== undefined && got < duration - 0.02) {
      this.short++;
      this.shortExample ||= `${at}: ${got.toFixed(3)} of ${duration} s`;
    }
    return result.bytes;
  }
}

interface EncodeStep {
  codec: TarCodec;
  /** False where audio that has the rate already is stored as it is. */
  always: boolean;
  offset: number | undefined;
  duration: number | undefined;
  sampleRate: number | undefined;
}

/** Puts the entry's place before an error of its audio. */
function withPlace(error: unknown, at: string): unknown {
  if (!(error instanceof SeracError) || error.code.startsWith("TARRED_")) return error;
  return new ManifestError("TARRED_AUDIO", {
    at,
    message: error.message.replace(/\.$/, ""),
    fix: "mend or leave out this line; serac manifest check finds all such",
    cause: error,
  });
}

/**
 * Makes a shard. What it leaves on errors is removed.
 * @param onEntries told how many entries more were done
 * @throws ManifestError TARRED_AUDIO, TARRED_BAD_ENTRY; FormatError FILE_UNWRITABLE, FILE_UNREADABLE, FILE_MISSING, FILE_CHANGED
 */
export async function makeShard(job: ShardJob, onEntries: (count: number) => void = () => {}): Promise<ShardResult> {
  const { settings } = job;
  const reader = new EntryReader(job.rows);
  const maker = new ShardMaker(job);
  let fd: number | undefined;
  let tar: TarSummary | undefined;
  let pending: Pending[] = [];
  const ahead = isMainThread ? settings.encoders : 0;
  try {
    let writer: TarWriter | undefined;
    if (!settings.onlyManifests) {
      try {
        fd = openSync(job.temporaryTar, "w");
      } catch (error) {
        throw fileError(job.tarPath, "write", error);
      }
      writer = new TarWriter(fd, { deterministicHeaders: settings.deterministicHeaders });
    }
    const put = async ({ name, at, audio, bytes }: Pending): Promise<void> => {
      let data: Uint8Array | undefined;
      try {
        data = await bytes;
        if (data === undefined) writer?.addFile(audio, name);
      } catch (error) {
        throw withPlace(error, at);
      }
      if (data !== undefined) writer?.addBytes(name, data);
    };
    let reported = 0;
    for (let i = 0; i < reader.count; i++) {
      const { values, audio: given, at } = reader.read(i, { resolve: !settings.named });
      const member: { name: string; audio?: string; encode: EncodeStep | undefined } | undefined = settings.named ? maker.restore(values, at) : maker.plan(values, given, at);
      if (member !== undefined) {
        const audio = member.audio ?? given;
        if (member.encode === undefined && pending.length === 0) {
          try {
            writer?.addFile(audio, member.name);
          } catch (error) {
            throw withPlace(error, at);
          }
        } else {
          const bytes = member.encode && (maker.encode(audio, at, member.encode) as Promise<Uint8Array>);
          bytes?.catch(() => {}); // awaited below, in order
          pending.push({ name: member.name, at, audio, bytes });
          if (pending.length > ahead) await put(pending.shift() as Pending);
        }
      }
      if (i - reported >= 63) {
        onEntries(i + 1 - reported);
        reported = i + 1;
        await setImmediate(); // messages and interrupts are heard
      }
    }
    while (pending.length > 0) await put(pending.shift() as Pending);
    tar = writer?.finish();
    const manifest = Buffer.from(maker.lines.join(""), "utf8");
    try {
      if (fd !== undefined) closeSync(fd);
      fd = undefined;
      writeManifest(job, manifest);
      if (tar) {
        const { size } = statSync(job.temporaryTar);
        if (size !== tar.bytes) throw new Error(`${size} of ${tar.bytes} bytes are on the disk`);
        renameSync(job.temporaryTar, job.tarPath);
      }
      renameSync(job.temporaryManifest, job.manifestPath);
    } catch (error) {
      throw fileError(job.tarPath, "write", error);
    }
    onEntries(reader.count - reported);
    return { shard: job.shard, tar, entries: reader.count, manifestBytes: manifest.length, renamed: maker.renamed, short: maker.short, shortExample: maker.shortExample };
  } catch (error) {
    await Promise.allSettled(pending.map(({ bytes }) => bytes));
    pending = [];
    removeQuietly(job.temporaryTar);
    removeQuietly(job.temporaryManifest);
    throw error instanceof SeracError ? error : fileError(job.tarPath, "write", error);
  } finally {
    reader.close();
    if (fd !== undefined) closeSync(fd);
  }
}

function writeManifest({ manifestPath, temporaryManifest }: ShardJob, bytes: Buffer): void {
  makeFolder(dirname(manifestPath));
  const fd = openSync(temporaryManifest, "w");
  try {
    writeFully(fd, bytes);
  } finally {
    closeSync(fd);
  }
}
