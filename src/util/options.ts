/**
 * Options of commands and of API functions: one schema says names, kinds, defaults and help, checks the values and gives the types.
 * Names are camelCase; the command line spells them with dashes (underscores are taken as well, as icefall's users write them).
 */
import { splitAtCommas } from "./braces.ts";
import { ConfigError } from "./errors.ts";
import { nearest } from "./suggest.ts";

/** What every kind of option may say about itself. */
export interface OptionSettings<T> {
  /** One line: what it does. Kind, unit, default and choices are added to it. */
  help: string;
  /** The value where none is given; without it the value is undefined. */
  default?: T;
  /** An error where none is given. */
  required?: boolean;
  /** A one-letter flag, without its dash. */
  short?: string;
  /** The unit, or what the value stands for: shown as `<seconds>`. */
  unit?: string;
  /** The heading of the help under which it stands. */
  group?: string;
  /** Accepted, but not shown in the help. */
  hidden?: boolean;
}

/** One option of a schema; T is the type of its value. */
export interface Option<T> extends OptionSettings<unknown> {
  kind: "string" | "path" | "integer" | "number" | "boolean" | "choice" | "integers" | "numbers" | "strings";
  choices?: readonly string[];
  /** What is accepted, in words: completes "expected ...". */
  accepts: string;
  /** @returns the value, or undefined where `raw` (a text of the command line, or a value of the API) is none */
  read(raw: unknown): T | undefined;
}

/** Names (camelCase) and their options. */
export type Schema = Record<string, Option<unknown>>;

/** The checked values of a schema. */
export type Options<S extends Schema> = { [K in keyof S]: S[K] extends Option<infer T> ? T : never };

/** What a caller of the API gives: the same, where everything with a default may be left out. */
export type OptionsInput<S extends Schema> = Partial<Options<S>>;

/** Given a default, or required, a value is always there. */
type Value<T, O> = O extends { default: unknown } | { required: true } ? T : T | undefined;

function option<T, O extends OptionSettings<unknown>>(settings: O, rest: Omit<Option<T>, keyof OptionSettings<unknown>>): Option<Value<T, O>> {
  return { ...settings, ...rest } as unknown as Option<Value<T, O>>;
}

interface Range {
  min?: number;
  max?: number;
}

function inWords(noun: string, { min, max }: Range): string {
  if (min !== undefined && max !== undefined) return `${noun} from ${min} to ${max}`;
  if (min !== undefined) return `${noun} of ${min} or more`;
  return max === undefined ? noun : `${noun} of ${max} or less`;
}

const isIn = (value: number, { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY }: Range): boolean => value >= min && value <= max;
const integerText = /^[+-]?\d+$/;
const numberText = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

function readInteger(raw: unknown): number | undefined {
  const value = typeof raw === "string" && integerText.test(raw.trim()) ? Number(raw) : raw;
  return typeof value === "number" && Number.isSafeInteger(value) ? value : undefined;
}

function readNumber(raw: unknown): number | undefined {
  const value = typeof raw === "string" && numberText.test(raw.trim()) ? Number(raw) : raw;
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

/** A text. */
export function string<const O extends OptionSettings<string>>(settings: O): Option<Value<string, O>> {
  return option<string, O>(settings, { kind: "string", accepts: "a text", read: (raw) => (typeof raw === "string" ? raw : undefined) });
}

/** A file or folder; the empty text is refused. */
export function path<const O extends OptionSettings<string>>(settings: O): Option<Value<string, O>> {
  return option<string, O>(settings, { kind: "path", accepts: "a path", read: (raw) => (typeof raw === "string" && raw !== "" ? raw : undefined) });
}

/** A whole number. */
export function integer<const O extends OptionSettings<number> & Range>(settings: O): Option<Value<number, O>> {
  const read = (raw: unknown) => {
    const value = readInteger(raw);
    return value !== undefined && isIn(value, settings) ? value : undefined;
  };
  return option<number, O>(settings, { kind: "integer", accepts: inWords("a whole number", settings), read });
}

/** A finite number. */
export function number<const O extends OptionSettings<number> & Range>(settings: O): Option<Value<number, O>> {
  const read = (raw: unknown) => {
    const value = readNumber(raw);
    return value !== undefined && isIn(value, settings) ? value : undefined;
  };
  return option<number, O>(settings, { kind: "number", accepts: inWords("a number", settings), read });
}

const words: Record<string, boolean> = { "1": true, true: true, t: true, yes: true, y: true, "0": false, false: false, f: false, no: false, n: false };

/** @returns the truth value that icefall's flags take (1, true, t, yes, y; 0, false, f, no, n), or undefined */
export function readBoolean(raw: unknown): boolean | undefined {
  if (typeof raw === "boolean") return raw;
  if (raw === 0 || raw === 1) return raw === 1;
  return typeof raw === "string" && Object.hasOwn(words, raw.toLowerCase()) ? words[raw.toLowerCase()] : undefined;
}

/** True or false: `--flag`, `--flag 1`, `--flag=no`, `--no-flag`. */
export function boolean<const O extends OptionSettings<boolean>>(settings: O): Option<Value<boolean, O>> {
  return option<boolean, O>(settings, { kind: "boolean", accepts: "1, true, yes or 0, false, no", read: readBoolean });
}

/** One of a list of words. */
export function choice<const C extends readonly string[], const O extends OptionSettings<C[number]>>(choices: C, settings: O): Option<Value<C[number], O>> {
  const read = (raw: unknown) => (typeof raw === "string" && choices.includes(raw) ? raw : undefined);
  return option<C[number], O>(settings, { kind: "choice", choices, accepts: `one of ${choices.join(", ")}`, read });
}

/** What reads a text with commas, an array or a single value by what reads one of them. */
const listOf =
  (readOne: (raw: unknown) => number | undefined, range: Range) =>
  (raw: unknown): readonly number[] | undefined => {
    const parts = typeof raw === "string" ? raw.split(",") : Array.isArray(raw) ? (raw as unknown[]) : [raw];
    const values = parts.map(readOne);
    return values.length > 0 && values.every((value) => value !== undefined && isIn(value, range)) ? (values as number[]) : undefined;
  };

/** Whole numbers: "2,2,3,4" on the command line; an array, such a text or a single number from the API. */
export function integers<const O extends OptionSettings<readonly number[]> & Range>(settings: O): Option<Value<readonly number[], O>> {
  return option<readonly number[], O>(settings, {
    kind: "integers",
    accepts: `${inWords("whole numbers", settings)} with commas between, as 2,2,3`,
    read: listOf(readInteger, settings),
  });
}

/** Numbers, given as `integers` are. */
export function numbers<const O extends OptionSettings<readonly number[]> & Range>(settings: O): Option<Value<readonly number[], O>> {
  return option<readonly number[], O>(settings, {
    kind: "numbers",
    accepts: `${inWords("numbers", settings)} with commas between, as 0.5,2`,
    read: listOf(readNumber, settings),
  });
}

/** Texts: with commas between on the command line (those inside of brackets part nothing: "a_{0,1}.json"); an array from the API. */
export function strings<const O extends OptionSettings<readonly string[]>>(settings: O): Option<Value<readonly string[], O>> {
  const read = (raw: unknown) => {
    const values = typeof raw === "string" ? splitAtCommas(raw) : raw;
    return Array.isArray(values) && values.length > 0 && values.every((value) => typeof value === "string" && value !== "") ? (values as string[]) : undefined;
  };
  return option<readonly string[], O>(settings, { kind: "strings", accepts: "texts with commas between", read });
}

/** A schema without its defaults: a value says that it was given. */
export type Unset<S extends Schema> = { [K in keyof S]: S[K] extends Option<infer T> ? Option<T | undefined> : never };

/** @returns the options with nothing required and no defaults, as flags that are compared with what a file says; `change` may alter more */
export function unset<S extends Schema>(schema: S, change: Partial<OptionSettings<unknown>> = {}): Unset<S> {
  return Object.fromEntries(Object.entries(schema).map(([name, { default: _, required: __, ...rest }]) => [name, { ...rest, ...change }])) as unknown as Unset<S>;
}

/** @returns the flag of a name: maxDuration -> --max-duration */
export function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** @returns one spelling for --max-duration, max_duration and maxDuration */
export function canonicalName(spelling: string): string {
  return spelling.replace(/^--?/, "").replace(/[-_]+([a-zA-Z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** @returns the error of an option that nobody knows, with the nearest known one as its remedy */
export function unknownOption(name: string, known: readonly string[]): ConfigError {
  const near = nearest(canonicalName(name), known.map(canonicalName));
  const spelled = near === undefined ? undefined : known.find((one) => canonicalName(one) === near);
  return new ConfigError("CONFIG_UNKNOWN_OPTION", { message: `unknown option ${name}`, fix: spelled === undefined ? undefined : `did you mean ${spelled}?` });
}

/** @returns a value as a message shows it */
export function showValue(value: unknown): string {
  return typeof value === "string" ? `"${value}"` : (JSON.stringify(value) ?? String(value));
}

/**
 * Checks a plain object against a schema.
 * @param given values by name; camelCase, dashes and underscores are the same; undefined means not given
 * @param spell how messages name an option
 * @returns a value for every name of the schema
 * @throws ConfigError CONFIG_UNKNOWN_OPTION; CONFIG_BAD_VALUE also where a required one is missing
 */
export function parseOptions<S extends Schema>(schema: S, given: Record<string, unknown>, spell: (name: string) => string = (name) => name): Options<S> {
  const names = new Map(Object.keys(schema).map((name) => [canonicalName(name), name]));
  const values: Record<string, unknown> = {};
  for (const [key, raw] of Object.entries(given)) {
    const name = names.get(canonicalName(key));
    if (name === undefined) throw unknownOption(key, Object.keys(schema).map(spell));
    if (raw === undefined) continue;
    const { read, accepts } = schema[name] as Option<unknown>;
    const value = read(raw);
    if (value === undefined) throw new ConfigError("CONFIG_BAD_VALUE", { message: `${spell(name)} is ${showValue(raw)}, expected ${accepts}` });
    values[name] = value;
  }
  for (const [name, { default: initial, required, accepts }] of Object.entries(schema)) {
    if (values[name] === undefined && required) throw new ConfigError("CONFIG_BAD_VALUE", { message: `${spell(name)} is missing, expected ${accepts}` });
    values[name] ??= initial;
  }
  return values as Options<S>;
}
