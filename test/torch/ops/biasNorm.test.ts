import { expect, test } from "vitest";
import { autocast, ops, randn, type Tensor, tensor, zeros } from "../../../src/torch/index.ts";
import { golden } from "../../golden.ts";
import { everySecond, gradients } from "./helpers.ts";

const { tensors } = golden("modules");
const of = (key: string): Tensor => tensors[`bias_norm.${key}`] as Tensor;
const plain = (x: Tensor, bias: Tensor, logScale: Tensor): Tensor => x.mul(x.sub(bias).square().mean([-1], true).pow(-0.5)).mul(logScale.exp());

test("equals the reference, values and all gradients", () => {
  const { y, grads } = gradients((x, bias, scale) => ops.biasNorm(x, bias, scale), [of("x"), of("bias"), of("log_scale")], of("y_grad"));
  expect(y).toBeAllClose(of("y"));
  expect(grads[0]).toBeAllClose(of("x_grad"));
  expect(grads[1]).toBeAllClose(of("bias_grad"));
  expect(grads[2]).toBeAllClose(of("log_scale_grad"));
});

test("equals the reference with the channels in the middle", () => {
  const { y, grads } = gradients((x, bias, scale) => ops.biasNorm(x, bias, scale, 1), [of("x").movedim(-1, 1), of("bias"), of("log_scale")], of("y_grad").movedim(-1, 1));
  expect(y.movedim(1, -1).contiguous()).toBeAllClose(of("y"));
  expect((grads[0] as Tensor).movedim(1, -1).contiguous()).toBeAllClose(of("x_grad"));
  expect(grads[1]).toBeAllClose(of("bias_grad"));
});

test.each([1, 3, 17, 33, 192])("equals the plain composition with %i channels, in every layout", (channels) => {
  const inputs = [randn([5, 3, channels]), everySecond([5, 3, channels]), randn([5, channels, 3]).transpose(1, 2), randn([5, 3, channels], { dtype: "float64" })];
  for (const x of inputs) {
    const parameters = [randn([channels], { dtype: x.dtype }).mul(0.3), tensor(0.4, { dtype: x.dtype })] as [Tensor, Tensor];
    const gradient = randn([5, 3, channels], { dtype: x.dtype });
    const [ours, theirs] = [
      gradients((...a) => ops.biasNorm(...(a as [Tensor, Tensor, Tensor])), [x, ...parameters], gradient),
      gradients(plain as (...a: Tensor[]) => Tensor, [x, ...parameters], gradient),
    ];
    expect(ours.y).toBeAllClose(theirs.y);
    for (let i = 0; i < 3; i++) expect(ours.grads[i]).toBeAllClose(theirs.grads[i], { rtol: 1e-3, atol: 1e-3 });
  }
});

test("keeps the dtype of x under autocast, takes no frames, refuses other numbers of channels", () => {
  autocast({}, () => expect(ops.biasNorm(randn([2, 4]).to({ dtype: "bfloat16" }), zeros([4]), zeros([])).dtype).toBe("bfloat16"));
  expect(gradients((x, b, s) => ops.biasNorm(x, b, s), [zeros([0, 4]), zeros([4]), zeros([])]).grads.map((g) => g.toArray())).toEqual([[], [0, 0, 0, 0], [0]]);
  expect(() => ops.biasNorm(zeros([2, 4]), zeros([3]), zeros([]))).toThrow(/bias_norm: bias has shape \[3\], x has 4 channels/);
});
