/** Lines of indexed manifests by their number over all of them: only those that are asked for are read and parsed. */
import { closeSync, openSync, read } from "node:fs";
import { promisify } from "node:util";
import { fileError } from "../../formats/atomic.ts";
import { FormatError } from "../../util/errors.ts";
import type { LineIndex } from "./build.ts";
import { type LineFormat, type ParsedLine, parseManifestLine } from "./format.ts";

const readAt = promisify(read);

/** Closes the files of sources that nobody uses any more. */
const unused = new FinalizationRegistry<Map<number, number>>((files) => {
  for (const file of files.values()) closeSync(file);
});

/** Lines of several manifests, by row. */
export class IndexedLines {
  /** Seconds of each row. */
  readonly durations: Float64Array;
  /** Tokens of each row, where the format counts them. */
  readonly tokens: Float64Array | undefined;
  private readonly parts: readonly LineIndex[];
  private readonly format: LineFormat;
  /** The first row of each part. */
  private readonly starts: number[] = [];
  private readonly files = new Map<number, number>();

  constructor(parts: readonly LineIndex[], format: LineFormat) {
    this.parts = parts;
    this.format = format;
    let rows = 0;
    for (const { durations } of parts) {
      this.starts.push(rows);
      rows += durations.length;
    }
    this.durations = join(parts.map(({ durations }) => durations));
    this.tokens = format.countsTokens ? join(parts.map(({ tokens }) => tokens ?? new Float64Array(0))) : undefined;
    unused.register(this, this.files);
  }

  get length(): number {
    return this.durations.length;
  }

  private partOf(row: number): number {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.starts[middle] as number) <= row) low = middle;
      else high = middle - 1;
    }
    return low; // parts without a row begin where the next one does
  }

  /** "train.jsonl:17" */
  where(row: number): string {
    const part = this.partOf(row);
    const { path, lines } = this.parts[part] as LineIndex;
    return `${path}:${lines[row - (this.starts[part] as number)]}`;
  }

  /** Changes with any byte of the manifests. */
  fingerprint(): string {
    return this.parts.map(({ digest }) => digest).join(" ");
  }

  /** The lines of rows, in the order asked for. @throws FormatError FILE_CHANGED where a manifest was written to since it was indexed; FILE_UNREADABLE */
  async read(rows: ArrayLike<number>): Promise<ParsedLine[]> {
    return Promise.all(Array.from(rows, (row) => this.readOne(row)));
  }

  /** Files stay open as long as the source is used. */
  private file(part: number): number {
    const open = this.files.get(part);
    if (open !== undefined) return open;
    const file = openSync((this.parts[part] as LineIndex).path, "r");
    this.files.set(part, file);
    return file;
  }

  private async readOne(row: number): Promise<ParsedLine> {
    const part = this.partOf(row);
    const index = this.parts[part] as LineIndex;
    const { path, lines, texts, durations } = index;
    const at = row - (this.starts[part] as number);
    const line = lines[at] as number;
    const text = texts ? texts.at(at) : await this.textOf(part, index, at);
    try {
      const value = parseManifestLine(line === 1 ? text.replace(/^\ufeff/, "") : text, path, line);
      if (this.format.duration(value, `${path}:${line}`) === durations[at]) return { value, line, path };
    } catch (cause) {
      throw changed(path, line, cause);
    }
    throw changed(path, line);
  }

  private async textOf(part: number, { path, size, offsets }: LineIndex, at: number): Promise<string> {
    const offset = offsets[at] as number;
    const bytes = Buffer.allocUnsafe((offsets[at + 1] ?? size) - offset);
    let done = 0;
    try {
      const file = this.file(part);
      while (done < bytes.length) {
        const { bytesRead } = await readAt(file, bytes, done, bytes.length - done, offset + done);
        if (bytesRead === 0) break;
        done += bytesRead;
      }
    } catch (error) {
      throw fileError(path, "read", error);
    }
    const end = bytes.subarray(0, done).indexOf(0x0a);
    return bytes.toString("utf8", 0, end < 0 ? done : end);
  }
}

function join(columns: readonly Float64Array[]): Float64Array {
  if (columns.length === 1) return columns[0] as Float64Array;
  const joined = new Float64Array(columns.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const column of columns) {
    joined.set(column, at);
    at += column.length;
  }
  return joined;
}

const changed = (path: string, line: number, cause?: unknown): FormatError =>
  new FormatError("FILE_CHANGED", {
    at: `${path}:${line}`,
    message: "the line is not what it was when the manifest was indexed",
    fix: "let nothing write to the manifest, and start again",
    cause,
  });
