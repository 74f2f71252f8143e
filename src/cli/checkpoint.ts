/** `serac checkpoint show`, `diff` and `convert`: files of torch.save and safetensors, without torch. */
import type { FileTensor, TensorFile } from "../formats/index.ts";
import { ConfigError } from "../util/errors.ts";
import { boolean, integer, number, string } from "../util/options.ts";
import { command } from "./command.ts";

const shapeText = (shape: readonly number[]): string => `[${shape.join(", ")}]`;

function bytesText(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  let value = bytes;
  while (value >= 1024 && power < units.length - 1) {
    value /= 1024;
    power++;
  }
  return power === 0 ? `${bytes} bytes` : `${value.toFixed(1)} ${units[power]}`;
}

/** Bytes of the elements, those that tensors share counted once. */
function storedBytes(tensors: readonly FileTensor[]): number {
  const seen = new Set<unknown>();
  let bytes = 0;
  for (const { storage, byteLength } of tensors) {
    if (storage !== undefined && seen.has(storage)) continue;
    seen.add(storage);
    bytes += byteLength;
  }
  return bytes;
}

/** Numbers of tensors and elements by the first key, where there is more than one tensor below it. */
function sections(tensors: readonly FileTensor[]): { key: string; tensors: number; elements: number }[] {
  const found = new Map<string, { key: string; tensors: number; elements: number }>();
  for (const { name, size } of tensors) {
    const key = name.includes(".") ? (name.split(".")[0] as string) : "";
    const section = found.get(key) ?? { key, tensors: 0, elements: 0 };
    section.tensors++;
    section.elements += size;
    found.set(key, section);
  }
  return [...found.values()];
}

function totals({ tensors }: TensorFile): { tensors: number; elements: number; bytes: number } {
  return { tensors: tensors.length, elements: tensors.reduce((sum, { size }) => sum + size, 0), bytes: storedBytes(tensors) };
}

const formats = { pt: ".pt (zip archive)", "pt-legacy": ".pt (older form, before torch 1.6)", safetensors: "safetensors" } as const;

export const checkpointShow = command({
  name: "checkpoint show",
  summary: "What a .pt or safetensors file holds: names, shapes, dtypes, other values",
  description:
    "Nothing in the file is run: objects of unknown types are shown as what they are made of, marked <not loaded: ...>.\nElements are not read, so files of any size take no time.",
  examples: ["serac checkpoint show exp/epoch-30.pt", "serac checkpoint show exp/epoch-30.pt --only model.encoder --json"],
  positional: { file: { help: ".pt or safetensors file" } },
  options: {
    only: string({ unit: "key", help: "only what lies below this key" }),
    valueLength: integer({ default: 120, min: 10, unit: "characters", help: "where values are cut off" }),
  },
  async run({ file: path, only, valueLength }, out) {
    const { describe, openTensorFile, printable, PyGlobal, PyPlaceholder } = await import("../formats/index.ts");
    const file = openTensorFile(path);
    try {
      const wanted = (name: string): boolean => only === undefined || name === only || name.startsWith(`${only}.`);
      const tensors = file.tensors.filter(({ name }) => wanted(name));
      const values = file.values.filter(({ path }) => wanted(path));
      const total = totals({ ...file, tensors });
      if (only !== undefined && tensors.length + values.length === 0)
        throw new ConfigError("CONFIG_BAD_VALUE", { at: path, message: `there is nothing below "${only}"`, fix: "show it whole to see its keys" });
      if (out.json) {
        out.print(
          JSON.stringify({
            file: path,
            format: file.format,
            ...total,
            tensorList: tensors.map(({ name, dtype, shape, strides }) => ({ name, dtype, shape, ...(strides ? { strides } : {}) })),
            values: values.map(({ path, value }) => ({
              path,
              value: typeof value === "string" || typeof value === "boolean" || value === null ? value : describe(value, valueLength),
              ...(value instanceof PyPlaceholder ? { notLoaded: value.name } : value instanceof PyGlobal ? { notLoaded: value.qualified } : {}),
            })),
          }),
        );
        return;
      }
      out.print(`${path}: ${formats[file.format]}`);
      const width = Math.min(80, Math.max(0, ...tensors.map(({ name }) => name.length)));
      for (const { name, dtype, shape, strides } of tensors)
        out.print(`${printable(name).padEnd(width)}  ${dtype} ${shapeText(shape)}${strides ? ` with strides ${shapeText(strides)}` : ""}`);
      for (const { path, value } of values) out.print(`${printable(path) || "(the value itself)"}: ${describe(value, valueLength)}`);
      const parts = sections(tensors);
      if (parts.length > 1) for (const { key, tensors, elements } of parts) out.print(`${key === "" ? "(top)" : printable(key)}: ${tensors} tensors, ${elements} elements`);
      out.print(`total: ${total.tensors} tensors, ${total.elements} elements, ${bytesText(total.bytes)}; ${values.length} other values`);
      const unknown = values.filter(({ value }) => value instanceof PyPlaceholder).length;
      if (unknown > 0) out.say(`${unknown} object${unknown === 1 ? " is" : "s are"} of types that serac does not make: shown as placeholders, never run`);
    } finally {
      file.close();
    }
  },
});

const shown = (value: number | undefined): string => (value === undefined ? "bits" : value.toPrecision(3));

export const checkpointDiff = command({
  name: "checkpoint diff",
  summary: "How two checkpoints differ: names, shapes, elements, other values",
  description: "Either file may be .pt or safetensors. Exit code 0 where they are the same, 1 where they differ.",
  examples: ["serac checkpoint diff a/epoch-30.pt b/epoch-30.pt", "serac checkpoint diff epoch-30.pt epoch-30.pt --no-values --rtol 1e-6"],
  positional: { a: { help: "a file" }, b: { help: "another file" } },
  options: {
    atol: number({ default: 0, min: 0, help: "elements are equal where |a - b| <= ATOL + RTOL |b|" }),
    rtol: number({ default: 0, min: 0, help: "see --atol" }),
    values: boolean({ default: true, help: "compare what is no tensor as well" }),
  },
  async run({ a: pathA, b: pathB, ...options }, out) {
    const { diffTensors, openTensorFile, printable } = await import("../formats/index.ts");
    const open: TensorFile[] = [];
    try {
      const a = openTensorFile(pathA);
      open.push(a);
      const b = openTensorFile(pathB);
      open.push(b);
      const progress = out.progress(undefined, "tensors", "comparing");
      const diff = diffTensors(a, b, { ...options, onTensor: () => progress.add(1) });
      progress.clear();
      if (out.json) {
        const plain = ({ name, dtype, shape }: FileTensor) => ({ name, dtype, shape });
        out.print(JSON.stringify({ ...diff, onlyInA: diff.onlyInA.map(plain), onlyInB: diff.onlyInB.map(plain) }));
        return diff.same ? 0 : 1;
      }
      for (const { name, dtype, shape } of diff.onlyInA) out.print(`only in ${pathA}: ${printable(name)}  ${dtype} ${shapeText(shape)}`);
      for (const { name, dtype, shape } of diff.onlyInB) out.print(`only in ${pathB}: ${printable(name)}  ${dtype} ${shapeText(shape)}`);
      for (const { name, a, b } of diff.shapes) out.print(`another shape: ${printable(name)}  ${shapeText(a)} and ${shapeText(b)}`);
      for (const { name, a, b } of diff.dtypes) out.print(`another dtype: ${printable(name)}  ${a} and ${b}`);
      for (const { name, dtype, shape, differing, size, absolute, relative } of diff.elements)
        out.print(
          `other elements: ${printable(name)}  ${dtype} ${shapeText(shape)}  ${differing} of ${size}${absolute === undefined ? "" : `, by at most ${shown(absolute)}, relative ${shown(relative)}`}`,
        );
      const cut = (text: string | undefined): string => (text === undefined ? "(missing)" : text.length > 100 ? `${text.slice(0, 100)}...` : text);
      for (const { path, a, b } of diff.values) out.print(`another value: ${printable(path)}  ${cut(a)} and ${cut(b)}`);
      const numbers = diff.elements.flatMap(({ absolute }) => (absolute === undefined ? [] : [absolute]));
      const largest = numbers.length > 0 ? `; the largest difference is ${shown(numbers.reduce((x, y) => Math.max(x, y)))}` : "";
      out.print(`${diff.compared} tensors in both, ${diff.equal} of them equal${largest}`);
      return diff.same ? 0 : 1;
    } finally {
      for (const file of open) file.close();
    }
  },
});

export const checkpointConvert = command({
  name: "checkpoint convert",
  summary: "Convert a checkpoint between .pt and safetensors",
  description:
    'The target\'s format is that of its name. What it cannot hold is listed on stderr. A .pt file is written as torch.save writes it: an older one becomes a zip archive.\nA safetensors file notes the levels of the .pt file it was made of, also those that --key took away, and on the way back its tensors lie there again ({"model": ...}).\nTensors go from file to file one after another, so that large files need little memory.',
  examples: [
    "serac checkpoint convert exp/epoch-30.pt model.safetensors --key model",
    "serac checkpoint convert model.safetensors pretrained.pt",
    "serac checkpoint convert others.safetensors pretrained.pt --under model",
  ],
  positional: { input: { help: ".pt or safetensors file" }, output: { help: "NAME.safetensors, NAME.pt, NAME.pth or NAME.ckpt" } },
  options: {
    key: string({ unit: "key", help: "only what lies below this key, named without it" }),
    under: string({ unit: "key", help: 'in a .pt file, put all of it below this key; icefall\'s scripts read {"model": ...}' }),
  },
  async run({ input, output, key, under }, out) {
    const { convertToPt, convertToSafetensors, formatOfName, openTensorFile, printable } = await import("../formats/index.ts");
    const format = formatOfName(output);
    if (format === undefined)
      throw new ConfigError("CONFIG_BAD_VALUE", { at: output, message: "the name tells no format, expected it to end with .safetensors, .pt, .pth, .ckpt or .bin" });
    if (under !== undefined && format !== "pt")
      throw new ConfigError("CONFIG_BAD_VALUE", { at: output, message: "--under is for .pt files: in safetensors names are flat", fix: "leave it out" });
    const file = openTensorFile(input);
    try {
      const convert = format === "pt" ? convertToPt : convertToSafetensors;
      const { tensors, bytes, leftOut } = convert(file, output, { ...(key === undefined ? {} : { key }), ...(under === undefined ? {} : { under }) });
      for (const { path, what } of leftOut) out.say(`left out: ${printable(path)}: ${what}`);
      if (out.json) out.print(JSON.stringify({ input, output, tensors, bytes, leftOut }));
      else out.print(`${output}: ${tensors} tensors, ${bytesText(bytes)}${leftOut.length > 0 ? `; ${leftOut.length} other values left out` : ""}`);
    } finally {
      file.close();
    }
  },
});
