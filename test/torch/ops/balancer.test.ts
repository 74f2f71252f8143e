import { describe, expect, test } from "vitest";
import { grad, ops, randn, type Tensor, zeros } from "../../../src/torch/index.ts";
import { golden } from "../../golden.ts";
import { everySecond, gradients } from "./helpers.ts";

const { tensors, metadata } = golden("modules");

interface Range {
  minMean: number;
  maxMean: number;
  minRms: number;
  maxRms: number;
  gradScale: number;
}

const balance =
  (r: Range, dim: number) =>
  (x: Tensor): Tensor =>
    ops.balancer(x, r.minMean, r.maxMean, r.minRms, r.maxRms, r.gradScale, dim);

/** The added gradient by nested autograd, as the reference takes it. */
function plainGradient(x: Tensor, upstream: Tensor, r: Range, dim: number): Tensor {
  const leaf = x.detach().requiresGrad_(true);
  const others = x.shape.map((_, i) => i).filter((i) => i !== (dim + x.dim) % x.dim);
  const [mean, square] = [leaf.mean(others, true), leaf.square().mean(others, true)];
  const [ratio, rms] = [mean.div(square.sub(mean.square()).clamp(1e-20).sqrt()), square.clamp(1e-20).sqrt()];
  const loss = ratio.sub(ratio.clamp(r.minMean, r.maxMean)).abs().add(rms.clamp(r.minRms, r.maxRms).div(rms).log().abs());
  const d = grad([loss.sum()], [leaf])[0] as Tensor;
  const scaled = d.mul(d.square().mean(others, true).sqrt().clamp(1e-20).pow(-1).mul(r.gradScale));
  return upstream.add(upstream.abs().mul(scaled));
}

describe.each(Object.keys(metadata).filter((key) => key.startsWith("balancer.")))("%s", (key) => {
  const s = JSON.parse(metadata[key] as string) as Record<string, number> & { channel_dim: number };
  const [lo, hi, minAbs, maxAbs, gradScale] = ["min_positive", "max_positive", "min_abs", "max_abs", "grad_scale"].map((k) => s[k] as number) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const mean = (p: number): number => (0.8139535143 * (Math.log(2 * p + 1e-10) - Math.log(2 - 2 * p + 1e-10))) / 2;
  const range = { minMean: mean(lo), maxMean: mean(hi), minRms: 1.25331413732 * minAbs, maxRms: 1.25331413732 * maxAbs, gradScale };

  test("gives the reference's gradient, in every layout and in double", () => {
    const x = tensors[`${key}.x`] as Tensor;
    const g = tensors[`${key}.y_grad`] as Tensor;
    for (const input of [x, x.transpose(0, 2).contiguous().transpose(0, 2)]) {
      const { y, grads } = gradients(balance(range, s.channel_dim), [input], g);
      expect(y).toBeAllClose(x, { rtol: 0, atol: 0 });
      expect(grads[0]).toBeAllClose(tensors[`${key}.x_grad`]);
    }
    const wide = (t: Tensor): Tensor => t.to({ dtype: "float64" });
    expect(gradients(balance(range, s.channel_dim), [wide(x)], wide(g)).grads[0]).toBeAllClose(tensors[`${key}.x_grad`]);
  });
});

const range: Range = { minMean: -0.1, maxMean: 0.1, minRms: 0.5, maxRms: 0.9, gradScale: 0.04 };

test("equals nested autograd on odd sizes and layouts", () => {
  const cases: [Tensor, number][] = [
    [randn([13, 5]), 1],
    [everySecond([4, 7, 19]), 1],
    [randn([2, 3, 5, 19]), 1],
    [randn([2, 5, 19, 33]).permute([0, 3, 1, 2]), 1],
    [randn([3, 17]), 0],
    [randn([40, 1]), 1],
  ];
  for (const [x, dim] of cases) {
    const g = randn(x.shape);
    expect(gradients(balance(range, dim), [x], g).grads[0]).toBeAllClose(plainGradient(x, g, range, dim), { rtol: 1e-3, atol: 1e-4 });
  }
});

test("a channel far from 0 keeps its variance", () => {
  const x = randn([500, 3]).mul(0.01).add(30);
  const g = randn([500, 3]);
  const exact = plainGradient(x.to({ dtype: "float64" }), g.to({ dtype: "float64" }), range, 1);
  expect(gradients(balance(range, 1), [x], g).grads[0]).toBeAllClose(exact, { rtol: 1e-2, atol: 1e-3 });
});

test("takes no frames and bfloat16, and its result may be changed in place where x is not needed", () => {
  expect((gradients(balance(range, -1), [zeros([0, 4])]).grads[0] as Tensor).shape).toEqual([0, 4]);
  expect((gradients(balance(range, -1), [randn([6, 4]).to({ dtype: "bfloat16" })]).grads[0] as Tensor).dtype).toBe("bfloat16");
  const x = randn([4, 3]).requiresGrad_(true);
  const y = balance(range, -1)(x);
  y.add_(1);
  expect(() => y.sum().backward()).toThrow(/inplace/); // x has changed with y: refused rather than a wrong gradient
});

test("refuses ranges and dimensions that make no sense", () => {
  expect(() => balance(range, 2)(zeros([2, 4]))).toThrow(/balancer: dimension 2 does not exist/);
  expect(() => balance({ ...range, minRms: 2 }, 1)(zeros([2, 4]))).toThrow(/min_rms 2 is above max_rms 0.9/);
});
