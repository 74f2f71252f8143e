/** Making tensors. The default dtype is float32, whatever the numbers look like. */
import { ShapeError } from "../util/errors.ts";
import { invoke, type Operator, operator } from "./call.ts";
import { arrayOf, type DType, dtypeCode, dtypeOfArray, type TypedArray } from "./dtype.ts";
import type { Generator } from "./generator.ts";
import { torchAddon } from "./native.ts";
import { native, type Tensor, wrap } from "./tensor.ts";

/** Where and as what a new tensor is made. */
export interface TensorOptions {
  dtype?: DType;
  device?: string;
  requiresGrad?: boolean;
}

/** Options of tensors with random elements. */
export interface RandomOptions extends TensorOptions {
  generator?: Generator;
}

type Nested = number | boolean | readonly Nested[];

const finish = (t: Tensor, { requiresGrad }: TensorOptions): Tensor => (requiresGrad ? t.requiresGrad_(true) : t);

/**
 * A tensor with the elements of a typed array: a copy, or with `share` the array itself, which must then not be resized or transferred.
 * @throws ShapeError SHAPE_MISMATCH when the shape has another number of elements
 */
export function fromTypedArray(
  data: TypedArray,
  shape: readonly number[],
  { dtype = dtypeOfArray(data), device, requiresGrad, share = false }: TensorOptions & { share?: boolean } = {},
): Tensor {
  const t = wrap(native(() => torchAddon().fromData(data, dtypeCode(dtype), shape, share)));
  return finish(device === undefined || device === "cpu" ? t : t.to({ device }), { requiresGrad });
}

function shapeOf(data: Nested): number[] {
  const shape: number[] = [];
  let level: Nested = data;
  while (Array.isArray(level)) {
    shape.push(level.length);
    if (level.length === 0) break;
    level = level[0] as Nested;
  }
  return shape;
}

function fill(data: Nested, shape: readonly number[], depth: number, out: number[]): void {
  if (!Array.isArray(data)) {
    if (depth !== shape.length) throw new ShapeError("SHAPE_MISMATCH", { message: "the nested arrays are not of equal depth" });
    out.push(Number(data));
    return;
  }
  if (data.length !== shape[depth]) throw new ShapeError("SHAPE_MISMATCH", { message: `the nested arrays are not of equal length: ${data.length} beside ${shape[depth]}` });
  for (const item of data) fill(item, shape, depth + 1, out);
}

/**
 * A tensor of nested arrays of numbers, or of one number.
 * @throws ShapeError SHAPE_MISMATCH when the arrays are ragged
 */
export function tensor(data: Nested, { dtype = "float32", device, requiresGrad }: TensorOptions = {}): Tensor {
  const shape = shapeOf(data);
  const numbers: number[] = [];
  fill(data, shape, 0, numbers);
  if (dtype === "float16" || dtype === "bfloat16") {
    const wide = fromTypedArray(Float32Array.from(numbers), shape);
    return finish(wide.to({ dtype, device }), { requiresGrad });
  }
  const array = dtype === "int64" ? BigInt64Array.from(numbers, (x) => BigInt(x)) : fillArray(new (arrayOf(dtype))(numbers.length) as Float64Array, numbers);
  return fromTypedArray(array, shape, { dtype, device, requiresGrad });
}

function fillArray(array: Float64Array, numbers: readonly number[]): TypedArray {
  array.set(numbers);
  return array;
}

const ops = {
  empty: operator("aten::empty.memory_format"),
  zeros: operator("aten::zeros"),
  ones: operator("aten::ones"),
  full: operator("aten::full"),
  eye: operator("aten::eye"),
  arange: operator("aten::arange.start_step"),
  rand: operator("aten::rand.generator"),
  randn: operator("aten::randn.generator"),
  randint: operator("aten::randint.low_generator"),
  randperm: operator("aten::randperm.generator"),
} satisfies Record<string, Operator>;

const tail = ({ dtype = "float32", device }: TensorOptions) => [dtypeCode(dtype), undefined, device ?? "cpu", undefined] as const;

/** A tensor whose elements are whatever the memory holds. */
export const empty = (shape: readonly number[], options: TensorOptions = {}): Tensor => finish(invoke(ops.empty, shape, ...tail(options)) as Tensor, options);
export const zeros = (shape: readonly number[], options: TensorOptions = {}): Tensor => finish(invoke(ops.zeros, shape, ...tail(options)) as Tensor, options);
export const ones = (shape: readonly number[], options: TensorOptions = {}): Tensor => finish(invoke(ops.ones, shape, ...tail(options)) as Tensor, options);
/** A tensor of one value. */
export const full = (shape: readonly number[], value: number | boolean, options: TensorOptions = {}): Tensor =>
  finish(invoke(ops.full, shape, value, ...tail(options)) as Tensor, options);
/** The identity matrix (n, n). */
export const eye = (n: number, options: TensorOptions = {}): Tensor => finish(invoke(ops.eye, n, ...tail(options)) as Tensor, options);
/** start, start + step, ... below end; int64 unless a dtype is given. */
export const arange = (start: number, end: number, { step = 1, dtype = "int64", ...options }: TensorOptions & { step?: number } = {}): Tensor =>
  finish(invoke(ops.arange, start, end, step, ...tail({ dtype, ...options })) as Tensor, options);
/** Uniform in [0, 1). */
export const rand = (shape: readonly number[], { generator, ...options }: RandomOptions = {}): Tensor =>
  finish(invoke(ops.rand, shape, generator ?? null, ...tail(options)) as Tensor, options);
/** Standard normal. */
export const randn = (shape: readonly number[], { generator, ...options }: RandomOptions = {}): Tensor =>
  finish(invoke(ops.randn, shape, generator ?? null, ...tail(options)) as Tensor, options);
/** Integers in [low, high); int64 unless a dtype is given. */
export const randint = (low: number, high: number, shape: readonly number[], { generator, dtype = "int64", ...options }: RandomOptions = {}): Tensor =>
  finish(invoke(ops.randint, low, high, shape, generator ?? null, ...tail({ dtype, ...options })) as Tensor, options);
/** A random order of 0..n-1, int64. */
export const randperm = (n: number, { generator, dtype = "int64", ...options }: RandomOptions = {}): Tensor =>
  invoke(ops.randperm, n, generator ?? null, ...tail({ dtype, ...options })) as Tensor;
