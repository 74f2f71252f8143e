/** A tensor of a torch.save file: a view of a storage, whose elements are read when they are asked for. */
import { constants } from "node:buffer";
import { FormatError } from "../../util/errors.ts";
import { elementBytes } from "./dtypes.ts";
import { PtStorage } from "./values.ts";

/** The most that a tensor may need beyond 16 times its storage: tensors that were expanded repeat elements. */
const maxExpansion = 64 << 20;

/** How elements are found in a storage: counts of elements. */
export interface PtLayout {
  dtype: string;
  shape: readonly number[];
  strides: readonly number[];
  /** Where the first element is. */
  offset: number;
}

export class PtTensor implements PtLayout {
  readonly storage: PtStorage;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
  readonly requiresGrad: boolean;
  /** True for torch.nn.Parameter. */
  readonly parameter: boolean;

  /** Checks that all elements lie in the storage. @throws FormatError PT_BAD */
  constructor(storage: PtStorage, { dtype, shape, strides, offset }: PtLayout, { requiresGrad = false, parameter = false }: { requiresGrad?: boolean; parameter?: boolean } = {}) {
    this.storage = storage;
    this.dtype = dtype;
    this.shape = shape;
    this.strides = strides;
    this.offset = offset;
    this.requiresGrad = requiresGrad;
    this.parameter = parameter;
    const bytes = elementBytes(dtype);
    const what = `a tensor of ${dtype} [${shape.slice(0, 16).join(", ")}]`;
    if (bytes === undefined) throw new FormatError("PT_UNSUPPORTED", { at: storage.at, message: `${what}: an element type that serac does not read` });
    if (shape.length !== strides.length) throw new FormatError("PT_BAD", { at: storage.at, message: `${what} has ${strides.length} strides, expected ${shape.length}` });
    if (!Number.isSafeInteger(this.byteLength)) throw new FormatError("PT_BAD", { at: storage.at, message: `${what} has more elements than can be counted` });
    const storageBytes = storage.size * (elementBytes(storage.dtype) as number);
    let last = offset;
    for (let axis = 0; axis < shape.length; axis++) last += ((shape[axis] as number) - 1) * (strides[axis] as number);
    if (this.size > 0 && (last + 1) * bytes > storageBytes)
      throw new FormatError("PT_BAD", { at: storage.at, message: `${what} needs ${(last + 1) * bytes} bytes of its storage, which has ${storageBytes}` });
  }

  /** Number of elements. */
  get size(): number {
    return this.shape.reduce((a, b) => a * b, 1);
  }

  /** Bytes of its elements, each counted once. */
  get byteLength(): number {
    return this.size * (elementBytes(this.dtype) as number);
  }

  /** True where the elements lie row by row without gaps. */
  get contiguous(): boolean {
    let step = 1;
    for (let axis = this.shape.length - 1; axis >= 0; axis--) {
      const size = this.shape[axis] as number;
      if (size === 0) return true;
      if (size !== 1 && this.strides[axis] !== step) return false;
      step *= size;
    }
    return true;
  }

  /** The same elements as torch.nn.Parameter. */
  asParameter(requiresGrad: boolean): PtTensor {
    return new PtTensor(this.storage, this, { requiresGrad, parameter: true });
  }

  /**
   * Its elements row by row, little endian.
   * @throws FormatError PT_BAD, PT_TRUNCATED, PT_TOO_LARGE for one that repeats a small storage into a huge tensor, or that no array can hold
   */
  bytes(): Uint8Array<ArrayBuffer> {
    const width = elementBytes(this.dtype) as number;
    const storageBytes = this.storage.size * (elementBytes(this.storage.dtype) as number);
    if (this.byteLength > 16 * storageBytes + maxExpansion)
      throw new FormatError("PT_TOO_LARGE", {
        at: this.storage.at,
        message: `a tensor of ${this.dtype} [${this.shape.join(", ")}] repeats a storage of ${storageBytes} bytes to ${this.byteLength}`,
      });
    if (this.byteLength > constants.MAX_LENGTH)
      throw new FormatError("PT_TOO_LARGE", {
        at: this.storage.at,
        message: `a tensor of ${this.dtype} [${this.shape.join(", ")}] has ${this.byteLength} bytes, and an array of this Node.js at most ${constants.MAX_LENGTH}`,
        fix: "take Node.js 22 or later",
      });
    const result = new Uint8Array(this.byteLength);
    if (result.length === 0) return result;
    if (this.contiguous) {
      this.storage.read(this.offset * width, result);
      return result;
    }
    let span = 1;
    for (let axis = 0; axis < this.shape.length; axis++) span += ((this.shape[axis] as number) - 1) * (this.strides[axis] as number);
    const source = new Uint8Array(span * width);
    this.storage.read(this.offset * width, source);
    this.gather(source, result, width);
    return result;
  }

  private gather(source: Uint8Array, result: Uint8Array, width: number): void {
    const { shape, strides } = this;
    const rank = shape.length;
    const index = new Array<number>(rank).fill(0);
    let from = 0;
    for (let to = 0; to < result.length; to += width) {
      for (let k = 0; k < width; k++) result[to + k] = source[from * width + k] as number;
      for (let axis = rank - 1; axis >= 0; axis--) {
        index[axis] = (index[axis] as number) + 1;
        from += strides[axis] as number;
        if ((index[axis] as number) < (shape[axis] as number)) break;
        from -= (shape[axis] as number) * (strides[axis] as number);
        index[axis] = 0;
      }
    }
  }
}

/** Strides of elements that lie row by row, as torch counts them: an axis of no elements counts as one. */
export function rowMajorStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let step = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = step;
    step *= Math.max(1, shape[axis] as number);
  }
  return strides;
}

/** A tensor of elements in memory, for files to be written: little-endian bytes, row by row. @throws FormatError PT_BAD when sizes do not agree */
export function memoryTensor(dtype: string, shape: readonly number[], bytes: Uint8Array): PtTensor {
  const width = elementBytes(dtype) ?? 1;
  const storage = new PtStorage({
    dtype,
    size: bytes.byteLength / width,
    at: "a tensor in memory",
    read: (begin, into) => into.set(bytes.subarray(begin, begin + into.byteLength)),
  });
  const tensor = new PtTensor(storage, { dtype, shape: [...shape], strides: rowMajorStrides(shape), offset: 0 });
  if (tensor.byteLength !== bytes.byteLength)
    throw new FormatError("PT_BAD", { message: `a tensor of ${dtype} [${shape.join(", ")}] needs ${tensor.byteLength} bytes, but there are ${bytes.byteLength}` });
  return tensor;
}
