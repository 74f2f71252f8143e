/** Values as JSON that keeps all there is to them: the same as scripts/interop/checkpoints.py makes of what torch.load gives. */
import {
  DefaultDict,
  FrozenSet,
  NumpyArray,
  NumpyScalar,
  OrderedDict,
  type PtDict,
  type PtStorage,
  PtTensor,
  type PtValue,
  PyComplex,
  PyGlobal,
  PyNamespace,
  PyPath,
  PyTuple,
  TorchDevice,
  TorchDtype,
} from "../../../src/formats/pt/index.ts";

type Json = null | boolean | number | string | Json[];

function hexed(value: number): string {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return bytes.toString("hex");
}
const hex = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");

/** @returns the JSON of a value; fails on placeholders */
export function encode(value: PtValue, storages = new Map<PtStorage, number>()): Json {
  const items = (values: Iterable<PtValue>): Json[] => Array.from(values, (item) => encode(item, storages));
  const pairs = (map: PtDict): Json[] => Array.from(map, ([key, item]) => [encode(key, storages), encode(item, storages)]);
  const sorted = (values: Iterable<PtValue>): Json[] => items(values).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  if (value === null) return ["None"];
  if (typeof value === "boolean") return ["bool", value];
  if (typeof value === "bigint") return ["int", String(value)];
  if (typeof value === "number") return ["float", hexed(value)];
  if (typeof value === "string") return ["str", value];
  if (value instanceof Uint8Array) return ["bytes", hex(value)];
  if (Array.isArray(value)) return ["list", items(value)];
  if (value instanceof PyTuple) return [value.name === "tuple" ? "tuple" : "Size", items(value.items)];
  if (value instanceof OrderedDict) return ["OrderedDict", pairs(value), value.attributes ? pairs(value.attributes) : null];
  if (value instanceof DefaultDict) return ["defaultdict", value.factory instanceof PyGlobal ? value.factory.name : null, pairs(value)];
  if (value instanceof Map) return ["dict", pairs(value)];
  if (value instanceof FrozenSet) return ["frozenset", sorted(value)];
  if (value instanceof Set) return ["set", sorted(value)];
  if (value instanceof PyComplex) return ["complex", hexed(value.real), hexed(value.imaginary)];
  if (value instanceof PyPath) return ["path", value.kind, value.path];
  if (value instanceof PyNamespace) return ["Namespace", pairs(value.attributes)];
  if (value instanceof TorchDtype) return ["dtype", value.name];
  if (value instanceof TorchDevice) return ["device", value.device];
  if (value instanceof NumpyScalar) return ["numpy", value.dtype, encode(value.value)];
  if (value instanceof NumpyArray) return ["ndarray", value.dtype, [...value.shape], hex(value.data)];
  if (value instanceof PtTensor) {
    const known = storages.get(value.storage) ?? (value.storage.size > 0 ? [...storages.values()].filter((n) => n >= 0).length : -1);
    storages.set(value.storage, known);
    return ["tensor", value.dtype, [...value.shape], [...value.strides], value.offset, value.requiresGrad, value.parameter, known, hex(value.bytes())];
  }
  throw new Error(`no encoding for ${value.constructor.name}`);
}
