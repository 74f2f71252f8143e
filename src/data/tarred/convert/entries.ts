/** Entries of a plan, read again at their offsets: by their keys in order, with numbers as they were spelled. */
import { closeSync, openSync, readSync } from "node:fs";
import { fileError } from "../../../formats/atomic.ts";
import { type PyObject, parsePython } from "../../../formats/pythonJson.ts";
import { toFsPath } from "../../../formats/surrogateEscape.ts";
import { internal, ManifestError } from "../../../util/errors.ts";
import { audioKeyOf, type ConversionPlan, type PlannedManifest, resolveForTar } from "./plan.ts";

/** Rows of a plan, as they are sent to a thread. */
export interface PlanRows {
  manifests: PlannedManifest[];
  offsets: Float64Array;
  lengths: Uint32Array;
  lines: Uint32Array;
  sources: Uint16Array;
}

/** @returns copies of the named rows, in their order */
export function selectRows(plan: ConversionPlan, rows: Uint32Array): PlanRows {
  const n = rows.length;
  const result: PlanRows = { manifests: plan.manifests, offsets: new Float64Array(n), lengths: new Uint32Array(n), lines: new Uint32Array(n), sources: new Uint16Array(n) };
  for (let i = 0; i < n; i++) {
    const row = rows[i] as number;
    result.offsets[i] = plan.offsets[row] as number;
    result.lengths[i] = plan.lengths[row] as number;
    result.lines[i] = plan.lines[row] as number;
    result.sources[i] = plan.sources[row] as number;
  }
  return result;
}

/** One line of a manifest. */
export interface Entry {
  values: PyObject;
  /** `manifest:line`. */
  at: string;
  /** Its audio, as NeMo's converter finds it. */
  audio: string;
  /** The audio is where `audio` says; always true for absolute paths, which are not looked up here. */
  found: boolean;
}

/** Reads entries one by one; lines that follow each other are read in one go. */
export class EntryReader {
  private readonly rows: PlanRows;
  private readonly fds: (number | undefined)[] = [];
  private window = Buffer.allocUnsafe(1 << 16);
  private windowSource = -1;
  private windowStart = 0;
  private windowEnd = 0;

  constructor(rows: PlanRows) {
    this.rows = rows;
  }

  get count(): number {
    return this.rows.offsets.length;
  }

  /**
   * @param resolve false leaves the path as the manifest writes it
   * @throws FormatError FILE_MISSING, FILE_UNREADABLE; ManifestError TARRED_BAD_ENTRY where the manifest is not what it was
   */
  read(i: number, { resolve = true }: { resolve?: boolean } = {}): Entry {
    const { manifests, lines, sources } = this.rows;
    const source = sources[i] as number;
    const { path } = manifests[source] as PlannedManifest;
    const at = `${path === "-" ? "stdin" : path}:${lines[i]}`;
    let values: unknown;
    try {
      values = parsePython(this.text(i));
    } catch (cause) {
      throw new ManifestError("TARRED_BAD_ENTRY", { at, message: "the manifest has changed since it was planned", fix: "start again", cause });
    }
    if (!(values instanceof Map)) internal(`${at} was planned, but is no object`);
    const object = values as PyObject;
    const key = audioKeyOf((name) => object.has(name));
    const given = key === undefined ? undefined : object.get(key);
    if (typeof given !== "string" || key === undefined)
      throw new ManifestError("TARRED_BAD_ENTRY", { at, message: "the manifest has changed since it was planned", fix: "start again" });
    const resolved = resolve ? resolveForTar(given, path) : given;
    const audio = resolved ?? given;
    object.set(key, audio);
    if (key !== "audio_filepath") object.set("audio_filepath", audio);
    return { values: object, at, audio, found: resolved !== undefined };
  }

  /** The audio of an entry alone, and its place: quicker than `read`. */
  readAudio(i: number): Pick<Entry, "audio" | "at" | "found"> {
    let values: Record<string, unknown>;
    try {
      values = JSON.parse(this.text(i)) as Record<string, unknown>;
    } catch {
      return this.read(i);
    }
    const { path } = this.rows.manifests[this.rows.sources[i] as number] as PlannedManifest;
    const given = values[audioKeyOf((name) => values[name] !== undefined) ?? ""];
    if (typeof given !== "string") return this.read(i);
    const resolved = resolveForTar(given, path);
    return { audio: resolved ?? given, found: resolved !== undefined, at: `${path === "-" ? "stdin" : path}:${this.rows.lines[i]}` };
  }

  private text(i: number): string {
    const { offsets, lengths, sources, manifests } = this.rows;
    const source = sources[i] as number;
    const start = offsets[i] as number;
    const length = lengths[i] as number;
    if (source !== this.windowSource || start < this.windowStart || start + length > this.windowEnd) {
      const { readPath } = manifests[source] as PlannedManifest;
      try {
        const fd = (this.fds[source] ??= openSync(toFsPath(readPath), "r"));
        if (length > this.window.length) this.window = Buffer.allocUnsafe(length * 2);
        this.windowSource = source;
        this.windowStart = start;
        // Where the next line follows, a window of them is read; else this line alone.
        const follows = i + 1 < this.count && sources[i + 1] === source && (offsets[i + 1] as number) === start + length + 1;
        this.windowEnd = start + readSync(fd, this.window, 0, follows ? this.window.length : length, start);
      } catch (error) {
        throw fileError(readPath, "read", error);
      }
    }
    const from = start - this.windowStart;
    const text = this.window.toString("utf8", from, Math.min(from + length, this.windowEnd - this.windowStart));
    return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }

  close(): void {
    for (const fd of this.fds) if (fd !== undefined) closeSync(fd);
    this.fds.length = 0;
  }
}
