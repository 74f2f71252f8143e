/** Bytes of a file, of a gzip file, or of standard input. */
import { createReadStream } from "node:fs";
import { pipeline, Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { FormatError, isErrnoException, SeracError } from "../util/errors.ts";
import { fileError } from "./atomic.ts";

const chunkSize = 1 << 18;

async function* inflate(path: string, compressed: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const gunzip = createGunzip({ chunkSize });
  pipeline(Readable.from(compressed, { objectMode: false, highWaterMark: chunkSize }), gunzip, () => {}); // errors reach the reader below
  try {
    for await (const chunk of gunzip) yield chunk as Buffer;
  } catch (error) {
    if (error instanceof SeracError || !isErrnoException(error) || !error.code?.startsWith("Z_")) throw fileError(path, "read", error);
    throw new FormatError("GZIP_BAD", { at: path, message: `the gzip data is damaged or ends early (${error.message})`, fix: "copy or compress the file again", cause: error });
  }
}

async function* prepend(first: Buffer, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield first;
    for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
  } finally {
    await rest.return?.();
  }
}

/**
 * The bytes of `path`, inflated where they begin like gzip (whatever the name), in chunks; `-` is standard input.
 * The file is closed when the reader stops early.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE, GZIP_BAD
 */
export async function* readBytes(path: string): AsyncGenerator<Buffer> {
  const stream: Readable = path === "-" ? process.stdin : createReadStream(path, { highWaterMark: chunkSize });
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  try {
    let first: Buffer = Buffer.alloc(0);
    while (first.length < 2) {
      const next = await chunks.next();
      if (next.done) break;
      first = first.length === 0 ? next.value : Buffer.concat([first, next.value]);
    }
    if (first[0] === 0x1f && first[1] === 0x8b) yield* inflate(path, prepend(first, chunks));
    else yield* prepend(first, chunks);
  } catch (error) {
    throw fileError(path, "read", error);
  } finally {
    if (path !== "-") stream.destroy();
  }
}
