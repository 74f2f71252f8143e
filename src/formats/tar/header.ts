/**
 * Headers of tar members: 512 bytes of ustar fields, and what GNU and PAX put before them for what does not fit.
 * This file has the layout and the reading of v7, ustar, GNU and PAX; printHeader.ts writes.
 * Sources: POSIX.1-2008 pax (ustar and extended headers); GNU tar manual, "Basic Tar Format".
 */
import { FormatError } from "../../util/errors.ts";
import { decodeSurrogateEscape } from "../surrogateEscape.ts";

/** Bytes of a block: headers and data are padded to it. */
export const blockSize = 512;
/** An archive's length is a multiple of it (20 blocks: tar's and Python's default). */
export const recordSize = 10240;

/** Kinds of members by their type flag; others are kept as they are. */
export const tarTypes = {
  file: "0",
  hardLink: "1",
  symbolicLink: "2",
  characterDevice: "3",
  blockDevice: "4",
  directory: "5",
  fifo: "6",
  contiguousFile: "7",
  gnuLongName: "L",
  gnuLongLink: "K",
  gnuSparse: "S",
  paxHeader: "x",
  paxGlobalHeader: "g",
  solarisHeader: "X",
} as const;

/** What a header says about its member. Bytes of names that are not UTF-8 are lone surrogates (formats/surrogateEscape.ts). */
export interface TarHeader {
  name: string;
  /** Permission bits. */
  mode: number;
  uid: number;
  gid: number;
  /** Bytes of data behind the header. */
  size: number;
  /** Seconds since 1970. */
  mtime: number;
  /** The type flag, a single character: see `tarTypes`. Version 7's NUL reads as "0". */
  type: string;
  linkName: string;
  userName: string;
  groupName: string;
}

/** How a header block is told apart: magic and version. */
export type TarFormat = "pax" | "gnu" | "ustar";

/** @returns the bytes that `size` bytes of data take, with their padding */
export function paddedSize(size: number): number {
  return Math.ceil(size / blockSize) * blockSize;
}

/** True for a block of zeros: two of them end an archive. */
export function isZeroBlock(block: Uint8Array): boolean {
  for (let i = 0; i < block.length; i++) if (block[i] !== 0) return false;
  return true;
}

/** Where a field of a header block lies. */
export interface Field {
  at: number;
  length: number;
}
/** The fields of a header block. */
export const fields = {
  name: { at: 0, length: 100 },
  mode: { at: 100, length: 8 },
  uid: { at: 108, length: 8 },
  gid: { at: 116, length: 8 },
  size: { at: 124, length: 12 },
  mtime: { at: 136, length: 12 },
  checksum: { at: 148, length: 8 },
  type: { at: 156, length: 1 },
  linkName: { at: 157, length: 100 },
  magic: { at: 257, length: 8 },
  userName: { at: 265, length: 32 },
  groupName: { at: 297, length: 32 },
  prefix: { at: 345, length: 155 },
} as const satisfies Record<string, Field>;

const bytesOf = (block: Uint8Array, { at, length }: Field): Uint8Array => block.subarray(at, at + length);

function textOf(block: Uint8Array, field: Field): string {
  const bytes = bytesOf(block, field);
  const end = bytes.indexOf(0);
  return decodeSurrogateEscape(end < 0 ? bytes : bytes.subarray(0, end));
}

/** Octal digits between spaces and NULs, or GNU's big-endian binary behind a byte of 0x80 or 0xff. Undefined where it is neither. */
function numberOf(block: Uint8Array, field: Field): number | undefined {
  const bytes = bytesOf(block, field);
  const lead = bytes[0] as number;
  if (lead === 0x80 || lead === 0xff) {
    let value = lead === 0xff ? -1n : 0n; // two's complement
    for (let i = 1; i < bytes.length; i++) value = (value << 8n) | BigInt(bytes[i] as number);
    return Number.isSafeInteger(Number(value)) ? Number(value) : undefined;
  }
  let value = 0;
  let at = 0;
  while (at < bytes.length && (bytes[at] === 0x20 || bytes[at] === 0)) at++;
  for (; at < bytes.length && bytes[at] !== 0x20 && bytes[at] !== 0; at++) {
    const digit = (bytes[at] as number) - 0x30;
    if (digit < 0 || digit > 7) return undefined;
    value = value * 8 + digit;
  }
  return value;
}

/** Sums of a header's bytes, its checksum field taken as spaces: unsigned, and signed as some old tars made it. */
export function checksums(block: Uint8Array): { unsigned: number; signed: number } {
  let unsigned = 8 * 0x20;
  let high = 0;
  for (let i = 0; i < blockSize; i++) {
    if (i === fields.checksum.at) i += fields.checksum.length;
    const byte = block[i] as number;
    unsigned += byte;
    if (byte >= 0x80) high++;
  }
  return { unsigned, signed: unsigned - 256 * high };
}

/** A header block as it stands, before GNU's or PAX's additions. */
export interface RawTarHeader extends TarHeader {
  format: "v7" | "ustar" | "gnu";
}

/**
 * Reads a header block.
 * @param block 512 bytes that are not all zeros
 * @param at the name that errors give: archive and position
 * @throws FormatError TAR_BAD where the checksum or a number does not fit
 */
export function parseTarHeader(block: Uint8Array, at: string): RawTarHeader {
  const bad = (message: string) => new FormatError("TAR_BAD", { at, message, fix: "write or copy the archive again, or check it: serac tar verify" });
  if (block.length < blockSize) throw new FormatError("TAR_TRUNCATED", { at, message: `the archive ends inside of a header (${block.length} of ${blockSize} bytes)` });
  const sum = numberOf(block, fields.checksum);
  const { unsigned, signed } = checksums(block);
  if (sum !== unsigned && sum !== signed) throw bad(sum === undefined ? "this is no tar header" : `the header's checksum is ${sum}, its bytes give ${unsigned}`);
  const magic = Buffer.from(bytesOf(block, fields.magic)).toString("latin1");
  const format = magic.startsWith("ustar\0") ? "ustar" : magic.startsWith("ustar ") ? "gnu" : "v7";
  const number = (name: "mode" | "uid" | "gid" | "size" | "mtime"): number => {
    const value = numberOf(block, fields[name]);
    if (value === undefined) throw bad(`the header's ${name} is no number`);
    return value;
  };
  const size = number("size");
  if (size < 0) throw bad(`a member of ${size} bytes`);
  const flag = block[fields.type.at] as number;
  const name = textOf(block, fields.name);
  const prefix = format === "ustar" ? textOf(block, fields.prefix) : "";
  // Before ustar a directory was told by its slash.
  const type = flag === 0 ? (format === "v7" && name.endsWith("/") ? tarTypes.directory : tarTypes.file) : String.fromCharCode(flag);
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    mode: number("mode"),
    uid: number("uid"),
    gid: number("gid"),
    size,
    mtime: number("mtime"),
    type,
    linkName: textOf(block, fields.linkName),
    userName: textOf(block, fields.userName),
    groupName: textOf(block, fields.groupName),
    format,
  };
}

/**
 * Reads the data of a PAX header: records "length key=value\n".
 * @throws FormatError TAR_BAD
 */
export function parsePaxRecords(data: Uint8Array, at: string): Map<string, string> {
  const records = new Map<string, string>();
  const bad = () => new FormatError("TAR_BAD", { at, message: "a PAX header that breaks its own format" });
  for (let start = 0; start < data.length && data[start] !== 0; ) {
    const space = data.indexOf(0x20, start);
    if (space < 0 || space - start > 16) throw bad();
    const digits = Buffer.from(data.subarray(start, space)).toString("latin1");
    const end = start + Number(digits);
    if (!/^\d+$/.test(digits) || end <= space || end > data.length || data[end - 1] !== 0x0a) throw bad();
    const equals = data.indexOf(0x3d, space);
    if (equals < 0 || equals >= end) throw bad();
    records.set(decodeSurrogateEscape(data.subarray(space + 1, equals)), decodeSurrogateEscape(data.subarray(equals + 1, end - 1)));
    start = end;
  }
  return records;
}

/**
 * Puts the values of PAX records over those of a header.
 * @throws FormatError TAR_BAD for a size that is none
 */
export function applyPaxRecords(header: TarHeader, records: ReadonlyMap<string, string>, at: string): TarHeader {
  const result = { ...header };
  const number = (key: string, old: number): number => {
    const text = records.get(key);
    return text === undefined || text === "" || !Number.isFinite(Number(text)) ? old : Number(text);
  };
  result.name = records.get("path") || result.name;
  result.linkName = records.get("linkpath") || result.linkName;
  result.userName = records.get("uname") || result.userName;
  result.groupName = records.get("gname") || result.groupName;
  result.uid = number("uid", result.uid);
  result.gid = number("gid", result.gid);
  result.mtime = number("mtime", result.mtime);
  const size = records.get("size");
  if (size !== undefined && size !== "") {
    if (!/^\d+$/.test(size) || !Number.isSafeInteger(Number(size))) throw new FormatError("TAR_BAD", { at, message: `a PAX header gives the size "${size.slice(0, 40)}"` });
    result.size = Number(size);
  }
  return result;
}
