/** Tensors from and to safetensors files. */
import { type LazySafeTensor, readSafetensors, type SafeData, type SafeDtype, type SafeTensor, writeSafetensors } from "../formats/index.ts";
import { TorchError } from "../util/errors.ts";
import { arrayOf, type DType, type TypedArray } from "./dtype.ts";
import { fromTypedArray } from "./factories.ts";
import type { Tensor } from "./tensor.ts";

const names = {
  F64: "float64",
  F32: "float32",
  F16: "float16",
  BF16: "bfloat16",
  I64: "int64",
  I32: "int32",
  I16: "int16",
  I8: "int8",
  U8: "uint8",
  BOOL: "bool",
} as const satisfies Partial<Record<SafeDtype, DType>>;
const codes = Object.fromEntries(Object.entries(names).map(([code, name]) => [name, code])) as Record<DType, SafeDtype>;

/** The tensor that an entry of a safetensors file holds. @throws TorchError TORCH_BAD_ARGUMENT; FormatError where an open file is damaged */
export function fromSafetensor(entry: SafeTensor | LazySafeTensor): Tensor {
  const name = (names as Partial<Record<SafeDtype, DType>>)[entry.dtype];
  if (!name) throw new TorchError("TORCH_BAD_ARGUMENT", { message: `libtorch has no element type ${entry.dtype}` });
  const data = "data" in entry ? (entry.data as TypedArray) : new (arrayOf(name))(entry.bytes().buffer);
  return fromTypedArray(data, entry.shape, { dtype: name });
}

/** The tensors of a safetensors file, by name. @throws FormatError when the file is missing or damaged; TorchError TORCH_BAD_ARGUMENT for 8-bit floats and unsigned integers */
export function loadTensors(path: string): { tensors: Map<string, Tensor>; metadata: Record<string, string> } {
  const file = readSafetensors(path);
  return { tensors: new Map(Array.from(file.tensors, ([name, entry]) => [name, fromSafetensor(entry)])), metadata: file.metadata };
}

/** Writes tensors to a safetensors file, which appears whole or not at all. @throws FormatError FILE_UNWRITABLE */
export function saveTensors(path: string, tensors: ReadonlyMap<string, Tensor>, metadata: Readonly<Record<string, string>> = {}): void {
  const entries = Array.from(tensors, ([name, tensor]): [string, SafeTensor] => [
    name,
    { dtype: codes[tensor.dtype], shape: [...tensor.shape], data: tensor.toTypedArray() as SafeData },
  ]);
  writeSafetensors(path, new Map(entries), metadata);
}
