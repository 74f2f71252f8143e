import { describe, expect, test } from "vitest";
import { grad, ops, randn, type Tensor, zeros } from "../../../src/torch/index.ts";
import { golden } from "../../golden.ts";
import { everySecond, gradients } from "./helpers.ts";

const { tensors, metadata } = golden("modules");

function plainMetric(x: Tensor, groups: number): Tensor {
  const channels = x.size(-1);
  const frames = x.reshape([-1, groups, channels / groups]).transpose(0, 1);
  const centred = frames.sub(frames.mean([1], true));
  const covariance = centred.transpose(1, 2).matmul(centred);
  const mean = covariance.diagonal(0, 1, 2).mean();
  return covariance.square().sum().div(channels).div(mean.square().add(1e-20));
}

describe.each(["whiten.0", "whiten.1", "whiten.2"])("%s", (key) => {
  test("equals the reference: metric, gradient, and whether it was at its limit", () => {
    const s = JSON.parse(metadata[key] as string) as { num_groups: number; whitening_limit: number; grad_scale: number };
    const x = tensors[`${key}.x`] as Tensor;
    const active = zeros([]);
    const metric = (tensors[`${key}.metric`] as Tensor).item();
    expect(ops.whiteningMetric(x, s.num_groups)).toBeAllClose(metric);
    const { y, grads } = gradients((t) => ops.whiten(t, s.num_groups, s.whitening_limit, s.grad_scale, active), [x], tensors[`${key}.y_grad`]);
    expect(y).toBeAllClose(x, { rtol: 0, atol: 0 });
    expect(grads[0]).toBeAllClose(tensors[`${key}.x_grad`]);
    expect(active.item()).toBe(metric >= s.whitening_limit ? 1 : 0);
  });
});

test.each([1, 2, 4])("the closed form equals nested autograd with %i groups", (groups) => {
  for (const x of [randn([31, 8]), everySecond([5, 7, 8]), randn([8, 9, 3]).permute([1, 2, 0]), randn([12, 8], { dtype: "float64" })]) {
    const g = randn(x.shape, { dtype: x.dtype });
    const leaf = x.detach().requiresGrad_(true);
    const extra = grad([plainMetric(leaf, groups)], [leaf])[0] as Tensor;
    const expected = g.add(extra.mul(g.norm().div(extra.norm()).mul(0.1)));
    expect(gradients((t) => ops.whiten(t, groups, 0, 0.1, zeros([])), [x], g).grads[0]).toBeAllClose(expected, { rtol: 1e-3, atol: 1e-4 });
  }
});

test("takes no frames and bfloat16, one state serves many calls, refuses groups that do not divide", () => {
  const active = zeros([]);
  expect((gradients((t) => ops.whiten(t, 2, 1, 0.1, active), [zeros([0, 4])]).grads[0] as Tensor).shape).toEqual([0, 4]);
  expect((gradients((t) => ops.whiten(ops.whiten(t, 1, 0, 0.1, active), 1, 0, 0.1, active), [randn([6, 4]).to({ dtype: "bfloat16" })]).grads[0] as Tensor).dtype).toBe("bfloat16");
  expect(() => ops.whiten(zeros([2, 4]), 3, 1, 0.1, active)).toThrow(/4 channels do not divide into 3 groups/);
});
