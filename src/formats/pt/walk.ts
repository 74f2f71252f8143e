/** What is in a file, by paths: its tensors, and its other values, without running into values that contain or repeat themselves. */
import { FormatError } from "../../util/errors.ts";
import type { PtFile } from "./read.ts";
import { PtTensor } from "./tensor.ts";
import {
  DefaultDict,
  FrozenSet,
  NumpyArray,
  NumpyDtype,
  NumpyScalar,
  OrderedDict,
  PtStorage,
  type PtValue,
  PyComplex,
  PyGlobal,
  PyNamespace,
  PyPath,
  PyPlaceholder,
  PyTuple,
  TorchDevice,
  TorchDtype,
} from "./values.ts";

const maxDepth = 200;

/** A tensor or another value, and where it is: keys and places in lists, joined by points. */
export interface PtLeaf<V extends PtValue = PtValue> {
  path: string;
  value: V;
}

const simple = (value: PtValue): boolean =>
  value === null ||
  typeof value !== "object" ||
  value instanceof Uint8Array ||
  !(value instanceof Map || Array.isArray(value) || value instanceof PyTuple || value instanceof PtTensor || value instanceof PyPlaceholder);

/** Characters that a terminal would obey, and those that turn text around, as escapes. */
export const printable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  text.replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]|\p{Surrogate}/gu, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

function keyText(key: PtValue): string {
  return typeof key === "string" ? key : typeof key === "bigint" || typeof key === "number" || typeof key === "boolean" ? String(key) : describe(key, 60);
}

/**
 * The leaves of a file's value in their order: tensors; placeholders, followed by what they hold; and values without tensors, of which
 * lists of plain values are one leaf.
 * @throws FormatError PT_TOO_LARGE where values contain themselves, or are repeated far beyond what the file holds
 */
export function leavesOf({ at, value, pickleBytes }: Pick<PtFile, "at" | "value" | "pickleBytes">): PtLeaf[] {
  const leaves: PtLeaf[] = [];
  let budget = 100_000 + 16 * pickleBytes; // characters of paths
  const allSimple = (items: readonly PtValue[]): boolean => {
    budget -= items.length;
    return items.every(simple);
  };
  const visit = (value: PtValue, path: string, depth: number): void => {
    budget -= 1 + path.length;
    if (budget < 0) throw new FormatError("PT_TOO_LARGE", { at, message: "the same values are repeated far beyond what the file holds" });
    if (depth > maxDepth) throw new FormatError("PT_TOO_LARGE", { at, message: `values are nested more than ${maxDepth} deep, or contain themselves` });
    const below = (key: PtValue, item: PtValue): void => visit(item, path === "" ? keyText(key) : `${path}.${keyText(key)}`, depth + 1);
    if (value instanceof Map && value.size > 0) for (const [key, item] of value) below(key, item);
    else if (value instanceof PyNamespace && value.attributes.size > 0) for (const [key, item] of value.attributes) below(key, item);
    else if ((Array.isArray(value) && !allSimple(value)) || (value instanceof PyTuple && !allSimple(value.items)))
      (Array.isArray(value) ? value : value.items).forEach((item, i) => below(BigInt(i), item));
    else {
      leaves.push({ path, value });
      if (!(value instanceof PyPlaceholder)) return;
      for (const [key, item] of value.entries) below(key, item);
      if (value.items.length > 0) below("__items__", value.items);
      if (value.state !== undefined) below("__state__", value.state);
      if (!allSimple(value.args)) below("__args__", [...value.args]);
    }
  };
  visit(value, "", 0);
  return leaves;
}

/** The tensors among leaves. */
export const tensorLeaves = (leaves: readonly PtLeaf[]): PtLeaf<PtTensor>[] => leaves.filter((leaf): leaf is PtLeaf<PtTensor> => leaf.value instanceof PtTensor);

function pythonFloat(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  return Object.is(value, -0) ? "-0.0" : Number.isInteger(value) && Math.abs(value) < 1e16 ? `${value}.0` : String(value);
}

function quoted(text: string, room: number): string {
  const cut = text.slice(0, Math.max(0, room));
  return `'${printable(cut.replace(/[\\']/g, "\\$&"))}${cut.length < text.length ? "..." : ""}'`;
}

/** A value much as Python prints it, cut off after about `length` characters. Unknown objects stand in angle brackets. */
export function describe(value: PtValue, length = 200): string {
  let text = "";
  const full = (): boolean => text.length >= length;
  const list = (open: string, items: Iterable<PtValue>, close: string, depth: number): void => {
    text += open;
    let first = true;
    for (const item of items) {
      if (!first) text += ", ";
      first = false;
      if (full()) {
        text += "...";
        break;
      }
      add(item, depth + 1);
    }
    text += close;
  };
  const dict = (open: string, map: ReadonlyMap<PtValue, PtValue>, close: string, depth: number): void => {
    text += open;
    let first = true;
    for (const [key, item] of map) {
      if (!first) text += ", ";
      first = false;
      if (full()) {
        text += "...";
        break;
      }
      add(key, depth + 1);
      text += ": ";
      add(item, depth + 1);
    }
    text += close;
  };
  const add = (value: PtValue, depth: number): void => {
    if (depth > 8) text += "...";
    else if (value === null) text += "None";
    else if (typeof value === "boolean") text += value ? "True" : "False";
    else if (typeof value === "bigint") text += BigInt.asIntN(256, value) === value ? String(value) : `<integer of ${value.toString(16).length * 4} bits>`;
    else if (typeof value === "number") text += pythonFloat(value);
    else if (typeof value === "string") text += quoted(value, length - text.length);
    else if (value instanceof Uint8Array) text += `<${value.length} bytes>`;
    else if (Array.isArray(value)) list("[", value, "]", depth);
    else if (value instanceof PyTuple) list(value.name === "tuple" ? "(" : "torch.Size(", value.items, value.items.length === 1 ? ",)" : ")", depth);
    else if (value instanceof OrderedDict) dict("OrderedDict({", value, "})", depth);
    else if (value instanceof DefaultDict) dict("defaultdict({", value, "})", depth);
    else if (value instanceof Map) dict("{", value, "}", depth);
    else if (value instanceof FrozenSet) list("frozenset({", value, "})", depth);
    else if (value instanceof Set) list("{", value, "}", depth);
    else if (value instanceof PyComplex) text += `(${pythonFloat(value.real)}+${pythonFloat(value.imaginary)}j)`;
    else if (value instanceof PyPath) text += `${value.kind}(${quoted(value.path, length - text.length)})`;
    else if (value instanceof PyNamespace) dict("Namespace({", value.attributes, "})", depth);
    else if (value instanceof NumpyScalar) text += `numpy.${printable(value.dtype)}(${typeof value.value === "boolean" ? (value.value ? "True" : "False") : value.value})`;
    else if (value instanceof NumpyArray) text += `<NumPy array of ${printable(value.dtype)} [${value.shape.join(", ")}]>`;
    else if (value instanceof NumpyDtype) text += `numpy.dtype('${printable(value.code)}')`;
    else if (value instanceof TorchDtype) text += `torch.${printable(value.name)}`;
    else if (value instanceof TorchDevice) text += `torch.device('${printable(value.device)}')`;
    else if (value instanceof PtTensor) text += `<tensor of ${value.dtype} [${value.shape.join(", ")}]>`;
    else if (value instanceof PtStorage) text += `<storage of ${value.size} ${value.dtype}>`;
    else if (value instanceof PyGlobal) text += `<class or function ${printable(value.qualified)}>`;
    else {
      text += `<not loaded: ${printable(value.name)}`;
      if (value.args.length > 0) list("(", value.args, ")", depth);
      if (value.entries.size > 0) dict(" {", value.entries, "}", depth);
      if (value.items.length > 0) list(" [", value.items, "]", depth);
      text += ">";
    }
  };
  add(value, 0);
  return text.length <= 2 * length ? text : `${text.slice(0, 2 * length)}...`; // names may be of any length
}
