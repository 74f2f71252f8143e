import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { OrderedDict, openPt, type PtDict, type PtFile, PtTensor, type PtValue, PyPlaceholder, parsePt } from "../../../src/formats/pt/index.ts";
import { encode } from "./encode.ts";

const folder = fileURLToPath(new URL("../../golden/pt/", import.meta.url));
const open: PtFile[] = [];
afterEach(() => {
  for (const file of open.splice(0)) file.close();
});

function load(name: string): PtFile {
  const file = openPt(`${folder}${name}.pt`);
  open.push(file);
  return file;
}
const expected = (name: string): unknown => JSON.parse(readFileSync(`${folder}${name}.json`, "utf8"));

test.each([
  { name: "values", json: "values", form: "zip" },
  { name: "values-protocol4", json: "values", form: "zip" },
  { name: "values-legacy", json: "values", form: "legacy" },
  { name: "values-legacy-protocol0", json: "values", form: "legacy" },
  { name: "tensors", json: "tensors", form: "zip" },
  { name: "tensors-legacy", json: "tensors", form: "legacy" },
  { name: "state-dict", json: "state-dict", form: "zip" },
])("$name.pt is what torch.load gives: types, order, bits, strides, and which tensors share elements", ({ name, json, form }) => {
  const file = load(name);
  expect(file.form).toBe(form);
  expect(encode(file.value)).toEqual(expected(json));
});

test("the same bytes in memory give the same values", () => {
  const file = parsePt(readFileSync(`${folder}tensors.pt`));
  expect(encode(file.value)).toEqual(expected("tensors"));
});

test("objects that are shared stay one object", () => {
  const [a, b] = (load("values").value as PtDict).get("shared") as [PtValue, PtValue];
  expect(a).toBe(b);
});

test("unknown classes and functions become placeholders, and what stands beside them is read", () => {
  const value = load("unknown").value as PtDict;
  const w = (value.get("model") as PtDict).get("w") as PtTensor;
  expect(new Float32Array(w.bytes().buffer)).toEqual(Float32Array.from([0, 1, 2]));
  const params = value.get("params") as PyPlaceholder;
  expect(params).toBeInstanceOf(PyPlaceholder);
  expect(params.name).toBe("recipe.things.AttributeDict");
  expect([...params.entries]).toEqual([["lr", 0.5]]);
  const sampler = value.get("sampler") as PyPlaceholder;
  expect([sampler.name, sampler.state]).toEqual(["recipe.things.Sampler", new Map([["epoch", 3n]])]);
  expect((value.get("function") as PyPlaceholder).name).toBe("builtins.getattr"); // as Python pickles torch.relu
});

test("a state_dict keeps its _metadata", () => {
  const value = load("state-dict").value as OrderedDict;
  expect(value).toBeInstanceOf(OrderedDict);
  expect(((value.attributes as PtDict).get("_metadata") as PtDict).get("1")).toEqual(new Map([["version", 2n]]));
  expect([...value.values()].every((tensor) => tensor instanceof PtTensor)).toBe(true);
});
