/**
 * Brace expansion of path patterns: {0..9}, {00..99..2}, {a..f}, {train,dev}, nested and multiplied.
 * Brackets that hold neither a range nor a list are ordinary characters, so that a folder may be called "corpus (v1)".
 * Sources: the rules of Python's braceexpand 0.1.7, which NeMo and WebDataset use, and NeMo's other spellings of braces.
 */
import { ConfigError } from "./errors.ts";

/** A pattern that gives more paths than this is a slip of the pen, not a dataset. */
export const maxExpansion = 1_000_000;

const openings: Readonly<Record<string, string>> = { "{": "{", _OP_: "_OP_", "(": "(", "[": "[", "<": "<" };
const closings: Readonly<Record<string, string>> = { "}": "}", _CL_: "_CL_", ")": ")", "]": "]", ">": ">" };
const tokenPattern = /\\[\\{}()[\]<>,]|_OP_|_CL_|[{}()[\]<>,]/g;
const integerRange = /^(-?\d+)\.\.(-?\d+)(?:\.\.-?(\d+))?$/;
const letterRange = /^([A-Za-z])\.\.([A-Za-z])(?:\.\.-?(\d+))?$/;
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

interface Token {
  kind: "open" | "close" | "comma" | "text";
  text: string;
  /** Where it stands in the pattern. */
  at: number;
  /** Of an opening token: the place of its closing one in the list, and back; undefined where it has none. */
  partner?: number;
}

/** What an expansion was made of: for messages. */
export interface BraceGroup {
  /** From the opening bracket, as written. */
  start: number;
  /** Behind the closing bracket. */
  end: number;
}

function tokenize(pattern: string): Token[] {
  const tokens: Token[] = [];
  let done = 0;
  const text = (end: number): void => {
    if (end > done) tokens.push({ kind: "text", text: pattern.slice(done, end), at: done });
  };
  for (const { 0: match, index } of pattern.matchAll(tokenPattern)) {
    text(index);
    if (match.startsWith("\\")) tokens.push({ kind: "text", text: match.slice(1), at: index });
    else tokens.push({ kind: match in openings ? "open" : match in closings ? "close" : "comma", text: match, at: index });
    done = index + match.length;
  }
  text(pattern.length);
  const open: number[] = [];
  tokens.forEach((token, i) => {
    if (token.kind === "open") open.push(i);
    if (token.kind !== "close") return;
    // Spellings may be mixed, as in NeMo ("_OP_0..3}"); an ordinary bracket that fits nothing is an ordinary character.
    const from = open.pop();
    if (from === undefined) return;
    token.partner = from;
    (tokens[from] as Token).partner = i;
  });
  return tokens;
}

function refuse(pattern: string, message: string): never {
  throw new ConfigError("SHARDS_BAD_PATTERN", {
    at: pattern,
    message,
    fix: "write a range as {0..63} or _OP_0..63_CL_, and a bracket that belongs to a name with a backslash before it",
  });
}

function integers(from: string, to: string, step: string | undefined): string[] | undefined {
  const padded = [from, to].some((text) => text !== "0" && text !== "-0" && /^-?0/.test(text));
  const width = padded ? Math.max(from.length, to.length) : 0;
  const first = Number(from);
  const last = Number(to);
  const by = Math.max(1, Number(step ?? 1));
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || !Number.isSafeInteger(by)) return undefined;
  const count = Math.floor(Math.abs(last - first) / by) + 1;
  if (count > maxExpansion) return undefined;
  return Array.from({ length: count }, (_, i) => {
    const value = first + (first < last ? i : -i) * by;
    const digits = String(Math.abs(value));
    return value < 0 ? `-${digits.padStart(width - 1, "0")}` : digits.padStart(width, "0");
  });
}

function letterRangeOf(from: string, to: string, step: string | undefined): string[] {
  const first = letters.indexOf(from);
  const last = letters.indexOf(to);
  const by = Math.max(1, Number(step ?? 1));
  const result: string[] = [];
  for (let i = first; first < last ? i <= last : i >= last; i += first < last ? by : -by) result.push(letters[i] as string);
  return result;
}

/** A pattern, parsed: parts that follow one another, each one of several texts. */
type Part = string | readonly Sequence[];
type Sequence = readonly Part[];

/**
 * Expands a pattern, the rightmost group fastest. A backslash before a bracket, comma or backslash makes it an ordinary character.
 * @param groups filled with the places of what was expanded, outermost groups only
 * @throws ConfigError SHARDS_BAD_PATTERN for a brace without its partner, and for more than `maxExpansion` results
 */
export function expandBraces(pattern: string, groups: BraceGroup[] = []): string[] {
  const tokens = tokenize(pattern);
  for (const { kind, text, partner, at } of tokens)
    if (partner === undefined && (kind === "open" || kind === "close") && (text === "{" || text === "}" || text.startsWith("_")))
      refuse(pattern, `the ${text} at character ${at + 1} has no partner`);
  return flatten(parse(tokens, 0, tokens.length, 0), pattern);

  function parse(list: readonly Token[], from: number, to: number, depth: number): Sequence {
    const parts: Part[] = [];
    let literal = "";
    const put = (part: readonly Sequence[]): void => {
      if (literal !== "") parts.push(literal);
      literal = "";
      parts.push(part);
    };
    for (let i = from; i < to; i++) {
      const { kind, text, partner } = list[i] as Token;
      if (kind !== "open" || partner === undefined || partner >= to) {
        literal += text;
        continue;
      }
      const group = groupOf(list, i, partner, depth);
      if (group) {
        put(group);
        if (depth === 0) groups.push({ start: (list[i] as Token).at, end: (list[partner] as Token).at + (list[partner] as Token).text.length });
      } else {
        // Neither a range nor a list: the brackets stay, what is between them may hold groups of its own.
        literal += text;
        for (const part of parse(list, i + 1, partner, depth + 1)) {
          if (typeof part === "string") literal += part;
          else put(part);
        }
        literal += (list[partner] as Token).text;
      }
      i = partner;
    }
    if (literal !== "") parts.push(literal);
    return parts;
  }

  function groupOf(list: readonly Token[], from: number, to: number, depth: number): Sequence[] | undefined {
    const inside = list.slice(from + 1, to);
    if (inside.length === 1 && inside[0]?.kind === "text") {
      const [, first, last, step] = integerRange.exec(inside[0].text) ?? [];
      if (first !== undefined && last !== undefined) {
        const range = integers(first, last, step);
        if (!range) refuse(pattern, `the range ${inside[0].text} has more than ${maxExpansion} members`);
        return range.map((text) => [text]);
      }
      const [, a, b, by] = letterRange.exec(inside[0].text) ?? [];
      return a !== undefined && b !== undefined ? letterRangeOf(a, b, by).map((text) => [text]) : undefined;
    }
    const items: Sequence[] = [];
    let start = from + 1;
    for (let i = from + 1; i < to; i++) {
      const { kind, partner } = list[i] as Token;
      if (kind === "open" && partner !== undefined) i = partner;
      else if (kind === "comma") {
        items.push(parse(list, start, i, depth + 1));
        start = i + 1;
      }
    }
    if (items.length === 0) return undefined;
    items.push(parse(list, start, to, depth + 1));
    return items;
  }
}

/** Splits a text at the commas outside of brackets, and trims: "a_{0,1}.json, b.json" are two patterns. */
export function splitAtCommas(text: string): string[] {
  const tokens = tokenize(text);
  const parts: string[] = [];
  let start = 0;
  for (let i = 0; i < tokens.length; i++) {
    const { kind, partner, at } = tokens[i] as Token;
    if (kind === "open" && partner !== undefined) i = partner;
    if (kind !== "comma") continue;
    parts.push(text.slice(start, at));
    start = at + 1;
  }
  parts.push(text.slice(start));
  return parts.map((part) => part.trim());
}

function flatten(sequence: Sequence, pattern: string): string[] {
  let texts = [""];
  for (const part of sequence) {
    const choices = typeof part === "string" ? [part] : part.flatMap((one) => flatten(one, pattern));
    if (texts.length * choices.length > maxExpansion) refuse(pattern, `it stands for more than ${maxExpansion} paths`);
    texts = choices.length === 1 ? texts.map((text) => text + choices[0]) : texts.flatMap((text) => choices.map((choice) => text + choice));
  }
  return texts;
}
