/** How two files of tensors differ. */

import { elementReader } from "./pt/dtypes.ts";
import { describe } from "./pt/index.ts";
import { type FileTensor, refuseExpansion, type TensorFile } from "./tensorFile.ts";

/** A tensor of both files whose elements differ. */
export interface ElementDifference {
  name: string;
  dtype: string;
  shape: readonly number[];
  /** Elements beyond the tolerance, of `size`. */
  differing: number;
  size: number;
  /** The largest |a - b|; infinite where only one is NaN or infinite; undefined for dtypes that are compared by their bits. */
  absolute: number | undefined;
  /** The largest |a - b| / max(|a|, |b|). */
  relative: number | undefined;
}

export interface TensorDiff {
  onlyInA: FileTensor[];
  onlyInB: FileTensor[];
  shapes: { name: string; a: readonly number[]; b: readonly number[] }[];
  dtypes: { name: string; a: string; b: string }[];
  elements: ElementDifference[];
  /** Values that are no tensors; undefined where a file has none of that path. */
  values: { path: string; a: string | undefined; b: string | undefined }[];
  /** Tensors that both have. */
  compared: number;
  equal: number;
  /** True where nothing differs. */
  same: boolean;
}

export interface DiffOptions {
  /** Elements are equal where |a - b| <= atol + rtol |b|. */
  atol?: number;
  rtol?: number;
  /** Compare values that are no tensors as well. */
  values?: boolean;
  onTensor?: (name: string) => void;
}

/** Complex numbers are compared by their parts. */
const partDtype = (dtype: string): string => ({ complex32: "float16", complex64: "float32", complex128: "float64" })[dtype] ?? dtype;

function gap(a: number | bigint, b: number | bigint): number {
  if (typeof a === "bigint" && typeof b === "bigint") return Number(a > b ? a - b : b - a);
  const [x, y] = [Number(a), Number(b)];
  if (x === y || (Number.isNaN(x) && Number.isNaN(y))) return 0;
  const difference = Math.abs(x - y);
  return Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
}

function compareElements(a: FileTensor, b: FileTensor, atol: number, rtol: number): ElementDifference | undefined {
  const left = a.bytes();
  const right = b.bytes();
  if (a.dtype === b.dtype && Buffer.compare(left, right) === 0) return undefined;
  const common = { name: a.name, dtype: a.dtype, shape: a.shape, size: a.size };
  const readA = elementReader(partDtype(a.dtype));
  const readB = elementReader(partDtype(b.dtype));
  const parts = a.dtype.startsWith("complex") ? 2 : 1;
  if (!readA || !readB || a.dtype.startsWith("complex") !== b.dtype.startsWith("complex")) {
    const width = a.size === 0 ? 1 : left.length / a.size;
    let differing = 0;
    for (let at = 0; at < left.length; at += width) if (a.dtype !== b.dtype || Buffer.compare(left.subarray(at, at + width), right.subarray(at, at + width)) !== 0) differing++;
    return differing === 0 ? undefined : { ...common, differing, absolute: undefined, relative: undefined };
  }
  const viewA = new DataView(left.buffer);
  const viewB = new DataView(right.buffer);
  const count = a.size * parts;
  const widthA = left.length / Math.max(1, count);
  const widthB = right.length / Math.max(1, count);
  let differing = 0;
  let absolute = 0;
  let relative = 0;
  for (let i = 0; i < count; i++) {
    const x = readA(viewA, i * widthA);
    const y = readB(viewB, i * widthB);
    const difference = gap(x, y);
    if (difference === 0) continue;
    absolute = Math.max(absolute, difference);
    const size = Math.max(Math.abs(Number(x)), Math.abs(Number(y)));
    relative = Math.max(relative, difference === Number.POSITIVE_INFINITY ? difference : difference / size);
    if (!(difference <= atol + rtol * Math.abs(Number(y)))) differing++;
  }
  return differing === 0 ? undefined : { ...common, differing, absolute, relative };
}

const compareLength = 1 << 24; // characters of a value's text

/**
 * Compares two files: names, shapes, element types, elements, and what is no tensor.
 * @throws FormatError where a file cannot be read to its end
 */
export function diffTensors(a: TensorFile, b: TensorFile, { atol = 0, rtol = 0, values = true, onTensor }: DiffOptions = {}): TensorDiff {
  refuseExpansion(a);
  refuseExpansion(b);
  const byName = new Map(b.tensors.map((tensor) => [tensor.name, tensor]));
  const names = new Set(a.tensors.map((tensor) => tensor.name));
  const diff: TensorDiff = {
    onlyInA: [],
    onlyInB: b.tensors.filter(({ name }) => !names.has(name)),
    shapes: [],
    dtypes: [],
    elements: [],
    values: [],
    compared: 0,
    equal: 0,
    same: false,
  };
  for (const tensor of a.tensors) {
    const other = byName.get(tensor.name);
    if (!other) {
      diff.onlyInA.push(tensor);
      continue;
    }
    diff.compared++;
    onTensor?.(tensor.name);
    const sameShape = tensor.shape.length === other.shape.length && tensor.shape.every((size, axis) => size === other.shape[axis]);
    if (!sameShape) diff.shapes.push({ name: tensor.name, a: tensor.shape, b: other.shape });
    if (tensor.dtype !== other.dtype) diff.dtypes.push({ name: tensor.name, a: tensor.dtype, b: other.dtype });
    const elements = sameShape ? compareElements(tensor, other, atol, rtol) : undefined;
    if (elements) diff.elements.push(elements);
    if (sameShape && !elements && tensor.dtype === other.dtype) diff.equal++;
  }
  if (values) {
    const texts = new Map(b.values.map(({ path, value }) => [path, describe(value, compareLength)]));
    const seen = new Set<string>();
    for (const { path, value } of a.values) {
      seen.add(path);
      const text = describe(value, compareLength);
      if (texts.get(path) !== text) diff.values.push({ path, a: text, b: texts.get(path) });
    }
    for (const [path, text] of texts) if (!seen.has(path)) diff.values.push({ path, a: undefined, b: text });
  }
  diff.same = [diff.onlyInA, diff.onlyInB, diff.shapes, diff.dtypes, diff.elements, diff.values].every((list) => list.length === 0);
  return diff;
}
