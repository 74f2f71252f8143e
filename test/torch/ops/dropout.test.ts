import { expect, test } from "vitest";
import { autocast, callOperator, Generator, ops, randn, type Tensor, tensor, zeros } from "../../../src/torch/index.ts";
import { golden } from "../../golden.ts";
import { everySecond, gradients } from "./helpers.ts";

const { tensors } = golden("modules");
const of = (key: string): Tensor => tensors[`act_linear.${key}`] as Tensor;

interface Options {
  activation?: string;
  p?: number;
  shared?: number | null;
  training?: boolean;
  seed?: number;
}
const fused = (x: Tensor, weight: Tensor, bias: Tensor | null, { activation = "SwooshL", p = 0, shared = 0, training = true, seed = 1 }: Options = {}): Tensor =>
  callOperator("serac::activation_dropout_linear", [x, weight, bias, activation, p, shared, training, new Generator(seed)]) as Tensor;
const eye = (n: number): Tensor => tensor(Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => (i === j ? 1 : 0))));

test("activation, dropout and linear equal the reference: values and all gradients", () => {
  const { y, grads } = gradients((x, w, b) => fused(x as Tensor, w as Tensor, b as Tensor, { activation: "SwooshR" }), [of("x"), of("weight"), of("bias")], of("y_grad"));
  expect(y).toBeAllClose(of("y"));
  for (const [i, key] of ["x_grad", "weight_grad", "bias_grad"].entries()) expect(grads[i]).toBeAllClose(of(key));
});

test.each([0, 1, null])("the mask is shared over dimension %s and the same in both directions", (shared) => {
  const x = everySecond([6, 3, 40]).abs().add(5);
  const options = { p: 0.3, shared };
  const masked = fused(x, eye(40), null, options).div(ops.swooshLExact(x.contiguous())); // 0 or 1 / 0.7
  const values = masked.toArray();
  expect(values.every((v) => v === 0 || Math.abs(v - 1 / 0.7) < 1e-4)).toBe(true);
  expect(values.filter((v) => v === 0).length / values.length).toBeGreaterThan(0.1);
  expect(values.filter((v) => v === 0).length / values.length).toBeLessThan(0.5);
  if (shared !== null) expect(masked).toBeAllClose(masked.narrow(shared, 0, 1).expand([6, 3, 40]).contiguous());
  else expect(masked.select(0, 0).toArray()).not.toEqual(masked.select(0, 1).toArray());
  const [weight, g] = [randn([7, 40]), randn([6, 3, 7])];
  const ours = gradients((a, w) => fused(a as Tensor, w as Tensor, null, options), [x, weight], g);
  const plain = gradients(
    (a, w) =>
      ops
        .swooshLExact(a as Tensor)
        .mul(masked)
        .matmul((w as Tensor).t()),
    [x, weight],
    g,
  );
  expect(ours.y).toBeAllClose(plain.y, { rtol: 1e-3, atol: 1e-4 });
  for (const i of [0, 1]) expect(ours.grads[i]).toBeAllClose(plain.grads[i], { rtol: 1e-3, atol: 1e-3 });
});

test("drops nothing in evaluation, takes no frames, double and autocast", () => {
  const [x, w] = [randn([4, 3, 5]), randn([7, 5])];
  expect(fused(x, w, null, { p: 0.5, training: false })).toBeAllClose(fused(x, w, null));
  expect(gradients((a, b, c) => fused(a as Tensor, b as Tensor, c as Tensor, { p: 0.1 }), [zeros([0, 3, 5]), w, zeros([7])]).grads[1]).toBeAllClose(Array(35).fill(0));
  const wide = (t: Tensor): Tensor => t.to({ dtype: "float64" });
  expect(fused(wide(x), wide(w), null)).toBeAllClose(fused(x, w, null));
  autocast({}, () => {
    const { y, grads } = gradients((a, b) => fused(a as Tensor, b as Tensor, null), [x, w]);
    expect([y.dtype, grads[0]?.dtype, grads[1]?.dtype]).toEqual(["bfloat16", "float32", "float32"]);
    expect(y).toBeAllClose(fused(wide(x), wide(w), null), { rtol: 0.05, atol: 0.05 });
  });
});

test("refuses shapes and settings that do not fit", () => {
  expect(() => fused(zeros([2, 4]), zeros([3, 5]), null)).toThrow(/weight has shape \[3, 5\], x has shape \[2, 4\]/);
  expect(() => fused(zeros([2, 4]), zeros([3, 4]), zeros([2]))).toThrow(/bias has shape \[2\]/);
  expect(() => fused(zeros([2, 4]), zeros([3, 4]), null, { activation: "ReLU" })).toThrow(/must be SwooshL or SwooshR/);
  expect(() => fused(zeros([2, 4]), zeros([3, 4]), null, { p: 1 })).toThrow(/dropout_p is 1/);
});

test("dropoutShared: one mask along a dimension, its scale keeps the mean, the gradient has the same mask", () => {
  const { y, grads } = gradients((x) => ops.dropoutShared(x, 0.25, 1, new Generator(5)), [zeros([4, 3, 500]).add(1)]);
  expect(y).toBeAllClose(grads[0]);
  expect(y).toBeAllClose(y.narrow(1, 0, 1).expand([4, 3, 500]).contiguous());
  expect(y.mean().item()).toBeCloseTo(1, 1);
  expect(new Set(y.toArray().map((v) => v.toFixed(4)))).toEqual(new Set(["0.0000", "1.3333"]));
  expect(gradients((x) => ops.dropoutShared(x, 0.25, 0), [zeros([0, 3])]).grads[0]?.shape).toEqual([0, 3]);
  expect(() => ops.dropoutShared(zeros([2]), 1, 0)).toThrow(/p is 1/);
});
