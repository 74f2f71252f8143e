/** A checkpoint as plain data: copies of tensors, which another thread can write while training changes the originals. */
import type { Tensor } from "../../torch/index.ts";
import type { Checkpoint } from "./checkpoint.ts";

/** Elements of a tensor, row by row, little endian. */
export interface RawTensor {
  dtype: string;
  shape: readonly number[];
  bytes: Uint8Array<ArrayBuffer>;
}

/** A checkpoint without tensors. */
export interface RawCheckpoint extends Omit<Checkpoint, "model" | "modelAvg" | "optimizer"> {
  model: Map<string, RawTensor>;
  modelAvg: Map<string, RawTensor> | undefined;
  optimizer: Map<string, RawTensor>;
}

function copy(tensors: ReadonlyMap<string, Tensor>): Map<string, RawTensor> {
  return new Map(
    Array.from(tensors, ([key, tensor]) => {
      const elements = tensor.toTypedArray();
      return [key, { dtype: tensor.dtype, shape: [...tensor.shape], bytes: new Uint8Array(elements.buffer as ArrayBuffer, elements.byteOffset, elements.byteLength) }];
    }),
  );
}

/** @returns copies of all tensors, in ordinary memory */
export function copyCheckpoint({ model, modelAvg, optimizer, ...rest }: Checkpoint): RawCheckpoint {
  return { ...rest, model: copy(model), modelAvg: modelAvg && copy(modelAvg), optimizer: copy(optimizer) };
}

/** The memory that a copy may give away to another thread. */
export function buffersOf({ model, modelAvg, optimizer }: RawCheckpoint): ArrayBuffer[] {
  return [model, modelAvg ?? new Map<string, RawTensor>(), optimizer].flatMap((tensors) => Array.from(tensors.values(), ({ bytes }) => bytes.buffer));
}
