/**
 * The safetensors format: named arrays behind a JSON header.
 * Source: huggingface/safetensors, README ("Format"): no holes, no overlaps, little endian, header of at most 100 MB.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { FormatError } from "../util/errors.ts";
import { fileError, writeAtomically, writeFully } from "./atomic.ts";

const arrayOf = {
  F64: Float64Array,
  F32: Float32Array,
  I64: BigInt64Array,
  U64: BigUint64Array,
  I32: Int32Array,
  U32: Uint32Array,
  I16: Int16Array,
  U16: Uint16Array,
  F16: Uint16Array, // raw bits
  BF16: Uint16Array, // raw bits
  I8: Int8Array,
  U8: Uint8Array,
  BOOL: Uint8Array,
  F8_E4M3: Uint8Array, // raw bits
  F8_E5M2: Uint8Array, // raw bits
} as const;

/** Element types by their names in the file. */
export type SafeDtype = keyof typeof arrayOf;

/** The typed array that holds elements of a dtype; half precision is raw bits. */
export type SafeData = InstanceType<(typeof arrayOf)[SafeDtype]>;

/** One array: row-major elements, `shape` [] for a scalar. */
export interface SafeTensor {
  dtype: SafeDtype;
  shape: number[];
  data: SafeData;
}

/** A whole file. */
export interface SafeTensors {
  tensors: Map<string, SafeTensor>;
  metadata: Record<string, string>;
}

interface Entry {
  name: string;
  dtype: SafeDtype;
  shape: number[];
  begin: number;
  end: number;
}

const maxHeader = 100_000_000; // the format's own limit

function bad(at: string, message: string): FormatError {
  return new FormatError("SAFETENSORS_BAD", { at, message });
}
function truncated(at: string, message: string): FormatError {
  return new FormatError("SAFETENSORS_TRUNCATED", { at, message, fix: "copy or write the file again" });
}

function headerLength(first: Uint8Array, fileSize: number, at: string): number {
  if (first.byteLength < 8) throw truncated(at, `only ${fileSize} bytes, a safetensors file has at least 8`);
  const length = new DataView(first.buffer, first.byteOffset, 8).getBigUint64(0, true);
  if (length > BigInt(maxHeader)) throw bad(at, `a header of ${length} bytes, more than ${maxHeader}: not a safetensors file`);
  if (Number(length) + 8 > fileSize) throw truncated(at, `the header should have ${length} bytes, but the file has ${fileSize}`);
  return Number(length);
}

function isSizes(x: unknown): x is number[] {
  return Array.isArray(x) && x.every((n) => Number.isSafeInteger(n) && n >= 0);
}

function parseHeader(bytes: Uint8Array, dataSize: number, at: string): { entries: Entry[]; metadata: Record<string, string> } {
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new FormatError("SAFETENSORS_BAD", { at, message: "the header is not JSON: not a safetensors file", cause });
  }
  if (typeof header !== "object" || header === null || Array.isArray(header)) throw bad(at, "the header is not a JSON object");
  const entries: Entry[] = [];
  const metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(header as Record<string, unknown>)) {
    if (name === "__metadata__") {
      if (typeof value !== "object" || value === null || Object.values(value).some((v) => typeof v !== "string")) throw bad(at, "__metadata__ must map strings to strings");
      for (const [k, v] of Object.entries(value)) Object.defineProperty(metadata, k, { value: v, enumerable: true, writable: true, configurable: true });
      continue;
    }
    const { dtype, shape, data_offsets: offsets } = (value ?? {}) as { dtype?: unknown; shape?: unknown; data_offsets?: unknown };
    if (typeof dtype !== "string" || !Object.hasOwn(arrayOf, dtype)) throw bad(at, `tensor "${name}" has the unknown dtype ${JSON.stringify(dtype)}`);
    if (!isSizes(shape)) throw bad(at, `tensor "${name}" has no valid shape`);
    if (!isSizes(offsets) || offsets.length !== 2) throw bad(at, `tensor "${name}" has no valid data_offsets`);
    const [begin, end] = offsets as [number, number];
    const size = shape.reduce((a, b) => a * b, 1) * arrayOf[dtype as SafeDtype].BYTES_PER_ELEMENT;
    if (end - begin !== size) throw bad(at, `tensor "${name}" of ${dtype} [${shape.join(", ")}] needs ${size} bytes, but its data_offsets give ${end - begin}`);
    if (end > dataSize) throw truncated(at, `tensor "${name}" ends at byte ${end} of the data, but the file holds ${dataSize}`);
    entries.push({ name, dtype: dtype as SafeDtype, shape, begin, end });
  }
  let position = 0;
  for (const entry of [...entries].sort((a, b) => a.begin - b.begin || a.end - b.end)) {
    if (entry.begin !== position) throw bad(at, `tensor "${entry.name}" begins at byte ${entry.begin} of the data, where ${position} was expected`);
    position = entry.end;
  }
  if (position !== dataSize) throw bad(at, `${dataSize - position} bytes at the end belong to no tensor`);
  return { entries, metadata };
}

function load({ entries, metadata }: ReturnType<typeof parseHeader>, read: (into: Uint8Array, begin: number) => void): SafeTensors {
  const tensors = new Map<string, SafeTensor>();
  for (const { name, dtype, shape, begin, end } of entries) {
    const bytes = new Uint8Array(end - begin);
    read(bytes, begin);
    tensors.set(name, { dtype, shape, data: new arrayOf[dtype](bytes.buffer) });
  }
  return { tensors, metadata };
}

/**
 * Parses a whole file in memory; the arrays are copies.
 * @param at the name that errors give
 * @throws FormatError SAFETENSORS_BAD, SAFETENSORS_TRUNCATED
 */
export function parseSafetensors(bytes: Uint8Array, at = "safetensors"): SafeTensors {
  const start = 8 + headerLength(bytes.subarray(0, 8), bytes.byteLength, at);
  const header = parseHeader(bytes.subarray(8, start), bytes.byteLength - start, at);
  return load(header, (into, begin) => into.set(bytes.subarray(start + begin, start + begin + into.byteLength)));
}

/** A tensor of an open file, whose bytes are read when they are asked for. */
export interface LazySafeTensor {
  readonly name: string;
  readonly dtype: SafeDtype;
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** Row by row, little endian. */
  bytes(): Uint8Array<ArrayBuffer>;
}

/** An open file. */
export interface SafeTensorsFile {
  /** In the order of the header. */
  readonly tensors: readonly LazySafeTensor[];
  readonly metadata: Record<string, string>;
  close(): void;
}

/**
 * Opens a file, reads its header, and tensors when they are asked for; the caller closes it.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE, SAFETENSORS_BAD, SAFETENSORS_TRUNCATED
 */
export function openSafetensors(path: string): SafeTensorsFile {
  let fd: number | undefined;
  try {
    fd = openSync(path, "r");
    const file = fd;
    const size = fstatSync(file).size;
    const read = <T extends Uint8Array>(into: T, position: number): T => {
      try {
        for (let at = 0; at < into.byteLength; ) {
          const n = readSync(file, into, at, Math.min(1 << 30, into.byteLength - at), position + at);
          if (n === 0) throw truncated(path, "the file became shorter while it was read");
          at += n;
        }
      } catch (error) {
        throw fileError(path, "read", error);
      }
      return into;
    };
    const start = 8 + headerLength(read(new Uint8Array(Math.min(8, size)), 0), size, path);
    const { entries, metadata } = parseHeader(read(new Uint8Array(start - 8), 8), size - start, path);
    let open = true;
    return {
      tensors: entries.map(({ name, dtype, shape, begin, end }) => ({
        name,
        dtype,
        shape,
        byteLength: end - begin,
        bytes: () => read(new Uint8Array(end - begin), start + begin),
      })),
      metadata,
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

/**
 * Reads a file tensor by tensor, so files of any size.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE, SAFETENSORS_BAD, SAFETENSORS_TRUNCATED
 */
export function readSafetensors(path: string): SafeTensors {
  const file = openSafetensors(path);
  try {
    return {
      tensors: new Map(file.tensors.map(({ name, dtype, shape, bytes }) => [name, { dtype, shape: [...shape], data: new arrayOf[dtype](bytes().buffer) }])),
      metadata: file.metadata,
    };
  } finally {
    file.close();
  }
}

/** A tensor to be written whose elements are made when their turn comes, so that they need not be in memory at once. */
export type LateSafeTensor = Omit<LazySafeTensor, "name" | "byteLength">;

type SafeTensorsInput = ReadonlyMap<string, SafeTensor | LateSafeTensor> | Readonly<Record<string, SafeTensor | LateSafeTensor>>;

function isMap(tensors: SafeTensorsInput): tensors is ReadonlyMap<string, SafeTensor | LateSafeTensor> {
  return tensors instanceof Map;
}

function layout(tensors: SafeTensorsInput, metadata: Readonly<Record<string, string>>): { header: Uint8Array; data: { size: number; bytes(): Uint8Array }[] } {
  const width = (t: SafeTensor | LateSafeTensor) => arrayOf[t.dtype].BYTES_PER_ELEMENT;
  // Widest elements first, then by name: every array stays aligned and the bytes do not depend on insertion order.
  const items = (isMap(tensors) ? [...tensors] : Object.entries(tensors)).sort(([a, x], [b, y]) => width(y) - width(x) || (a < b ? -1 : a > b ? 1 : 0));
  const entries: [string, unknown][] = Object.keys(metadata).length > 0 ? [["__metadata__", metadata]] : [];
  const data: { size: number; bytes(): Uint8Array }[] = [];
  let position = 0;
  for (const [name, tensor] of items) {
    const count = tensor.shape.reduce((a, b) => a * b, 1);
    const size = count * width(tensor);
    if (name === "__metadata__") throw bad(name, "no tensor can have this name");
    if ("data" in tensor) {
      const { data: elements } = tensor;
      if (!(elements instanceof arrayOf[tensor.dtype])) throw bad(name, `${tensor.dtype} needs a ${arrayOf[tensor.dtype].name}`);
      if (count !== elements.length) throw bad(name, `the shape [${tensor.shape.join(", ")}] has ${count} elements, but the data ${elements.length}`);
      data.push({ size, bytes: () => new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength) });
    } else
      data.push({
        size,
        bytes() {
          const bytes = tensor.bytes();
          if (bytes.byteLength !== size) throw bad(name, `${tensor.dtype} [${tensor.shape.join(", ")}] needs ${size} bytes, but there are ${bytes.byteLength}`);
          return bytes;
        },
      });
    entries.push([name, { dtype: tensor.dtype, shape: tensor.shape, data_offsets: [position, position + size] }]);
    position += size;
  }
  // Not by Object.fromEntries: an object moves names that look like numbers to the front, and loses "__proto__".
  const json = Buffer.from(`{${entries.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`).join(",")}}`, "utf8");
  const padded = Math.ceil(json.length / 8) * 8;
  const header = new Uint8Array(8 + padded).fill(0x20);
  new DataView(header.buffer).setBigUint64(0, BigInt(padded), true);
  header.set(json, 8);
  return { header, data };
}

/**
 * The bytes of a file.
 * @throws FormatError SAFETENSORS_BAD when a shape, dtype and array do not agree
 */
export function serializeSafetensors(tensors: SafeTensorsInput, metadata: Readonly<Record<string, string>> = {}): Uint8Array {
  const { header, data } = layout(tensors, metadata);
  const bytes = new Uint8Array(data.reduce((n, part) => n + part.size, header.byteLength));
  bytes.set(header);
  let at = header.byteLength;
  for (const part of data) {
    bytes.set(part.bytes(), at);
    at += part.size;
  }
  return bytes;
}

/**
 * Writes a file, whole or not at all, of any size.
 * @throws FormatError FILE_UNWRITABLE, SAFETENSORS_BAD
 */
export function writeSafetensors(path: string, tensors: SafeTensorsInput, metadata: Readonly<Record<string, string>> = {}): void {
  const { header, data } = layout(tensors, metadata);
  writeAtomically(path, (fd) => {
    writeFully(fd, header);
    for (const part of data) writeFully(fd, part.bytes());
  });
}
