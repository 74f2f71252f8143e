/**
 * Writes the typed signatures in generated/ from the schemas of the loaded libtorch and the list in operators.ts.
 * Run by scripts/generate-operators.sh; a test checks that the files are what this makes of Debian's libtorch 1.13.
 */
import { operator, schemaOf } from "./call.ts";
import type { OperatorArgument, OperatorSchema } from "./native.ts";
import { functions, methods, own } from "./operators.ts";

const camel = (name: string): string => name.replace(/(?<=[a-z0-9])_+([a-z0-9])/gi, (_, letter: string) => letter.toUpperCase());
const strip = (name: string): string => name.replace(/^_+/, "");
const reserved = new Set(["var", "delete", "new", "default", "function", "in", "with", "this"]);
const safe = (name: string): string => (reserved.has(name) ? `${name}_` : name);

interface Parameter {
  name: string;
  schemaName: string;
  type: string;
  required: boolean;
  named: boolean;
  /** Expression that converts the parameter to what the tape takes. */
  convert: (expression: string) => string;
  /** Condition that tells whether a value is meant for this parameter. */
  test: (expression: string) => string;
}

const hidden = new Set(["layout", "pin_memory", "non_blocking"]);
const same = (x: string): string => x;

function parameter(argument: OperatorArgument): Parameter {
  const optional = argument.type.endsWith("?");
  const base = optional ? argument.type.slice(0, -1) : argument.type;
  const list = base.endsWith("[]") ? base.slice(0, -2) : undefined;
  const nullable = optional ? " | null" : "";
  const make = (type: string, test: (x: string) => string, convert = same): Parameter => ({
    name: safe(camel(argument.name)),
    schemaName: argument.name,
    type: type + nullable,
    required: !argument.hasDefault && !optional,
    named: argument.named,
    convert,
    test: optional ? (x) => `(${x} === null || ${test(x)})` : test,
  });
  const isArray = (x: string): string => `Array.isArray(${x})`;
  if (list === "Tensor") return make("readonly Tensor[]", isArray);
  if (list === "Tensor?") return make("readonly (Tensor | null)[]", isArray);
  if (list === "bool") return make("readonly boolean[]", isArray);
  if (list !== undefined) {
    const single = argument.fixed > 0;
    return make(`readonly number[]${single ? " | number" : ""}`, single ? (x) => `(typeof ${x} === "number" || Array.isArray(${x}))` : isArray);
  }
  switch (base) {
    case "Tensor":
      return make("Tensor", (x) => `${x} instanceof TensorHandle`);
    case "Scalar":
    case "number":
      return make("number | boolean", (x) => `(typeof ${x} === "number" || typeof ${x} === "boolean")`);
    case "int":
    case "SymInt":
    case "float":
      return make("number", (x) => `typeof ${x} === "number"`);
    case "bool":
      return make("boolean", (x) => `typeof ${x} === "boolean"`);
    case "str":
      return make("string", (x) => `typeof ${x} === "string"`);
    case "Device":
      return make("string", (x) => `typeof ${x} === "string"`);
    case "Generator":
      return make("Generator", (x) => `${x} instanceof GeneratorHandle`);
    case "ScalarType":
      return make(
        "DType",
        (x) => `typeof ${x} === "string"`,
        (x) => `dtypeCode(${x})`,
      );
    case "MemoryFormat":
      return make(
        "MemoryFormat",
        (x) => `typeof ${x} === "string"`,
        (x) => `memoryFormatCode(${x})`,
      );
    case "Layout":
      return make("number", (x) => `typeof ${x} === "number"`);
    default:
      throw new Error(`no TypeScript type for ${argument.type}`);
  }
}

function resultType(schema: OperatorSchema): string {
  if (schema.returnsSelf) return "Tensor";
  const one = (type: string): string => {
    if (type === "Tensor") return "Tensor";
    if (type === "Tensor[]") return "Tensor[]";
    if (type === "bool") return "boolean";
    return "number";
  };
  if (schema.returns.length === 0) return "void";
  if (schema.returns.length === 1) return one((schema.returns[0] as { type: string }).type);
  return `[${schema.returns.map((r) => `${camel(r.name) || "result"}: ${one(r.type)}`).join(", ")}]`;
}

interface Overload {
  constant: string;
  schema: OperatorSchema;
  positional: Parameter[];
  named: Parameter[];
  all: (Parameter | undefined)[];
  result: string;
}

function overload(namespace: string, name: string, self: boolean): Overload {
  const schema = schemaOf(operator(`${namespace}::${name}`));
  const all = schema.arguments.slice(self ? 1 : 0).map((a) => (hidden.has(a.name) ? undefined : parameter(a)));
  const shown = all.filter((p): p is Parameter => p !== undefined);
  return {
    constant: `op_${name.replace(/\W/g, "_")}`,
    schema,
    positional: shown.filter((p) => !p.named),
    named: shown.filter((p) => p.named),
    all,
    result: resultType(schema),
  };
}

const optionsType = (named: Parameter[]): string => `{ ${named.map((p) => `${p.name}${p.required ? "" : "?"}: ${p.type}`).join("; ")} }`;

/** The parameter list of one signature. Parameters with defaults may be left out once all after them may. */
function signature({ positional, named }: Overload, withDefault: boolean): string {
  const parts = positional.map((p, i) => {
    const open = positional.slice(i).every((q) => !q.required) && named.every((q) => !q.required);
    return `${p.name}${open ? "?" : ""}: ${p.type}${!p.required && !open ? " | undefined" : ""}`;
  });
  if (named.length > 0) {
    const open = named.every((p) => !p.required);
    parts.push(withDefault && open ? `options: ${optionsType(named)} = {}` : `options${open ? "?" : ""}: ${optionsType(named)}`);
  }
  return parts.join(", ");
}

function invocation(o: Overload, self: boolean, names?: readonly string[], optional = false): string {
  const args = o.all.map((p) => {
    if (!p) return "undefined";
    if (p.named) return p.convert(`options${optional ? "?" : ""}.${p.name}`);
    return p.convert(names ? `${names[o.positional.indexOf(p)]} as ${p.type} | undefined` : p.name);
  });
  while (args.at(-1) === "undefined") args.pop();
  const list = [...(self ? ["this"] : []), ...args].join(", ");
  return `invoke(${o.constant}${list ? `, ${list}` : ""}) as ${o.result}`;
}

/** One method or function, with a signature per overload and one body that chooses. */
function member(name: string, overloads: Overload[], self: boolean): string {
  const keyword = self ? "" : "export function ";
  const indent = self ? "  " : "";
  const doc = `${indent}/** ${overloads.map((o) => o.schema.schema.replace(/\*\//g, "* /")).join(` |\n${indent} * `)} */`;
  const [only] = overloads;
  if (overloads.length === 1 && only) {
    const body = only.result === "void" ? `${invocation(only, self).replace(/ as void$/, "")};` : `return ${invocation(only, self)};`;
    return `${doc}\n${indent}${keyword}${name}(${signature(only, true)}): ${only.result} {\n${indent}  ${body}\n${indent}}`;
  }
  const width = Math.max(...overloads.map((o) => o.positional.length + (o.named.length > 0 ? 1 : 0)));
  const names = Array.from({ length: width }, (_, i) => `a${i}`);
  const lines = [doc];
  for (const o of overloads) lines.push(`${indent}${keyword}${name}(${signature(o, false)}): ${o.result};`);
  lines.push(`${indent}${keyword}${name}(${names.map((n) => `${n}?: unknown`).join(", ")}): unknown {`);
  overloads.forEach((o, i) => {
    const last = i === overloads.length - 1;
    const tests = o.positional.map((p, j) => {
      const test = p.test(names[j] as string);
      return p.required ? test : `(${names[j]} === undefined || ${test})`;
    });
    const options = names[o.positional.length];
    for (const n of names.slice(o.positional.length + (o.named.length > 0 ? 1 : 0))) tests.push(`${n} === undefined`);
    if (o.named.length > 0) tests.push(`(${options} === undefined || isOptions(${options}))`);
    const call = invocation({ ...o, result: "unknown" }, self, names, true).replace(/options\?/g, `(${options} as ${optionsType(o.named)} | undefined)?`);
    const action = o.result === "void" ? `return void ${call.replace(/ as unknown$/, "")};` : `return ${call.replace(/ as unknown$/, "")};`;
    lines.push(last || tests.length === 0 ? `${indent}  ${action}` : `${indent}  if (${tests.join(" && ")}) ${action}`);
  });
  lines.push(`${indent}}`);
  return lines.join("\n");
}

const header = "// Generated by src/torch/generate.ts from the operators' schemas: do not edit, run scripts/generate-operators.sh.\n";

function imports(text: string, from: Record<string, string>): string {
  const lines = Object.entries(from).flatMap(([path, names]) => {
    const used = names.split(" ").filter((name) => new RegExp(`\\b${name.replace("type:", "")}\\b`).test(text));
    if (used.length === 0) return [];
    return [`import { ${used.map((n) => n.replace("type:", "type ")).join(", ")} } from "${path}";`];
  });
  return `${lines.join("\n")}\n`;
}

const runtime = {
  "../call.ts": "invoke operator",
  "../dtype.ts": "type:DType type:MemoryFormat dtypeCode memoryFormatCode",
  "../generator.ts": "type:Generator",
  "../handle.ts": "GeneratorHandle TensorHandle",
  "../tensor.ts": "type:Tensor",
  "../options.ts": "isOptions",
};

function file(namespace: string, entries: [string, readonly string[]][], self: boolean): string {
  const constants = new Map<string, string>();
  const members = entries.map(([name, overloadNames]) => {
    const overloads = overloadNames.map((o) => overload(namespace, o, self));
    for (const o of overloads) constants.set(o.constant, `const ${o.constant} = operator("${o.schema.name}");`);
    return member(strip(camel(name)), overloads, self);
  });
  const declarations = [...constants.values()].join("\n");
  const code = self
    ? `/** Operators of libtorch as methods, with PyTorch's names in camelCase. */\nexport abstract class TensorMethods extends TensorHandle {\n${members.join("\n\n")}\n}\n`
    : `${members.join("\n\n")}\n`;
  const body = `${declarations}\n\n${code}`;
  return `${header}${imports(body, runtime)}\n${body}`;
}

/** The generated files: path relative to src/torch/generated, and text. */
export function generate(): Record<string, string> {
  return {
    "methods.ts": file("aten", Object.entries(methods), true),
    "functions.ts": file("aten", Object.entries(functions), false),
    "ops.ts": file(
      "serac",
      own.map((name): [string, string[]] => [name, [name]]),
      false,
    ),
  };
}
