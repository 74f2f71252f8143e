/** JSON lines: one JSON value a line, plain or gzip, from a file or standard input. */
import { isUtf8 } from "node:buffer";
import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { pipeline, Readable } from "node:stream";
import { createGzip } from "node:zlib";
import { FormatError, isErrnoException } from "../util/errors.ts";
import { fileError, makeFolder, removeQuietly, temporaryPath } from "./atomic.ts";
import { readBytes } from "./byteSource.ts";
import { columnOf, jsonErrorAt } from "./jsonSyntax.ts";

/** A parsed line. */
export interface JsonLine<T = unknown> {
  value: T;
  /** Counted from 1, blank lines included. */
  line: number;
}

/** How to read. */
export interface ReadJsonlOptions {
  /** Called with each bad line, which is then left out. Without it the first bad line throws. */
  onError?: (error: FormatError) => void;
}

const blank = /^[ \t\r]*$/;

/**
 * Parses one line.
 * @throws FormatError JSONL_BAD_LINE at `path:line:column`, the column counted in characters from 1
 */
export function parseJsonLine(text: string, path: string, line: number): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const at = Math.max(0, jsonErrorAt(text));
    const column = columnOf(text, at);
    const found = text.slice(at).trimEnd();
    const message = found === "" ? "the line ends inside of a JSON value" : `not JSON from here on: ${found.length > 40 ? `${found.slice(0, 40)}...` : found}`;
    throw new FormatError("JSONL_BAD_LINE", { at: `${path}:${line}:${column}`, message, cause });
  }
}

/** The lines of a byte stream, without their line feed and without a byte order mark. */
async function* lines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let parts: Buffer[] = []; // of a line that has not ended yet; a list, so that one endless line costs no quadratic copying
  let first = true;
  const join = (last: Buffer): Buffer => {
    let whole = last;
    if (parts.length > 0) {
      whole = Buffer.concat([...parts, last]);
      parts = [];
    }
    if (first && whole[0] === 0xef && whole[1] === 0xbb && whole[2] === 0xbf) whole = whole.subarray(3);
    first = false;
    return whole;
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, start)) {
      yield join(chunk.subarray(start, end));
      start = end + 1;
    }
    if (start < chunk.length) parts.push(chunk.subarray(start));
  }
  if (parts.length > 0) yield join(Buffer.alloc(0));
}

/**
 * Reads values one by one; blank lines are skipped, `-` is standard input, gzip is told by its first bytes.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE, GZIP_BAD, JSONL_BAD_LINE
 */
export async function* readJsonl<T = unknown>(path: string, { onError }: ReadJsonlOptions = {}): AsyncGenerator<JsonLine<T>> {
  const name = path === "-" ? "stdin" : path;
  let line = 0;
  for await (const bytes of lines(readBytes(path))) {
    line++;
    const text = bytes.toString("utf8");
    let value: unknown;
    try {
      if (text.includes("\ufffd") && !isUtf8(bytes)) {
        throw new FormatError("JSONL_BAD_LINE", {
          at: `${name}:${line}:${text.indexOf("\ufffd") + 1}`,
          message: "not UTF-8",
          fix: "convert the file, for example: iconv -f LATIN1 -t UTF-8",
        });
      }
      // A cheap look before the pattern: nearly every line begins with a brace.
      if (text.charCodeAt(0) !== 0x7b && blank.test(text)) continue;
      value = parseJsonLine(text, name, line);
    } catch (error) {
      if (onError === undefined || !(error instanceof FormatError)) throw error;
      onError(error);
      continue;
    }
    yield { value: value as T, line };
  }
}

function* texts(values: Iterable<unknown>, name: string): Generator<string> {
  let index = 0;
  for (const value of values) yield line(value, name, ++index);
}
async function* textsAsync(values: AsyncIterable<unknown>, name: string): AsyncGenerator<string> {
  let index = 0;
  for await (const value of values) yield line(value, name, ++index);
}
function line(value: unknown, name: string, index: number): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new FormatError("JSONL_BAD_LINE", { at: `${name}:${index}`, message: `a ${typeof value} cannot be written as JSON` });
  return `${text}\n`;
}
/** Many lines to a chunk: streams cost more per chunk than JSON does per line. */
async function* gather(lines: Iterable<string> | AsyncIterable<string>): AsyncGenerator<string> {
  let text = "";
  for await (const line of lines) {
    text += line;
    if (text.length >= 1 << 16) {
      yield text;
      text = "";
    }
  }
  if (text !== "") yield text;
}

/**
 * Writes one value a line, whole or not at all; gzip where the name ends in .gz, `-` is standard output.
 * @throws FormatError FILE_UNWRITABLE, JSONL_BAD_LINE for a value that JSON cannot hold; errors of `values` pass
 */
export async function writeJsonl(path: string, values: Iterable<unknown> | AsyncIterable<unknown>): Promise<void> {
  const chunks = gather(Symbol.asyncIterator in values ? textsAsync(values, path) : texts(values, path));
  if (path === "-") {
    for await (const chunk of chunks) await new Promise<void>((done, fail) => process.stdout.write(chunk, (error) => (error ? fail(error) : done())));
    return;
  }
  const temporary = temporaryPath(path);
  try {
    makeFolder(dirname(path));
    const file = await open(temporary, "w");
    try {
      for await (const chunk of path.endsWith(".gz") ? deflate(chunks) : chunks) await file.writeFile(chunk);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    removeQuietly(temporary);
    // What the system refused is the file's fault; anything else came from `values`.
    throw isErrnoException(error) && error.syscall !== undefined ? fileError(path, "write", error) : error;
  }
}

async function* deflate(chunks: AsyncIterable<string>): AsyncGenerator<Buffer> {
  const gzip = createGzip();
  pipeline(Readable.from(chunks), gzip, () => {}); // errors reach the reader below
  for await (const chunk of gzip) yield chunk as Buffer;
}
