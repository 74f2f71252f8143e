/** What is particular to some operators; what holds of each is in everyOperator.test.ts. */
import { expect, test } from "vitest";
import { Generator, ops, randn, type Tensor, tensor, zeros } from "../../../src/torch/index.ts";
import { composed, gradients } from "./helpers.ts";

test("shapes that do not fit are refused by name", () => {
  expect(() => ops.linear(randn([2, 3]), randn([4, 5]))).toThrow(/linear: weight has shape \[4, 5\]/);
  expect(() => ops.conv2d(randn([1, 2, 2, 2]), randn([1, 2, 3, 3]), null, [1, 1], [0, 0])).toThrow(/conv2d: .*smaller than the kernel/);
  expect(() => ops.attentionWeights(randn([3, 2, 4]), randn([3, 2, 4]), randn([3, 2, 2]), null, null, 2)).toThrow(/positions need encodings/);
  expect(() => ops.attend(randn([4, 3, 3]), randn([2, 2, 4]))).toThrow(/attend: weights must be/);
  expect(() => ops.glu(randn([3, 2, 5]), null, [])).toThrow(/glu: x must be/);
  expect(() => ops.glu(randn([3, 2, 4]), null, [1])).toThrow(/glu: balance must be/);
  expect(() => ops.bypass(randn([3, 2, 4]), randn([3, 2, 5]), randn([4]))).toThrow(/bypass: input and output/);
  expect(() => ops.bypass(randn([3, 2, 4]), randn([3, 2, 4]), randn([4]), 2)).toThrow(/bypass: input and output must be \(T, N, C\) and \(T \/ 2, N, C\)/);
  expect(() => ops.gatedConv1d(randn([3, 2, 4]), null, [], randn([2, 1, 2]))).toThrow(/gated_conv1d: weight must be \(C, 1, K\), K odd/);
  expect(() => ops.gatedAttend(randn([2, 3, 4]), randn([3, 2, 4]), randn([3, 2, 4]), randn([3, 2, 4]))).toThrow(/gated_attend: weights must be \(N, T, T\)/);
  const ids = zeros([1, 2, 1], { dtype: "int64" });
  const joiner = (ranges: Tensor, symbols: Tensor): unknown => ops.joinerLogProbs(randn([1, 2, 4]), randn([1, 3, 4]), ranges, randn([5, 4]), null, symbols, 0);
  expect(() => joiner(ids.add(3), ids)).toThrow(/joiner_log_probs: a range is outside of the 3 rows/);
  expect(() => joiner(ids, ids.sub(1))).toThrow(/joiner_log_probs: a symbol is none of 5/);
  expect(() => joiner(ids, ids.squeeze(2))).toThrow(/joiner_log_probs: symbols must be int64/);
  expect(() => ops.residual(randn([3, 2, 4]), randn([3, 2, 4]), randn([3]))).toThrow(/residual: mask must be/);
  expect(() => ops.pickLogProbs(randn([2, 3]), tensor([0, 3], { dtype: "int64" }), 0)).toThrow(/pick_log_probs: a symbol is none of 3/);
  expect(() => ops.downsample(zeros([0, 2, 4]), randn([2]))).toThrow(/downsample: x has no frames/);
});

test("the composition draws, the operator does not: a swoosh whose derivative is not kept needs no rounding", () => {
  const [x, w, b, v, c] = [randn([2, 5, 9, 17]), randn([12, 5, 1, 1]), randn([12]), randn([3, 12, 1, 1]), randn([3])];
  const call = (...inputs: Tensor[]): Tensor => ops.pointwiseFeedforward(...(inputs as [Tensor, Tensor, Tensor, Tensor, Tensor]), [], new Generator(1));
  const own = gradients(call, [x, w, b, v, c]);
  const plain = composed(() => gradients(call, [x, w, b, v, c]));
  expect(own.y).toBeAllClose(plain.y, { rtol: 1e-4, atol: 1e-5 });
  const difference = (own.grads[0] as Tensor).sub(plain.grads[0] as Tensor);
  expect(difference.abs().max().item()).toBeGreaterThan(0);
  expect(
    difference
      .norm()
      .div((plain.grads[0] as Tensor).norm())
      .item(),
  ).toBeLessThan(0.02);
});

test("two types in one pass are those of the composition", () => {
  const narrow = { dtype: "bfloat16" } as const;
  for (const [x, part] of [
    [randn([4, 2, 5]), randn([4, 2, 5]).to(narrow)],
    [randn([4, 2, 5]).to(narrow), randn([4, 2, 5])],
    [randn([4, 2, 5]).to(narrow), randn([4, 2, 5]).to(narrow)],
  ] as [Tensor, Tensor][]) {
    const call = (a: Tensor, b: Tensor): Tensor => ops.residual(a, b, tensor([1, 0]));
    const own = gradients(call, [x, part]);
    const plain = composed(() => gradients(call, [x, part]));
    expect([own.y.dtype, ...own.grads.map((g) => g.dtype)]).toEqual([plain.y.dtype, ...plain.grads.map((g) => g.dtype)]);
    expect(own.y).toBeAllClose(plain.y, { rtol: 1e-2, atol: 1e-2 });
    for (const [i, g] of own.grads.entries()) expect(g).toBeAllClose(plain.grads[i] as Tensor, { rtol: 1e-2, atol: 1e-2 });
  }
});
