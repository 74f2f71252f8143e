import { describe, expect, test } from "vitest";
import { autocast, callOperator, conv1d, conv2d, pad, randn, type Tensor, zeros } from "../../../src/torch/index.ts";
import { everySecond, gradients, timeFirst } from "./helpers.ts";

const ours1d = (x: Tensor, weight: Tensor, bias: Tensor | null, left: number, right: number): Tensor =>
  callOperator("serac::depthwise_conv1d", [x, weight, bias, left, right]) as Tensor;
const ours2d = (x: Tensor, weight: Tensor, bias: Tensor | null, padding: readonly [number, number]): Tensor =>
  callOperator("serac::depthwise_conv2d", [x, weight, bias, padding]) as Tensor;
const wide = (t: Tensor): Tensor => t.to({ dtype: "float64" });

/** Values and all gradients of `f` in float equal those of `plain` in double. */
function same(f: (...a: Tensor[]) => Tensor, plain: (...a: Tensor[]) => Tensor, inputs: Tensor[]): void {
  const g = randn(plain(...inputs.map(wide)).shape);
  const [a, b] = [gradients(f, inputs, g), gradients(plain, inputs.map(wide), wide(g))];
  expect(a.y).toBeAllClose(b.y, { rtol: 1e-4, atol: 1e-4 });
  for (const [i, expected] of b.grads.entries()) expect(a.grads[i]).toBeAllClose(expected, { rtol: 1e-4, atol: 1e-3 });
}

describe.each([
  [2, 16, 50, 31, 15, 15],
  [3, 19, 7, 15, 14, 0], // causal
  [1, 1, 1, 3, 1, 1],
  [2, 5, 40, 8, 0, 3],
  [2, 24, 33, 31, 0, 0],
  [2, 8, 3, 31, 15, 15], // shorter than the kernel
])("conv1d of %i x %i channels x %i frames, kernel %i, padding %i and %i", (n, c, t, k, left, right) => {
  test.each(["NCT", "TNC", "strided"])("equals libtorch's convolution in the layout %s", (layout) => {
    const x = layout === "NCT" ? randn([n, c, t]) : layout === "TNC" ? timeFirst([n, c, t]) : everySecond([n, c, t]);
    const plain = (...a: Tensor[]): Tensor => conv1d(pad(a[0] as Tensor, [left, right]), a[1] as Tensor, a[2] ?? null, 1, 0, 1, c);
    same((...a) => ours1d(a[0] as Tensor, a[1] as Tensor, a[2] as Tensor, left, right), plain, [x, randn([c, 1, k]), randn([c])]);
    same((...a) => ours1d(a[0] as Tensor, a[1] as Tensor, null, left, right), plain, [x, randn([c, 1, k])]);
  });
});

describe.each([
  [2, 16, 20, 19, 7, 7, 3, 3],
  [1, 19, 5, 6, 7, 7, 3, 3],
  [2, 3, 9, 19, 7, 7, 0, 3], // streaming: the frames' padding is the cache
  [2, 3, 9, 4, 3, 2, 2, 1],
])("conv2d of %i x %i x %i x %i, kernel %i x %i, padding %i, %i", (n, c, h, w, kh, kw, ph, pw) => {
  test.each(["NCHW", "NHWC"])("equals libtorch's convolution in the layout %s", (layout) => {
    const x = layout === "NCHW" ? randn([n, c, h, w]) : randn([n, h, w, c]).permute([0, 3, 1, 2]);
    const plain = (...a: Tensor[]): Tensor => conv2d(a[0] as Tensor, a[1] as Tensor, a[2] ?? null, 1, [ph, pw], 1, c);
    same((...a) => ours2d(a[0] as Tensor, a[1] as Tensor, a[2] as Tensor, [ph, pw]), plain, [x, randn([c, 1, kh, kw]), randn([c])]);
  });
});

test("keeps double, gives autocast's dtype, keeps the layout, takes no frames", () => {
  const [x, w] = [timeFirst([2, 8, 9]), randn([8, 1, 5])];
  expect(ours1d(wide(x), wide(w), null, 2, 2)).toBeAllClose(ours1d(x, w, null, 2, 2));
  expect(ours1d(x, w, null, 2, 2).strides).toEqual(x.strides);
  autocast({}, () => {
    const { y, grads } = gradients((a, b) => ours1d(a as Tensor, b as Tensor, null, 2, 2), [x, w]);
    expect([y.dtype, grads[0]?.dtype, grads[1]?.dtype]).toEqual(["bfloat16", "float32", "float32"]);
  });
  const empty = gradients((a, b) => ours1d(a as Tensor, b as Tensor, null, 2, 2), [zeros([2, 8, 0]), w]);
  expect([empty.y.shape, empty.grads[0]?.shape, empty.grads[1]?.abs().sum().item()]).toEqual([[2, 8, 0], [2, 8, 0], 0]);
});

test("refuses shapes that do not fit", () => {
  expect(() => ours1d(zeros([2, 4, 9]), zeros([3, 1, 3]), null, 1, 1)).toThrow(/depthwise_conv1d: weight has shape .* x has 4 channels/);
  expect(() => ours1d(zeros([2, 4, 1]), zeros([4, 1, 5]), null, 0, 0)).toThrow(/smaller than the kernel/);
  expect(() => ours1d(zeros([2, 4]), zeros([4, 1, 5]), null, 0, 0)).toThrow(/x must be \(N, C, T\)/);
  expect(() => ours1d(zeros([2, 4, 9]), zeros([4, 1, 3]), zeros([3]), 1, 1)).toThrow(/bias has shape \[3\]/);
});
