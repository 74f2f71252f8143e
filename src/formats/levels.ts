/**
 * The levels of a .pt file ({"model": {...}, "optimizer": {"state": {0: {...}}}}), as a safetensors file notes them in its metadata. There names are flat,
 * and state_dicts have points in their keys: without the note nobody could tell where a level ends. Levels are dicts; of lists the places stay in the names.
 */
import { FormatError } from "../util/errors.ts";
import { OrderedDict, type PtDict, PtTensor, type PtValue, PyNamespace } from "./pt/index.ts";

/** Keys that lead to a dict: text, or whole numbers. */
export type Path = readonly (string | number)[];

/** How flat names were levels. */
export interface Levels {
  /** The dict that all of it lay in. */
  under: Path;
  /** The dicts in it that hold tensors, seen from there; the outer ones first. */
  dicts: readonly Path[];
}

/** The key of the metadata that notes them. */
export const levelsKey = "serac_levels";
const maxDepth = 200; // as in pt/walk.ts

const joined = (path: Path): string => path.join(".");

/** The path that a key on the command line says: "optimizer.state.0". */
export const pathOf = (key: string | undefined): Path => key?.split(".").map((name) => (/^\d{1,9}$/.test(name) ? Number(name) : name)) ?? [];

/** The dict that a flat name belongs to, the longest that fits, and its key there. */
function placeOf(name: string, dicts: ReadonlyMap<string, Path>): { path: Path; key: string } {
  for (let end = name.lastIndexOf("."); end >= 0; end = name.lastIndexOf(".", end - 1)) {
    const path = dicts.get(name.slice(0, end));
    if (path) return { path, key: name.slice(end + 1) };
    if (end === 0) break;
  }
  return { path: [], key: name };
}

const byName = (dicts: readonly Path[]): Map<string, Path> => new Map(dicts.map((path) => [joined(path), path]));

const itemsOf = (value: PtValue): PtDict | undefined => (value instanceof PyNamespace ? value.attributes : value instanceof Map ? value : undefined);

const holdsTensor = (value: PtValue): boolean => value instanceof PtTensor || [...(itemsOf(value)?.values() ?? [])].some(holdsTensor);

/**
 * The levels of a value that was found free of cycles (`leavesOf`).
 * @param under keys that lead to it
 * @returns undefined where flat names could not be brought back to them: two dicts could claim one, or a key is a number
 */
export function levelsOf(value: PtValue, under: Path = []): Levels | undefined {
  const dicts: Path[] = [];
  const tensors: { path: Path; key: string | number }[] = [];
  const visit = (value: PtValue, path: Path): void => {
    for (const [key, item] of itemsOf(value) ?? []) {
      const plain = typeof key === "bigint" ? Number(key) : key;
      if (typeof plain !== "string" && !(typeof plain === "number" && Number.isSafeInteger(plain))) continue;
      if (item instanceof PtTensor) tensors.push({ path, key: plain });
      else if (holdsTensor(item)) {
        dicts.push([...path, plain]);
        visit(item, [...path, plain]);
      }
    }
  };
  visit(value, []);
  const known = byName(dicts);
  const isSame = ({ path, key }: (typeof tensors)[number]): boolean => {
    const place = placeOf(joined([...path, key]), known);
    return place.key === key && joined(place.path) === joined(path);
  };
  return known.size === dicts.length && tensors.every(isSame) ? { under, dicts } : undefined;
}

/** Levels as metadata of a safetensors file; nothing where there are none. */
export const levelsNote = (levels: Levels | undefined): Record<string, string> =>
  levels && levels.under.length + levels.dicts.length > 0 ? { [levelsKey]: JSON.stringify(levels) } : {};

const isPath = (value: unknown): value is Path => Array.isArray(value) && value.length <= maxDepth && value.every((key) => typeof key === "string" || Number.isSafeInteger(key));

/** @returns the levels that the metadata note. @throws FormatError SAFETENSORS_BAD where the note is none of serac's */
export function readLevels(metadata: Readonly<Record<string, string>>, at: string): Levels | undefined {
  const text = metadata[levelsKey];
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Said below.
  }
  const { under, dicts } = (value ?? {}) as Partial<Levels>;
  if (!isPath(under) || !Array.isArray(dicts) || !dicts.every(isPath)) throw new FormatError("SAFETENSORS_BAD", { at, message: `__metadata__.${levelsKey} does not say levels` });
  return { under, dicts };
}

/** A number is a whole number in Python too. */
export const pyKey = (key: string | number): PtValue => (typeof key === "number" ? BigInt(key) : key);

/**
 * Brings tensors under flat names back to their levels.
 * @throws FormatError SAFETENSORS_BAD where a tensor stands in the way of a level
 */
export function nest(tensors: Iterable<readonly [string, PtTensor]>, { under, dicts }: Levels, at: string): PtDict {
  const root: PtDict = new OrderedDict();
  const known = byName(dicts);
  const bad = (name: string): FormatError => new FormatError("SAFETENSORS_BAD", { at, message: `the tensor "${name}" has no place among the levels of __metadata__.${levelsKey}` });
  for (const [name, tensor] of tensors) {
    const { path, key } = placeOf(name, known);
    let dict = root;
    for (const level of [...under, ...path].map(pyKey)) {
      if (!dict.has(level)) dict.set(level, new OrderedDict());
      const next = dict.get(level);
      if (!(next instanceof Map)) throw bad(name);
      dict = next;
    }
    if (dict.has(key)) throw bad(name);
    dict.set(key, tensor);
  }
  return root;
}
