import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { checkpointConvert, checkpointDiff, checkpointShow } from "../../src/cli/checkpoint.ts";
import type { Command } from "../../src/cli/command.ts";
import { Output } from "../../src/cli/output.ts";
import { memoryTensor, openPt, openTensorFile, PtTensor, type PtValue, ptDict, stateDict, writePt, writeSafetensors } from "../../src/formats/index.ts";
import { packageRoot } from "../../src/util/paths.ts";

const golden = fileURLToPath(new URL("../golden/pt/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "serac-checkpoint-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function run(command: Command, ...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const parsed = command.parse(args);
  const streams = { stdout: { write: (text: string) => (stdout += text) }, stderr: { write: (text: string) => (stderr += text) } };
  const code = await parsed.run(new Output({ streams: streams as unknown as ConstructorParameters<typeof Output>[0]["streams"], json: parsed.json }));
  return { code, stdout, stderr };
}
const floats = (...values: number[]) => memoryTensor("float32", [values.length], new Uint8Array(Float32Array.from(values).buffer));

test("show prints tensors, other values, totals, and placeholders as what they are", async () => {
  const { stdout, stderr, code } = await run(checkpointShow, `${golden}unknown.pt`);
  expect(code).toBe(0);
  expect(stdout).toContain("model.w  float32 [3]");
  expect(stdout).toContain("params: <not loaded: recipe.things.AttributeDict {'lr': 0.5}>");
  expect(stdout).toContain("sampler.__state__.epoch: 3");
  expect(stdout).toContain("total: 1 tensors, 3 elements, 12 bytes");
  expect(stderr).toContain("never run");
  const json = JSON.parse((await run(checkpointShow, `${golden}unknown.pt`, "--json")).stdout);
  expect(json.tensorList).toEqual([{ name: "model.w", dtype: "float32", shape: [3] }]);
  expect(json.values.find(({ path }: { path: string }) => path === "sampler").notLoaded).toBe("recipe.things.Sampler");
});

test("a reader that is slow gets all of what is shown: serac ends when it is taken", async () => {
  const path = join(folder, "many.safetensors");
  const count = 20_000;
  const tensor = { dtype: "F32", shape: [1], bytes: () => new Uint8Array(4) } as const;
  writeSafetensors(path, new Map(Array.from({ length: count }, (_, i) => [`a.rather.long.name.of.a.tensor.${i}`, tensor])), {});
  const { stdout } = await promisify(execFile)("bash", ["-c", '"$@" | wc -l', "bash", process.execPath, join(packageRoot, "bin", "serac"), "checkpoint", "show", path]);
  expect(Number(stdout)).toBeGreaterThan(count);
});

test("show takes a part of a file, and views have their strides", async () => {
  const { stdout } = await run(checkpointShow, `${golden}tensors.pt`, "--only", "transposed");
  expect(stdout).toContain("transposed  float32 [6, 4] with strides [1, 6]");
  await expect(run(checkpointShow, `${golden}tensors.pt`, "--only", "nothing")).rejects.toThrow(expect.objectContaining({ code: "CONFIG_BAD_VALUE" }));
});

test("diff is silent about what is the same, in either form of the file", async () => {
  const { code, stdout } = await run(checkpointDiff, `${golden}tensors.pt`, `${golden}tensors-legacy.pt`);
  expect([code, stdout]).toEqual([0, "26 tensors in both, 26 of them equal\n"]);
  expect((await run(checkpointDiff, `${golden}values.pt`, `${golden}values-legacy.pt`)).code).toBe(0);
});

test("diff names keys, shapes, dtypes, elements and values that differ", async () => {
  const [a, b] = [join(folder, "a.pt"), join(folder, "b.pt")];
  writePt(
    a,
    ptDict({
      model: stateDict([
        ["w", floats(1, 2, 4)],
        ["only_a", floats(1)],
        ["s", floats(1)],
        ["n", floats(Number.NaN, 1)],
      ]),
      epoch: 3n,
    }),
  );
  writePt(
    b,
    ptDict({
      model: stateDict([
        ["w", floats(1, 3, 4)],
        ["only_b", floats(1)],
        ["s", floats(1, 2)],
        ["n", floats(Number.NaN, 1)],
      ]),
      epoch: 4n,
    }),
  );
  const { code, stdout } = await run(checkpointDiff, a, b);
  expect(code).toBe(1);
  expect(stdout.split("\n")).toEqual([
    `only in ${a}: model.only_a  float32 [1]`,
    `only in ${b}: model.only_b  float32 [1]`,
    "another shape: model.s  [1] and [2]",
    "other elements: model.w  float32 [3]  1 of 3, by at most 1.00, relative 0.333",
    "another value: epoch  3 and 4",
    "3 tensors in both, 1 of them equal; the largest difference is 1.00",
    "",
  ]);
  expect(JSON.parse((await run(checkpointDiff, a, b, "--json")).stdout)).toMatchObject({ same: false, elements: [{ name: "model.w", differing: 1, absolute: 1 }] });
});

test("convert keeps every element there and back, and lists what the target cannot hold", async () => {
  const [safe, back] = [join(folder, "t.safetensors"), join(folder, "t.pt")];
  const { stdout, stderr } = await run(checkpointConvert, `${golden}tensors.pt`, safe);
  expect(stderr.split("\n").filter((line) => line.startsWith("left out"))).toEqual([
    "left out: by_dtype.torch.complex64: a tensor of complex64, which safetensors does not hold",
    "left out: by_dtype.torch.complex128: a tensor of complex128, which safetensors does not hold",
  ]);
  expect(stdout).toContain("24 tensors");
  await run(checkpointConvert, safe, back);
  expect((await run(checkpointDiff, safe, back)).code).toBe(0);
  const original = openTensorFile(`${golden}tensors.pt`);
  const copy = openTensorFile(back);
  const byName = new Map(original.tensors.map((tensor) => [tensor.name, tensor]));
  for (const tensor of copy.tensors) expect(Buffer.compare(tensor.bytes(), byName.get(tensor.name)?.bytes() ?? new Uint8Array())).toBe(0);
  original.close();
  copy.close();
});

describe("a .pt file that went to safetensors", () => {
  /** Much as icefall's: levels in levels, keys with points, numbers as keys, a list, and what is no tensor. */
  const icefalls = join(folder, "icefall.pt");
  const model = () =>
    stateDict([
      ["encoder.weight", floats(1, 2)],
      ["encoder.bias", floats(3)],
      ["scale", floats(4)],
    ]);
  const structure = (value: PtValue): unknown =>
    value instanceof Map
      ? [...value].map(([key, item]) => [key, structure(item)] as const).sort(([a], [b]) => (String(a) < String(b) ? -1 : 1))
      : value instanceof PtTensor
        ? [...value.bytes()]
        : value;
  const structureOf = (path: string): unknown => {
    const file = openPt(path);
    try {
      return structure(file.value);
    } finally {
      file.close();
    }
  };
  const convert = (...args: string[]) => run(checkpointConvert, ...args);

  test("comes back with its levels: icefall's loader finds the model where it was", async () => {
    const optimizer = ptDict({
      state: new Map<PtValue, PtValue>([
        [0n, ptDict({ delta: floats(5) })],
        [11n, ptDict({ "exp.avg": floats(6) })],
      ]),
      param_groups: [ptDict({ lr: 0.1 })],
    });
    writePt(icefalls, ptDict({ model: model(), optimizer, "ema.model": stateDict([["encoder.weight", floats(7)]]), last: floats(8), history: [floats(9)], batch_idx_train: 12n }));
    const [safe, back] = [join(folder, "levels.safetensors"), join(folder, "levels.pt")];
    const { stderr } = await convert(icefalls, safe);
    expect(stderr.split("\n").filter((line) => line !== "")).toEqual(["left out: optimizer.param_groups.0.lr: 0.1", "left out: batch_idx_train: 12"]);
    expect(await convert(safe, back)).toMatchObject({ code: 0, stderr: "" });
    const state = new Map<PtValue, PtValue>([
      [0n, ptDict({ delta: floats(5) })],
      [11n, ptDict({ "exp.avg": floats(6) })],
    ]);
    const tensors = ptDict({ model: model(), optimizer: ptDict({ state }), "ema.model": stateDict([["encoder.weight", floats(7)]]), last: floats(8), "history.0": floats(9) });
    expect(structureOf(back)).toEqual(structure(tensors));
    // And once more, from safetensors to safetensors.
    const again = join(folder, "again.safetensors");
    await convert(safe, again);
    await convert(again, back);
    expect(structureOf(back)).toEqual(structure(tensors));
  });

  test("below a key alone, comes back to that key, or without it where it is asked for", async () => {
    const [safe, back] = [join(folder, "model-only.safetensors"), join(folder, "model-only.pt")];
    await convert(icefalls, safe, "--key", "model");
    await convert(safe, back);
    expect(structureOf(back)).toEqual(structure(ptDict({ model: model() })));
    await convert(safe, back, "--key", "model");
    expect(structureOf(back)).toEqual(structure(model()));
    await convert(safe, back, "--under", "state_dict");
    expect(structureOf(back)).toEqual(structure(ptDict({ state_dict: model() })));
  });

  test("tensors of others stay flat, or go below the key that is asked for", async () => {
    const [safe, back] = [join(folder, "others.safetensors"), join(folder, "others.pt")];
    writeSafetensors(safe, { "model.w": { dtype: "F32", shape: [1], data: Float32Array.of(1) } });
    await convert(safe, back);
    expect(structureOf(back)).toEqual([["model.w", [...floats(1).bytes()]]]);
    await convert(safe, back, "--under", "model");
    expect(structureOf(back)).toEqual([["model", [["model.w", [...floats(1).bytes()]]]]]);
    const bare = join(folder, "bare.pt");
    writePt(bare, model());
    await convert(bare, back, "--under", "model");
    expect(structureOf(back)).toEqual(structure(ptDict({ model: model() })));
    await expect(convert(bare, safe, "--under", "model")).rejects.toThrow(/--under is for \.pt files/);
  });

  test("whose flat names would be two things comes back flat; notes that are none of serac's are refused", async () => {
    const [pt, safe, back] = [join(folder, "two.pt"), join(folder, "two.safetensors"), join(folder, "two-back.pt")];
    writePt(pt, ptDict({ a: ptDict({ b: floats(1) }), "a.c": floats(2) }));
    await convert(pt, safe);
    await convert(safe, back);
    expect(structureOf(back)).toEqual([
      ["a.b", [...floats(1).bytes()]],
      ["a.c", [...floats(2).bytes()]],
    ]);
    const tensor = { dtype: "F32" as const, shape: [1], data: Float32Array.of(1) };
    for (const [note, words] of [
      ["{", /does not say levels/],
      ['{"under":["model"],"dicts":[[{}]]}', /does not say levels/],
      ['{"under":[],"dicts":[["a"]]}', /the tensor "a.b" has no place among the levels of __metadata__\.serac_levels/],
    ] as const) {
      writeSafetensors(safe, { a: tensor, "a.b": tensor }, { serac_levels: note });
      await expect(convert(safe, back)).rejects.toThrow(words);
    }
  });
});

test("an older .pt becomes a zip archive with the same values; objects of unknown types are left out and listed", async () => {
  const out = join(folder, "new.pt");
  await run(checkpointConvert, `${golden}tensors-legacy.pt`, out);
  expect((await run(checkpointDiff, `${golden}tensors-legacy.pt`, out)).code).toBe(0);
  expect(readFileSync(out).subarray(0, 2).toString()).toBe("PK");
  const { stderr } = await run(checkpointConvert, `${golden}unknown.pt`, out);
  expect(stderr).toContain("left out: sampler: <not loaded: recipe.things.Sampler>");
});

test("convert takes the tensors below a key, and a target's name must tell its format", async () => {
  const out = join(folder, "model.safetensors");
  await run(checkpointConvert, join(folder, "a.pt"), out, "--key", "model");
  const file = openTensorFile(out);
  expect(file.tensors.map(({ name }) => name).sort()).toEqual(["n", "only_a", "s", "w"]);
  file.close();
  await expect(run(checkpointConvert, join(folder, "a.pt"), join(folder, "model.onnx"))).rejects.toThrow(expect.objectContaining({ code: "CONFIG_BAD_VALUE" }));
});
