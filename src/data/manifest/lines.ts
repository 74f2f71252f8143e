/**
 * The lines of manifests, in batches of whole lines, so that reading costs little more than JSON.parse does.
 * Promises: bounded memory, the line's own text beside its value, and file:line:column for what cannot be read.
 */
import { isAscii, isUtf8 } from "node:buffer";
import { readBytes } from "../../formats/byteSource.ts";
import { columnOf } from "../../formats/jsonSyntax.ts";
import { JsonSyntaxError, mayBeTooDeep, parsePython, plainValue } from "../../formats/pythonJson.ts";
import { FormatError, ManifestError } from "../../util/errors.ts";
import { type ManifestSpec, manifestPaths } from "./inputs.ts";

/** A line's object by its keys. */
export type ManifestObject = Record<string, unknown>;

/** One line of a manifest. */
export interface ManifestLine {
  value: ManifestObject;
  /** The line as it was read, without its line feed. Keep a copy of it, not itself: it may hold its whole block in memory. */
  text: string;
  /** Counted from 1, blank lines included. */
  line: number;
  /** The manifest; "stdin" for standard input. */
  path: string;
}

/** What reading lines can find wrong. */
export type LineError = FormatError | ManifestError;

/** How to read lines. */
export interface ReadLinesOptions {
  /** Called with each bad line, which is then left out. Without it the first bad line throws. */
  onError?: (error: LineError) => void;
}

const blank = /^[ \t\r]*$/;

/** The fix for files that hold JSON, but not a line at a time. */
const oneALine = (path: string): string => `write one object a line, for instance: serac manifest convert --from json ${path} OUT.jsonl`;

/** @returns the error for a line that JSON.parse refused, at its column; a value where Python reads the line (NaN and Infinity) */
function secondLook(text: string, at: string): { value: unknown } | FormatError {
  try {
    return { value: plainValue(parsePython(text)) };
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    const column = columnOf(text, cause.index);
    const found = text.slice(cause.index).trimEnd();
    const message =
      found === "" ? "the line ends inside of a JSON value" : `${cause.message}: ${found.length > 40 ? `${[...found.slice(0, 80)].slice(0, 40).join("")}...` : found}`;
    return new FormatError("JSONL_BAD_LINE", { at: `${at}:${column}`, message, cause });
  }
}

/** Where the second line with something on it ends, its line feed included; -1 where there is none. Read once: a regular expression may try a long line again from every place. */
function secondLineEnd(text: string): number {
  let lines = 0;
  for (let start = 0; start < text.length; ) {
    const end = text.indexOf("\n", start);
    if (end < 0) return -1;
    if (!blank.test(text.slice(start, end)) && ++lines === 2) return end + 1;
    start = end + 1;
  }
  return -1;
}

/** True where `text`, from the manifest's first line on, is one JSON value over several lines, as pretty printers write. */
function isPrettyPrinted(text: string): boolean {
  const end = secondLineEnd(text);
  if (end < 0) return false;
  try {
    parsePython(text);
    return true;
  } catch (error) {
    return error instanceof JsonSyntaxError && error.index >= end; // all of a second line fitted to the first
  }
}

/** Whole lines of a byte stream: the bytes up to a line feed, or the stream's end. */
export async function* wholeLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let parts: Buffer[] = []; // of a line that has not ended yet; a list, so that one endless line costs no quadratic copying
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(0x0a) + 1;
    if (end === 0) {
      parts.push(chunk);
      continue;
    }
    const whole = chunk.subarray(0, end);
    yield parts.length === 0 ? whole : Buffer.concat([...parts, whole]);
    parts = end < chunk.length ? [chunk.subarray(end)] : [];
  }
  if (parts.length > 0) yield Buffer.concat(parts);
}

/** Takes a good line: what it holds, its own text, and its number. */
type TakeLine = (value: ManifestObject, text: string, line: number) => void;

/** Parses the lines of one manifest, given block by block. */
export class LineReader {
  private line = 0;
  /** No line with something on it was seen yet. */
  private atStart = true;
  /** How errors call the manifest. */
  readonly path: string;
  private readonly take: TakeLine;
  private readonly onError: ((error: LineError) => void) | undefined;

  constructor(path: string, take: TakeLine, onError: ((error: LineError) => void) | undefined) {
    this.path = path === "-" ? "stdin" : path;
    this.take = take;
    this.onError = onError;
  }

  /** Takes the good lines of a block of whole lines. @param behind what follows it, as far as it was read */
  read(block: Buffer, behind?: Buffer): void {
    const bytes = this.line === 0 && block[0] === 0xef && block[1] === 0xbb && block[2] === 0xbf ? block.subarray(3) : block;
    if (isAscii(bytes))
      this.readText(bytes.toString("latin1"), behind); // several times as fast, and most manifests are
    else if (isUtf8(bytes)) this.readText(bytes.toString("utf8"), behind);
    else this.readBroken(bytes);
  }

  private readText(block: string, behind?: Buffer): void {
    const { path, take } = this;
    let start = 0;
    while (start < block.length) {
      let end = block.indexOf("\n", start);
      if (end < 0) end = block.length;
      this.line++;
      const stop = block.charCodeAt(end - 1) === 0x0d && end > start ? end - 1 : end;
      const text = block.slice(start, stop);
      const from = start;
      start = end + 1;
      let value: unknown;
      let parsed = true;
      try {
        value = JSON.parse(text);
        parsed = !mayBeTooDeep(text);
      } catch {
        if (blank.test(text)) continue;
        parsed = false;
      }
      if (!parsed) {
        const second = secondLook(text, `${path}:${this.line}`);
        if (second instanceof FormatError) {
          if (this.atStart && isPrettyPrinted(block.slice(from) + (behind?.toString("utf8") ?? ""))) throw this.prettyPrinted(text);
          this.atStart = false;
          this.fail(second);
          continue;
        }
        value = second.value;
      }
      this.atStart = false;
      if (typeof value === "object" && value !== null && !Array.isArray(value)) take(value as ManifestObject, text, this.line);
      else this.fail(this.notAnObject(value));
    }
  }

  /** A block with bytes that are no UTF-8: line by line, so that only those lines are bad. */
  private readBroken(bytes: Buffer): void {
    let start = 0;
    while (start < bytes.length) {
      const end = bytes.indexOf(0x0a, start);
      const stop = end < 0 ? bytes.length : end;
      const part = bytes.subarray(start, stop);
      start = stop + 1;
      if (isUtf8(part)) {
        if (part.length === 0) this.line++;
        else this.readText(part.toString("utf8"));
        continue;
      }
      this.line++;
      this.atStart = false;
      const utf16 = this.line === 1 && ((part[0] === 0xff && part[1] === 0xfe) || (part[0] === 0xfe && part[1] === 0xff));
      this.fail(
        new FormatError("JSONL_BAD_LINE", {
          at: `${this.path}:${this.line}:${part.toString("utf8").indexOf("\ufffd") + 1}`,
          message: utf16 ? "the file is UTF-16, not UTF-8" : "not UTF-8",
          fix: `convert the file, for example: iconv -f ${utf16 ? "UTF-16" : "LATIN1"} -t UTF-8`,
        }),
      );
    }
  }

  private fail(error: LineError): void {
    if (this.onError === undefined) throw error;
    this.onError(error);
  }

  private prettyPrinted(text: string): ManifestError {
    return new ManifestError("MANIFEST_PRETTY_PRINTED", {
      at: `${this.path}:${this.line}`,
      message: `one JSON ${text.trimStart().startsWith("[") ? "array" : "object"} over several lines, expected an object on each line`,
      fix: oneALine(this.path),
    });
  }

  private notAnObject(value: unknown): ManifestError {
    const found = value === null ? "null" : Array.isArray(value) ? "an array" : `a ${typeof value}`;
    const wholeFile = this.line === 1 && Array.isArray(value);
    return new ManifestError("MANIFEST_NOT_AN_OBJECT", {
      at: `${this.path}:${this.line}`,
      message: `the line holds ${found}, expected a JSON object`,
      fix: wholeFile ? oneALine(this.path) : 'write {"audio_filepath": ..., "duration": ..., "text": ...}',
    });
  }
}

/**
 * The lines of one or more manifests, a block at a time. Gzip is told by its first bytes; byte order marks, CRLF, blank lines and a missing
 * last line feed do not matter. A manifest that is one pretty-printed value is an error whether or not bad lines are skipped.
 * @throws ManifestError MANIFEST_PRETTY_PRINTED, and what `onError` would get: JSONL_BAD_LINE, MANIFEST_NOT_AN_OBJECT; FormatError of reading
 */
export async function* readManifestBatches(spec: ManifestSpec, { onError }: ReadLinesOptions = {}): AsyncGenerator<ManifestLine[]> {
  for (const path of manifestPaths(spec)) {
    let lines: ManifestLine[] = [];
    const reader: LineReader = new LineReader(path, (value, text, line) => lines.push({ value, text, line, path: reader.path }), onError);
    for await (const block of wholeLines(readBytes(path))) {
      reader.read(block);
      if (lines.length > 0) yield lines;
      lines = [];
    }
  }
}

/**
 * The same for who only looks at each line once: nothing is kept, which spares the collector most of its work.
 * @param take called with each good line
 * @param onBlock called behind each block of lines with their number
 */
export async function eachManifestLine(
  spec: ManifestSpec,
  take: (value: ManifestObject) => void,
  { onError }: ReadLinesOptions = {},
  onBlock?: (lines: number) => void,
): Promise<void> {
  for (const path of manifestPaths(spec)) {
    let count = 0;
    const reader = new LineReader(
      path,
      (value) => {
        count++;
        take(value);
      },
      onError,
    );
    for await (const block of wholeLines(readBytes(path))) {
      reader.read(block);
      onBlock?.(count);
      count = 0;
    }
  }
}

/** The same one by one. */
export async function* readManifestLines(spec: ManifestSpec, options: ReadLinesOptions = {}): AsyncGenerator<ManifestLine> {
  for await (const lines of readManifestBatches(spec, options)) yield* lines;
}
