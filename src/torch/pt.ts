/** Tensors from and to files of torch.save. */
import { PtStorage, PtTensor, rowMajorStrides } from "../formats/pt/index.ts";
import { TorchError } from "../util/errors.ts";
import { arrayOf, type DType, isDtype } from "./dtype.ts";
import { fromTypedArray } from "./factories.ts";
import type { Tensor } from "./tensor.ts";

/** The tensor that a file holds, row by row, on the CPU. @throws FormatError where the file is damaged; TorchError TORCH_BAD_ARGUMENT for element types without a name here */
export function fromPtTensor(tensor: PtTensor): Tensor {
  const { dtype, shape } = tensor;
  if (!isDtype(dtype)) throw new TorchError("TORCH_BAD_ARGUMENT", { at: tensor.storage.at, message: `a tensor of ${dtype}, which serac does not compute with` });
  const bytes = tensor.bytes();
  return fromTypedArray(new (arrayOf(dtype))(bytes.buffer), shape, { dtype });
}

/** A tensor for a file to be written. Its elements are read when they are written, one tensor at a time; until then it must live and stay as it is. */
export function toPtTensor(tensor: Tensor): PtTensor {
  const { dtype, shape } = tensor;
  let bytes: Uint8Array | undefined;
  const size = shape.reduce((a, b) => a * b, 1);
  const storage = new PtStorage({
    dtype,
    size,
    at: "a tensor in memory",
    read(begin, into) {
      if (bytes === undefined) {
        const elements = tensor.toTypedArray();
        bytes = new Uint8Array(elements.buffer, elements.byteOffset, elements.byteLength);
      }
      into.set(bytes.subarray(begin, begin + into.byteLength));
      if (begin + into.byteLength === bytes.byteLength) bytes = undefined; // written: the next one's turn
    },
  });
  return new PtTensor(storage, { dtype: dtype satisfies DType, shape: [...shape], strides: rowMajorStrides(shape), offset: 0 });
}
