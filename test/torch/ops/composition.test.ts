/** Operators that replace several of libtorch's: each equals its composition, values and all gradients, whatever the sizes and the layout. */
import { describe, expect, test } from "vitest";
import { allocatedBytes, autocast, cat, Generator, liveTensors, ops, randn, scope, type Tensor, tensor, zeros } from "../../../src/torch/index.ts";
import { composed, everySecond, gradients } from "./helpers.ts";

type Call = (...inputs: Tensor[]) => Tensor;

/** Numbers that do not begin at the start of their memory, nor lie without holes. */
const strided = (shape: readonly number[]): Tensor => everySecond(shape);
const padding = (lengths: readonly number[], frames: number): Tensor =>
  tensor(lengths.map((length) => Array.from({ length: frames }, (_, t) => (t >= length ? 1 : 0)))).to({ dtype: "bool" });
const range = [-0.1, 0.1, 0.5, 0.9, 0.04];

const cases: Record<string, { call: Call; inputs: () => Tensor[] }[]> = {
  linear: [
    { call: (x, w, b) => ops.linear(x, w, b), inputs: () => [randn([7, 3, 5]), randn([11, 5]), randn([11])] },
    { call: (x, w) => ops.linear(x, w), inputs: () => [strided([4, 6]), randn([6, 9]).t()] },
    { call: (x, w, b) => ops.linear(x, w, b), inputs: () => [randn([1, 1]), randn([1, 1]), randn([1])] },
  ],
  conv2d: [
    { call: (x, w, b) => ops.conv2d(x, w, b, [1, 1], [0, 1]), inputs: () => [randn([2, 1, 9, 7]), randn([5, 1, 3, 3]), randn([5])] },
    { call: (x, w, b) => ops.conv2d(x, w, b, [2, 2], [0, 0]), inputs: () => [randn([3, 4, 10, 9]), randn([6, 4, 3, 3]), randn([6])] },
    { call: (x, w) => ops.conv2d(x, w, null, [1, 2], [2, 1]), inputs: () => [strided([2, 3, 5, 8]), randn([4, 3, 3, 2])] },
    { call: (x, w, b) => ops.conv2d(x, w, b, [1, 2], [0, 0]), inputs: () => [randn([1, 70, 11, 3]).permute([0, 3, 1, 2]), randn([2, 3, 3, 3]), randn([2])] },
  ],
  "pointwise feed-forward": [
    {
      call: (x, w, b, v, c) => ops.pointwiseFeedforward(x, w, b, v, c, []),
      inputs: () => [randn([2, 5, 9, 17]), randn([12, 5, 1, 1]), randn([12]), randn([3, 12, 1, 1]), randn([3])],
    },
    {
      call: (x, w, b, v, c) => ops.pointwiseFeedforward(x, w, b, v, c, range),
      inputs: () => [randn([3, 19, 7, 4]).permute([0, 3, 1, 2]), randn([6, 4, 1, 1]), randn([6]), randn([4, 6, 1, 1]), randn([4])],
    },
  ],
  "feed-forward": [
    {
      call: (x, w, b, v, c) => ops.feedforward(x, w, b, v, c, [], 0),
      inputs: () => [strided([7, 2, 5]), randn([12, 5]), randn([12]), randn([3, 12]), randn([3])],
    },
    {
      call: (x, w, b, v, c) => ops.feedforward(x, w, b, v, c, range, 0.3, new Generator(4)), // the same mask both ways
      inputs: () => [randn([99, 3, 4]), randn([33, 4]), randn([33]), randn([4, 33]), randn([4])],
    },
  ],
  "attention weights": [
    {
      call: (q, k, p, e) => ops.attentionWeights(q, k, p, e, padding([7, 4], 7).unsqueeze(1), 3)[0],
      inputs: () => [randn([7, 2, 12]), randn([7, 2, 12]), randn([7, 2, 6]), randn([13, 6])],
    },
    { call: (q, k) => ops.attentionWeights(q, k, null, null, null, 1)[0], inputs: () => [randn([1, 3, 2]), randn([1, 3, 2])] },
    {
      call: (q, k, p, e) => {
        const [weights, first] = ops.attentionWeights(q, k, p, e, null, 2, 0.5, 0.3); // many scores beyond the limit
        return cat([weights.flatten(), first.flatten()], 0);
      },
      inputs: () => [strided([20, 2, 8]), strided([20, 2, 8]), strided([20, 2, 2]), strided([39, 2])],
    },
    {
      call: (q, k) =>
        ops.attentionWeights(
          q,
          k,
          null,
          null,
          tensor([
            [
              [0, 1, 1],
              [0, 0, 1],
              [0, 0, 0],
            ],
          ]).to({ dtype: "bool" }),
          2,
        )[0], // prettier-ignore
      inputs: () => [randn([3, 2, 4]), randn([3, 2, 4])],
    },
  ],
  attend: [
    { call: (w, v) => ops.attend(w, v), inputs: () => [randn([6, 5, 7]), randn([7, 2, 12])] },
    { call: (w, v) => ops.attend(w, v), inputs: () => [strided([2, 4, 4]), strided([4, 2, 5])] },
    { call: (w, v) => ops.attend(w, v), inputs: () => [randn([2, 3, 4, 4]).select(1, 0), randn([4, 2, 5])] },
  ],
  glu: [
    { call: (x) => ops.glu(x, null, []), inputs: () => [randn([9, 2, 10])] },
    { call: (x) => ops.glu(x, padding([9, 5], 9), range), inputs: () => [randn([9, 2, 10])] },
    { call: (x) => ops.glu(x, padding([2, 1, 2], 2), []), inputs: () => [strided([2, 3, 34])] },
  ],
  bypass: [
    { call: (a, b, s) => ops.bypass(a, b, s), inputs: () => [randn([9, 3, 5]), randn([9, 3, 5]), randn([5])] },
    { call: (a, b, s) => ops.bypass(a, b, s), inputs: () => [strided([4, 3, 33]), randn([4, 3, 33]), randn([3, 33])] },
  ],
  residual: [
    { call: (x, part) => ops.residual(x, part), inputs: () => [randn([5, 3, 7]), strided([5, 3, 7])] },
    { call: (x, part) => ops.residual(x, part, tensor([1, 0, 1])), inputs: () => [strided([5, 3, 33]), randn([5, 3, 33])] },
  ],
  "picked log-probabilities": [
    {
      call: (logits) =>
        cat(
          [
            ...ops.pickLogProbs(
              logits,
              tensor(
                [
                  [1, 2, 1],
                  [0, 4, 1],
                ],
                { dtype: "int64" },
              ),
              1,
            ),
          ],
          0,
        ), // prettier-ignore
      inputs: () => [strided([2, 3, 5])],
    },
    { call: (logits) => ops.pickLogProbs(logits, tensor([3, 32, 0, 7], { dtype: "int64" }), 0)[0], inputs: () => [randn([4, 33]).mul(30)] },
  ],
  downsample: [
    { call: (x, w) => ops.downsample(x, w), inputs: () => [randn([9, 3, 5]), randn([2])] },
    { call: (x, w) => ops.downsample(x, w), inputs: () => [strided([5, 2, 17]), randn([8])] },
    { call: (x, w) => ops.downsample(x, w), inputs: () => [randn([4, 1, 1]), randn([1])] },
  ],
};

describe.each(Object.entries(cases))("%s equals its composition", (_, list) => {
  test("values and all gradients, in odd sizes and layouts", () => {
    for (const { call, inputs } of list)
      scope(() => {
        const given = inputs();
        const expected = composed(() => gradients(call, given));
        const upstream = randn(expected.y.shape);
        const plain = composed(() => gradients(call, given, upstream));
        const own = gradients(call, given, upstream);
        expect(own.y).toBeAllClose(plain.y, { rtol: 1e-4, atol: 1e-5 });
        for (const [i, g] of own.grads.entries()) expect(g, `gradient ${i}`).toBeAllClose(plain.grads[i] as Tensor, { rtol: 1e-3, atol: 1e-4 });
      });
  });

  test("without gradients, in double, and under autocast", () => {
    for (const { call, inputs } of list)
      scope(() => {
        const given = inputs();
        const y = call(...given);
        expect(y).toBeAllClose(
          composed(() => call(...given)),
          { rtol: 1e-4, atol: 1e-5 },
        );
        const wide = given.map((x) => x.to({ dtype: "float64" }));
        expect(call(...wide)).toBeAllClose(y.to({ dtype: "float64" }), { rtol: 1e-3, atol: 1e-4 });
        const narrow = autocast({}, () => call(...given));
        const plain = composed(() => autocast({}, () => call(...given)));
        expect(narrow.dtype).toBe(plain.dtype);
        expect(narrow.sub(plain).norm().item()).toBeLessThan(0.03 * plain.norm().item() + 1e-3);
      });
  });

  test("gradients under autocast are those in float, but for rounding", () => {
    for (const { call, inputs } of list)
      scope(() => {
        const given = inputs();
        const upstream = randn(composed(() => call(...given)).shape);
        const narrow = gradients((...x) => autocast({}, () => call(...x)).to({ dtype: "float32" }), given, upstream);
        const plain = composed(() => gradients(call, given, upstream));
        for (const [i, g] of narrow.grads.entries()) {
          const expected = plain.grads[i] as Tensor;
          expect(g.dtype).toBe("float32");
          expect(g.sub(expected).norm().item(), `gradient ${i}`).toBeLessThan(0.05 * expected.norm().item() + 1e-3);
        }
      });
  });

  test("is the same every time, and frees what it takes", () => {
    const [{ call, inputs }] = list as [(typeof list)[0]];
    scope(() => {
      const given = inputs();
      const first = gradients(call, given);
      const [tensors, bytes] = [liveTensors(), allocatedBytes()];
      scope(() => {
        const again = gradients(call, given);
        expect(again.y).toBeAllClose(first.y, { rtol: 0, atol: 0 });
        for (const [i, g] of again.grads.entries()) expect(g).toBeAllClose(first.grads[i] as Tensor, { rtol: 0, atol: 0 });
      });
      expect([liveTensors(), allocatedBytes()]).toEqual([tensors, bytes]);
    });
  });
});

test("nothing comes of nothing", () => {
  expect(ops.linear(zeros([0, 4]), randn([3, 4]), randn([3])).shape).toEqual([0, 3]);
  expect(ops.attend(zeros([2, 0, 3]), randn([3, 2, 4])).shape).toEqual([0, 2, 4]);
  expect(ops.glu(zeros([0, 2, 8]), null, []).shape).toEqual([0, 2, 4]);
  expect(ops.bypass(zeros([0, 2, 3]), zeros([0, 2, 3]), randn([3])).shape).toEqual([0, 2, 3]);
});

test("shapes that do not fit are refused by name", () => {
  expect(() => ops.linear(randn([2, 3]), randn([4, 5]))).toThrow(/linear: weight has shape \[4, 5\]/);
  expect(() => ops.conv2d(randn([1, 2, 2, 2]), randn([1, 2, 3, 3]), null, [1, 1], [0, 0])).toThrow(/conv2d: .*smaller than the kernel/);
  expect(() => ops.attentionWeights(randn([3, 2, 4]), randn([3, 2, 4]), randn([3, 2, 2]), null, null, 2)).toThrow(/positions need encodings/);
  expect(() => ops.attend(randn([4, 3, 3]), randn([2, 2, 4]))).toThrow(/attend: weights must be/);
  expect(() => ops.glu(randn([3, 2, 5]), null, [])).toThrow(/glu: x must be/);
  expect(() => ops.glu(randn([3, 2, 4]), null, [1])).toThrow(/glu: balance must be/);
  expect(() => ops.bypass(randn([3, 2, 4]), randn([3, 2, 5]), randn([4]))).toThrow(/bypass: input and output/);
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
