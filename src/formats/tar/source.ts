/** Where a tar reader takes its bytes from: a file that can be sought, or a stream that is (un)compressed as it comes. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { type FileHandle, open } from "node:fs/promises";
import type { Readable } from "node:stream";
import { FormatError, isErrnoException } from "../../util/errors.ts";
import { fileError } from "../atomic.ts";
import { readBytes } from "../byteSource.ts";

/** Bytes in order. What `take` gives is only valid until the next call. */
export interface TarSource {
  /** Bytes from the beginning. */
  readonly position: number;
  /** True where `skip` costs nothing. */
  readonly seekable: boolean;
  /** The next `count` bytes, fewer where the source ends. Never allocates more than there are. */
  take(count: number): Promise<Buffer>;
  /** The next `count` bytes, which stay valid. They may be a part of a larger buffer, shared with their neighbours. */
  takeOwn(count: number): Promise<Buffer>;
  /** Passes over bytes. @returns how many there were */
  skip(count: number): Promise<number>;
  close(): Promise<void>;
}

/** How an archive is packed. */
export type TarCompression = "none" | "gzip" | "bzip2" | "xz";

const magics: readonly [TarCompression, readonly number[]][] = [
  ["gzip", [0x1f, 0x8b]],
  ["bzip2", [0x42, 0x5a, 0x68]],
  ["xz", [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00]],
];

/** Told by the first bytes, whatever the name. A member's name may begin with BZh: then what follows is a tar header, not a bzip2 block. */
export function compressionOf(first: Uint8Array): TarCompression {
  const found = magics.find(([, magic]) => magic.every((byte, i) => first[i] === byte))?.[0] ?? "none";
  if (found === "bzip2" && !(first[4] === 0x31 && first[5] === 0x41) && !(first[4] === 0x17 && first[5] === 0x72)) return "none"; // pi or sqrt(pi) follow the level
  return found;
}

/** A file read through a window, which is filled where it holds several of the places that are read. */
class FileSource implements TarSource {
  readonly seekable = true;
  position = 0;
  private readonly file: FileHandle;
  private readonly path: string;
  private readonly size: number;
  private buffer: Buffer;
  private lent = false; // parts of the window are the caller's: the next bytes get a window of their own
  private start = 0;
  private filled = 0;
  private last = 0;
  private stride = 0; // how far apart the places are that are read: the window is only filled where it holds several

  constructor(file: FileHandle, path: string, size: number, window: number) {
    this.file = file;
    this.path = path;
    this.size = size;
    this.buffer = Buffer.allocUnsafe(Math.max(512, Math.min(window, size)));
  }

  private async read(into: Buffer, position: number): Promise<number> {
    let done = 0;
    try {
      while (done < into.length) {
        const { bytesRead } = await this.file.read(into, done, into.length - done, position + done);
        if (bytesRead === 0) break;
        done += bytesRead;
      }
    } catch (error) {
      throw fileError(this.path, "read", error);
    }
    return done;
  }

  async take(count: number): Promise<Buffer> {
    const wanted = Math.max(0, Math.min(count, this.size - this.position));
    if (wanted > this.buffer.length) return this.takeOwn(count);
    this.stride = (this.stride + this.position - this.last) / 2;
    this.last = this.position;
    if (this.position < this.start || this.position + wanted > this.start + this.filled) {
      this.start = this.position;
      if (this.lent) this.buffer = Buffer.allocUnsafeSlow(this.buffer.length);
      this.lent = false;
      this.filled = await this.read(
        this.buffer.subarray(0, Math.min(this.buffer.length, Math.max(2 * this.stride <= this.buffer.length ? this.buffer.length : 2048, wanted), this.size - this.position)),
        this.position,
      );
    }
    const from = this.position - this.start;
    const bytes = this.buffer.subarray(from, Math.min(from + wanted, this.filled));
    this.position += bytes.length;
    return bytes;
  }

  async takeOwn(count: number): Promise<Buffer> {
    const wanted = Math.max(0, Math.min(count, this.size - this.position));
    if (wanted <= this.buffer.length >> 2) {
      const bytes = await this.take(count);
      this.lent ||= bytes.length > 0;
      return bytes;
    }
    const own = Buffer.allocUnsafe(wanted);
    const from = this.position - this.start;
    const ready = from >= 0 && from < this.filled ? Math.min(wanted, this.filled - from) : 0;
    if (ready > 0) this.buffer.copy(own, 0, from, from + ready);
    const done = ready < wanted ? ready + (await this.read(own.subarray(ready), this.position + ready)) : ready;
    this.position += done;
    return done < own.length ? own.subarray(0, done) : own;
  }

  skip(count: number): Promise<number> {
    const skipped = Math.max(0, Math.min(count, this.size - this.position));
    this.position += skipped;
    return Promise.resolve(skipped);
  }

  async close(): Promise<void> {
    await this.file.close();
  }
}

/** The bytes of an open file from `start` to `end`, a few at a time; positions are those of the file, which stays open. */
export function sliceSource(file: FileHandle, path: string, start: number, end: number): TarSource {
  const source = new FileSource(file, path, end, 2048);
  source.position = start;
  source.close = () => Promise.resolve();
  return source;
}

/** Chunks that come one after another. */
class StreamSource implements TarSource {
  readonly seekable = false;
  position = 0;
  private readonly chunks: AsyncIterator<Buffer>;
  private current: Buffer = Buffer.alloc(0);
  private ended = false;

  constructor(chunks: AsyncIterable<Buffer>) {
    this.chunks = chunks[Symbol.asyncIterator]();
  }

  private async next(): Promise<boolean> {
    while (!this.ended) {
      const { done, value } = await this.chunks.next();
      if (done) this.ended = true;
      else if (value.length > 0) {
        this.current = value;
        return true;
      }
    }
    return false;
  }

  async take(count: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    let wanted = count;
    while (wanted > 0 && (this.current.length > 0 || (await this.next()))) {
      const part = this.current.subarray(0, wanted);
      this.current = this.current.subarray(part.length);
      wanted -= part.length;
      if (wanted === 0 && parts.length === 0) {
        this.position += part.length;
        return part;
      }
      parts.push(part);
    }
    const whole = Buffer.concat(parts);
    this.position += whole.length;
    return whole;
  }

  async takeOwn(count: number): Promise<Buffer> {
    return Buffer.from(await this.take(count)); // a part of a chunk would keep all of the chunk in memory
  }

  async skip(count: number): Promise<number> {
    let left = count;
    let skipped = 0;
    while (left > 0 && (this.current.length > 0 || (await this.next()))) {
      const part = Math.min(left, this.current.length);
      this.current = this.current.subarray(part);
      left -= part;
      this.position += part;
      skipped += part;
    }
    return skipped;
  }

  async close(): Promise<void> {
    await this.chunks.return?.();
  }
}

/** Chunks as a source: for tars that are no files. */
export function streamSource(chunks: AsyncIterable<Buffer>): TarSource {
  return new StreamSource(chunks);
}

/** The output of `xz -dc` or `bzip2 -dc`: Node has neither format, and these programs are where the files come from. */
async function* unpackByProgram(program: string, path: string): AsyncGenerator<Buffer> {
  const child: ChildProcessByStdio<null, Readable, Readable> = spawn(program, ["-dc", "--", path], { stdio: ["ignore", "pipe", "pipe"] });
  let complaint = "";
  child.stderr.on("data", (chunk: Buffer) => {
    if (complaint.length < 1000) complaint += chunk.toString();
  });
  const ended = new Promise<{ code: number | null; error?: Error }>((done) => {
    child.on("error", (error) => done({ code: null, error }));
    child.on("close", (code) => done({ code }));
  });
  let whole = false;
  try {
    for await (const chunk of child.stdout) yield chunk as Buffer;
    whole = true;
  } finally {
    if (!whole) child.kill();
    const { code, error } = await ended;
    if (whole && error !== undefined) {
      const missing = isErrnoException(error) && error.code === "ENOENT";
      // biome-ignore lint/correctness/noUnsafeFinally: only reached where nothing else was thrown
      throw new FormatError("TAR_UNPACKER", {
        at: path,
        message: missing ? `this archive needs the program ${program}, which is not installed` : `${program} did not start: ${error.message}`,
        fix: `install ${program === "xz" ? "xz-utils" : program}, or unpack the archive once: a plain tar is also faster to read`,
        cause: error,
      });
    }
    if (whole && code !== 0)
      // biome-ignore lint/correctness/noUnsafeFinally: only reached where nothing else was thrown
      throw new FormatError("TAR_TRUNCATED", {
        at: path,
        message: `${program} says: ${complaint.trim().split("\n")[0] ?? "it failed"}`,
        fix: "copy or compress the archive again",
      });
  }
}

/**
 * Opens an archive; gzip, bzip2 and xz are told by their first bytes and unpacked as they are read.
 * @param window bytes that are read at a time where a file can be sought
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE
 */
export async function openTarSource(path: string, { window = 1 << 20 }: { window?: number } = {}): Promise<{ source: TarSource; compression: TarCompression; size: number }> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, "r");
    const stat = await file.stat();
    if (!stat.isFile()) {
      await file.close();
      if (stat.isDirectory()) throw new FormatError("FILE_UNREADABLE", { at: path, message: "it is a folder, expected a tar archive" });
      return { source: new StreamSource(readBytes(path)), compression: "none", size: 0 }; // a pipe or a device
    }
    const first = Buffer.alloc(6);
    const { bytesRead } = await file.read(first, 0, 6, 0);
    const compression = compressionOf(first.subarray(0, bytesRead));
    if (compression === "none") return { source: new FileSource(file, path, stat.size, window), compression, size: stat.size };
    await file.close();
    const chunks = compression === "gzip" ? readBytes(path) : unpackByProgram(compression, path);
    return { source: new StreamSource(chunks), compression, size: stat.size };
  } catch (error) {
    await file?.close().catch(() => {});
    throw fileError(path, "read", error);
  }
}
