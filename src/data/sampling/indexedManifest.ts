/** Manifests whose lines are found by an index: a sampler looks at durations alone, and only the lines of a batch are ever parsed. */
import { closeSync, openSync, read } from "node:fs";
import { promisify } from "node:util";
import { fileError } from "../../formats/atomic.ts";
import { FormatError } from "../../util/errors.ts";
import type { Cut } from "../cut.ts";
import { cutOf } from "../manifest/cuts.ts";
import { parseEntry } from "../manifest/entry.ts";
import { type ManifestSpec, manifestPaths } from "../manifest/inputs.ts";
import type { ManifestLine } from "../manifest/lines.ts";
import { ColumnSource } from "./columnSource.ts";
import { type IndexOptions, lineDuration, type ManifestIndex, openManifestIndex, parseManifestLine } from "./manifestIndex.ts";

/** A line's object and its place. */
export type ParsedLine = Pick<ManifestLine, "value" | "line" | "path">;

/** How lines become items. */
export interface LineOptions<T> {
  /** Makes an item of a line that has a `duration`; a cut of a NeMo manifest's line by default. */
  parse?: (line: ParsedLine) => T;
}

/** A line of a NeMo manifest as a cut. */
export const parseCut = (line: ParsedLine): Cut => cutOf(parseEntry(line));

/**
 * A source over plain JSON lines, each with a `duration`: manifests of NeMo, or with `parse` cuts of lhotse. Indexes are kept beside the manifests.
 * @throws what `openManifestIndex` throws
 */
export function indexedManifest(spec: ManifestSpec, options?: IndexOptions): ColumnSource<Cut>;
export function indexedManifest<T>(spec: ManifestSpec, options: IndexOptions & Required<LineOptions<T>>): ColumnSource<T>;
export function indexedManifest<T>(spec: ManifestSpec, { parse = parseCut as (line: ParsedLine) => T, ...options }: IndexOptions & LineOptions<T> = {}): ColumnSource<T> {
  const parts = manifestPaths(spec).map((path) => openManifestIndex(path, options));
  const lines = new IndexedLines(parts);
  return new ColumnSource<T>({
    name: parts.map(({ path }) => path).join(", "),
    durations: join(parts.map(({ durations }) => durations)),
    tokens: options.tokens ? join(parts.map(({ tokens }) => tokens ?? new Float64Array(0))) : undefined,
    load: async (rows) => (await lines.read(rows)).map(parse),
    where: (row) => lines.where(row),
    fingerprint: () => parts.map(({ digest }) => digest).join(" "),
  });
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

const readAt = promisify(read);

/** Closes the files of sources that nobody uses any more. */
const unused = new FinalizationRegistry<Map<number, number>>((files) => {
  for (const file of files.values()) closeSync(file);
});

/** Lines of several manifests by their number over all of them. */
class IndexedLines {
  private readonly parts: readonly ManifestIndex[];
  /** The first row of each part. */
  private readonly starts: number[] = [];
  private readonly files = new Map<number, number>();

  constructor(parts: readonly ManifestIndex[]) {
    this.parts = parts;
    let rows = 0;
    for (const { durations } of parts) {
      this.starts.push(rows);
      rows += durations.length;
    }
    unused.register(this, this.files);
  }

  private partOf(row: number): number {
    let part = 0;
    while (part + 1 < this.starts.length && (this.starts[part + 1] as number) <= row) part++;
    return part;
  }

  where(row: number): string {
    const part = this.partOf(row);
    const { path, lines } = this.parts[part] as ManifestIndex;
    return `${path}:${lines[row - (this.starts[part] as number)]}`;
  }

  async read(rows: ArrayLike<number>): Promise<ParsedLine[]> {
    return Promise.all(Array.from(rows, (row) => this.readOne(row)));
  }

  /** Files stay open as long as the source is used. */
  private file(part: number): number {
    const open = this.files.get(part);
    if (open !== undefined) return open;
    const file = openSync((this.parts[part] as ManifestIndex).path, "r");
    this.files.set(part, file);
    return file;
  }

  private async readOne(row: number): Promise<ParsedLine> {
    const part = this.partOf(row);
    const { path, size, offsets, durations, lines } = this.parts[part] as ManifestIndex;
    const at = row - (this.starts[part] as number);
    const offset = offsets[at] as number;
    const line = lines[at] as number;
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
    const text = bytes.toString("utf8", 0, end < 0 ? done : end);
    try {
      const value = parseManifestLine(line === 1 ? text.replace(/^\ufeff/, "") : text, path, line);
      if (lineDuration(value, `${path}:${line}`) === durations[at]) return { value, line, path };
    } catch (cause) {
      throw changed(path, line, cause);
    }
    throw changed(path, line);
  }
}

const changed = (path: string, line: number, cause?: unknown): FormatError =>
  new FormatError("FILE_CHANGED", {
    at: `${path}:${line}`,
    message: "the line is not what it was when the manifest was indexed",
    fix: "let nothing write to the manifest, and start again",
    cause,
  });
