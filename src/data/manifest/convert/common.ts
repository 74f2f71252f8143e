/** What the converters share: utterances between formats, and the list of what a target cannot hold. */
import { PyNumber, type PyObject, type PyValue } from "../../../formats/pythonJson.ts";

/** Formats of utterances. `json` is a file that is one JSON array or object; it can only be read. */
export const manifestFormats = ["nemo", "lhotse", "shar", "kaldi", "csv", "tsv", "json"] as const;
export type ManifestFormat = (typeof manifestFormats)[number];

/** An utterance with NeMo's keys, numbers as they were spelled. */
export interface Utterance {
  object: PyObject;
  /** file:line, or a member of a shard. */
  at: string;
  /** The file beside which relative paths lie; undefined where they start at the working directory. */
  base: string | undefined;
}

/** One kind of loss. */
export interface Loss {
  what: string;
  count: number;
  /** The first place. */
  example: string;
}

/** What could not be converted, by kind. */
export class Losses {
  private readonly found = new Map<string, Loss>();
  /** Utterances that were left out as a whole. */
  dropped = 0;

  add(what: string, example: string): void {
    const loss = this.found.get(what);
    if (loss) loss.count++;
    else this.found.set(what, { what, count: 1, example });
  }

  /** The whole utterance is lost. */
  drop(what: string, example: string): void {
    this.dropped++;
    this.add(`left out: ${what}`, example);
  }

  list(): Loss[] {
    return [...this.found.values()];
  }
}

export const isText = (value: PyValue | undefined): value is string => typeof value === "string";

/** @returns the number, or undefined where the value is none */
export function numberOf(value: PyValue | undefined): number | undefined {
  const number = value instanceof PyNumber ? value.value : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

export const objectOf = (value: PyValue | undefined): PyObject | undefined => (value instanceof Map ? value : undefined);
export const listOf = (value: PyValue | undefined): PyValue[] => (Array.isArray(value) ? value : []);

/** True for equal values, numbers of different spellings being different. */
export function sameValue(a: PyValue | undefined, b: PyValue | undefined): boolean {
  if (a instanceof PyNumber || b instanceof PyNumber) return a instanceof PyNumber && b instanceof PyNumber && a.text === b.text;
  return a === b;
}

/** Rounded as lhotse rounds times: to 8 digits behind the point. */
export const roundTime = (seconds: number): number => Math.round(seconds * 1e8) / 1e8;

/** The id that NeMo gives to an utterance of a lhotse dataset: the path, and where there is an offset both times in hundredths. */
export function derivedId(audio: string, offset: number | undefined, duration: number | undefined): string {
  if (offset === undefined) return audio;
  const hundredths = (seconds: number): string => String(Math.round(seconds * 100)).padStart(6, "0");
  return `${audio}-${hundredths(offset)}-${hundredths(duration ?? 0)}`;
}
