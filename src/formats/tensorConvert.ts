/** Conversion of checkpoints between .pt and safetensors, with what the target cannot hold. */
import { FormatError } from "../util/errors.ts";
import { type Levels, levelsNote, levelsOf, nest, pathOf, pyKey, readLevels } from "./levels.ts";
import {
  DefaultDict,
  describe,
  memoryTensor,
  NumpyArray,
  NumpyDtype,
  OrderedDict,
  type PtDict,
  PtStorage,
  PtTensor,
  type PtValue,
  PyGlobal,
  PyNamespace,
  PyPlaceholder,
  PyTuple,
  rowMajorStrides,
  writePt,
} from "./pt/index.ts";
import { writeSafetensors } from "./safetensors.ts";
import { type FileTensor, refuseExpansion, safeDtype, type TensorFile } from "./tensorFile.ts";

/** Something that a file has and its copy has not. */
export interface LeftOut {
  path: string;
  what: string;
}

export interface Conversion {
  tensors: number;
  bytes: number;
  leftOut: LeftOut[];
}

/** The tensors below a key, named without it; all where no key is given. */
function below(file: TensorFile, key: string | undefined): FileTensor[] {
  if (key === undefined) return [...file.tensors];
  const found = file.tensors.filter(({ name }) => name.startsWith(`${key}.`)).map((tensor) => ({ ...tensor, name: tensor.name.slice(key.length + 1) }));
  if (found.length === 0) {
    const keys = [...new Set(file.tensors.map(({ name }) => name.split(".")[0] as string))];
    throw new FormatError("PT_BAD", { at: file.at, message: `there are no tensors below "${key}"`, fix: `it has tensors below ${keys.slice(0, 10).join(", ") || "no key"}` });
  }
  return found;
}

/** The value below a key; undefined where there is none. */
function valueBelow(value: PtValue, key: string | undefined): PtValue | undefined {
  let found: PtValue | undefined = value;
  for (const name of pathOf(key)) found = found instanceof Map ? (found.get(pyKey(name)) ?? found.get(String(name))) : undefined;
  return found;
}

/** The levels of what is written; undefined where there are none, or none that could be brought back. */
function levelsBelow(file: TensorFile, key: string | undefined): Levels | undefined {
  if (!file.pt) return key === undefined ? readLevels(file.metadata, file.at) : undefined;
  const value = valueBelow(file.pt.value, key);
  return value === undefined ? undefined : levelsOf(value, pathOf(key));
}

/**
 * Writes the tensors of a file as safetensors, one after another, under their paths. What levels a .pt file has stands in the metadata.
 * @param key only those below this key, named without it
 * @throws FormatError FILE_UNWRITABLE, and where the file cannot be read
 */
export function convertToSafetensors(file: TensorFile, path: string, { key }: { key?: string } = {}): Conversion {
  refuseExpansion(file);
  const leftOut: LeftOut[] = file.values
    .filter(({ path }) => key === undefined || path === key || path.startsWith(`${key}.`))
    .map(({ path, value }) => ({ path, what: describe(value) }));
  const tensors = new Map<string, { dtype: NonNullable<ReturnType<typeof safeDtype>>; shape: readonly number[]; bytes(): Uint8Array<ArrayBuffer> }>();
  let bytes = 0;
  for (const { name, dtype, shape, byteLength, bytes: read } of below(file, key)) {
    const safe = safeDtype(dtype);
    if (safe === undefined) leftOut.push({ path: name, what: `a tensor of ${dtype}, which safetensors does not hold` });
    else if (name === "__metadata__" || tensors.has(name)) leftOut.push({ path: name, what: "a tensor whose name is taken" });
    else {
      tensors.set(name, { dtype: safe, shape, bytes: read });
      bytes += byteLength;
    }
  }
  writeSafetensors(path, tensors, levelsNote(levelsBelow(file, key)));
  return { tensors: tensors.size, bytes, leftOut };
}

const maxDepth = 200;

/** A copy of a value without what cannot be written; what is shared stays shared. */
class Writable {
  readonly leftOut: LeftOut[] = [];
  private readonly copies = new Map<PtValue, PtValue>();
  private readonly at: string;

  constructor(at: string) {
    this.at = at;
  }

  private inert(value: PtValue): boolean {
    return value instanceof PyPlaceholder || value instanceof PyGlobal || value instanceof NumpyArray || value instanceof NumpyDtype;
  }

  /** True where a value is left out, and noted. */
  private refused(value: PtValue, path: string): boolean {
    if (!this.inert(value)) return false;
    this.leftOut.push({ path, what: describe(value) });
    return true;
  }

  copy(value: PtValue, path = "", depth = 0): PtValue {
    if (value === null || typeof value !== "object" || value instanceof PtTensor || value instanceof PtStorage || value instanceof Uint8Array) return value;
    const known = this.copies.get(value);
    if (known !== undefined) return known;
    if (depth > maxDepth) throw new FormatError("PT_TOO_LARGE", { at: this.at, message: `values are nested more than ${maxDepth} deep, or contain themselves` });
    const child = (key: PtValue, item: PtValue): { path: string; copy(): PtValue } => {
      const name = `${path === "" ? "" : `${path}.`}${typeof key === "string" ? key : describe(key, 60)}`;
      return { path: name, copy: () => this.copy(item, name, depth + 1) };
    };
    const fill = (into: Map<PtValue, PtValue>, from: ReadonlyMap<PtValue, PtValue>): void => {
      for (const [key, item] of from) {
        const { path, copy } = child(key, item);
        if (!this.refused(key, path) && !this.refused(item, path)) into.set(this.copy(key, path, depth + 1), copy());
      }
    };
    /** In a list, what is left out becomes None, so that the others keep their places. */
    const list = (items: Iterable<PtValue>): PtValue[] => Array.from(items, (item, i) => (this.refused(item, `${path}.${i}`) ? null : child(BigInt(i), item).copy()));
    let made: PtValue = value;
    if (Array.isArray(value)) {
      made = [];
      this.copies.set(value, made);
      for (const item of list(value)) (made as PtValue[]).push(item);
    } else if (value instanceof PyTuple) made = new PyTuple(list(value.items), value.name);
    else if (value instanceof Map) {
      const dict = value instanceof OrderedDict ? new OrderedDict() : value instanceof DefaultDict ? new DefaultDict() : new Map<PtValue, PtValue>();
      if (dict instanceof DefaultDict && value instanceof DefaultDict) dict.factory = value.factory;
      if (dict instanceof OrderedDict && value instanceof OrderedDict && value.attributes) dict.attributes = this.copy(value.attributes, path, depth + 1) as PtDict;
      made = dict;
      this.copies.set(value, dict);
      fill(dict, value);
    } else if (value instanceof PyNamespace) {
      made = new PyNamespace();
      this.copies.set(value, made);
      fill(made.attributes, value.attributes);
    }
    this.copies.set(value, made);
    return made;
  }
}

function rewrite(file: TensorFile, path: string, key: string | undefined, under: string | undefined): Conversion {
  const writable = new Writable(file.at);
  const value = valueBelow(writable.copy((file.pt as NonNullable<TensorFile["pt"]>).value), key);
  if (value === undefined) throw new FormatError("PT_BAD", { at: file.at, message: `there is nothing below "${key}"` });
  const leftOut = writable.leftOut.filter((item) => key === undefined || item.path.startsWith(`${key}.`));
  writePt(
    path,
    pathOf(under).reduceRight<PtValue>((inner, name) => new Map([[pyKey(name), inner]]), value),
  );
  const tensors = below(file, key);
  return { tensors: tensors.length, bytes: tensors.reduce((sum, { byteLength }) => sum + byteLength, 0), leftOut };
}

/** A tensor that is read from its file when it is written. */
function lateTensor({ name, dtype, shape, size, bytes }: FileTensor): PtTensor {
  let content: Uint8Array | undefined;
  const storage = new PtStorage({
    dtype,
    size,
    at: name,
    read(begin, into) {
      content ??= bytes();
      into.set(content.subarray(begin, begin + into.byteLength));
      if (begin + into.byteLength === content.byteLength) content = undefined; // written: the next one's turn
    },
  });
  return new PtTensor(storage, { dtype, shape, strides: rowMajorStrides(shape), offset: 0 });
}

/**
 * Writes a file as torch.save does. A .pt file keeps its values, their types and what they share, but for objects of unknown types. The tensors of a
 * safetensors file come back to the levels of the .pt file that it was made of; those of others, and those below `key`, become one state_dict.
 * @param under what lies below this key in the new file: all of it
 * @throws FormatError FILE_UNWRITABLE, PT_UNWRITABLE_VALUE, and where the file cannot be read
 */
export function convertToPt(file: TensorFile, path: string, { key, under }: { key?: string; under?: string } = {}): Conversion {
  if (file.pt) return rewrite(file, path, key, under);
  const known = readLevels(file.metadata, file.at);
  const isWhole = key === undefined || known?.under.join(".") === key; // of a file that was made of what lay below that key
  const tensors = below(file, isWhole ? undefined : key);
  const levels: Levels = key === undefined && known ? known : { under: [], dicts: isWhole ? (known?.dicts ?? []) : [] };
  const late = (tensor: FileTensor): PtTensor => (tensor.size === 0 ? memoryTensor(tensor.dtype, tensor.shape, new Uint8Array()) : lateTensor(tensor));
  writePt(
    path,
    nest(
      tensors.map((tensor) => [tensor.name, late(tensor)]),
      under === undefined ? levels : { ...levels, under: pathOf(under) },
      file.at,
    ),
  );
  return {
    tensors: tensors.length,
    bytes: tensors.reduce((sum, { byteLength }) => sum + byteLength, 0),
    leftOut: file.values.map(({ path, value }) => ({ path, what: describe(value) })),
  };
}
