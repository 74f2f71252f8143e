/**
 * What a pickle holds, as values that do nothing. A Python float is a number, a Python int is a bigint, so that 1 and 1.0 stay apart;
 * None is null, str a string, bytes a Uint8Array, a list an array, a dict a Map and a set a Set, each in the order of the file.
 */
import type { PtTensor } from "./tensor.ts";

/** Any value of a pickle. Values may contain themselves. */
export type PtValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PtValue[]
  | Map<PtValue, PtValue>
  | Set<PtValue>
  | PyTuple
  | PyComplex
  | PyGlobal
  | PyPath
  | PyNamespace
  | NumpyDtype
  | NumpyScalar
  | NumpyArray
  | TorchDtype
  | TorchDevice
  | PtStorage
  | PtTensor
  | PyPlaceholder;

/** A dict: what `torch.save({...})` writes. */
export type PtDict = Map<PtValue, PtValue>;

/** A tuple; `name` tells the subclass ("torch.Size"). */
export class PyTuple {
  readonly items: readonly PtValue[];
  readonly name: "tuple" | "torch.Size";

  constructor(items: readonly PtValue[], name: "tuple" | "torch.Size" = "tuple") {
    this.items = items;
    this.name = name;
  }
}

/** collections.OrderedDict, as a state_dict is; `attributes` are what was set on it, as state_dict's `_metadata`. */
export class OrderedDict extends Map<PtValue, PtValue> {
  attributes: PtDict | undefined;
}

/** collections.defaultdict; `factory` makes missing values in Python, here it is only kept. */
export class DefaultDict extends Map<PtValue, PtValue> {
  factory: PtValue = null;
}

/** A frozenset. */
export class FrozenSet extends Set<PtValue> {}

/** A complex number. */
export class PyComplex {
  readonly real: number;
  readonly imaginary: number;

  constructor(real: number, imaginary: number) {
    this.real = real;
    this.imaginary = imaginary;
  }
}

/** A class or function, by its name: it is never looked up. */
export class PyGlobal {
  readonly module: string;
  readonly name: string;

  constructor(module: string, name: string) {
    this.module = module;
    this.name = name;
  }

  get qualified(): string {
    return `${this.module}.${this.name}`;
  }
}

/** A path of pathlib's; `kind` is its class. */
export class PyPath {
  readonly path: string;
  readonly kind: string;

  constructor(path: string, kind = "PosixPath") {
    this.path = path;
    this.kind = kind;
  }
}

/** argparse.Namespace. */
export class PyNamespace {
  readonly attributes: PtDict = new Map();
}

/** A dtype of NumPy's by its code ("f8"); `order` is "<", ">" or "|". */
export class NumpyDtype {
  readonly code: string;
  order = "|";

  constructor(code: string) {
    this.code = code;
  }
}

/** A number of NumPy's. */
export class NumpyScalar {
  readonly dtype: string;
  readonly value: number | bigint | boolean;

  constructor(dtype: string, value: number | bigint | boolean) {
    this.dtype = dtype;
    this.value = value;
  }
}

/** An array of NumPy's: its bytes as they stand in the pickle. */
export class NumpyArray {
  dtype = "";
  shape: readonly number[] = [];
  fortranOrder = false;
  data: Uint8Array = new Uint8Array();
}

/** torch.float32 and the like, by its name without "torch.". */
export class TorchDtype {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** torch.device. */
export class TorchDevice {
  readonly device: string;

  constructor(device: string) {
    this.device = device;
  }
}

/** Where the elements of tensors lie: shared by all tensors that are views of it. */
export class PtStorage {
  /** torch's name of the element type; "uint8" for storages without one. */
  readonly dtype: string;
  /** Number of elements. */
  readonly size: number;
  readonly location: string;
  /** The file that errors name. */
  readonly at: string;
  /** Fills `into` with the bytes from `begin` on, little endian. */
  readonly read: (begin: number, into: Uint8Array) => void;

  constructor({ dtype, size, location = "cpu", at, read }: { dtype: string; size: number; location?: string; at: string; read: (begin: number, into: Uint8Array) => void }) {
    this.dtype = dtype;
    this.size = size;
    this.location = location;
    this.at = at;
    this.read = read;
  }
}

/** Something that serac does not make: what it was made of, to be looked at, and never called. */
export class PyPlaceholder {
  /** The class or function; a value where the pickle calls the result of another call. */
  readonly callee: PtValue;
  readonly args: readonly PtValue[];
  /** What __setstate__ would have got. */
  state: PtValue | undefined;
  /** What was appended, where it is a kind of list or set. */
  readonly items: PtValue[] = [];
  /** What was set by key, where it is a kind of dict. */
  readonly entries: PtDict = new Map();

  constructor(callee: PtValue, args: readonly PtValue[]) {
    this.callee = callee;
    this.args = args;
  }

  /** Its class or function as Python writes it. */
  get name(): string {
    let callee: PtValue = this.callee;
    for (let depth = 0; depth < 20 && callee instanceof PyPlaceholder; depth++) callee = callee.callee;
    return callee instanceof PyGlobal ? callee.qualified : "an unnamed object";
  }
}
