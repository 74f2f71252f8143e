/**
 * Which lines of which manifests go into a dataset: 26 bytes a line, whatever the line holds, so that many millions fit into memory.
 * The lines themselves are read again, at their offsets, by those who write the shards.
 */
import { isAscii } from "node:buffer";
import { createHash } from "node:crypto";
import { closeSync, existsSync, openSync, readSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { fileError } from "../../../formats/atomic.ts";
import { readBytes } from "../../../formats/byteSource.ts";
import { columnOf } from "../../../formats/jsonSyntax.ts";
import { JsonSyntaxError, mayBeTooDeep, parsePython, plainValue } from "../../../formats/pythonJson.ts";
import { toFsPath } from "../../../formats/surrogateEscape.ts";
import { FormatError, ManifestError } from "../../../util/errors.ts";

/** A manifest that was read. */
export interface PlannedManifest {
  /** As it was given: relative audio is looked for beside it. */
  path: string;
  /** Where its lines can be read at their offsets: another file where the manifest is compressed or standard input. */
  readPath: string;
  /** Of the uncompressed text. */
  bytes: number;
  /** Of the uncompressed text; "" where it was not asked for. */
  sha256: string;
}

/** Lines that passed the filters, in the order of the manifests. Row i of each array belongs to line i. */
export interface ConversionPlan {
  manifests: PlannedManifest[];
  count: number;
  /** Seconds. */
  durations: Float64Array;
  /** Where the line begins in its manifest, in bytes. */
  offsets: Float64Array;
  /** Bytes of the line without its line feed. */
  lengths: Uint32Array;
  /** Line numbers from 1. */
  lines: Uint32Array;
  /** Which manifest. */
  sources: Uint16Array;
  /** With `groups`: which audio file, numbered in the order in which they came; or the shard_id. */
  groups: Uint32Array | undefined;
  keptSeconds: number;
  filteredCount: number;
  filteredSeconds: number;
}

/** What to keep. */
export interface PlanOptions {
  /** Kept from this on, in seconds. */
  minDuration?: number | undefined;
  /** Kept below this, in seconds. */
  maxDuration?: number | undefined;
  /** Every line must have an offset. */
  needOffset?: boolean;
  /** Number the audio files, or take the numbers of shards. */
  groups?: "file" | "shard" | undefined;
  /** Where uncompressed copies of manifests go that cannot be read at an offset; undefined where no line will be read again. */
  spool?: ((index: number) => Spool) | undefined;
  /** False where nobody asks for the manifests' SHA-256. */
  digests?: boolean;
  /** Told how many lines were read. */
  onLines?: (count: number) => void;
  signal?: AbortSignal | undefined;
}

/** A file that is written as it comes. */
export interface Spool {
  path: string;
  write(bytes: Uint8Array): void;
  close(): void;
}

const audioKeys = ["audio_filepath", "audio_file", "audio_filename"] as const;

/** The keys of a line that name its audio; the first that is there counts. Aliases are copied to audio_filepath. */
export function audioKeyOf(has: (key: string) => boolean): (typeof audioKeys)[number] | undefined {
  return audioKeys.find(has);
}

const isFile = (path: string): boolean => statSync(toFsPath(path), { throwIfNoEntry: false })?.isFile() ?? false;

/**
 * Where an entry's audio lies, as NeMo's converter looks for it: as given (from the working directory), else beside the manifest.
 * (Readers of manifests look the other way round; members of tar files are named by this path, so it must be the converter's.)
 * @returns undefined where a relative path is in neither place
 */
export function resolveForTar(audio: string, manifest: string): string | undefined {
  if (audio.startsWith("/") || isFile(audio)) return audio;
  const folder = dirname(manifest);
  const beside = folder === "." && !manifest.startsWith("./") ? audio : folder.endsWith("/") ? folder + audio : `${folder}/${audio}`;
  return isFile(beside) ? beside : undefined;
}

/** Typed arrays that grow. */
class Rows {
  count = 0;
  durations = new Float64Array(1024);
  offsets = new Float64Array(1024);
  lengths = new Uint32Array(1024);
  lines = new Uint32Array(1024);
  sources = new Uint16Array(1024);
  groups: Uint32Array | undefined;

  constructor(groups: boolean) {
    if (groups) this.groups = new Uint32Array(1024);
  }

  push(duration: number, offset: number, length: number, line: number, source: number, group: number): void {
    const i = this.count++;
    if (i === this.durations.length) this.resize(Math.ceil(i * 1.5));
    this.durations[i] = duration;
    this.offsets[i] = offset;
    this.lengths[i] = length;
    this.lines[i] = line;
    this.sources[i] = source;
    if (this.groups) this.groups[i] = group;
  }

  resize(size: number): void {
    const copy = <A extends Float64Array | Uint32Array | Uint16Array>(old: A, fresh: A): A => {
      fresh.set(old.subarray(0, Math.min(old.length, fresh.length)));
      return fresh;
    };
    this.durations = copy(this.durations, new Float64Array(size));
    this.offsets = copy(this.offsets, new Float64Array(size));
    this.lengths = copy(this.lengths, new Uint32Array(size));
    this.lines = copy(this.lines, new Uint32Array(size));
    this.sources = copy(this.sources, new Uint16Array(size));
    if (this.groups) this.groups = copy(this.groups, new Uint32Array(size));
  }
}

/** @throws FormatError JSONL_BAD_LINE; ManifestError MANIFEST_NOT_AN_OBJECT */
function parseLine(text: string, place: () => string): Record<string, unknown> {
  let value: unknown;
  let parsed = true;
  try {
    value = JSON.parse(text);
    parsed = !mayBeTooDeep(text);
  } catch {
    parsed = false;
  }
  if (!parsed) {
    try {
      value = plainValue(parsePython(text)); // Python takes NaN and Infinity
    } catch (cause) {
      if (!(cause instanceof JsonSyntaxError)) throw cause;
      const column = columnOf(text, cause.index);
      throw new FormatError("JSONL_BAD_LINE", { at: `${place()}:${column}`, message: cause.message, fix: "mend the line, or find all such lines: serac manifest check", cause });
    }
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ManifestError("MANIFEST_NOT_AN_OBJECT", {
      at: place(),
      message: "expected a JSON object per line",
      fix: 'write {"audio_filepath": ..., "duration": ..., "text": ...}',
    });
  return value as Record<string, unknown>;
}

/**
 * Reads manifests and keeps what passes.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE, GZIP_BAD, JSONL_BAD_LINE; ManifestError MANIFEST_NOT_AN_OBJECT, TARRED_BAD_ENTRY, TARRED_AUDIO, all with file:line
 */
export async function planConversion(paths: readonly string[], options: PlanOptions = {}): Promise<ConversionPlan> {
  const { minDuration, maxDuration, needOffset = false, digests = true } = options;
  const rows = new Rows(options.groups !== undefined);
  const manifests: PlannedManifest[] = [];
  const files = new Map<string, number>();
  const totals = { keptSeconds: 0, filteredCount: 0, filteredSeconds: 0 };

  // The line that is read: what errors call it is made when there is one.
  let name = "";
  let line = 0;
  const place = (): string => `${name}:${line}`;
  const bad = (message: string, fix: string) => new ManifestError("TARRED_BAD_ENTRY", { at: place(), message, fix });

  const take = (text: string, source: number, offset: number, length: number): void => {
    const entry = parseLine(text, place);
    const key = entry["audio_filepath"] !== undefined ? "audio_filepath" : audioKeyOf((name) => entry[name] !== undefined);
    if (key === undefined) throw bad('no "audio_filepath"', "give the path of the audio, absolute or relative to the manifest");
    const audio = entry[key];
    if (typeof audio !== "string" || audio === "")
      throw bad(`"${key}" is ${JSON.stringify(audio)?.slice(0, 60)}, expected one path`, "name one audio file; audio of several files cannot be tarred");
    const { duration } = entry;
    if (typeof duration !== "number" || Number.isNaN(duration))
      throw bad(duration === undefined ? 'no "duration"' : `"duration" is ${JSON.stringify(duration)}, expected seconds`, "add the length in seconds as a number");
    if (needOffset && !(typeof entry["offset"] === "number" && entry["offset"] >= 0))
      throw bad(
        entry["offset"] === undefined ? 'no "offset", which --slice_with_offset needs' : `"offset" is ${JSON.stringify(entry["offset"])}, expected seconds from 0`,
        "add the offset in seconds, or leave --slice_with_offset out",
      );
    if ((maxDuration !== undefined && duration >= maxDuration) || (minDuration !== undefined && duration < minDuration)) {
      totals.filteredCount++;
      totals.filteredSeconds += duration;
      return;
    }
    let group = 0;
    if (options.groups === "shard") {
      const id = entry["shard_id"];
      if (!Number.isSafeInteger(id) || (id as number) < 0 || (id as number) >= 2 ** 32)
        throw bad(id === undefined ? 'no "shard_id"' : `"shard_id" is ${JSON.stringify(id)}, expected a whole number`, "give the manifest of a tarred dataset");
      group = id as number;
    } else if (rows.groups) {
      const path = resolveForTar(audio, manifests[source]?.path as string) ?? audio;
      group = files.get(path) ?? files.size;
      if (group === files.size) files.set(path, group);
    }
    rows.push(duration, offset, length, line, source, group);
    totals.keptSeconds += duration;
  };

  for (const [source, path] of paths.entries()) {
    name = path === "-" ? "stdin" : path;
    line = 0;
    const manifest: PlannedManifest = { path, readPath: path, bytes: 0, sha256: "" };
    manifests.push(manifest);
    const hash = digests ? createHash("sha256") : undefined;
    let spool: Spool | undefined;
    if (options.spool && (path === "-" || isPacked(path))) {
      spool = options.spool(source);
      manifest.readPath = spool.path;
    }
    let at = 0; // of the block's first byte in the manifest
    let rest: Buffer = Buffer.alloc(0);
    const lines = (block: Buffer): void => {
      const ascii = isAscii(block);
      const text = ascii ? block.toString("latin1") : "";
      let start = 0;
      let from = 0; // of the line in the text
      while (start < block.length) {
        let end = ascii ? text.indexOf("\n", from) : block.indexOf(0x0a, start);
        if (end < 0) end = block.length;
        line++;
        const one = ascii ? text.slice(from, end) : block.toString("utf8", start, end);
        // Nearly every line begins with a brace: what does not may be blank, or follow a byte order mark.
        if (one.charCodeAt(0) === 0x7b || one.trim() !== "") {
          const bare = one.charCodeAt(0) === 0xfeff ? one.slice(1) : one;
          if (!ascii && bare.includes("\ufffd") && !isUtf8Line(block.subarray(start, end)))
            throw new FormatError("JSONL_BAD_LINE", {
              at: `${place()}:${bare.indexOf("\ufffd") + 1}`,
              message: "not UTF-8",
              fix: "convert the file, for example: iconv -f LATIN1 -t UTF-8",
            });
          take(bare, source, at + start, end - start);
        }
        start = end + 1;
        from = start;
      }
      options.onLines?.(line);
    };
    try {
      for await (const chunk of readBytes(path)) {
        options.signal?.throwIfAborted();
        hash?.update(chunk);
        spool?.write(chunk);
        manifest.bytes += chunk.length;
        const data: Buffer = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
        const end = data.lastIndexOf(0x0a) + 1;
        if (end > 0) {
          lines(data.subarray(0, end));
          at += end;
        }
        rest = data.subarray(end);
      }
      if (rest.length > 0) lines(rest);
    } finally {
      spool?.close();
    }
    if (hash) manifest.sha256 = hash.digest("hex");
  }
  rows.resize(rows.count);
  return {
    manifests,
    ...totals,
    count: rows.count,
    durations: rows.durations,
    offsets: rows.offsets,
    lengths: rows.lengths,
    lines: rows.lines,
    sources: rows.sources,
    groups: rows.groups,
  };
}

function isUtf8Line(bytes: Buffer): boolean {
  return Buffer.from(bytes.toString("utf8"), "utf8").equals(bytes);
}

/** @throws FormatError FILE_UNREADABLE */
function isPacked(path: string): boolean {
  if (!existsSync(toFsPath(path))) return false; // reading it says so
  const begin = Buffer.alloc(2);
  try {
    const fd = openSync(toFsPath(path), "r");
    try {
      return readSync(fd, begin, 0, 2, 0) === 2 && begin[0] === 0x1f && begin[1] === 0x8b;
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw fileError(path, "read", error);
  }
}

/** Leaves out rows. @param drop sorted row numbers */
export function dropRows(plan: ConversionPlan, drop: readonly number[]): ConversionPlan {
  if (drop.length === 0) return plan;
  const bad = new Set(drop);
  const keep = Uint32Array.from({ length: plan.count }, (_, i) => i).filter((i) => !bad.has(i));
  const pick = <A extends Float64Array | Uint32Array | Uint16Array>(old: A, fresh: A): A => {
    for (let i = 0; i < keep.length; i++) fresh[i] = old[keep[i] as number] as number;
    return fresh;
  };
  const n = keep.length;
  const durations = pick(plan.durations, new Float64Array(n));
  return {
    ...plan,
    count: n,
    durations,
    offsets: pick(plan.offsets, new Float64Array(n)),
    lengths: pick(plan.lengths, new Uint32Array(n)),
    lines: pick(plan.lines, new Uint32Array(n)),
    sources: pick(plan.sources, new Uint16Array(n)),
    groups: plan.groups && pick(plan.groups, new Uint32Array(n)),
    keptSeconds: durations.reduce((sum, one) => sum + one, 0),
  };
}
