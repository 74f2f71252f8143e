/**
 * Writes tar archives as Python's tarfile does, byte for byte, with the SHA-256 of what was written.
 * Synchronous and through one large buffer: it is meant for a worker thread, where system calls are what costs.
 */
import { createHash, type Hash } from "node:crypto";
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { FormatError, isErrnoException } from "../../util/errors.ts";
import { fileError, writeFully } from "../atomic.ts";
import { toFsPath } from "../surrogateEscape.ts";
import { blockSize, paddedSize, recordSize, type TarFormat, type TarHeader, tarTypes } from "./header.ts";
import { groupName, userName } from "./owners.ts";
import { fileHeaderSize, printFileHeader, printTarHeader } from "./printHeader.ts";

/** How to write an archive. */
export interface WriteTarOptions {
  format?: TarFormat;
  /** Members get no time, no owner and mode 0644, so that the archive depends on names and contents alone. */
  deterministicHeaders?: boolean;
  /** Bytes that are gathered before they are written: few enough to stay in the processor's cache between reading, hashing and writing. */
  bufferSize?: number;
}

/** What an archive came to. */
export interface TarSummary {
  bytes: number;
  members: number;
  /** Of the whole archive, as hexadecimal digits. */
  sha256: string;
}

const anonymous = { mode: 0o644, uid: 0, gid: 0, mtime: 0, userName: "", groupName: "" };

/** Python's st_mtime: whole seconds and nanoseconds as one float. */
function floatSeconds(nanoseconds: bigint): number {
  const seconds = nanoseconds / 1_000_000_000n - (nanoseconds % 1_000_000_000n < 0n ? 1n : 0n);
  return Number(seconds) + 1e-9 * Number(nanoseconds - seconds * 1_000_000_000n);
}

/** The buffer of the archive that was finished last: shards are written one after the other. */
let spare: Buffer | undefined;

/** An archive that is being written to an open file. */
export class TarWriter {
  private readonly fd: number;
  private readonly options: WriteTarOptions;
  private readonly buffer: Buffer;
  private readonly hash: Hash = createHash("sha256");
  private filled = 0;
  private flushed = 0;
  private members = 0;

  constructor(fd: number, options: WriteTarOptions = {}) {
    this.fd = fd;
    this.options = options;
    const size = Math.max(options.bufferSize ?? 1 << 17, recordSize);
    this.buffer = spare?.length === size ? spare : Buffer.allocUnsafeSlow(size);
    spare = undefined;
  }

  /** Bytes so far. */
  get position(): number {
    return this.flushed + this.filled;
  }

  private flush(): void {
    const full = this.buffer.subarray(0, this.filled);
    this.hash.update(full);
    writeFully(this.fd, full);
    this.flushed += this.filled;
    this.filled = 0;
  }

  private append(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      const count = Math.min(bytes.length - at, this.buffer.length - this.filled);
      this.buffer.set(bytes.subarray(at, at + count), this.filled);
      this.filled += count;
      at += count;
      if (this.filled === this.buffer.length) this.flush();
    }
  }

  private appendZeros(count: number): void {
    while (count > 0) {
      const step = Math.min(count, this.buffer.length - this.filled);
      this.buffer.fill(0, this.filled, this.filled + step);
      this.filled += step;
      count -= step;
      if (this.filled === this.buffer.length) this.flush();
    }
  }

  private header(fields: Omit<TarHeader, "type" | "linkName">, floatTime: boolean): void {
    const { format = "pax" } = this.options;
    this.members++;
    const header = { ...fields, type: tarTypes.file, linkName: "" };
    if (floatTime && format === "pax") {
      if (this.buffer.length - this.filled < fileHeaderSize) this.flush();
      const written = printFileHeader(this.buffer, this.filled, header);
      this.filled += written;
      if (this.filled === this.buffer.length) this.flush();
      if (written > 0) return;
    }
    this.append(printTarHeader(header, { format, floatTime }));
  }

  /** Python drops slashes at the beginning. */
  private static nameOf(name: string): string {
    return name.replace(/^\/+/, "");
  }

  /**
   * Adds a file as it is; a link is followed.
   * @returns its size in bytes
   * @throws FormatError FILE_MISSING, FILE_UNREADABLE, FILE_CHANGED where it grew or shrank meanwhile; errors of writing are those of the system
   */
  addFile(path: string, name: string): number {
    let fd: number;
    try {
      fd = openSync(toFsPath(path), "r");
    } catch (error) {
      throw fileError(path, "read", error);
    }
    try {
      const stat = fstatSync(fd, { bigint: true });
      if (!stat.isFile()) throw new FormatError("FILE_UNREADABLE", { at: path, message: "this is not a regular file" });
      const size = Number(stat.size);
      const { deterministicHeaders = false } = this.options;
      const uid = Number(stat.uid);
      const gid = Number(stat.gid);
      const owner = deterministicHeaders
        ? anonymous
        : { mode: Number(stat.mode) & 0o7777, uid, gid, mtime: floatSeconds(stat.mtimeNs), userName: userName(uid), groupName: groupName(gid) };
      this.header({ name: TarWriter.nameOf(name), size, ...owner }, !deterministicHeaders);
      for (let left = size; left > 0; ) {
        const room = Math.min(left, this.buffer.length - this.filled);
        let got: number;
        try {
          got = readSync(fd, this.buffer, this.filled, room, null);
        } catch (error) {
          throw fileError(path, "read", error);
        }
        if (got === 0) throw new FormatError("FILE_CHANGED", { at: path, message: `the file became shorter while it was read: ${left} of ${size} bytes are missing` });
        this.filled += got;
        left -= got;
        if (this.filled === this.buffer.length) this.flush();
      }
      this.appendZeros(paddedSize(size) - size);
      return size;
    } finally {
      closeSync(fd);
    }
  }

  /** Adds bytes as a member without time and owner. */
  addBytes(name: string, bytes: Uint8Array): void {
    this.header({ name: TarWriter.nameOf(name), size: bytes.length, ...anonymous }, false);
    this.append(bytes);
    this.appendZeros(paddedSize(bytes.length) - bytes.length);
  }

  /** Writes the end mark and all that is still held. The file stays open. */
  finish(): TarSummary {
    this.appendZeros(2 * blockSize);
    this.appendZeros((recordSize - (this.position % recordSize)) % recordSize);
    this.flush();
    spare = this.buffer;
    return { bytes: this.flushed, members: this.members, sha256: this.hash.digest("hex") };
  }
}

/** True where the disk, a quota or a limit of the process is full. */
export function isNoSpace(error: unknown): boolean {
  const own = isErrnoException(error) ? error.code : undefined;
  const inner = error instanceof Error && isErrnoException(error.cause) ? error.cause.code : undefined;
  return ["ENOSPC", "EDQUOT", "EFBIG"].includes((own ?? "") as string) || ["ENOSPC", "EDQUOT", "EFBIG"].includes((inner ?? "") as string);
}
