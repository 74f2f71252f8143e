/** Bytes that are read by range: of a file, or in memory. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { FormatError } from "../../util/errors.ts";
import { fileError } from "../atomic.ts";

export interface RangeSource {
  /** The name that errors give. */
  readonly at: string;
  readonly size: number;
  /** Fills `into` with the bytes from `position` on. @throws FormatError FILE_CHANGED, FILE_UNREADABLE, PT_TRUNCATED beyond the end */
  read(position: number, into: Uint8Array): void;
  close(): void;
}

/** Bytes in memory. */
export function memorySource(bytes: Uint8Array, at = "pt data"): RangeSource {
  return {
    at,
    size: bytes.byteLength,
    read(position, into) {
      if (position + into.byteLength > bytes.byteLength) throw new FormatError("PT_TRUNCATED", { at, message: `it ends at byte ${bytes.byteLength}` });
      into.set(bytes.subarray(position, position + into.byteLength));
    },
    close() {},
  };
}

/** An open file. @throws FormatError FILE_MISSING, FILE_UNREADABLE */
export function fileSource(path: string): RangeSource {
  let fd: number | undefined;
  try {
    fd = openSync(path, "r");
    const file = fd;
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new Error("not a regular file");
    let open = true;
    return {
      at: path,
      size: stat.size,
      read(position, into) {
        try {
          for (let at = 0; at < into.byteLength; ) {
            const n = readSync(file, into, at, Math.min(1 << 30, into.byteLength - at), position + at);
            if (n === 0) throw new FormatError("FILE_CHANGED", { at: path, message: "the file became shorter while it was read" });
            at += n;
          }
        } catch (error) {
          throw fileError(path, "read", error);
        }
      },
      close() {
        if (open) closeSync(file);
        open = false;
      },
    };
  } catch (error) {
    if (fd !== undefined) closeSync(fd);
    throw fileError(path, "read", error);
  }
}

/** Reads forward from `begin` to `end` of a source through a small buffer. */
export class Cursor {
  private readonly source: RangeSource;
  private readonly end: number;
  private buffer = new Uint8Array(0);
  private view = new DataView(this.buffer.buffer);
  private bufferStart: number;
  private next = 0;

  constructor(source: RangeSource, begin = 0, end = source.size) {
    this.source = source;
    this.bufferStart = begin;
    this.end = end;
  }

  /** Where the next byte is in the source. */
  get position(): number {
    return this.bufferStart + this.next;
  }

  get remaining(): number {
    return this.end - this.position;
  }

  private need(count: number): number {
    if (this.next + count > this.buffer.length) {
      const position = this.position;
      if (count > this.end - position)
        throw new FormatError("PT_TRUNCATED", { at: this.source.at, message: `the pickle ends early, at byte ${this.end}`, fix: "copy or write the file again" });
      const size = Math.min(this.end - position, Math.max(count, 1 << 16));
      this.buffer = new Uint8Array(size);
      this.view = new DataView(this.buffer.buffer);
      this.source.read(position, this.buffer);
      this.bufferStart = position;
      this.next = 0;
    }
    const at = this.next;
    this.next += count;
    return at;
  }

  uint8(): number {
    const at = this.need(1); // the buffer may change
    return this.buffer[at] as number;
  }
  uint16(): number {
    const at = this.need(2);
    return this.view.getUint16(at, true);
  }
  int32(): number {
    const at = this.need(4);
    return this.view.getInt32(at, true);
  }
  uint32(): number {
    const at = this.need(4);
    return this.view.getUint32(at, true);
  }
  uint64(): bigint {
    const at = this.need(8);
    return this.view.getBigUint64(at, true);
  }
  /** Big endian, as BINFLOAT has it. */
  float64(): number {
    const at = this.need(8);
    return this.view.getFloat64(at, false);
  }
  /** Passes over bytes without reading them. */
  skip(count: number): void {
    if (this.next + count <= this.buffer.length) this.next += count;
    else {
      this.bufferStart = this.position + count;
      this.buffer = new Uint8Array(0);
      this.view = new DataView(this.buffer.buffer);
      this.next = 0;
    }
  }
  /** A copy. */
  bytes(count: number): Uint8Array<ArrayBuffer> {
    const at = this.need(count);
    return this.buffer.slice(at, at + count);
  }
  /** The bytes up to a line feed, without it. @throws FormatError PT_BAD for a line above 64 KiB */
  line(): Uint8Array {
    const bytes: number[] = [];
    for (let byte = this.uint8(); byte !== 0x0a; byte = this.uint8()) {
      if (bytes.length >= 1 << 16) throw new FormatError("PT_BAD", { at: this.source.at, message: `a line of the pickle above 64 KiB at byte ${this.position}` });
      bytes.push(byte);
    }
    return Uint8Array.from(bytes);
  }
}
