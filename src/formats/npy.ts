/** NumPy's .npy files of real numbers. Source: numpy/lib/format.py, versions 1.0 to 3.0 of the format. Objects (pickles) are refused. */
import { FormatError } from "../util/errors.ts";
import type { FloatArray } from "./lilcom.ts";

const magic = "\x93NUMPY";

/** A header that was understood. */
export interface NpyHeader {
  shape: number[];
  /** NumPy's name of the dtype, with its byte order: "<f4". */
  descr: string;
  fortranOrder: boolean;
  /** Where the elements begin, in bytes. */
  start: number;
}

function bad(at: string, message: string): FormatError {
  return new FormatError("NPY_BAD", { at, message });
}

/** Reads the header. @throws FormatError NPY_BAD */
export function parseNpyHeader(bytes: Uint8Array, at = "npy data"): NpyHeader {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 10 || Buffer.from(bytes.subarray(0, 6)).toString("latin1") !== magic) throw bad(at, "not an .npy file: it does not begin with \\x93NUMPY");
  const version = bytes[6] as number;
  if (version < 1 || version > 3) throw bad(at, `version ${version} of the format, expected 1 to 3`);
  const wide = version > 1;
  if (wide && bytes.length < 12) throw bad(at, "the header ends early");
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const start = (wide ? 12 : 10) + length;
  if (start > bytes.length) throw bad(at, "the header ends early");
  const text = Buffer.from(bytes.subarray(start - length, start)).toString(version === 3 ? "utf8" : "latin1");
  const descr = /'descr'\s*:\s*'([^']*)'/.exec(text)?.[1];
  const order = /'fortran_order'\s*:\s*(True|False)/.exec(text)?.[1];
  const shape = /'shape'\s*:\s*\(([\d,\s]*)\)/.exec(text)?.[1];
  if (descr === undefined || order === undefined || shape === undefined) throw bad(at, `a header that is not understood: ${text.trim().slice(0, 80)}`);
  const sizes = shape
    .split(",")
    .map((size) => size.trim())
    .filter((size) => size !== "")
    .map(Number);
  return { shape: sizes, descr, fortranOrder: order === "True", start };
}

function half(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

type Reader = (view: DataView, at: number, little: boolean) => number;
const readers: Readonly<Record<string, [bytes: number, read: Reader]>> = {
  f2: [2, (view, at, little) => half(view.getUint16(at, little))],
  f4: [4, (view, at, little) => view.getFloat32(at, little)],
  f8: [8, (view, at, little) => view.getFloat64(at, little)],
  i1: [1, (view, at) => view.getInt8(at)],
  u1: [1, (view, at) => view.getUint8(at)],
  i2: [2, (view, at, little) => view.getInt16(at, little)],
  u2: [2, (view, at, little) => view.getUint16(at, little)],
  i4: [4, (view, at, little) => view.getInt32(at, little)],
  u4: [4, (view, at, little) => view.getUint32(at, little)],
  i8: [8, (view, at, little) => Number(view.getBigInt64(at, little))],
  u8: [8, (view, at, little) => Number(view.getBigUint64(at, little))],
};

/**
 * Reads an array as float32, row-major whatever its order in the file.
 * @throws FormatError NPY_BAD for other dtypes, damaged headers, and data that ends early
 */
export function parseNpy(bytes: Uint8Array, at = "npy data"): FloatArray {
  const { shape, descr, fortranOrder, start } = parseNpyHeader(bytes, at);
  const [, byteOrder = "", kind = ""] = /^([<>|=]?)([fiu]\d)$/.exec(descr) ?? [];
  const found = readers[kind];
  if (found === undefined) throw bad(at, `the dtype ${descr}, expected floats or integers`);
  const [width, read] = found;
  const size = shape.reduce((a, b) => a * b, 1);
  if (bytes.length < start + size * width) throw bad(at, `${bytes.length - start} bytes of data, expected ${size * width}`);
  const data = new Float32Array(size);
  const aligned = bytes.byteOffset + start;
  if (kind === "f4" && byteOrder !== ">" && !fortranOrder) {
    new Uint8Array(data.buffer).set(bytes.subarray(start, start + size * 4));
    return { shape, data };
  }
  const view = new DataView(bytes.buffer, aligned, size * width);
  if (!fortranOrder) {
    for (let i = 0; i < size; i++) data[i] = read(view, i * width, byteOrder !== ">");
    return { shape, data };
  }
  // The first axis runs fastest in the file.
  const index = shape.map(() => 0);
  for (let i = 0; i < size; i++) {
    let to = 0;
    for (let axis = 0; axis < shape.length; axis++) to = to * (shape[axis] as number) + (index[axis] as number);
    data[to] = read(view, i * width, byteOrder !== ">");
    for (let axis = 0; axis < shape.length; axis++) {
      index[axis] = (index[axis] as number) + 1;
      if ((index[axis] as number) < (shape[axis] as number)) break;
      index[axis] = 0;
    }
  }
  return { shape, data };
}

/** The bytes of an .npy file of float32, as numpy.save writes them. */
export function serializeNpy({ shape, data }: FloatArray): Uint8Array {
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const dictionary = `{'descr': '<f4', 'fortran_order': False, 'shape': (${sizes}), }`;
  // The elements begin at a multiple of 64; a line feed ends the header.
  const length = Math.ceil((10 + dictionary.length + 1) / 64) * 64 - 10;
  const bytes = Buffer.alloc(10 + length + data.length * 4, 0x20);
  bytes.write(magic, 0, "latin1");
  bytes[6] = 1;
  bytes[7] = 0;
  bytes.writeUInt16LE(length, 8);
  bytes.write(dictionary, 10, "latin1");
  bytes[9 + length] = 0x0a;
  bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 10 + length);
  return bytes;
}
