/** Tensors of files of torch.save. */
import type { PtTensor } from "../formats/pt/index.ts";
import { TorchError } from "../util/errors.ts";
import { arrayOf, isDtype } from "./dtype.ts";
import { fromTypedArray } from "./factories.ts";
import type { Tensor } from "./tensor.ts";

/** The tensor that a file holds, row by row, on the CPU. @throws FormatError where the file is damaged; TorchError TORCH_BAD_ARGUMENT for element types without a name here */
export function fromPtTensor(tensor: PtTensor): Tensor {
  const { dtype, shape } = tensor;
  if (!isDtype(dtype)) throw new TorchError("TORCH_BAD_ARGUMENT", { at: tensor.storage.at, message: `a tensor of ${dtype}, which serac does not compute with` });
  const bytes = tensor.bytes();
  return fromTypedArray(new (arrayOf(dtype))(bytes.buffer), shape, { dtype });
}
