/** The tensor: libtorch's, with its operators as methods. */
import { inspect } from "node:util";
import { TorchError } from "../util/errors.ts";
import { tensors } from "./call.ts";
import { arrayOf, type DType, dtypeName, isFloating, type MemoryFormat, type TypedArray } from "./dtype.ts";
import { TensorMethods } from "./generated/methods.ts";
import { torchAddon, torchError } from "./native.ts";
import { adopt, free } from "./scope.ts";
import { reserve } from "./tape.ts";

interface TensorInfo {
  dtype: DType;
  device: string;
  requiresGrad: boolean;
  isLeaf: boolean;
  isContiguous: boolean;
  shape: readonly number[];
  strides: readonly number[];
}

const deviceNames: Record<number, string> = { 0: "cpu", 1: "cuda", 14: "meta", 13: "mps" };

/**
 * A tensor of libtorch. Operators are methods with PyTorch's names in camelCase; those that end in `_` change the tensor itself.
 * Made inside a `scope`, it lives until the scope ends, unless returned or kept. Using it after it was freed throws TENSOR_FREED.
 */
export class Tensor extends TensorMethods {
  private known: TensorInfo | undefined;

  /** Drops what was cached about the tensor, after an operator changed it. Not for use outside of src/torch. */
  forget(): void {
    this.known = undefined;
  }

  private info(): TensorInfo {
    if (this.known) return this.known;
    const tape = reserve(64);
    try {
      torchAddon().info(this.handle);
    } catch (error) {
      throw torchError(error);
    }
    const dimensions = tape[6] as number;
    const index = tape[2] as number;
    const type = deviceNames[tape[1] as number] ?? `device${tape[1]}`;
    this.known = {
      dtype: dtypeName(tape[0] as number),
      device: type === "cpu" || index < 0 ? type : `${type}:${index}`,
      requiresGrad: tape[3] === 1,
      isLeaf: tape[4] === 1,
      isContiguous: tape[5] === 1,
      shape: Array.from(tape.subarray(7, 7 + dimensions)),
      strides: Array.from(tape.subarray(7 + dimensions, 7 + 2 * dimensions)),
    };
    return this.known;
  }

  /** Sizes of the dimensions. */
  get shape(): readonly number[] {
    return this.info().shape;
  }
  /** Elements to step over for the next item, per dimension. */
  get strides(): readonly number[] {
    return this.info().strides;
  }
  get dtype(): DType {
    return this.info().dtype;
  }
  /** "cpu", "cuda:0", ... */
  get device(): string {
    return this.info().device;
  }
  /** Number of dimensions. */
  get dim(): number {
    return this.info().shape.length;
  }
  /** Number of elements. */
  get numel(): number {
    return this.info().shape.reduce((a, b) => a * b, 1);
  }
  get isContiguous(): boolean {
    return this.info().isContiguous;
  }
  get isLeaf(): boolean {
    return this.info().isLeaf;
  }
  get requiresGrad(): boolean {
    return this.info().requiresGrad;
  }
  set requiresGrad(value: boolean) {
    this.requiresGrad_(value);
  }
  /** True once the tensor was freed. */
  get isFreed(): boolean {
    return this.handle === 0;
  }

  /** Size of one dimension; negative counts from the end. @throws TorchError TORCH_BAD_ARGUMENT when there is no such dimension */
  size(dim: number): number {
    const { shape } = this.info();
    const size = shape[dim < 0 ? dim + shape.length : dim];
    if (size === undefined) throw new TorchError("TORCH_BAD_ARGUMENT", { message: `a tensor of ${shape.length} dimensions has no dimension ${dim}` });
    return size;
  }

  /** The gradient that `backward` accumulated, or null. The tensor returned shares its memory. */
  get grad(): Tensor | null {
    const handle = native(() => torchAddon().gradOf(this.handle));
    return handle === 0 ? null : wrap(handle);
  }
  set grad(value: Tensor | null) {
    native(() => torchAddon().setGradOf(this.handle, value === null ? 0 : live(value)));
  }

  /** Gradients of this tensor with respect to the leaves that need one, added to their `grad`. @param gradient of the shape of this; ones when absent, which needs a single element */
  backward({ gradient, retainGraph = false, createGraph = false }: { gradient?: Tensor; retainGraph?: boolean; createGraph?: boolean } = {}): void {
    const tape = reserve(8);
    tape[0] = live(this);
    tape[1] = gradient ? live(gradient) : 0;
    native(() => torchAddon().backward(1, 0, retainGraph || createGraph, createGraph));
  }

  /** The value of a tensor of one element, as a number. @throws ShapeError SHAPE_MISMATCH when there are more or none */
  item(): number {
    return native(() => torchAddon().item(this.handle));
  }

  /** A copy of the elements, row-major. float16 and bfloat16 come as bits; see `toArray` for numbers. */
  toTypedArray(): TypedArray {
    const buffer = native(() => torchAddon().toData(this.handle));
    return new (arrayOf(this.dtype))(buffer);
  }

  /** The elements as float32, whatever the dtype: a copy. */
  toFloat32Array(): Float32Array {
    if (this.dtype === "float32") return this.toTypedArray() as Float32Array;
    const converted = this.detach().to({ dtype: "float32" });
    const data = converted.toTypedArray() as Float32Array;
    converted.dispose();
    return data;
  }

  /** The elements as plain numbers, flat and row-major. int64 beyond 2^53 loses precision. */
  toArray(): number[] {
    const data = this.dtype.startsWith("float") || this.dtype === "bfloat16" ? this.floats() : this.toTypedArray();
    return Array.from(data as ArrayLike<number | bigint>, Number);
  }

  private floats(): TypedArray {
    return this.dtype === "float64" ? this.toTypedArray() : this.toFloat32Array();
  }

  /** A typed array that looks into the memory of a contiguous CPU tensor and keeps it alive: no copy, and writes go both ways. */
  viewTypedArray(): TypedArray {
    const buffer = native(() => torchAddon().view(this.handle));
    return new (arrayOf(this.dtype))(buffer);
  }

  /** Another dtype, device or memory format; this same tensor when nothing changes. */
  to({ dtype, device, copy = false, memoryFormat }: { dtype?: DType; device?: string; copy?: boolean; memoryFormat?: MemoryFormat }): Tensor {
    if (device !== undefined) return this.toDevice_(device, dtype ?? this.dtype, copy, memoryFormat);
    return this.toDtype_(dtype ?? this.dtype, copy, memoryFormat);
  }

  /** True for float dtypes. */
  get isFloatingPoint(): boolean {
    return isFloating(this.dtype);
  }

  /** Frees the tensor now. Freeing twice does nothing. */
  dispose(): void {
    free([this]);
  }
  [Symbol.dispose](): void {
    this.dispose();
  }

  override toString(): string {
    if (this.isFreed) return "Tensor(freed)";
    const { shape, dtype, device } = this.info();
    const values =
      this.numel <= 64
        ? ` [${this.toArray()
            .map((x) => Number(x.toPrecision(6)))
            .join(", ")}]`
        : "";
    return `Tensor((${shape.join(", ")}) ${dtype}${device === "cpu" ? "" : ` on ${device}`})${values}`;
  }
  [inspect.custom](): string {
    return this.toString();
  }
}

/** Runs a call into the addon, with its errors as serac's. */
export function native<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw torchError(error);
  }
}

/** The handle of a tensor that must not be freed. @throws TorchError TENSOR_FREED */
export function live(tensor: Tensor): number {
  if (tensor.handle === 0) throw new TorchError("TENSOR_FREED", { message: "a tensor was used after it was freed", fix: "return it from its scope, or keep() it" });
  return tensor.handle;
}

/** Makes a Tensor of a new handle and puts it under the care of the current scope. */
export function wrap(handle: number): Tensor {
  const tensor = new Tensor(handle);
  adopt(tensor);
  return tensor;
}

tensors.wrap = wrap;
