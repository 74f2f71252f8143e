/**
 * Writes files that torch.load reads: a pickle of protocol 2 and the elements of tensors, in a zip archive as torch 1.6 and later write it.
 * Tensors keep their strides, and share their storages as they do in the value that is written.
 */
import { basename } from "node:path";
import { FormatError } from "../../util/errors.ts";
import { writeAtomically, writeFully } from "../atomic.ts";
import { elementBytes, storageClass } from "./dtypes.ts";
import { PtTensor } from "./tensor.ts";
import {
  DefaultDict,
  FrozenSet,
  NumpyArray,
  NumpyDtype,
  NumpyScalar,
  OrderedDict,
  type PtDict,
  PtStorage,
  type PtValue,
  PyComplex,
  PyGlobal,
  PyNamespace,
  PyPath,
  PyPlaceholder,
  PyTuple,
  TorchDevice,
  TorchDtype,
} from "./values.ts";
import { type Sink, ZipWriter } from "./zip.ts";

const maxDepth = 500; // Python's own unpickler needs no recursion, but its pickler and repr do
const batch = 1000; // items behind one mark, as Python's pickler

const surrogate = /\p{Surrogate}/gu;

/** UTF-8, with three bytes for a lone surrogate, as Python reads it. */
function encodeText(text: string): Buffer {
  if (!/\p{Surrogate}/u.test(text)) return Buffer.from(text, "utf8");
  const parts: Buffer[] = [];
  let done = 0;
  for (const { 0: lone, index } of text.matchAll(surrogate)) {
    const code = lone.charCodeAt(0);
    parts.push(Buffer.from(text.slice(done, index), "utf8"), Buffer.from([0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)]));
    done = index + 1;
  }
  return Buffer.concat([...parts, Buffer.from(text.slice(done), "utf8")]);
}

/** Bytes of a two's complement integer, little endian, as few as it needs. */
function signedBytes(value: bigint): Buffer {
  let length = 1;
  while (BigInt.asIntN(8 * length, value) !== value) length++;
  return Buffer.from(
    BigInt.asUintN(8 * length, value)
      .toString(16)
      .padStart(2 * length, "0"),
    "hex",
  ).reverse();
}

/** Factories of defaultdict that do no more than make an empty value. */
const plainFactories = ["builtins.int", "builtins.float", "builtins.str", "builtins.list", "builtins.dict", "builtins.set"];

const numpyCodes: Readonly<Record<string, string>> = {
  float16: "f2",
  float32: "f4",
  float64: "f8",
  int8: "i1",
  int16: "i2",
  int32: "i4",
  int64: "i8",
  uint8: "u1",
  uint16: "u2",
  uint32: "u4",
  uint64: "u8",
  bool: "b1",
};

/** The bits of a number that float16 holds. */
function halfBits(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size < 2 ** -14) return sign | Math.round(size * 2 ** 24);
  if (size === Number.POSITIVE_INFINITY) return sign | 0x7c00;
  const exponent = Math.floor(Math.log2(size));
  return sign | (((exponent + 15) << 10) + Math.round((size / 2 ** exponent - 1) * 1024));
}

function numpyBytes({ dtype, value }: NumpyScalar): Buffer | undefined {
  const bytes = Buffer.alloc(elementBytes(dtype) ?? 0);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (dtype === "bool" && typeof value === "boolean") bytes[0] = value ? 1 : 0;
  else if (dtype === "float64" && typeof value === "number") view.setFloat64(0, value, true);
  else if (dtype === "float32" && typeof value === "number") view.setFloat32(0, value, true);
  else if (dtype === "float16" && typeof value === "number") view.setUint16(0, halfBits(value), true);
  else if (typeof value === "bigint" && Object.hasOwn(numpyCodes, dtype)) for (let i = 0; i < bytes.length; i++) bytes[i] = Number((value >> BigInt(8 * i)) & 255n);
  else return undefined;
  return bytes;
}

class Pickler {
  private readonly parts: Buffer[] = [];
  private readonly memo = new Map<PtValue, number>();
  private readonly globals = new Map<string, number>();
  private memoSize = 0;
  private depth = 0;
  /** In the order of their first use; a storage's place is its name. */
  readonly storages = new Map<PtStorage, { key: string; untyped: boolean }>();

  private code(...bytes: number[]): void {
    this.parts.push(Buffer.from(bytes));
  }

  private line(text: string): void {
    this.parts.push(Buffer.from(text, "latin1"));
  }

  private put(): number {
    const index = this.memoSize++;
    if (index < 256) this.code(0x71, index);
    else this.uint32(0x72, index);
    return index;
  }

  private get(index: number): void {
    if (index < 256) this.code(0x68, index);
    else this.uint32(0x6a, index);
  }

  private uint32(code: number, value: number): void {
    const bytes = Buffer.alloc(5);
    bytes[0] = code;
    bytes.writeUInt32LE(value, 1);
    this.parts.push(bytes);
  }

  private integer(value: bigint): void {
    if (value >= 0n && value < 256n) this.code(0x4b, Number(value));
    else if (value >= 0n && value < 65536n) this.code(0x4d, Number(value) & 255, Number(value) >> 8);
    else if (BigInt.asIntN(32, value) === value) this.uint32(0x4a, Number(BigInt.asUintN(32, value)));
    else {
      const bytes = signedBytes(value);
      if (bytes.length < 256) this.code(0x8a, bytes.length);
      else this.uint32(0x8b, bytes.length);
      this.parts.push(bytes);
    }
  }

  private text(value: string): void {
    const known = this.memo.get(value);
    if (known !== undefined) {
      this.get(known);
      return;
    }
    const bytes = encodeText(value);
    this.uint32(0x58, bytes.length);
    this.parts.push(bytes);
    this.memo.set(value, this.put());
  }

  private global(module: string, name: string): void {
    const key = `${module} ${name}`;
    const known = this.globals.get(key);
    if (known !== undefined) {
      this.get(known);
      return;
    }
    this.line(`c${module}\n${name}\n`);
    this.globals.set(key, this.put());
  }

  /** A call: the class or function, its arguments, and the place of the result in the memo. */
  private call(module: string, name: string, args: readonly PtValue[]): number {
    this.global(module, name);
    this.tuple(args);
    this.code(0x52);
    return this.put();
  }

  /** A tuple that nothing else refers to. */
  private tuple(items: readonly PtValue[]): void {
    if (items.length === 0) {
      this.code(0x29);
      return;
    }
    if (items.length > 3) this.code(0x28);
    for (const item of items) this.value(item);
    this.code(items.length > 3 ? 0x74 : 0x84 + items.length);
  }

  private items(list: readonly PtValue[]): void {
    for (let begin = 0; begin < list.length; begin += batch) {
      const part = list.slice(begin, begin + batch);
      if (part.length > 1) this.code(0x28);
      for (const item of part) this.value(item);
      this.code(part.length > 1 ? 0x65 : 0x61);
    }
  }

  private entries(map: ReadonlyMap<PtValue, PtValue>): void {
    const all = [...map];
    for (let begin = 0; begin < all.length; begin += batch) {
      const part = all.slice(begin, begin + batch);
      if (part.length > 1) this.code(0x28);
      for (const [key, value] of part) {
        this.value(key);
        this.value(value);
      }
      this.code(part.length > 1 ? 0x75 : 0x73);
    }
  }

  private bytes(value: Uint8Array): number {
    if (value.length === 0) return this.call("__builtin__", "bytes", []);
    return this.call("_codecs", "encode", [Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("latin1"), "latin1"]);
  }

  private storage(storage: PtStorage, untyped: boolean): void {
    let known = this.storages.get(storage);
    if (!known) {
      known = { key: String(this.storages.size), untyped };
      this.storages.set(storage, known);
    }
    if (known.untyped !== untyped) this.refuse("tensors of two element types that share their elements");
    const size = untyped ? storage.size * (elementBytes(storage.dtype) as number) : storage.size;
    this.code(0x28);
    this.text("storage");
    if (untyped) this.global("torch.storage", "UntypedStorage");
    else this.global("torch", storageClass(storage.dtype) as string);
    this.text(known.key);
    this.text(storage.location);
    this.integer(BigInt(size));
    this.code(0x74, 0x51);
  }

  private tensor(tensor: PtTensor): number {
    const untyped = tensor.dtype !== tensor.storage.dtype || storageClass(tensor.dtype) === undefined;
    if (tensor.parameter) this.global("torch._utils", "_rebuild_parameter");
    this.global("torch._utils", untyped ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
    this.code(0x28);
    this.storage(tensor.storage, untyped);
    this.integer(BigInt(tensor.offset));
    this.tuple(tensor.shape.map(BigInt));
    this.tuple(tensor.strides.map(BigInt));
    this.code(tensor.requiresGrad ? 0x88 : 0x89);
    this.call("collections", "OrderedDict", []);
    if (untyped) this.global("torch", tensor.dtype);
    this.code(0x74, 0x52);
    const index = this.put();
    if (!tensor.parameter) return index;
    this.code(tensor.requiresGrad ? 0x88 : 0x89);
    this.call("collections", "OrderedDict", []);
    this.code(0x87, 0x52);
    return this.put();
  }

  private refuse(what: string): never {
    throw new FormatError("PT_UNWRITABLE_VALUE", { message: `cannot write ${what}` });
  }

  private object(value: Exclude<PtValue, null | boolean | number | bigint | string>): void {
    const remember = (index: number): void => void this.memo.set(value, index);
    if (value instanceof PtTensor) remember(this.tensor(value));
    else if (Array.isArray(value)) {
      this.code(0x5d);
      remember(this.put());
      this.items(value);
    } else if (value instanceof OrderedDict) {
      remember(this.call("collections", "OrderedDict", []));
      this.entries(value);
      if (value.attributes) {
        this.value(value.attributes);
        this.code(0x62);
      }
    } else if (value instanceof DefaultDict) {
      const { factory } = value;
      if (factory !== null && !(factory instanceof PyGlobal && plainFactories.includes(factory.qualified))) this.refuse("a defaultdict of an unknown factory");
      this.global("collections", "defaultdict");
      if (factory instanceof PyGlobal) this.global("__builtin__", factory.name);
      else this.code(0x4e);
      this.code(0x85, 0x52);
      remember(this.put());
      this.entries(value);
    } else if (value instanceof Map) {
      this.code(0x7d);
      remember(this.put());
      this.entries(value);
    } else if (value instanceof PyTuple) {
      if (value.name === "torch.Size") remember(this.call("torch", "Size", [new PyTuple(value.items)]));
      else {
        this.tuple(value.items);
        if (value.items.length > 0) remember(this.put());
      }
    } else if (value instanceof Set) remember(this.call("__builtin__", value instanceof FrozenSet ? "frozenset" : "set", [[...value]]));
    else if (value instanceof Uint8Array) remember(this.bytes(value));
    else if (value instanceof PyComplex) remember(this.call("__builtin__", "complex", [value.real, value.imaginary]));
    else if (value instanceof PyPath) remember(this.call("pathlib", value.kind, [value.path]));
    else if (value instanceof TorchDtype) this.global("torch", value.name);
    else if (value instanceof TorchDevice) {
      const [kind, index] = value.device.split(":");
      remember(this.call("torch", "device", index === undefined ? [kind as string] : [kind as string, BigInt(index)]));
    } else if (value instanceof PyNamespace) {
      this.global("argparse", "Namespace");
      this.code(0x29, 0x81);
      remember(this.put());
      this.value(value.attributes);
      this.code(0x62);
    } else if (value instanceof NumpyScalar) remember(this.numpyScalar(value));
    else if (value instanceof PtStorage) this.storage(value, storageClass(value.dtype) === undefined);
    else if (value instanceof PyPlaceholder) this.refuse(`an object of the unknown type ${value.name}`);
    else if (value instanceof PyGlobal) this.refuse(`the class or function ${value.qualified}`);
    else if (value instanceof NumpyArray || value instanceof NumpyDtype) this.refuse("an array or dtype of NumPy's");
    else value satisfies never;
  }

  private numpyScalar(value: NumpyScalar): number {
    const bytes = numpyBytes(value);
    if (!bytes) this.refuse(`a NumPy number of ${value.dtype}`);
    this.global("numpy.core.multiarray", "scalar");
    this.call("numpy", "dtype", [numpyCodes[value.dtype] as string, false, true]);
    this.tuple([3n, bytes.length === 1 ? "|" : "<", null, null, null, -1n, -1n, 0n]);
    this.code(0x62);
    this.bytes(bytes);
    this.code(0x86, 0x52);
    return this.put();
  }

  value(value: PtValue): void {
    if (value === null) this.code(0x4e);
    else if (typeof value === "boolean") this.code(value ? 0x88 : 0x89);
    else if (typeof value === "bigint") this.integer(value);
    else if (typeof value === "number") {
      const bytes = Buffer.alloc(9);
      bytes[0] = 0x47;
      bytes.writeDoubleBE(value, 1);
      this.parts.push(bytes);
    } else if (typeof value === "string") this.text(value);
    else {
      const known = this.memo.get(value);
      if (known !== undefined) {
        this.get(known);
        return;
      }
      if (++this.depth > maxDepth) this.refuse(`values that are nested more than ${maxDepth} deep, or that contain themselves`);
      this.object(value);
      this.depth--;
    }
  }

  pickle(value: PtValue): Buffer {
    this.code(0x80, 2);
    this.value(value);
    this.code(0x2e);
    return Buffer.concat(this.parts);
  }
}

const chunk = 16 << 20;

/** The bytes of a storage, piece by piece. */
function* storageParts(storage: PtStorage, bytes: number): Generator<Uint8Array> {
  for (let begin = 0; begin < bytes; begin += chunk) {
    const part = new Uint8Array(Math.min(chunk, bytes - begin));
    storage.read(begin, part);
    yield part;
  }
}

function write(sink: Sink, value: PtValue, name: string, options?: { wide?: number }): void {
  const pickler = new Pickler();
  const pickle = pickler.pickle(value);
  const zip = new ZipWriter(sink, options);
  zip.add(`${name}/data.pkl`, pickle.length, [pickle]);
  // torch 1.13 sorts their names as texts.
  for (const [storage, { key }] of [...pickler.storages].sort(([, a], [, b]) => (a.key < b.key ? -1 : 1))) {
    const bytes = storage.size * (elementBytes(storage.dtype) as number);
    zip.add(`${name}/data/${key}`, bytes, storageParts(storage, bytes));
  }
  zip.add(`${name}/version`, 2, [Buffer.from("3\n")]);
  zip.finish();
}

/**
 * The bytes of a file.
 * @param name the archive's folder
 * @param wide sizes from here on are written in zip64 fields
 * @throws FormatError PT_UNWRITABLE_VALUE
 */
export function serializePt(value: PtValue, { name = "archive", wide }: { name?: string; wide?: number } = {}): Uint8Array {
  const parts: Uint8Array[] = [];
  write((part) => void parts.push(part), value, name, wide === undefined ? {} : { wide });
  return Buffer.concat(parts);
}

/**
 * Writes a file whole or not at all, of any size: elements go from where they are to the file piece by piece.
 * @throws FormatError PT_UNWRITABLE_VALUE, FILE_UNWRITABLE
 */
export function writePt(path: string, value: PtValue): void {
  const name = basename(path).replace(/\.[^.]*$/, "") || "archive";
  writeAtomically(path, (fd) => write((part) => writeFully(fd, part), value, name));
}

/** A dict of Python's, of names and values in their order. Whole numbers for an int are bigints: `{ epoch: 3n, loss: 0.5 }`. */
export function ptDict(entries: Readonly<Record<string, PtValue>> | Iterable<readonly [PtValue, PtValue]>): PtDict {
  return new Map(Symbol.iterator in entries ? (entries as Iterable<readonly [PtValue, PtValue]>) : Object.entries(entries));
}

/** A state_dict: an OrderedDict of tensors by name. */
export function stateDict(tensors: Iterable<readonly [string, PtTensor]>): OrderedDict {
  const dict = new OrderedDict();
  for (const [name, tensor] of tensors) dict.set(name, tensor);
  return dict;
}
