import { describe, expect, test } from "vitest";
import { callOperator, randn, type Tensor, tensor, zeros } from "../../../src/torch/index.ts";
import { golden } from "../../golden.ts";
import { gradients } from "./helpers.ts";

const lattice = (px: Tensor, py: Tensor, boundary: readonly number[][], { counts = true, modified = false } = {}): [Tensor, Tensor, Tensor] =>
  callOperator("serac::mutual_information", [px, py, tensor(boundary as number[][], { dtype: "int64" }), counts, modified]) as [Tensor, Tensor, Tensor];

/** The score of one example by enumerating all paths. */
function bySearch(px: number[][], py: number[][], [s0, t0, s1, t1]: readonly [number, number, number, number], modified: boolean): number {
  const total = (s: number, t: number): number => {
    if (s === s1 && t === t1) return 1;
    const next = modified ? t + 1 : t;
    const up = s < s1 && next <= t1 ? Math.exp((px[s] as number[])[t] as number) * total(s + 1, next) : 0;
    return up + (t < t1 ? Math.exp((py[s] as number[])[t] as number) * total(s, t + 1) : 0);
  };
  return Math.log(total(s0, t0));
}
const rows = (x: Tensor, i: number): number[][] => Array.from({ length: x.size(1) }, (_, s) => x.select(0, i).select(0, s).toArray());

test("equals the reference: scores and occupation counts, which are the gradients", () => {
  const { tensors } = golden("rnnt");
  const [px, py] = [tensors["mi.px"] as Tensor, tensors["mi.py"] as Tensor];
  const boundary = [0, 1].map(() => [0, 0, px.size(1), py.size(2)]);
  for (const dtype of ["float32", "float64"] as const) {
    const [scores, pxGrad, pyGrad] = lattice(px.to({ dtype }), py.to({ dtype }), boundary);
    expect(scores).toBeAllClose(tensors["mi.score"]);
    expect(pxGrad).toBeAllClose(tensors["mi.px_grad"]);
    expect(pyGrad).toBeAllClose(tensors["mi.py_grad"]);
  }
  const { grads } = gradients((a, b) => lattice(a as Tensor, b as Tensor, boundary)[0], [px, py], tensor([1, 2]));
  expect(grads[0]?.select(0, 1)).toBeAllClose((tensors["mi.px_grad"] as Tensor).select(0, 1).mul(2));
  expect(grads[1]?.select(0, 0)).toBeAllClose((tensors["mi.py_grad"] as Tensor).select(0, 0));
});

describe.each([false, true])("modified: %s", (modified) => {
  const [symbols, frames] = [3, 5];
  const px = randn([3, symbols, frames + (modified ? 0 : 1)], { dtype: "float64" });
  const py = randn([3, symbols + 1, frames], { dtype: "float64" });
  const boundary: [number, number, number, number][] = [
    [0, 0, 3, 5],
    [1, 1, 3, 5],
    [0, 2, 0, 4],
  ];

  test("the score is the sum over all paths", () => {
    const [scores] = lattice(px, py, boundary, { modified });
    expect(scores).toBeAllClose(boundary.map((b, i) => bySearch(rows(px, i), rows(py, i), b, modified)));
  });

  test("the gradient is the slope", () => {
    const { grads } = gradients((a, b) => lattice(a as Tensor, b as Tensor, boundary, { modified })[0], [px, py]);
    for (const [which, x] of [px, py].entries())
      for (const at of [
        [0, 0, 1],
        [1, 2, 3],
        [2, 0, 2],
      ] as const) {
        const step = zeros(x.shape, { dtype: "float64" });
        step.select(0, at[0]).select(0, at[1]).select(0, at[2]).add_(1e-5);
        const score = (sign: number): number =>
          lattice(which === 0 ? px.add(step.mul(sign)) : px, which === 1 ? py.add(step.mul(sign)) : py, boundary, { modified })[0]
            .sum()
            .item();
        expect((score(1) - score(-1)) / 2e-5).toBeCloseTo((grads[which] as Tensor).select(0, at[0]).select(0, at[1]).select(0, at[2]).item(), 5);
      }
  });
});

test("a path that does not exist has the score -inf and finite counts", () => {
  const [score, pxGrad] = lattice(zeros([1, 2, 4]).sub(Number.POSITIVE_INFINITY), zeros([1, 3, 3]), [[0, 0, 2, 3]]);
  expect(score.item()).toBe(Number.NEGATIVE_INFINITY);
  expect(pxGrad).toBeAllClose(Array(8).fill(0));
});

test("takes layouts with gaps, no symbols, no examples", () => {
  const [wide, py] = [randn([2, 6, 3]), randn([2, 4, 5])];
  const px = wide.transpose(1, 2);
  expect(
    lattice(px, py, [
      [0, 0, 3, 5],
      [0, 0, 2, 5],
    ])[0],
  ).toBeAllClose(
    lattice(px.contiguous(), py, [
      [0, 0, 3, 5],
      [0, 0, 2, 5],
    ])[0],
  );
  expect(lattice(zeros([1, 0, 4]), tensor([[[-1, -2, -3]]]), [[0, 0, 0, 3]])[0].item()).toBeCloseTo(-6);
});

test("refuses boundaries outside of the tensors, and shapes that do not fit", () => {
  const [px, py] = [zeros([1, 4, 6]), zeros([1, 5, 5])];
  for (const bad of [
    [0, 0, 4, 6],
    [0, 0, 5, 5],
    [-1, 0, 4, 5],
    [0, 3, 4, 2],
    [2, 0, 1, 5],
  ])
    expect(() => lattice(px, py, [bad])).toThrow(/mutual_information: boundary 0 is .* outside of 4 symbols and 5 frames/);
  expect(() => lattice(px, zeros([1, 4, 5]), [[0, 0, 4, 5]])).toThrow(/py must be/);
  expect(() => lattice(px, py.to({ dtype: "float64" }), [[0, 0, 4, 5]])).toThrow(/both be float or both double/);
});
