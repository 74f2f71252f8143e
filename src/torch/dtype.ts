/** Element types: their names, libtorch's codes, and the typed arrays that hold them. */
import { TorchError } from "../util/errors.ts";

/** Names of the element types, as PyTorch calls them. */
export type DType = "uint8" | "int8" | "int16" | "int32" | "int64" | "float16" | "float32" | "float64" | "bool" | "bfloat16";

/** Typed arrays that carry tensor data. float16 and bfloat16 travel as their bits in a Uint16Array, bool as 0 and 1 in a Uint8Array. */
export type TypedArray = Uint8Array | Int8Array | Int16Array | Uint16Array | Int32Array | BigInt64Array | Float32Array | Float64Array;

type TypedArrayConstructor = { new (buffer: ArrayBuffer, byteOffset?: number, length?: number): TypedArray; new (length: number): TypedArray };

const table: Record<DType, { code: number; array: TypedArrayConstructor; bytes: number }> = {
  uint8: { code: 0, array: Uint8Array, bytes: 1 },
  int8: { code: 1, array: Int8Array, bytes: 1 },
  int16: { code: 2, array: Int16Array, bytes: 2 },
  int32: { code: 3, array: Int32Array, bytes: 4 },
  int64: { code: 4, array: BigInt64Array, bytes: 8 },
  float16: { code: 5, array: Uint16Array, bytes: 2 },
  float32: { code: 6, array: Float32Array, bytes: 4 },
  float64: { code: 7, array: Float64Array, bytes: 8 },
  bool: { code: 11, array: Uint8Array, bytes: 1 },
  bfloat16: { code: 15, array: Uint16Array, bytes: 2 },
};

const names = new Map<number, DType>(Object.entries(table).map(([name, { code }]) => [code, name as DType]));

/** libtorch's code of an element type; undefined and null pass through, to mean "default" and "none". */
export function dtypeCode(dtype: DType): number;
export function dtypeCode(dtype: DType | null | undefined): number | null | undefined;
export function dtypeCode(dtype: DType | null | undefined): number | null | undefined {
  if (dtype === undefined || dtype === null) return dtype;
  const entry = table[dtype];
  if (!entry) throw new TorchError("TORCH_BAD_ARGUMENT", { message: `unknown dtype '${String(dtype)}'`, fix: `use one of ${Object.keys(table).join(", ")}` });
  return entry.code;
}

/** The name of libtorch's code. @throws TorchError TORCH_BAD_ARGUMENT for types that have no name here (complex, quantised) */
export function dtypeName(code: number): DType {
  const name = names.get(code);
  if (!name) throw new TorchError("TORCH_BAD_ARGUMENT", { message: `element type ${code} of libtorch is not supported` });
  return name;
}

/** True for the name of an element type. */
export const isDtype = (name: string): name is DType => Object.hasOwn(table, name);

/** Bytes of one element. */
export const dtypeBytes = (dtype: DType): number => table[dtype].bytes;

/** The typed array that holds elements of a dtype. */
export const arrayOf = (dtype: DType): TypedArrayConstructor => table[dtype].array;

/** True for float16, bfloat16, float32 and float64. */
export const isFloating = (dtype: DType): boolean => dtype.includes("float");

/** The dtype that a typed array has when none is given. */
export function dtypeOfArray(data: TypedArray): DType {
  if (data instanceof Float32Array) return "float32";
  if (data instanceof Float64Array) return "float64";
  if (data instanceof BigInt64Array) return "int64";
  if (data instanceof Int32Array) return "int32";
  if (data instanceof Int16Array) return "int16";
  if (data instanceof Int8Array) return "int8";
  if (data instanceof Uint8Array) return "uint8";
  throw new TorchError("TORCH_BAD_ARGUMENT", { message: "a Uint16Array needs a dtype: float16 or bfloat16" });
}

/** How elements lie in memory. */
export type MemoryFormat = "contiguous" | "preserve" | "channelsLast";

const memoryFormats: Record<MemoryFormat, number> = { contiguous: 0, preserve: 1, channelsLast: 2 };

/** libtorch's code of a memory format; undefined and null pass through. */
export const memoryFormatCode = (format: MemoryFormat | null | undefined): number | null | undefined => (format === undefined || format === null ? format : memoryFormats[format]);
