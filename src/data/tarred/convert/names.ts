/**
 * Names of members of tarred datasets: paths flattened as NeMo does, and made distinct where two would meet.
 * Readers find the utterances of a member by the name up to its first point, so names have one point and no two files share what is before it.
 */
import { createHash } from "node:crypto";
import type { PyValue } from "../../../formats/pythonJson.ts";
import { PyNumber } from "../../../formats/pythonJson.ts";
import { pythonFloat } from "../../../formats/pythonNumber.ts";
import { encodeSurrogateEscape } from "../../../formats/surrogateEscape.ts";

/** Python's os.path.splitext: points at the beginning of the name are a part of it. */
export function splitExtension(path: string): [base: string, extension: string] {
  const name = path.lastIndexOf("/") + 1;
  const dot = path.lastIndexOf(".");
  if (dot <= name) return [path, ""];
  for (let i = name; i < dot; i++) if (path[i] !== ".") return [path.slice(0, dot), path.slice(dot)];
  return [path, ""];
}

/** What a path becomes: `base` without slashes and points, and its extension with the point. */
export function flattenPath(path: string): { base: string; extension: string } {
  const [base, extension] = splitExtension(path);
  return { base: base.replace(/[/.]/g, "_"), extension };
}

/** What readers take for the mark of a repeated file. */
const subMark = /-sub(\d+)$/;

/** `base` without what readers would take for the mark of a repeated file: x-sub1 becomes x_sub1. */
export function withoutSubMark(base: string): string {
  return base.replace(subMark, "_sub$1");
}

/** The base of a path that would meet another one's: followed by eight digits of the path's SHA-256. */
export function distinctBase(base: string, path: string): string {
  return `${base}_${createHash("sha256").update(encodeSurrogateEscape(path)).digest("hex").slice(0, 8)}`;
}

/** str() of a number of the manifest, with "_" for its point and "_0" behind a whole one: 12 is 12_0, 12.34 is 12_34, 1e-05 is 1e-05_0. */
export function numberInName(value: PyValue): string {
  const text =
    value instanceof PyNumber ? value.text : typeof value === "number" ? (Number.isSafeInteger(value) && !Object.is(value, -0) ? String(value) : pythonFloat(value)) : "";
  return text.includes(".") ? text.replace(".", "_") : `${text}_0`;
}
