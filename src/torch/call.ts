/** Calling operators of libtorch by name. */
import { TorchError } from "../util/errors.ts";
import { type DType, dtypeCode } from "./dtype.ts";
import type { TensorHandle } from "./handle.ts";
import { type OperatorSchema, torchAddon, torchError } from "./native.ts";
import { type Argument, readResults, rewind, write, writtenStrings } from "./tape.ts";

/** An operator that is looked up when it is first called. */
export interface Operator {
  readonly name: string;
  schema: OperatorSchema | undefined;
}

/** Names an operator, "aten::add.Tensor", without loading libtorch. */
export const operator = (name: string): Operator => ({ name, schema: undefined });

/** Makes a Tensor of a handle; set by tensor.ts, which this file must not import. */
export const tensors: { wrap: (handle: number) => TensorHandle } = {
  wrap: () => {
    throw new Error("internal: src/torch/tensor.ts is not loaded");
  },
};

/** Looks an operator up. @throws TorchError TORCH_UNKNOWN_OPERATOR */
export function schemaOf(op: Operator): OperatorSchema {
  if (op.schema) return op.schema;
  const dot = op.name.indexOf(".");
  try {
    op.schema = dot < 0 ? torchAddon().resolve(op.name, "") : torchAddon().resolve(op.name.slice(0, dot), op.name.slice(dot + 1));
  } catch (error) {
    throw torchError(error);
  }
  return op.schema;
}

/**
 * Calls an operator with its arguments in the schema's order; undefined takes the schema's default, null is none.
 * @returns nothing, the result, or an array of results
 * @throws TorchError TORCH_BAD_ARGUMENT, TORCH_FAILED, TENSOR_FREED
 */
export function invoke(op: Operator, ...args: readonly Argument[]): unknown {
  const schema = op.schema ?? schemaOf(op);
  const expected = schema.arguments.length;
  if (args.length > expected) throw new TorchError("TORCH_BAD_ARGUMENT", { message: `${schema.name} takes ${expected} arguments, got ${args.length}` });
  rewind();
  for (let i = 0; i < args.length; i++) write(args[i]);
  for (let i = args.length; i < expected; i++) write(undefined);
  let count: number;
  try {
    count = torchAddon().call(schema.id, writtenStrings());
  } catch (error) {
    throw torchError(error);
  }
  if (schema.returnsSelf) {
    const self = args[0] as TensorHandle & { forget(): void };
    self.forget();
    return self;
  }
  return readResults(count, tensors.wrap);
}

const called = new Map<string, Operator>();

/**
 * Calls any operator of the loaded libtorch: `callOperator("aten::add.Tensor", [a, b], { alpha: 2 })`.
 * Positional arguments come in the schema's order, the others by their name in the schema; dtypes are given by name.
 * @throws TorchError TORCH_UNKNOWN_OPERATOR, TORCH_BAD_ARGUMENT, TORCH_FAILED, TENSOR_FREED
 */
export function callOperator(name: string, positional: readonly Argument[], named: Readonly<Record<string, Argument>> = {}): unknown {
  let op = called.get(name);
  if (!op) {
    op = operator(name);
    schemaOf(op);
    called.set(name, op);
  }
  const schema = schemaOf(op);
  const args: Argument[] = [...positional];
  for (const [key, value] of Object.entries(named)) {
    const at = schema.arguments.findIndex((argument) => argument.name === key);
    if (at < 0) throw new TorchError("TORCH_BAD_ARGUMENT", { message: `${schema.name} has no argument '${key}'`, fix: `its schema is ${schema.schema}` });
    if (at < positional.length) throw new TorchError("TORCH_BAD_ARGUMENT", { message: `${schema.name}: argument '${key}' is given twice` });
    while (args.length < at) args.push(undefined);
    args[at] = value;
  }
  for (let i = 0; i < args.length; i++) if (typeof args[i] === "string" && /ScalarType/.test(schema.arguments[i]?.type ?? "")) args[i] = dtypeCode(args[i] as DType);
  return invoke(op, ...args);
}
