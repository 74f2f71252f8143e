/**
 * JSON as Python's `json` module reads and writes it: numbers keep their spelling (1.0 stays 1.0, 1e-05, integers of any size),
 * keys keep their order, NaN and Infinity are taken. What `dumpPython` gives equals json.dumps(json.loads(text), ensure_ascii=False) byte for byte.
 * Source: CPython Lib/json (encoder.py, scanner.py) and float.__repr__.
 */
import { pythonFloat as repr } from "./pythonNumber.ts";

/** A number that JavaScript would print otherwise than Python: 1.0, 1e+16, 12345678901234567890. */
export class PyNumber {
  readonly value: number;
  /** As Python prints it. */
  readonly text: string;

  constructor(value: number, text: string) {
    this.value = value;
    this.text = text;
  }

  toJSON(): number {
    return this.value;
  }
}

/** An object with its keys in their order; JavaScript's own objects put "0" before "a". */
export type PyObject = Map<string, PyValue>;

/** What JSON holds. Numbers are plain where both languages print them alike. */
export type PyValue = null | boolean | number | PyNumber | string | PyValue[] | PyObject;

/**
 * @returns a float as Python's json module writes it: 1.0, 0.1, 1e-05, 1e+16, NaN, -Infinity
 */
export function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  return repr(value);
}

/** @returns a float for `dumpPython`: 2 is written as 2.0 */
export function pyFloat(value: number): number | PyNumber {
  return Number.isInteger(value) ? new PyNumber(value, pythonFloat(value)) : value;
}

/** Where a text stops being JSON: the index of the first character that does not fit, the text's length where it ends too early. */
export class JsonSyntaxError extends Error {
  readonly index: number;

  constructor(index: number, message: string) {
    super(message);
    this.index = index;
  }
}

/** Python's own limit: its reader gives up with RecursionError. */
const maxDepth = 990;

/**
 * True where arrays and objects lie so deep in each other that `parsePython` has to say whether they can be read, which JSON.parse always does. (Functions that
 * call themselves could not follow.) A text so short that it cannot be deep costs nothing.
 */
export function mayBeTooDeep(text: string): boolean {
  if (text.length <= 2 * maxDepth) return false;
  let depth = -1; // the outermost value has depth 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) {
      for (at++; at < text.length && text.charCodeAt(at) !== 0x22; at++) if (text.charCodeAt(at) === 0x5c) at++;
    } else if (code === 0x5b || code === 0x7b) {
      if (++depth >= maxDepth) return true; // what is in it is deeper by one
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  return false;
}

const space = /[ \t\n\r]*/y;
const numberText = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const words: readonly (readonly [string, PyValue])[] = [
  ["true", true],
  ["false", false],
  ["null", null],
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
];

const escapeSequence = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/** @returns where the inside of a string that begins at `from` holds what no string may; the text's length where it is not closed */
function badCharacter(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x20) return at;
    if (code !== 0x5c) continue;
    escapeSequence.lastIndex = at;
    if (!escapeSequence.test(text)) return at;
    at = escapeSequence.lastIndex - 1;
  }
  return text.length;
}

/** @throws JsonSyntaxError */
export function parsePython(text: string): PyValue {
  let at = 0;
  const fail = (message = "not JSON from here on"): never => {
    throw new JsonSyntaxError(at, at >= text.length ? "ends inside of a JSON value" : message);
  };
  const skip = (): void => {
    const code = text.charCodeAt(at);
    if (code > 0x20) return;
    space.lastIndex = at;
    space.test(text);
    at = space.lastIndex;
  };
  const string = (): string => {
    const start = at;
    // By search and not by a pattern: a pattern's stack is as deep as the string is long.
    for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
      let slashes = 0;
      while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes++;
      if (slashes % 2 === 1) continue;
      at = end + 1;
      try {
        return JSON.parse(text.slice(start, at)) as string;
      } catch {
        at = badCharacter(text, start + 1);
        return fail();
      }
    }
    const bad = badCharacter(text, start + 1);
    at = bad;
    return fail();
  };
  const number = (): PyValue => {
    numberText.lastIndex = at;
    const found = numberText.exec(text);
    if (found === null) return fail();
    at = numberText.lastIndex;
    const [whole, fraction, exponent] = found;
    const value = Number(whole);
    if (fraction !== undefined || exponent !== undefined) return pyFloat(value);
    if (Object.is(value, -0)) return 0;
    return Number.isSafeInteger(value) ? value : new PyNumber(value, whole);
  };
  const value = (depth: number): PyValue => {
    if (depth > maxDepth) fail("nested too deep");
    skip();
    const code = text.charCodeAt(at);
    if (code === 0x22) return string();
    if (code === 0x7b) {
      const object: PyObject = new Map();
      at++;
      skip();
      if (text[at] === "}") {
        at++;
        return object;
      }
      for (;;) {
        skip();
        if (text[at] !== '"') fail();
        const key = string();
        skip();
        if (text[at] !== ":") fail();
        at++;
        object.set(key, value(depth + 1)); // a repeated key keeps its first place and its last value, as in a dict
        skip();
        if (text[at] === "}") {
          at++;
          return object;
        }
        if (text[at] !== ",") fail();
        at++;
      }
    }
    if (code === 0x5b) {
      const list: PyValue[] = [];
      at++;
      skip();
      if (text[at] === "]") {
        at++;
        return list;
      }
      for (;;) {
        list.push(value(depth + 1));
        skip();
        if (text[at] === "]") {
          at++;
          return list;
        }
        if (text[at] !== ",") fail();
        at++;
      }
    }
    for (const [word, meaning] of words)
      if (text.startsWith(word, at)) {
        at += word.length;
        return meaning;
      }
    return number();
  };
  const result = value(0);
  skip();
  if (at < text.length) fail();
  return result;
}

/** What `dumpPython` takes besides: plain objects, undefined members of which are left out. */
export type Dumpable = PyValue | undefined | readonly Dumpable[] | ReadonlyMap<string, Dumpable> | { readonly [key: string]: Dumpable };

/**
 * Writes as json.dumps(value, ensure_ascii=False) does: ", " and ": " between. Plain whole numbers are written as ints, others as floats.
 * Half a surrogate pair, on which Python fails when it encodes, is written as an escape.
 */
export function dumpPython(value: Dumpable): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return Number.isSafeInteger(value) && !Object.is(value, -0) ? String(value) : pythonFloat(value);
  if (value === null || value === undefined) return "null";
  if (typeof value === "boolean") return value ? "true" : "false";
  if (value instanceof PyNumber) return value.text;
  if (Array.isArray(value)) return `[${(value as readonly Dumpable[]).map(dumpPython).join(", ")}]`;
  const members: string[] = [];
  const entries = value instanceof Map ? (value as ReadonlyMap<string, Dumpable>) : Object.entries(value as { readonly [key: string]: Dumpable });
  for (const [key, member] of entries) if (member !== undefined) members.push(`${JSON.stringify(key)}: ${dumpPython(member)}`);
  return `{${members.join(", ")}}`;
}

/** @returns the value in JavaScript's own terms: plain objects and numbers */
export function plainValue(value: PyValue): unknown {
  if (value instanceof PyNumber) return value.value;
  if (Array.isArray(value)) return value.map(plainValue);
  if (!(value instanceof Map)) return value;
  const object: Record<string, unknown> = {};
  for (const [key, member] of value) {
    if (key === "__proto__") Object.defineProperty(object, key, { value: plainValue(member), enumerable: true, configurable: true, writable: true });
    else object[key] = plainValue(member);
  }
  return object;
}
