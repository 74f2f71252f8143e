/**
 * The lines of manifests, each found by its number: of plain files by their places on disk, of gzip files in memory, packed in blocks.
 * One pass reads everything; what is kept of a line is a place, and its text for gzip only, at about a tenth of its size.
 */

import { isUtf8 } from "node:buffer";
import { statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { fileError } from "../../formats/atomic.ts";
import { readBytes } from "../../formats/byteSource.ts";
import { JsonSyntaxError, parsePython, plainValue } from "../../formats/pythonJson.ts";
import { FormatError, ManifestError, type SeracError } from "../../util/errors.ts";
import { type ManifestObject, readManifestLines } from "../manifest/lines.ts";

/** A line that is read. */
export interface TableLine {
  value: ManifestObject;
  /** "train.jsonl:17" */
  at: string;
  path: string;
  /** Counted from 1, blank lines included. */
  line: number;
}

/** Lines to a block of packed text: some hundred kilobytes, which unpack in less than a millisecond. */
const blockLines = 64;

/** Numbers that become more. */
class Numbers {
  private values = new Float64Array(1024);
  length = 0;

  push(value: number): void {
    if (this.length === this.values.length) {
      const larger = new Float64Array(this.length * 2);
      larger.set(this.values);
      this.values = larger;
    }
    this.values[this.length++] = value;
  }

  at(index: number): number {
    return this.values[index] as number;
  }

  /** The numbers, copied to their size. */
  done(): Float64Array {
    return this.values.slice(0, this.length);
  }
}

interface TableFile {
  path: string;
  /** Rows of it begin here. */
  firstRow: number;
  /** Packed texts of `blockLines` rows each; undefined where the file is plain. */
  blocks: Buffer[] | undefined;
  size: number;
}

/** How to read a table. */
export interface LineTableOptions {
  /** @returns the seconds of a line that is kept; undefined where it is left out @throws SeracError for what cannot be used */
  accept(line: TableLine): number | undefined;
  /** Called with each line that cannot be used, which is then left out. Without it the first one throws. */
  onError?: ((error: SeracError) => void) | undefined;
  /** Called now and then with the lines that were read. */
  onProgress?: ((lines: number) => void) | undefined;
}

/** Lines by their rows: those that were accepted, in order. */
export class LineTable {
  readonly durations: Float64Array;
  private readonly files: readonly TableFile[];
  /** Byte offset and size of each row's line in its file; 0 where it is packed. */
  private readonly offsets: Float64Array;
  private readonly sizes: Float64Array;
  private readonly lines: Float64Array;

  private constructor(files: readonly TableFile[], durations: Float64Array, offsets: Float64Array, sizes: Float64Array, lines: Float64Array) {
    this.files = files;
    this.durations = durations;
    this.offsets = offsets;
    this.sizes = sizes;
    this.lines = lines;
  }

  get length(): number {
    return this.durations.length;
  }

  /** Reads all lines of all files once. @throws FormatError, ManifestError, what `accept` throws */
  static async read(paths: readonly string[], { accept, onError, onProgress }: LineTableOptions): Promise<LineTable> {
    const durations = new Numbers();
    const offsets = new Numbers();
    const sizes = new Numbers();
    const lines = new Numbers();
    const files: TableFile[] = [];
    let seen = 0;
    for (const path of paths) {
      const size = sizeOf(path);
      const packed = await isGzip(path);
      const file: TableFile = { path, firstRow: durations.length, blocks: packed ? [] : undefined, size };
      let pending: string[] = [];
      const pack = (): void => {
        if (pending.length === 0) return;
        file.blocks?.push(deflateRawSync(pending.join("\n"), { level: 1 }));
        pending = [];
      };
      for await (const { bytes, offset, line } of linesOf(path)) {
        if (++seen % 5000 === 0) onProgress?.(seen);
        const at = `${path}:${line}`;
        let duration: number | undefined;
        const text = bytes.toString("utf8");
        try {
          const value = parseLine(text, bytes);
          if (value === undefined) continue; // blank
          if (value === "bad") throw await whatIsWrong(path, line);
          duration = accept({ value, at, path, line });
        } catch (error) {
          if (!onError || !(error instanceof ManifestError || error instanceof FormatError)) throw error;
          onError(error);
        }
        if (duration === undefined) continue;
        durations.push(duration);
        lines.push(line);
        offsets.push(file.blocks ? 0 : offset);
        sizes.push(file.blocks ? 0 : bytes.length);
        if (!file.blocks) continue;
        pending.push(text);
        if (pending.length === blockLines) pack();
      }
      pack();
      files.push(file);
      onProgress?.(seen);
    }
    return new LineTable(files, durations.done(), offsets.done(), sizes.done(), lines.done());
  }

  private fileOf(row: number): TableFile {
    let low = 0;
    let high = this.files.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.files[middle] as TableFile).firstRow <= row) low = middle;
      else high = middle - 1;
    }
    return this.files[low] as TableFile;
  }

  where(row: number): string {
    return `${this.fileOf(row).path}:${this.lines[row]}`;
  }

  /** The sizes of the files: they change where the data does, and not where it is copied. */
  fingerprint(): string {
    return this.files.map(({ size }) => size).join(" ");
  }

  /** The lines of rows, in the order asked for. @throws FormatError FILE_CHANGED where a file was written since */
  async load(rows: ArrayLike<number>): Promise<TableLine[]> {
    const result: TableLine[] = [];
    const handles = new Map<string, FileHandle>();
    const blocks = new Map<Buffer, string[]>();
    try {
      for (let i = 0; i < rows.length; i++) {
        const row = rows[i] as number;
        const file = this.fileOf(row);
        const at = `${file.path}:${this.lines[row]}`;
        let text: string;
        if (file.blocks) {
          const block = file.blocks[Math.floor((row - file.firstRow) / blockLines)] as Buffer;
          let texts = blocks.get(block);
          if (!texts) blocks.set(block, (texts = inflateRawSync(block).toString("utf8").split("\n")));
          text = texts[(row - file.firstRow) % blockLines] as string;
        } else {
          let handle = handles.get(file.path);
          if (!handle) {
            handle = await open(file.path, "r").catch((error: unknown) => {
              throw fileError(file.path, "read", error);
            });
            handles.set(file.path, handle);
          }
          const bytes = Buffer.allocUnsafe(this.sizes[row] as number);
          const { bytesRead } = await handle.read(bytes, 0, bytes.length, this.offsets[row]);
          text = bytes.toString("utf8", 0, bytesRead);
        }
        const value = parseLine(text);
        if (value === undefined || value === "bad")
          throw new FormatError("FILE_CHANGED", {
            at,
            message: "the line is not what it was when the manifest was opened",
            fix: "make sure that nothing writes to it, and start again",
          });
        result.push({ value, at, path: file.path, line: this.lines[row] as number });
      }
    } finally {
      for (const handle of handles.values()) await handle.close();
    }
    return result;
  }
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch (error) {
    throw fileError(path, "read", error);
  }
}

async function isGzip(path: string): Promise<boolean> {
  const file = await open(path, "r").catch((error: unknown) => {
    throw fileError(path, "read", error);
  });
  try {
    const start = Buffer.alloc(2);
    await file.read(start, 0, 2, 0);
    return start[0] === 0x1f && start[1] === 0x8b;
  } catch (error) {
    throw fileError(path, "read", error);
  } finally {
    await file.close();
  }
}

/** @returns undefined for a blank line, "bad" for what is no object of JSON or of Python's */
function parseLine(text: string, bytes?: Buffer): ManifestObject | undefined | "bad" {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    if (text.trim() === "") return undefined;
    try {
      value = plainValue(parsePython(text)); // NaN and Infinity
    } catch (error) {
      if (!(error instanceof JsonSyntaxError)) throw error;
      return "bad";
    }
  }
  if (bytes && text.includes("\ufffd") && !isUtf8(bytes)) return "bad";
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as ManifestObject) : "bad";
}

/** The error of a bad line, as all readers of manifests give it. */
async function whatIsWrong(path: string, line: number): Promise<SeracError> {
  let found: SeracError | undefined;
  const here = new RegExp(`^${line}(?::|$)`);
  try {
    for await (const one of readManifestLines([path], { onError: (error) => (found ??= here.test(error.at?.slice(path.length + 1) ?? "") ? error : undefined) })) {
      if (one.line > line || found) break;
    }
  } catch (error) {
    if (error instanceof ManifestError || error instanceof FormatError) return error; // a pretty-printed file
    throw error;
  }
  return found ?? new FormatError("JSONL_BAD_LINE", { at: `${path}:${line}`, message: "not a JSON object" });
}

interface RawLine {
  bytes: Buffer;
  offset: number;
  line: number;
}

/** Lines as they are, with their places in the unpacked file. */
async function* linesOf(path: string): AsyncGenerator<RawLine> {
  let rest: Buffer[] = [];
  let restLength = 0;
  let offset = 0;
  let line = 0;
  const whole = (last: Buffer): RawLine => {
    const bytes = rest.length === 0 ? last : Buffer.concat([...rest, last]);
    rest = [];
    restLength = 0;
    const mark = line === 0 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
    const raw = { bytes: mark ? bytes.subarray(mark) : bytes, offset: offset + mark, line: ++line };
    offset += bytes.length + 1;
    return raw;
  };
  for await (const chunk of readBytes(path)) {
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, start)) {
      yield whole(chunk.subarray(start, end));
      start = end + 1;
    }
    if (start < chunk.length) {
      rest.push(chunk.subarray(start));
      restLength += chunk.length - start;
    }
  }
  if (restLength > 0) yield whole(Buffer.alloc(0));
}
