import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { fromTypedArray, liveTensors, scope, tensor, zeros } from "../../src/torch/index.ts";
import { TensorStats } from "../../src/train/tensorStats.ts";
import { wave } from "../golden.ts";

/** Printed by icefall's TensorDiagnostic for the same numbers. */
const expected = readFileSync(new URL("../golden/diagnostics.txt", import.meta.url), "utf8")
  .trim()
  .split("\n");

test("statistics of tensors of several sizes, of one axis and of none are icefall's, digit by digit", () => {
  const before = liveTensors();
  scope(() => {
    const of = (shape: number[], scale: number, phase: number) => fromTypedArray(wave(shape, { scale, phase }), shape);
    const foo = new TensorStats();
    foo.add(of([6, 12], 2, 0.1));
    foo.add(of([7, 12], 3, 0.5));
    foo.add(of([6, 12], 1, 1.5));
    foo.add(zeros([0, 12]));
    const bar = new TensorStats();
    bar.add(of([5], 1, 0.3));
    const scalar = new TensorStats();
    scalar.add(tensor(2.5, { dtype: "float64" }));
    expect([...foo.lines("module=foo,"), ...bar.lines("module=bar, type=Linear,"), ...scalar.lines("module=scalar,")]).toEqual(expected);
  });
  expect(liveTensors()).toBe(before);
});
