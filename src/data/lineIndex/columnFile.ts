/**
 * Columns of numbers in a file beside the data that they were taken from: a header in JSON, then the columns one after another.
 * Layout: "SERACCOL", the header's length (uint32, little-endian), 4 bytes of zero, the header padded with spaces to 8 bytes, the columns, other bytes.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { endianness } from "node:os";
import { fileError, writeAtomically, writeFully } from "../../formats/atomic.ts";
import { isErrnoException } from "../../util/errors.ts";

const magic = "SERACCOL";
/** All columns are float64, which holds offsets of files up to 2^53 bytes. */
const width = 8;

/** What such a file holds. */
export interface ColumnFile {
  header: { readonly [key: string]: unknown };
  columns: Float64Array[];
  /** What is no number. */
  tail?: Uint8Array;
}

/** Writes it whole or not at all. @throws FormatError FILE_UNWRITABLE */
export function writeColumns(path: string, { header, columns, tail = new Uint8Array(0) }: ColumnFile): void {
  const text = Buffer.from(JSON.stringify({ ...header, columns: columns.length, rows: columns[0]?.length ?? 0, tail: tail.length }), "utf8");
  const padding = (width - (text.length % width)) % width;
  const start = Buffer.alloc(16);
  start.write(magic, "latin1");
  start.writeUInt32LE(text.length + padding, 8);
  writeAtomically(path, (fd) => {
    writeFully(fd, Buffer.concat([start, text, Buffer.alloc(padding, " ")]));
    for (const column of columns) writeFully(fd, new Uint8Array(column.buffer, column.byteOffset, column.byteLength));
    writeFully(fd, tail);
  });
}

/** @returns undefined where there is no such file, or it is not whole. @throws FormatError FILE_UNREADABLE */
export function readColumns(path: string): ColumnFile | undefined {
  if (endianness() !== "LE") return undefined; // the file is built again, in memory
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (error) {
    if (isErrnoException(error) && error.code === "ENOENT") return undefined;
    throw fileError(path, "read", error);
  }
  try {
    const start = Buffer.alloc(16);
    if (readSync(fd, start, 0, 16, 0) < 16 || start.toString("latin1", 0, 8) !== magic) return undefined;
    const length = start.readUInt32LE(8);
    const { size } = fstatSync(fd);
    if (16 + length > size) return undefined;
    const text = Buffer.alloc(length);
    readSync(fd, text, 0, length, 16);
    const header = JSON.parse(text.toString("utf8")) as { columns: number; rows: number; tail: number };
    if (size !== 16 + length + header.columns * header.rows * width + header.tail) return undefined;
    let at = 16 + length;
    const next = (bytes: Uint8Array): boolean => {
      for (let done = 0; done < bytes.length; ) {
        const count = readSync(fd, bytes, done, Math.min(bytes.length - done, 1 << 30), at);
        if (count === 0) return false;
        done += count;
        at += count;
      }
      return true;
    };
    const columns = Array.from({ length: header.columns }, () => new Float64Array(header.rows));
    const tail = new Uint8Array(header.tail);
    if (![...columns.map((column) => new Uint8Array(column.buffer)), tail].every(next)) return undefined;
    return { header: header as unknown as ColumnFile["header"], columns, tail };
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw fileError(path, "read", error);
  } finally {
    closeSync(fd);
  }
}
