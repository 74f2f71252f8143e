import fc from "fast-check";
import { expect, test } from "vitest";
import { autocast, ones, ops, randn, type Tensor, zeros } from "../../../src/torch/index.ts";
import { everySecond, gradients } from "./helpers.ts";

type Shape = [number, number, number];

/** (B, r, c) in one of the layouts that views leave behind. */
const layouts: Record<string, (shape: Shape) => Tensor> = {
  rows: (shape) => randn(shape),
  columns: ([b, r, c]) => randn([b, c, r]).transpose(1, 2),
  "rows, matrices interleaved": ([b, r, c]) => randn([r, b, c]).transpose(0, 1),
  "columns, matrices interleaved": ([b, r, c]) => randn([c, b, r]).permute([1, 2, 0]),
  "every second": (shape) => everySecond(shape),
  "one for all": ([b, r, c]) => randn([1, r, c]).expand([b, r, c]),
};
const size = fc.integer({ min: 1, max: 9 });
const layout = fc.constantFrom(...Object.keys(layouts));

test("equals libtorch's, values and all gradients, for matrices of every size in every layout, added to another or not", () => {
  fc.assert(
    fc.property(size, size, size, size, layout, layout, layout, fc.boolean(), (b, m, k, n, of, by, to, added) => {
      const inputs = [layouts[of]?.([b, m, k]), layouts[by]?.([b, k, n])] as Tensor[];
      if (added) inputs.push(layouts[to]?.([b, m, n]) as Tensor);
      const gradient = layouts[to]?.([b, m, n]) as Tensor;
      const ours = gradients((x, y, add) => ops.bmm(x as Tensor, y as Tensor, add), inputs, gradient);
      const theirs = gradients((x, y, add) => (add ? (x as Tensor).bmm(y as Tensor).add(add) : (x as Tensor).bmm(y as Tensor)), inputs, gradient);
      expect(ours.y).toBeAllClose(theirs.y, { rtol: 1e-5, atol: 1e-5 });
      ours.grads.forEach((g, i) => expect(g).toBeAllClose(theirs.grads[i] as Tensor, { rtol: 1e-5, atol: 1e-5 }));
    }),
    { numRuns: 200 },
  );
});

test("adds to what has other dimensions, the same elements in the same order", () => {
  const [x, y, add] = [randn([6, 4, 5]), randn([6, 5, 3]), randn([2, 3, 4, 6]).slice(-1, 0, 3)] as [Tensor, Tensor, Tensor];
  const { y: sum, grads } = gradients((a, b, c) => ops.bmm(a as Tensor, b as Tensor, c), [x, y, add]);
  expect(sum).toBeAllClose(x.bmm(y).add(add.reshape([6, 4, 3])), { rtol: 1e-5, atol: 1e-5 });
  expect(grads[2]).toBeAllClose(ones([2, 3, 4, 3]));
});

test("computes in the dtype of autocast, forward and backward", () => {
  const inputs = [randn([3, 4, 5]), randn([3, 5, 6])];
  autocast({}, () => {
    const { y, grads } = gradients((a, b) => ops.bmm(a as Tensor, b as Tensor), inputs);
    expect(y.dtype).toBe("bfloat16");
    expect(grads.map((g) => g.dtype)).toEqual(["float32", "float32"]);
    expect(y.to({ dtype: "float32" })).toBeAllClose((inputs[0] as Tensor).bmm(inputs[1] as Tensor), { rtol: 3e-2, atol: 3e-2 });
  });
  expect(ops.bmm(randn([2, 3, 4], { dtype: "float64" }), randn([2, 4, 5], { dtype: "float64" })).dtype).toBe("float64");
});

test("takes no matrices, and none with elements; refuses shapes that do not fit", () => {
  expect(ops.bmm(zeros([0, 2, 3]), zeros([0, 3, 4])).shape).toEqual([0, 2, 4]);
  expect(ops.bmm(zeros([2, 2, 0]), zeros([2, 0, 3])).toArray()).toEqual(Array(12).fill(0));
  expect(() => ops.bmm(zeros([2, 3, 4]), zeros([2, 3, 4]))).toThrow(/bmm: \[2, 3, 4\] and \[2, 3, 4\] cannot be multiplied/);
  expect(() => ops.bmm(zeros([2, 3, 4]), zeros([2, 4, 5]), zeros([2, 3]))).toThrow(/add of shape \[2, 3\]/);
});
