/**
 * Header bytes of tar members in PAX, GNU and ustar: those that Python's tarfile writes for the same member.
 * Source: CPython 3.11 Lib/tarfile.py (TarInfo.tobuf).
 */
import { FormatError } from "../../util/errors.ts";
import { pythonFloat } from "../pythonNumber.ts";
import { encodeSurrogateEscape, hasEscapedBytes } from "../surrogateEscape.ts";
import { blockSize, checksums, type Field, fields, paddedSize, type TarFormat, type TarHeader, tarTypes } from "./header.ts";

const ustarMagic = "ustar\x0000";
const gnuMagic = "ustar  \0";

/** A text is ASCII; bytes may be anything. What is longer than the field is cut. */
function putText(block: Buffer, { at, length }: Field, value: string | Uint8Array): void {
  if (typeof value === "string") {
    if (value !== "") block.write(value, at, length, "latin1");
  } else block.set(value.length > length ? value.subarray(0, length) : value, at);
}

function putNumber(block: Buffer, { at, length }: Field, value: number): void {
  if (value >= 0 && value < 8 ** (length - 1)) {
    let rest = value;
    for (let i = at + length - 2; i >= at; i--) {
      block[i] = 0x30 + (rest % 8);
      rest = Math.floor(rest / 8);
    }
    return;
  }
  // GNU's binary form
  let rest = BigInt(value);
  block[at] = value < 0 ? 0xff : 0x80;
  for (let i = length - 1; i > 0; i--) {
    block[at + i] = Number(rest & 255n); // two's complement
    rest >>= 8n;
  }
}

interface BlockFields {
  name: string | Uint8Array;
  mode: number;
  uid: number;
  gid: number;
  size: number;
  mtime: number;
  type: string;
  linkName: string | Uint8Array;
  userName: string | Uint8Array;
  groupName: string | Uint8Array;
  prefix: string | Uint8Array;
  magic: string;
}

const nothing = "";

function printBlock(into: Buffer, block: BlockFields): void {
  putText(into, fields.name, block.name);
  putNumber(into, fields.mode, block.mode & 0o7777);
  putNumber(into, fields.uid, block.uid);
  putNumber(into, fields.gid, block.gid);
  putNumber(into, fields.size, block.size);
  putNumber(into, fields.mtime, block.mtime);
  into.write(block.type, fields.type.at, 1, "latin1");
  putText(into, fields.linkName, block.linkName);
  into.write(block.magic, fields.magic.at, "latin1");
  putText(into, fields.userName, block.userName);
  putText(into, fields.groupName, block.groupName);
  putText(into, fields.prefix, block.prefix);
  into.write(`${checksums(into).unsigned.toString(8).padStart(6, "0")}\0 `, fields.checksum.at, "latin1");
}

/** A header of bookkeeping before the member's own; its data follow at `blockSize`. */
function printExtension(into: Buffer, name: string, type: string, size: number, magic: string): void {
  const none = { mode: 0, uid: 0, gid: 0, mtime: 0, linkName: nothing, userName: nothing, groupName: nothing, prefix: nothing };
  printBlock(into.subarray(0, blockSize), { ...none, name, type, size, magic });
}

/** "length key=value\n", where the length counts its own digits. */
function paxRecord(key: string, value: string): Buffer {
  const bytes = encodeSurrogateEscape(value);
  const rest = key.length + bytes.length + 3;
  let length = rest + 1;
  while (rest + String(length).length !== length) length = rest + String(length).length;
  return Buffer.concat([Buffer.from(`${length} ${key}=`, "latin1"), bytes, Buffer.from("\n", "latin1")]);
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the range is what ASCII is
const ascii = /^[\u0000-\u007f]*$/;

/** Python's encode("ascii", "replace"): a question mark for each character. */
function asciiOf(text: string): string {
  return ascii.test(text) ? text : Array.from(text, (char) => ((char.codePointAt(0) as number) < 0x80 ? char : "?")).join("");
}

/** Python's round(): half to even. */
function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor;
}

const textFields = [
  ["name", "path", 100],
  ["linkName", "linkpath", 100],
  ["userName", "uname", 32],
  ["groupName", "gname", 32],
] as const;
const numberFields = [
  ["uid", 8],
  ["gid", 8],
  ["size", 12],
  ["mtime", 12],
] as const;

/** How to write a header. */
export interface PrintTarOptions {
  /** "pax" is Python's default (3.8 and newer). */
  format?: TarFormat;
  /** True where the time came from a file: Python holds it as a float then, and writes it to a PAX header even when it is whole. */
  floatTime?: boolean;
}

function printPax(header: TarHeader, floatTime: boolean): Buffer {
  const records: [string, string][] = [];
  const numbers = { uid: header.uid, gid: header.gid, size: header.size, mtime: header.mtime };
  for (const [field, key, length] of textFields) {
    const value = header[field];
    if (!ascii.test(value) || value.length > length) records.push([key, value]);
  }
  for (const [field, digits] of numberFields) {
    const value = numbers[field];
    const isFloat = field === "mtime" && (floatTime || !Number.isInteger(value));
    const whole = isFloat ? roundHalfEven(value) : value;
    const fits = whole >= 0 && whole < 8 ** (digits - 1);
    numbers[field] = fits ? whole : 0;
    if (!fits || isFloat) records.push([field, isFloat ? pythonFloat(value) : String(value)]);
  }
  const data = Buffer.concat(records.map(([key, value]) => paxRecord(key, value)));
  const binary = records.some(([, value]) => hasEscapedBytes(value)) ? Buffer.from("21 hdrcharset=BINARY\n", "latin1") : Buffer.alloc(0);
  const size = binary.length + data.length;
  const before = size === 0 ? 0 : blockSize + paddedSize(size);
  const bytes = Buffer.alloc(before + blockSize);
  if (size > 0) {
    printExtension(bytes, "././@PaxHeader", tarTypes.paxHeader, size, ustarMagic);
    bytes.set(binary, blockSize);
    bytes.set(data, blockSize + binary.length);
  }
  const texts = { name: asciiOf(header.name), linkName: asciiOf(header.linkName), userName: asciiOf(header.userName), groupName: asciiOf(header.groupName) };
  printBlock(bytes.subarray(before), { ...texts, ...numbers, mode: header.mode, type: header.type, prefix: nothing, magic: ustarMagic });
  return bytes;
}

function printGnu(header: TarHeader): Buffer {
  const name = encodeSurrogateEscape(header.name);
  const linkName = encodeSurrogateEscape(header.linkName);
  const parts: Buffer[] = [];
  const long = (name: Buffer, type: string): void => {
    const bytes = Buffer.alloc(blockSize + paddedSize(name.length + 1)); // ends with a NUL
    printExtension(bytes, "././@LongLink", type, name.length + 1, gnuMagic);
    bytes.set(name, blockSize);
    parts.push(bytes);
  };
  if (linkName.length > 100) long(linkName, tarTypes.gnuLongLink);
  if (name.length > 100) long(name, tarTypes.gnuLongName);
  const block = Buffer.alloc(blockSize);
  const texts = { name, linkName, userName: encodeSurrogateEscape(header.userName), groupName: encodeSurrogateEscape(header.groupName) };
  printBlock(block, { ...header, ...texts, mtime: Math.trunc(header.mtime), prefix: nothing, magic: gnuMagic });
  return Buffer.concat([...parts, block]);
}

function printUstar(header: TarHeader): Buffer {
  const bad = (message: string) => new FormatError("TAR_BAD", { at: header.name, message, fix: "write it in the PAX format" });
  let name = encodeSurrogateEscape(header.name);
  let prefix: Buffer = Buffer.alloc(0);
  if (name.length > 100) {
    let cut = name.indexOf(0x2f);
    while (cut >= 0 && name.length - cut - 1 > 100) cut = name.indexOf(0x2f, cut + 1);
    if (cut <= 0 || cut > 155) throw bad("the name is too long for ustar");
    prefix = name.subarray(0, cut);
    name = name.subarray(cut + 1);
  }
  const linkName = encodeSurrogateEscape(header.linkName);
  if (linkName.length > 100) throw bad("the link's name is too long for ustar");
  const mtime = Math.trunc(header.mtime);
  for (const [field, digits] of numberFields) if (!(header[field] >= 0 && header[field] < 8 ** (digits - 1))) throw bad(`the ${field} does not fit into ustar`);
  const block = Buffer.alloc(blockSize);
  const texts = { name, prefix, linkName, userName: encodeSurrogateEscape(header.userName), groupName: encodeSurrogateEscape(header.groupName) };
  printBlock(block, { ...header, ...texts, mtime, magic: ustarMagic });
  return block;
}

/**
 * The bytes of a header, with what PAX or GNU put before it: equal to those of Python's tarfile for the same TarInfo.
 * @throws FormatError TAR_BAD for what ustar cannot hold
 */
export function printTarHeader(header: TarHeader, { format = "pax", floatTime = false }: PrintTarOptions = {}): Buffer {
  if (format === "pax") return printPax(header, floatTime);
  return format === "gnu" ? printGnu(header) : printUstar(header);
}

/** What headers of files of one owner have in common, and the sum of its bytes with an empty name, size and time. */
interface Template {
  mode: number;
  uid: number;
  gid: number;
  userName: string;
  groupName: string;
  bytes: Buffer;
  sum: number;
}
let template: Template | undefined;
/** Headers of PAX records by the length of the record: it is always that of a time, and nearly always the same. */
const timeHeaders = new Map<number, Buffer>();

function templateFor({ mode, uid, gid, userName, groupName }: TarHeader): Template {
  if (template && template.mode === mode && template.uid === uid && template.gid === gid && template.userName === userName && template.groupName === groupName) return template;
  const bytes = Buffer.from(printPax({ name: "", mode, uid, gid, size: 0, mtime: 0, type: tarTypes.file, linkName: "", userName, groupName }, false));
  for (const { at, length } of [fields.size, fields.mtime]) bytes.fill(0, at, at + length);
  template = { mode, uid, gid, userName, groupName, bytes, sum: checksums(bytes).unsigned };
  return template;
}

/** Writes octal digits before the field's last byte. @returns their sum */
function putDigits(into: Buffer, from: number, { at, length }: Field, value: number): number {
  let rest = value;
  let sum = 0;
  for (let i = from + at + length - 2; i >= from + at; i--) {
    const digit = 0x30 + (rest % 8);
    into[i] = digit;
    sum += digit;
    rest = Math.floor(rest / 8);
  }
  return sum;
}

/** The most that `printFileHeader` writes. */
export const fileHeaderSize = 3 * blockSize;

/**
 * Writes the PAX headers of an ordinary file with a time from the disk straight into a buffer: the bytes of `printTarHeader`, many times as fast.
 * @param into has `fileHeaderSize` bytes from `at` on
 * @returns how many bytes were written; 0 where the file is not ordinary (a name that is long or not ASCII, numbers that do not fit)
 */
export function printFileHeader(into: Buffer, at: number, header: TarHeader): number {
  const { name, size, mtime, uid, gid, userName, groupName } = header;
  const time = roundHalfEven(mtime);
  if (name.length > 100 || !(time >= 0 && time < 8 ** 11) || size >= 8 ** 11 || uid >= 8 ** 7 || gid >= 8 ** 7 || userName.length > 32 || groupName.length > 32) return 0;
  if (!ascii.test(name) || !ascii.test(userName) || !ascii.test(groupName)) return 0;
  const value = pythonFloat(mtime);
  const rest = 8 + value.length; // "mtime", a space, "=" and a line feed
  const length = rest + 2; // two digits: a float's repr has 3 to 24 characters
  if (length < 10 || length > 99) return 0;
  let extension = timeHeaders.get(length);
  if (extension === undefined) {
    extension = Buffer.alloc(blockSize);
    printExtension(extension, "././@PaxHeader", tarTypes.paxHeader, length, ustarMagic);
    timeHeaders.set(length, extension);
  }
  const common = templateFor(header);
  into.set(extension, at);
  into.fill(0, at + blockSize, at + 2 * blockSize);
  into.write(`${length} mtime=${value}\n`, at + blockSize, "latin1");
  const from = at + 2 * blockSize;
  into.set(common.bytes, from);
  let sum = common.sum;
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    into[from + i] = code;
    sum += code;
  }
  sum += putDigits(into, from, fields.size, size) + putDigits(into, from, fields.mtime, time);
  const { at: checksum } = fields.checksum;
  for (let i = from + checksum + 5; i >= from + checksum; i--) {
    into[i] = 0x30 + (sum % 8);
    sum = Math.floor(sum / 8);
  }
  return fileHeaderSize;
}
