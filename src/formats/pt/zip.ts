/**
 * Zip archives as torch.save writes them: stored members whose data begins at multiples of 64 bytes.
 * Source: PKWARE's APPNOTE 6.3 (4.3, 4.5.3), and what torch.save of 1.6 and later does. Packed members are refused, so nothing grows by unpacking.
 */
import { FormatError } from "../../util/errors.ts";
import { crc32 } from "../crc32.ts";
import type { RangeSource } from "./source.ts";

const localSignature = 0x04034b50;
const centralSignature = 0x02014b50;
const endSignature = 0x06054b50;
const end64Signature = 0x06064b50;
const locatorSignature = 0x07064b50;
const descriptorSignature = 0x08074b50;

/** A member: its data lies at [begin, begin + size). */
export interface ZipMember {
  name: string;
  begin: number;
  size: number;
  crc: number;
}

/** True where the bytes begin like a zip archive. */
export const isZip = (first: Uint8Array): boolean => first.length >= 4 && first[0] === 0x50 && first[1] === 0x4b && first[2] === 3 && first[3] === 4;

interface Directory {
  begin: number;
  size: number;
  count: number;
}

const maxTail = 22 + 0xffff; // the end record with the longest comment

class ZipReader {
  private readonly source: RangeSource;

  constructor(source: RangeSource) {
    this.source = source;
  }

  private bad(message: string): FormatError {
    return new FormatError("PT_BAD", { at: this.source.at, message });
  }

  private view(position: number, length: number): DataView {
    const bytes = new Uint8Array(length);
    this.source.read(position, bytes);
    return new DataView(bytes.buffer);
  }

  private number(value: bigint): number {
    if (value > BigInt(this.source.size)) throw this.bad(`the zip directory names byte ${value}, but the file has ${this.source.size}`);
    return Number(value);
  }

  private directory(): Directory {
    const { size } = this.source;
    const tail = this.view(Math.max(0, size - maxTail), Math.min(size, maxTail));
    let at = tail.byteLength - 22;
    // The record that ends with the file is taken; a comment could look like one.
    while (at >= 0 && !(tail.getUint32(at, true) === endSignature && at + 22 + tail.getUint16(at + 20, true) === tail.byteLength)) at--;
    if (at < 0)
      throw new FormatError("PT_TRUNCATED", {
        at: this.source.at,
        message: "it begins like a zip archive, but has no directory at its end",
        fix: "copy or write the file again: a run that is killed while it saves leaves such files",
      });
    const end = size - tail.byteLength + at;
    let count = tail.getUint16(at + 10, true);
    let length = tail.getUint32(at + 12, true);
    let begin = tail.getUint32(at + 16, true);
    if (count === 0xffff || length === 0xffffffff || begin === 0xffffffff) {
      if (end < 20) throw this.bad("the zip directory is not where it should be");
      const locator = this.view(end - 20, 20);
      if (locator.getUint32(0, true) !== locatorSignature) throw this.bad("the zip64 directory is not where it should be");
      const place = this.number(locator.getBigUint64(8, true));
      if (place + 56 > end) throw this.bad("the zip64 directory is not where it should be");
      const record = this.view(place, 56);
      if (record.getUint32(0, true) !== end64Signature) throw this.bad("the zip64 directory is not where it should be");
      count = this.number(record.getBigUint64(32, true));
      length = this.number(record.getBigUint64(40, true));
      begin = this.number(record.getBigUint64(48, true));
    }
    if (begin + length > end) throw this.bad(`the zip directory of ${length} bytes at ${begin} does not fit before its end at ${end}`);
    if (count * 46 > length) throw this.bad(`the zip directory of ${length} bytes cannot hold ${count} members`);
    return { begin, size: length, count };
  }

  private member(view: DataView, at: number): { member: ZipMember; local: number; next: number } {
    if (at + 46 > view.byteLength || view.getUint32(at, true) !== centralSignature) throw this.bad("an entry of the zip directory is damaged");
    const flags = view.getUint16(at + 8, true);
    const method = view.getUint16(at + 10, true);
    const crc = view.getUint32(at + 16, true);
    const packed = view.getUint32(at + 20, true);
    const size = view.getUint32(at + 24, true);
    const nameLength = view.getUint16(at + 28, true);
    const extraLength = view.getUint16(at + 30, true);
    const local = view.getUint32(at + 42, true);
    const next = at + 46 + nameLength + extraLength + view.getUint16(at + 32, true);
    if (next > view.byteLength) throw this.bad("an entry of the zip directory is damaged");
    const name = Buffer.from(view.buffer, view.byteOffset + at + 46, nameLength).toString("utf8");
    if (flags & 1) throw new FormatError("PT_UNSUPPORTED", { at: this.source.at, message: `its member ${name} is encrypted` });
    if (method !== 0)
      throw new FormatError("PT_UNSUPPORTED", {
        at: this.source.at,
        message: `its member ${name} is packed (zip method ${method}), which torch.save never does`,
        fix: "load it in Python and save it again by torch.save",
      });
    const wide = { size: BigInt(size), packed: BigInt(packed), local: BigInt(local) };
    // The zip64 field holds only what did not fit, in this order.
    let fields = [size === 0xffffffff && "size", packed === 0xffffffff && "packed", local === 0xffffffff && "local"].filter((key) => key !== false) as (keyof typeof wide)[];
    const extraEnd = at + 46 + nameLength + extraLength;
    for (let extra = at + 46 + nameLength; fields.length > 0 && extra + 4 <= extraEnd; ) {
      const id = view.getUint16(extra, true);
      const length = view.getUint16(extra + 2, true);
      if (extra + 4 + length > extraEnd) break;
      if (id === 1 && length >= 8 * fields.length) {
        fields.forEach((key, i) => (wide[key] = view.getBigUint64(extra + 4 + 8 * i, true)));
        fields = [];
      }
      extra += 4 + length;
    }
    if (fields.length > 0) throw this.bad(`the zip64 sizes of its member ${name} are missing`);
    if (wide.size !== wide.packed) throw this.bad(`its member ${name} is stored as it is, but its two sizes differ`);
    return { member: { name, begin: 0, size: this.number(wide.size), crc }, local: this.number(wide.local), next };
  }

  read(): Map<string, ZipMember> {
    const directory = this.directory();
    const central = this.view(directory.begin, directory.size);
    const found: { member: ZipMember; local: number }[] = [];
    for (let i = 0, at = 0; i < directory.count; i++) {
      const entry = this.member(central, at);
      found.push(entry);
      at = entry.next;
    }
    // Members that overlap would let a small file claim a large content.
    found.sort((a, b) => a.local - b.local);
    let free = 0;
    const members = new Map<string, ZipMember>();
    for (const { member, local } of found) {
      if (local < free) throw this.bad(`its member ${member.name} overlaps another one`);
      if (local + 30 > directory.begin) throw this.bad(`its member ${member.name} begins behind the end of the data`);
      const header = this.view(local, 30);
      if (header.getUint32(0, true) !== localSignature) throw this.bad(`its member ${member.name} does not begin with a header`);
      member.begin = local + 30 + header.getUint16(26, true) + header.getUint16(28, true);
      free = member.begin + member.size;
      if (free > directory.begin) throw this.bad(`its member ${member.name} ends at byte ${free}, behind the end of the data`);
      if (members.has(member.name)) throw this.bad(`it has two members of the name ${member.name}`);
      members.set(member.name, member);
    }
    return members;
  }
}

/** The members of an archive, by name, in the order of their data. @throws FormatError PT_BAD, PT_TRUNCATED, PT_UNSUPPORTED */
export const readZip = (source: RangeSource): Map<string, ZipMember> => new ZipReader(source).read();

/** Where the writer puts bytes: each call goes behind the one before. */
export type Sink = (bytes: Uint8Array) => void;

interface Written {
  name: Buffer;
  local: number;
  size: number;
  crc: number;
}

const alignment = 64; // of data, as torch.save's

/**
 * Writes members in order, as torch.save does: sizes and checksums behind the data, and padding in a field "FB" so that data is aligned.
 * @param wide numbers from here on are written in zip64 fields
 */
export class ZipWriter {
  private readonly sink: Sink;
  private readonly wide: number;
  private readonly written: Written[] = [];
  private position = 0;

  constructor(sink: Sink, { wide = 0xffffffff }: { wide?: number } = {}) {
    this.sink = sink;
    this.wide = wide;
  }

  private put(bytes: Uint8Array): void {
    this.sink(bytes);
    this.position += bytes.byteLength;
  }

  /** One member of `size` bytes, which `parts` gives piece by piece. */
  add(name: string, size: number, parts: Iterable<Uint8Array>): void {
    const local = this.position;
    const encoded = Buffer.from(name, "utf8");
    const wide = size >= this.wide;
    const padding = (alignment - ((local + 30 + encoded.length + (wide ? 20 : 0) + 4) % alignment)) % alignment;
    const header = Buffer.alloc(30 + encoded.length + (wide ? 20 : 0) + 4 + padding, "Z");
    header.fill(0, 0, 30);
    header.writeUInt32LE(localSignature, 0);
    if (wide) header.writeUInt16LE(45, 4);
    header.writeUInt16LE(0x0808, 6); // names in UTF-8, a descriptor behind the data
    if (wide) header.fill(0xff, 18, 26);
    header.writeUInt16LE(encoded.length, 26);
    header.writeUInt16LE(header.length - 30 - encoded.length, 28);
    encoded.copy(header, 30);
    let at = 30 + encoded.length;
    if (wide) {
      header.writeUInt16LE(1, at);
      header.writeUInt16LE(16, at + 2);
      header.writeBigUInt64LE(BigInt(size), at + 4);
      header.writeBigUInt64LE(BigInt(size), at + 12);
      at += 20;
    }
    header.write("FB", at, "latin1");
    header.writeUInt16LE(padding, at + 2);
    this.put(header);
    let crc = 0;
    let done = 0;
    for (const part of parts) {
      crc = crc32(part, crc);
      done += part.byteLength;
      this.put(part);
    }
    if (done !== size) throw new FormatError("PT_BAD", { at: name, message: `a member of ${done} bytes, where ${size} were announced` });
    const descriptor = Buffer.alloc(wide ? 24 : 16);
    descriptor.writeUInt32LE(descriptorSignature, 0);
    descriptor.writeUInt32LE(crc, 4);
    if (wide) {
      descriptor.writeBigUInt64LE(BigInt(size), 8);
      descriptor.writeBigUInt64LE(BigInt(size), 16);
    } else {
      descriptor.writeUInt32LE(size, 8);
      descriptor.writeUInt32LE(size, 12);
    }
    this.put(descriptor);
    this.written.push({ name: encoded, local, size, crc });
  }

  /** The directory. Always with a zip64 record, as torch.save's. */
  finish(): void {
    const begin = this.position;
    for (const { name, local, size, crc } of this.written) {
      const sizes = size >= this.wide;
      const place = local >= this.wide;
      const extra = sizes || place ? 4 + (sizes ? 16 : 0) + (place ? 8 : 0) : 0;
      const entry = Buffer.alloc(46 + name.length + extra);
      entry.writeUInt32LE(centralSignature, 0);
      if (extra > 0) entry.writeUInt16LE(45, 6);
      entry.writeUInt16LE(0x0808, 8);
      entry.writeUInt32LE(crc, 16);
      entry.writeUInt32LE(sizes ? 0xffffffff : size, 20);
      entry.writeUInt32LE(sizes ? 0xffffffff : size, 24);
      entry.writeUInt16LE(name.length, 28);
      entry.writeUInt16LE(extra, 30);
      entry.writeUInt32LE(place ? 0xffffffff : local, 42);
      name.copy(entry, 46);
      if (extra > 0) {
        let at = 46 + name.length;
        entry.writeUInt16LE(1, at);
        entry.writeUInt16LE(extra - 4, at + 2);
        at += 4;
        for (const value of [...(sizes ? [size, size] : []), ...(place ? [local] : [])]) {
          entry.writeBigUInt64LE(BigInt(value), at);
          at += 8;
        }
      }
      this.put(entry);
    }
    const length = this.position - begin;
    const count = this.written.length;
    const end = Buffer.alloc(56 + 20 + 22);
    end.writeUInt32LE(end64Signature, 0);
    end.writeBigUInt64LE(44n, 4);
    end.writeUInt16LE(0x031e, 12);
    end.writeUInt16LE(45, 14);
    end.writeBigUInt64LE(BigInt(count), 24);
    end.writeBigUInt64LE(BigInt(count), 32);
    end.writeBigUInt64LE(BigInt(length), 40);
    end.writeBigUInt64LE(BigInt(begin), 48);
    end.writeUInt32LE(locatorSignature, 56);
    end.writeBigUInt64LE(BigInt(this.position), 64);
    end.writeUInt32LE(1, 72);
    end.writeUInt32LE(endSignature, 76);
    end.writeUInt16LE(Math.min(count, 0xffff), 84);
    end.writeUInt16LE(Math.min(count, 0xffff), 86);
    end.writeUInt32LE(Math.min(length, 0xffffffff), 88);
    end.writeUInt32LE(begin >= this.wide ? 0xffffffff : begin, 92);
    this.put(end);
  }
}
