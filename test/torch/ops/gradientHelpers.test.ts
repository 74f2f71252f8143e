import { expect, test } from "vitest";
import { ops, randn, type Tensor, tensor, zeros } from "../../../src/torch/index.ts";
import { golden } from "../../golden.ts";
import { gradients } from "./helpers.ts";

const { tensors, metadata } = golden("extras");
const settings = (key: string): Record<string, number> => JSON.parse(metadata[key] as string) as Record<string, number>;
const of = (key: string): Tensor => tensors[key] as Tensor;

test("penalizeAbsValuesGt adds to the gradient what the reference adds", () => {
  const { limit, penalty } = settings("penalize") as { limit: number; penalty: number };
  const { y, grads } = gradients((x) => ops.penalizeAbsValuesGt(x, limit, penalty), [of("penalize.x")], of("penalize.y_grad"));
  expect(y).toBeAllClose(of("penalize.x"), { rtol: 0, atol: 0 });
  expect(grads[0]).toBeAllClose(of("penalize.x_grad"));
  expect(() => ops.penalizeAbsValuesGt(randn([2]), -1, 1)).toThrow(/negative/);
});

test("limitParamValue turns around the gradients that the reference turns around", () => {
  const { min, max } = settings("limit") as { min: number; max: number };
  const { grads } = gradients((x) => ops.limitParamValue(x, min, max), [of("limit.x")], of("limit.y_grad"));
  expect(grads[0]).toBeAllClose(of("limit.x_grad"));
  expect(() => ops.limitParamValue(randn([2]), 2, 1)).toThrow(/above/);
});

test("scaleGrad scales the gradient, and its result may be changed in place", () => {
  const { grads } = gradients((x) => ops.scaleGrad(x, 0.2), [of("scale_grad.x")], of("scale_grad.y_grad"));
  expect(grads[0]).toBeAllClose(of("scale_grad.x_grad"));
  expect(gradients((x) => ops.scaleGrad(x, 0.5).mul_(3), [tensor([1, 2])]).grads[0]).toBeAllClose([1.5, 1.5]);
});

test("withLoss passes x on and gives every element of the loss a gradient of 1", () => {
  const { y, grads } = gradients(ops.withLoss, [tensor([1, 2]), zeros([2, 3])], tensor([5, 7]));
  expect(y).toBeAllClose([1, 2]);
  expect(grads[0]).toBeAllClose([5, 7]);
  expect(grads[1]).toBeAllClose(Array(6).fill(1));
});

test("softmax has the reference's values and gradients", () => {
  const { y, grads } = gradients((x) => ops.softmax(x, -1), [of("softmax.x")], of("softmax.y_grad"));
  expect(y).toBeAllClose(of("softmax.y"));
  expect(grads[0]).toBeAllClose(of("softmax.x_grad"));
  expect(() => ops.softmax(randn([2, 3]), 2)).toThrow(/softmax: dimension 2 does not exist/);
});
