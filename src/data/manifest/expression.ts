/**
 * Conditions on the lines of a manifest: `duration >= 1 and lang in en|de and not text ~ "[0-9]"`.
 * A key stands for its value (dots go inside: custom.snr), quoted when it is no plain word; chars, words and char_rate are computed.
 */
import { ConfigError } from "../../util/errors.ts";
import { audioOf, durationOf, textOf } from "./keys.ts";
import type { ManifestObject } from "./lines.ts";

/** True for the lines that are meant. */
export type Condition = (line: ManifestObject) => boolean;

type Token = { kind: "word" | "string" | "operator"; text: string; at: number };
const tokenPattern = /\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|(==|!=|<=|>=|!~|[=<>~()|])|([^\s"'=<>~!()|]+))/y;

/** Values that a line does not hold itself. */
const computed: Readonly<Record<string, (line: ManifestObject) => unknown>> = {
  audio: (line) => audioOf(line),
  chars: (line) => [...(textOf(line) ?? "")].length,
  words: (line) => (textOf(line) ?? "").split(/\s+/).filter((word) => word !== "").length,
  char_rate: (line) => [...(textOf(line) ?? "")].length / (durationOf(line) ?? Number.NaN),
  word_rate: (line) => (textOf(line) ?? "").split(/\s+/).filter((word) => word !== "").length / (durationOf(line) ?? Number.NaN),
};

/** @returns the value of a key, also inside of objects ("custom.snr"), or of what is computed (audio, chars, words, char_rate, word_rate) */
export function keyValue(line: ManifestObject, key: string): unknown {
  if (Object.hasOwn(line, key)) return line[key];
  if (Object.hasOwn(computed, key)) return computed[key]?.(line);
  let value: unknown = line;
  for (const part of key.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as ManifestObject)[part];
  }
  return value;
}

const asText = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

class Parser {
  private readonly tokens: Token[] = [];
  private next = 0;
  private readonly source: string;

  constructor(source: string) {
    this.source = source;
    let at = 0;
    while (at < source.length) {
      tokenPattern.lastIndex = at;
      const found = tokenPattern.exec(source);
      if (found === null) {
        if (source.slice(at).trim() === "") break;
        throw this.error(at, "cannot be read");
      }
      const [, double, single, operator, word] = found;
      const text = double ?? single;
      const start = tokenPattern.lastIndex - (found[0].trimStart().length as number);
      if (text !== undefined) this.tokens.push({ kind: "string", text: text.replace(/\\(["'\\])/g, "$1"), at: start });
      else if (operator !== undefined) this.tokens.push({ kind: "operator", text: operator, at: start });
      else this.tokens.push({ kind: "word", text: word as string, at: start });
      at = tokenPattern.lastIndex;
    }
  }

  private error(at: number, message: string): ConfigError {
    return new ConfigError("CONFIG_BAD_VALUE", {
      at: `condition, character ${at + 1}`,
      message: `${message}: ${this.source.slice(at, at + 30) || "its end"}`,
      fix: 'write conditions as: duration >= 1 and lang in en|de and not text ~ "[0-9]"',
    });
  }

  private peek(text: string, kind?: Token["kind"]): boolean {
    const token = this.tokens[this.next];
    return token !== undefined && token.text === text && token.kind !== "string" && (kind === undefined || token.kind === kind);
  }

  private take(text: string): boolean {
    if (!this.peek(text)) return false;
    this.next++;
    return true;
  }

  parse(): Condition {
    const condition = this.any();
    const left = this.tokens[this.next];
    if (left !== undefined) throw this.error(left.at, "not expected here");
    return condition;
  }

  private any(): Condition {
    const parts = [this.all()];
    while (this.take("or")) parts.push(this.all());
    return parts.length === 1 ? (parts[0] as Condition) : (line) => parts.some((part) => part(line));
  }

  private all(): Condition {
    const parts = [this.one()];
    while (this.take("and")) parts.push(this.one());
    return parts.length === 1 ? (parts[0] as Condition) : (line) => parts.every((part) => part(line));
  }

  private one(): Condition {
    if (this.take("not")) {
      const inner = this.one();
      return (line) => !inner(line);
    }
    if (this.take("(")) {
      const inner = this.any();
      if (!this.take(")")) throw this.error(this.tokens[this.next]?.at ?? this.source.length, 'expected ")"');
      return inner;
    }
    return this.comparison();
  }

  private operand(): string {
    const token = this.tokens[this.next];
    if (token === undefined || token.kind === "operator") throw this.error(token?.at ?? this.source.length, "expected a key or a value");
    this.next++;
    return token.text;
  }

  private comparison(): Condition {
    const key = this.operand();
    if (this.take("in")) {
      const values = new Set([this.operand()]);
      while (this.take("|")) values.add(this.operand());
      return (line) => {
        const value = keyValue(line, key);
        return value !== undefined && values.has(asText(value));
      };
    }
    const token = this.tokens[this.next];
    if (token === undefined || token.kind !== "operator" || token.text === "(" || token.text === ")" || token.text === "|") {
      return (line) => Boolean(keyValue(line, key)); // a key alone: it is there and says something
    }
    this.next++;
    const at = this.tokens[this.next]?.at ?? this.source.length;
    const text = this.operand();
    if (token.text === "~" || token.text === "!~") {
      let pattern: RegExp;
      try {
        pattern = new RegExp(text, "u");
      } catch (error) {
        throw this.error(at, error instanceof Error ? error.message : String(error));
      }
      const wanted = token.text === "~";
      return (line) => pattern.test(asText(keyValue(line, key) ?? "")) === wanted;
    }
    const number = text.trim() === "" ? Number.NaN : Number(text);
    switch (token.text) {
      case "=":
      case "==":
        return (line) => asText(keyValue(line, key) ?? "") === text || keyValue(line, key) === number;
      case "!=":
        return (line) => asText(keyValue(line, key) ?? "") !== text && keyValue(line, key) !== number;
    }
    if (Number.isNaN(number)) throw this.error(at, `expected a number behind ${token.text}`);
    const compare: (value: number) => boolean =
      token.text === "<"
        ? (value) => value < number
        : token.text === "<="
          ? (value) => value <= number
          : token.text === ">"
            ? (value) => value > number
            : (value) => value >= number;
    return (line) => {
      const value = keyValue(line, key);
      return typeof value === "number" && compare(value);
    };
  }
}

/** @throws ConfigError CONFIG_BAD_VALUE at the character that does not fit */
export function parseCondition(text: string): Condition {
  return new Parser(text).parse();
}
