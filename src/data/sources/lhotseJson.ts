/** Reading of what lhotse writes as JSON: values of the kind that is expected, or an error at file:line. */
import { ManifestError } from "../../util/errors.ts";

export type Dict = Readonly<Record<string, unknown>>;

export const isDict = (value: unknown): value is Dict => typeof value === "object" && value !== null && !Array.isArray(value);
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
export const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
export const show = (value: unknown): string => (JSON.stringify(value) ?? "missing").slice(0, 40);

/** @throws ManifestError CUT_BAD */
export function bad(at: string, message: string, fix?: string): never {
  throw new ManifestError("CUT_BAD", { at, message, fix });
}

/** A number of seconds. @throws ManifestError CUT_BAD */
export function seconds(object: Dict, key: string, at: string, least: number): number {
  const value = object[key];
  if (typeof value !== "number" || !Number.isFinite(value) || value < least) bad(at, `"${key}" is ${show(value)}, expected seconds${least > 0 ? " above 0" : " from 0"}`);
  return value as number;
}
