/**
 * The tape: a Float64Array that JavaScript and the addon share. Arguments of a call are written to it as tag and payload,
 * results are read from it the same way, so that a call crosses into C++ once. Tags are those of native/torch/call.cc.
 */
import { TorchError } from "../util/errors.ts";
import { GeneratorHandle, TensorHandle } from "./handle.ts";
import { torchAddon } from "./native.ts";

const NONE = 0;
const INT = 1;
const FLOAT = 2;
const BOOL = 3;
const TENSOR = 4;
const LIST = 5;
const STRING = 6;
const GENERATOR = 7;
const BIGINT = 8;
const DEFAULT = 9;

/** What an operator takes: undefined means the schema's default, null means none. */
export type Argument = TensorHandle | GeneratorHandle | number | bigint | boolean | string | null | undefined | readonly Argument[];

/** What an operator returns; tensors are still bare handles, wrapped by `wrap`. */
export type Result<T> = T | number | bigint | boolean | null | Result<T>[];

let tape = new Float64Array(0);
let bits = new BigInt64Array(0);
let position = 0;
let strings: string[] | undefined;

/** The tape with room for at least `length` numbers. */
export function reserve(length: number): Float64Array {
  if (tape.length < length) {
    const longer = new Float64Array(Math.max(4096, 2 * length));
    longer.set(tape);
    tape = longer;
    bits = new BigInt64Array(longer.buffer);
    torchAddon().setTape(longer);
  }
  return tape;
}

/** Starts a new list of arguments. */
export function rewind(): void {
  if (tape.length === 0) reserve(4096);
  position = 0;
  strings = undefined;
}

/** The strings that the arguments since `rewind` refer to. */
export const writtenStrings = (): readonly string[] | undefined => strings;

/** Writes one argument. */
export function write(value: Argument): void {
  if (position + 2 > tape.length) reserve(position + 2);
  if (value instanceof TensorHandle) {
    tape[position++] = TENSOR;
    tape[position++] = value.handle;
  } else if (typeof value === "number") {
    tape[position++] = Number.isSafeInteger(value) ? INT : FLOAT;
    tape[position++] = value;
  } else if (value === undefined) {
    tape[position++] = DEFAULT;
  } else if (value === null) {
    tape[position++] = NONE;
  } else if (typeof value === "boolean") {
    tape[position++] = BOOL;
    tape[position++] = value ? 1 : 0;
  } else if (typeof value === "string") {
    strings ??= [];
    tape[position++] = STRING;
    tape[position++] = strings.push(value) - 1;
  } else if (typeof value === "bigint") {
    tape[position++] = BIGINT;
    bits[position++] = value;
  } else if (value instanceof GeneratorHandle) {
    tape[position++] = GENERATOR;
    tape[position++] = value.handle;
  } else if (Array.isArray(value)) {
    tape[position++] = LIST;
    tape[position++] = value.length;
    for (const item of value as readonly Argument[]) write(item);
  } else {
    throw new TorchError("TORCH_BAD_ARGUMENT", {
      message: `an operator cannot take ${Object.prototype.toString.call(value)}`,
      fix: "pass a tensor, number, string, boolean or array",
    });
  }
}

function read<T>(wrap: (handle: number) => T): Result<T> {
  const tag = tape[position++];
  switch (tag) {
    case TENSOR:
      return wrap(tape[position++] as number);
    case INT:
    case FLOAT:
      return tape[position++] as number;
    case BOOL:
      return tape[position++] !== 0;
    case BIGINT:
      return bits[position++] as bigint;
    case LIST: {
      const count = tape[position++] as number;
      const items: Result<T>[] = new Array(count);
      for (let i = 0; i < count; i++) items[i] = read(wrap);
      return items;
    }
    default:
      return null;
  }
}

/** Reads the results of a call: none is undefined, one is itself, several are an array. */
export function readResults<T>(count: number, wrap: (handle: number) => T): Result<T> | undefined {
  position = 0;
  if (count === 1) return read(wrap);
  if (count === 0) return undefined;
  const results: Result<T>[] = new Array(count);
  for (let i = 0; i < count; i++) results[i] = read(wrap);
  return results;
}
