/**
 * The allow-list: what calls in a pickle become values. A class or function that is not here, or gets other arguments than it should,
 * becomes an inert placeholder; nothing is ever looked up or called.
 */
import { elementBytes, elementReader } from "./dtypes.ts";
import { PtTensor } from "./tensor.ts";
import {
  DefaultDict,
  FrozenSet,
  NumpyArray,
  NumpyDtype,
  NumpyScalar,
  OrderedDict,
  type PtStorage,
  type PtValue,
  PyComplex,
  PyGlobal,
  PyNamespace,
  PyPath,
  PyPlaceholder,
  PyTuple,
  PtStorage as Storage,
  TorchDevice,
  TorchDtype,
} from "./values.ts";

/** Makes a value of arguments; undefined where they are not what it takes. */
type Maker = (args: readonly PtValue[]) => PtValue | undefined;

const count = (value: PtValue | undefined): number | undefined =>
  typeof value === "bigint" && value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : undefined;

const maxRank = 64; // torch's own limit

function counts(value: PtValue | undefined): number[] | undefined {
  if (!(value instanceof PyTuple) || value.items.length > maxRank) return undefined;
  const numbers = value.items.map(count);
  return numbers.every((n) => n !== undefined) ? (numbers as number[]) : undefined;
}

/** @param notes of views that torch conjugates or negates when it reads them, which this does not */
function tensor(args: readonly PtValue[], dtype: string | undefined, notes?: PtValue): PtTensor | undefined {
  const [storage, first, sizes, steps, requiresGrad] = args;
  if (notes !== undefined && notes !== null && !(notes instanceof Map && notes.size === 0)) return undefined;
  const offset = count(first);
  const shape = counts(sizes);
  const strides = counts(steps);
  if (!(storage instanceof Storage) || offset === undefined || !shape || !strides) return undefined;
  const elements = dtype ?? storage.dtype;
  if (elementBytes(elements) === undefined) return undefined;
  return new PtTensor(storage as PtStorage, { dtype: elements, shape, strides, offset }, { requiresGrad: requiresGrad === true });
}

/** Pairs of a list of lists, as Python 2 wrote OrderedDict. */
function pairs(value: PtValue | undefined): [PtValue, PtValue][] | undefined {
  if (value === undefined) return [];
  if (value instanceof Map) return [...value];
  const items = Array.isArray(value) ? value : value instanceof PyTuple ? value.items : undefined;
  const result: [PtValue, PtValue][] = [];
  for (const item of items ?? []) {
    const pair = Array.isArray(item) ? item : item instanceof PyTuple ? item.items : [];
    if (pair.length !== 2) return undefined;
    result.push([pair[0] as PtValue, pair[1] as PtValue]);
  }
  return items && result;
}

const orderedDict: Maker = ([items, ...more]) => {
  const entries = more.length === 0 ? pairs(items) : undefined;
  if (!entries) return undefined;
  const dict = new OrderedDict();
  for (const [key, value] of entries) dict.set(key, value);
  return dict;
};

const defaultDict: Maker = ([factory = null, items, ...more]) => {
  const entries = more.length === 0 ? pairs(items) : undefined;
  if (!entries) return undefined;
  const dict = new DefaultDict();
  dict.factory = factory;
  for (const [key, value] of entries) dict.set(key, value);
  return dict;
};

const itemsOf = (value: PtValue | undefined): readonly PtValue[] | undefined =>
  value === undefined ? [] : Array.isArray(value) ? value : value instanceof PyTuple ? value.items : value instanceof Set ? [...value] : undefined;

function bytesOf([value, encoding]: readonly PtValue[]): Uint8Array | undefined {
  if (value === undefined) return new Uint8Array();
  if (value instanceof Uint8Array) return value;
  if (typeof value === "string" && (encoding === "latin1" || encoding === "latin-1")) return Buffer.from(value, "latin1");
  const items = itemsOf(value);
  return items?.every((item) => typeof item === "bigint" && item >= 0n && item < 256n) ? Uint8Array.from(items, Number) : undefined;
}

const path =
  (kind: string, separator: string): Maker =>
  (args) => {
    let joined = "";
    for (const part of args) {
      if (typeof part !== "string") return undefined;
      joined = part.startsWith(separator) || joined === "" ? part : joined.endsWith(separator) ? joined + part : joined + separator + part;
    }
    return new PyPath(joined === "" ? "." : joined, kind);
  };

const numpyNames: Readonly<Record<string, string>> = {
  f2: "float16",
  f4: "float32",
  f8: "float64",
  i1: "int8",
  i2: "int16",
  i4: "int32",
  i8: "int64",
  u1: "uint8",
  u2: "uint16",
  u4: "uint32",
  u8: "uint64",
  b1: "bool",
};

/** NumPy's name of a dtype, of its code. */
const numpyName = (code: string): string => (Object.hasOwn(numpyNames, code) ? (numpyNames[code] as string) : code);

const numpyScalar: Maker = ([dtype, bytes]) => {
  if (!(dtype instanceof NumpyDtype) || !(bytes instanceof Uint8Array)) return undefined;
  const name = numpyName(dtype.code);
  const read = elementReader(name);
  if (!read || bytes.length !== elementBytes(name)) return undefined;
  const little = dtype.order === ">" ? Uint8Array.from(bytes).reverse() : bytes;
  const value = read(new DataView(little.buffer, little.byteOffset, little.byteLength), 0);
  if (name === "bool") return new NumpyScalar(name, value !== 0);
  return new NumpyScalar(name, name.startsWith("float") || typeof value === "bigint" ? value : BigInt(value));
};

const makers: Readonly<Record<string, Maker>> = {
  "collections.OrderedDict": orderedDict,
  "collections.defaultdict": defaultDict,
  "builtins.dict": ([items]) => {
    const entries = pairs(items);
    return entries && new Map(entries);
  },
  "builtins.list": ([items]) => {
    const found = itemsOf(items);
    return found && [...found];
  },
  "builtins.tuple": ([items]) => {
    const found = itemsOf(items);
    return found && new PyTuple(found);
  },
  "builtins.set": ([items]) => {
    const found = itemsOf(items);
    return found && new Set(found);
  },
  "builtins.frozenset": ([items]) => {
    const found = itemsOf(items);
    return found && new FrozenSet(found);
  },
  "builtins.complex": ([real, imaginary]) => (typeof real === "number" && typeof imaginary === "number" ? new PyComplex(real, imaginary) : undefined),
  "builtins.bytes": bytesOf,
  "builtins.bytearray": bytesOf,
  "_codecs.encode": bytesOf,
  // Objects without arguments, as protocols 0 and 1 make them.
  "copyreg._reconstructor": ([type, base, state]) =>
    type instanceof PyGlobal && type.qualified === "argparse.Namespace" && base instanceof PyGlobal && base.qualified === "builtins.object" && state === null
      ? new PyNamespace()
      : undefined,
  "argparse.Namespace": (args) => (args.length === 0 ? new PyNamespace() : undefined),
  "pathlib.PosixPath": path("PosixPath", "/"),
  "pathlib.PurePosixPath": path("PurePosixPath", "/"),
  "pathlib.WindowsPath": path("WindowsPath", "\\"),
  "pathlib.PureWindowsPath": path("PureWindowsPath", "\\"),
  "numpy.dtype": ([code]) => (typeof code === "string" ? new NumpyDtype(code) : undefined),
  "numpy.core.multiarray.scalar": numpyScalar,
  "numpy.core.multiarray._reconstruct": ([kind]) => (kind instanceof PyGlobal && kind.qualified === "numpy.ndarray" ? new NumpyArray() : undefined),
  "torch.Size": ([items]) => {
    const found = itemsOf(items);
    return found && new PyTuple(found, "torch.Size");
  },
  "torch.device": ([kind, index]) => {
    if (typeof kind !== "string") return undefined;
    if (index === undefined || index === null) return new TorchDevice(kind);
    return typeof index === "bigint" ? new TorchDevice(`${kind}:${index}`) : undefined;
  },
  "torch._utils._rebuild_tensor": (args) => tensor(args, undefined),
  "torch._utils._rebuild_tensor_v2": (args) => tensor(args, undefined, args[6]),
  "torch._utils._rebuild_tensor_v3": (args) => (args[6] instanceof TorchDtype ? tensor(args, args[6].name, args[7]) : undefined),
  "torch._utils._rebuild_parameter": ([data, requiresGrad]) => (data instanceof PtTensor ? data.asParameter(requiresGrad === true) : undefined),
  "torch._utils._rebuild_parameter_with_state": ([data, requiresGrad]) => (data instanceof PtTensor ? data.asParameter(requiresGrad === true) : undefined),
  // Tensors on which attributes were set: these are left.
  "torch._tensor._rebuild_from_type_v2": ([callee, type, args]) => {
    if (!(type instanceof PyGlobal) || !["torch.Tensor", "torch.nn.parameter.Parameter"].includes(type.qualified) || !(args instanceof PyTuple)) return undefined;
    if (!(callee instanceof PyGlobal) || !callee.qualified.startsWith("torch._utils._rebuild_")) return undefined;
    return makers[callee.qualified]?.(args.items);
  },
};

/** Modules by the names that other versions of Python and NumPy give them. */
const modules: Readonly<Record<string, string>> = {
  __builtin__: "builtins",
  copy_reg: "copyreg",
  "pathlib._local": "pathlib",
  "numpy._core.multiarray": "numpy.core.multiarray",
  "numpy.core._multiarray_umath": "numpy.core.multiarray",
};

/** What a class or function in a pickle is here: its name, or a dtype of torch's, which is a value by itself. */
export function globalValue(module: string, name: string): PyGlobal | TorchDtype {
  if (module === "torch" && (elementBytes(name) !== undefined || /^(float|int|uint|bits)\w+$/.test(name))) return new TorchDtype(name);
  return new PyGlobal(Object.hasOwn(modules, module) ? (modules[module] as string) : module, name);
}

/** What the call of a class or function becomes. @throws FormatError PT_BAD for a tensor that does not fit its storage */
export function callGlobal(callee: PtValue, args: readonly PtValue[]): PtValue {
  const made = callee instanceof PyGlobal && Object.hasOwn(makers, callee.qualified) ? makers[callee.qualified]?.(args) : undefined;
  return made ?? new PyPlaceholder(callee, args);
}

function buildNumpy(target: NumpyDtype | NumpyArray, state: PtValue): boolean {
  if (!(state instanceof PyTuple)) return false;
  if (target instanceof NumpyDtype) {
    const order = state.items[1];
    if (typeof order !== "string") return false;
    target.order = order;
    return true;
  }
  const [, shape, dtype, fortran, data] = state.items;
  const sizes = counts(shape);
  if (!sizes || !(dtype instanceof NumpyDtype)) return false;
  target.shape = sizes;
  target.dtype = numpyName(dtype.code) + (dtype.order === ">" ? " (big endian)" : "");
  target.fortranOrder = fortran === true;
  // An array of objects has a list here, which is left.
  target.data = data instanceof Uint8Array ? data : new Uint8Array();
  return true;
}

/** Gives a value its state, as __setstate__ does. @returns false for values that have none */
export function buildValue(target: PtValue, state: PtValue): boolean {
  if (target instanceof PyPlaceholder) {
    target.state = state;
    return true;
  }
  const attributes = state instanceof PyTuple && state.items.length === 2 ? state.items[0] : state;
  if (target instanceof PyNamespace) {
    if (!(attributes instanceof Map)) return false;
    for (const [key, value] of attributes) target.attributes.set(key, value);
    return true;
  }
  if (target instanceof OrderedDict) {
    if (!(attributes instanceof Map)) return false;
    target.attributes = attributes;
    return true;
  }
  if (target instanceof NumpyDtype || target instanceof NumpyArray) return buildNumpy(target, state);
  return false;
}
