/** Tensors from and to safetensors files. */
import { type LazySafeTensor, readSafetensors, type SafeData, type SafeTensor, safeDtype, torchDtype, writeSafetensors } from "../formats/index.ts";
import { internal, TorchError } from "../util/errors.ts";
import { arrayOf, isDtype, type TypedArray } from "./dtype.ts";
import { fromTypedArray } from "./factories.ts";
import type { Tensor } from "./tensor.ts";

/** The tensor that an entry of a safetensors file holds. @throws TorchError TORCH_BAD_ARGUMENT; FormatError where an open file is damaged */
export function fromSafetensor(entry: SafeTensor | LazySafeTensor): Tensor {
  const name = torchDtype(entry.dtype);
  if (!isDtype(name)) throw new TorchError("TORCH_BAD_ARGUMENT", { message: `libtorch has no element type ${entry.dtype}` });
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
    { dtype: safeDtype(tensor.dtype) ?? internal(`safetensors has no name for ${tensor.dtype}`), shape: [...tensor.shape], data: tensor.toTypedArray() as SafeData },
  ]);
  writeSafetensors(path, new Map(entries), metadata);
}
