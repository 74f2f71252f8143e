import { describe, expect, test } from "vitest";
import { autocast, Generator, noGrad, ops, randn, type Tensor, tensor, zeros } from "../../../src/torch/index.ts";
import { golden } from "../../golden.ts";
import { everySecond, gradients } from "./helpers.ts";

const { tensors } = golden("modules");
const x = tensors["swoosh.x"] as Tensor;
const kinds = [
  { name: "L", key: "swoosh_l", random: ops.swooshL, exact: ops.swooshLExact, shift: 4, offset: 0.035 },
  { name: "R", key: "swoosh_r", random: ops.swooshR, exact: ops.swooshRExact, shift: 1, offset: 0.313261687 },
];

describe.each(kinds)("Swoosh$name", ({ key, random, exact, shift, offset }) => {
  const plain = (t: Tensor): Tensor =>
    t
      .sub(shift)
      .logaddexp(zeros([], { dtype: t.dtype }))
      .sub(t.mul(0.08))
      .sub(offset);

  test("has the reference's values and derivatives", () => {
    const { y, grads } = gradients(exact, [x]);
    expect(y).toBeAllClose(tensors[`${key}.y`]);
    expect(grads[0]).toBeAllClose(tensors[`${key}.deriv`]);
    expect(noGrad(() => random(x))).toBeAllClose(tensors[`${key}.y`]);
  });

  test("equals the plain composition far from 0, in double and on odd layouts", () => {
    for (const t of [tensor([-1000, -90, -20, 0, 20, 90, 1000]), randn([7, 11], { dtype: "float64" }), everySecond([3, 5, 9]), randn([3, 4, 5]).transpose(0, 2)]) {
      const [ours, theirs] = [gradients(exact, [t]), gradients(plain, [t])];
      expect(ours.y).toBeAllClose(theirs.y);
      expect(ours.grads[0]).toBeAllClose(theirs.grads[0]);
    }
  });

  test("the random derivative is within one step of the exact one and right on average", () => {
    const many = x.flatten().slice(0, 0, 64).unsqueeze(0).expand([5000, 64]).contiguous();
    const { y, grads } = gradients((t) => random(t, new Generator(7)), [many]);
    const expected = (tensors[`${key}.deriv`] as Tensor).flatten().slice(0, 0, 64);
    expect(y.select(0, 17)).toBeAllClose((tensors[`${key}.y`] as Tensor).flatten().slice(0, 0, 64));
    expect((grads[0] as Tensor).sub(expected).abs().max().item()).toBeLessThan(1.006 / 255);
    expect((grads[0] as Tensor).mean([0])).toBeAllClose(expected, { rtol: 0, atol: 3e-4 });
    expect((grads[0] as Tensor).std([0]).max().item()).toBeGreaterThan(1e-3);
  });

  test("one seed gives one derivative, another seed another", () => {
    const of = (seed: number): number[] => (gradients((t) => random(t, new Generator(seed)), [x]).grads[0] as Tensor).toArray();
    expect(of(3)).toEqual(of(3));
    expect(of(3)).not.toEqual(of(4));
  });

  test("keeps bfloat16, with and without autocast", () => {
    const narrow = x.to({ dtype: "bfloat16" });
    for (const run of [(f: () => void) => f(), (f: () => void) => autocast({}, f)])
      run(() => {
        const { y, grads } = gradients(exact, [narrow]);
        expect([y.dtype, grads[0]?.dtype, random(narrow).dtype, exact(x).dtype]).toEqual(["bfloat16", "bfloat16", "bfloat16", "float32"]);
        expect(y).toBeAllClose(tensors[`${key}.y`], { rtol: 1e-2, atol: 1e-2 });
      });
  });

  test("takes no frames, refuses integers", () => {
    expect((gradients((x) => random(x), [zeros([0, 3])]).grads[0] as Tensor).shape).toEqual([0, 3]);
    expect(() => random(zeros([2], { dtype: "int64" }))).toThrow(/floating-point/);
  });
});
