import { expect, test } from "vitest";
import {
  ActivationDropoutAndLinear,
  Balancer,
  BiasNorm,
  Bypass,
  Dropout,
  Linear,
  type Module,
  paddingMask,
  SharedDropout,
  SwooshL,
  SwooshR,
  utteranceMask,
  Whiten,
} from "../../src/nn/index.ts";
import { fromTypedArray, Generator, grad, noGrad, ones, ops, type Tensor, tensor } from "../../src/torch/index.ts";
import { Random } from "../../src/util/random.ts";
import { golden, wave } from "../golden.ts";

const generator = () => new Generator(1);
const waves = (shape: readonly number[], options?: { scale?: number; phase?: number }): Tensor => fromTypedArray(Float32Array.from(wave(shape, options)), shape);
const train = <M extends Module>(module: M, random: Random = new Random(1)): M => module.train({ random, generator: generator() });
/** Every draw is below any probability. */
class AlwaysRandom extends Random {
  override uniform(): number {
    return 0;
  }
}
const set = (parameter: Tensor, value: Tensor): void => noGrad(() => void parameter.copy_(value));

test("SwooshL and SwooshR have the printed values", () => {
  const x = tensor([-5, -1, 0, 1, 2, 4, 10, 100]);
  expect(new SwooshL().forward(x)).toBeAllClose([0.3651234, 0.0517153, -0.0168501, -0.0664126, -0.068072, 0.3381472, 5.1674757, 87.9649963]);
  expect(new SwooshR().forward(x)).toBeAllClose([0.089214, -0.1063337, 0, 0.2998855, 0.84, 2.4153256, 7.8868613, 90.6867371], { atol: 1e-6 });
});

test("SwooshL and SwooshR have the printed derivatives", () => {
  const of = (f: (x: Tensor) => Tensor): Tensor => {
    const x = tensor([-5, -1, 0, 1, 2, 4, 10, 100]).requiresGrad_(true);
    return grad([f(x).sum()], [x])[0] as Tensor;
  };
  expect(of(ops.swooshLExact)).toBeAllClose([-0.0798766, -0.0733072, -0.0620137, -0.0325741, 0.039203, 0.42, 0.9175274, 0.92]);
  expect(of(ops.swooshRExact)).toBeAllClose([-0.0775274, 0.039203, 0.1889414, 0.42, 0.6510586, 0.8725742, 0.9198766, 0.92]);
});

test("Balancer has the printed gradient", () => {
  const balancer = train(new Balancer({ channelDim: -1, minPositive: 0.45, maxPositive: 0.55, minAbs: 0.2, maxAbs: 1, prob: 1 }));
  const x = waves([6, 3], { scale: 2 }).requiresGrad_(true);
  const [dx] = grad([balancer.forward(x)], [x], { gradOutputs: [waves([6, 3], { phase: 2 })] }) as [Tensor];
  expect(dx.sum().item()).toBeAllClose(-1.891728);
  expect(dx.abs().sum().item()).toBeAllClose(12.201256);
  expect(dx.select(0, 0)).toBeAllClose([0.3163611, -0.3693733, -0.9166029]);
});

test("Whiten has the printed metric and gradient", () => {
  const x = waves([10, 4], { scale: 2 }).requiresGrad_(true);
  expect(ops.whiteningMetric(x, 1).item()).toBeAllClose(2.2531447);
  expect(ops.whiteningMetric(x, 2).item()).toBeAllClose(1.6411211);
  const whiten = train(new Whiten({ groups: 2, limit: 1, gradScale: 0.01, prob: [1, 1] }));
  const upstream = waves([10, 4], { phase: 2 });
  const [dx] = grad([whiten.forward(x)], [x], { gradOutputs: [upstream] }) as [Tensor];
  expect(upstream.norm().item()).toBeAllClose(5.1000838);
  expect(dx.sub(upstream).norm().item()).toBeAllClose(0.0510008);
  expect(dx.select(0, 0).slice(0, 0, 2)).toBeAllClose([0.307897, -0.389311]);
});

test("BiasNorm: values and gradients as printed", () => {
  const norm = train(new BiasNorm({ channels: 4, logScale: 0.3, generator: generator() }));
  set(norm.bias, waves([4], { scale: 0.1 }));
  const x = waves([2, 4]).requiresGrad_(true);
  const y = norm.forward(x);
  expect(y).toBeAllClose([1.3680494, 1.861913, 1.6824135, 0.9106716, -0.1446672, -1.3138454, -1.6129218, -0.9339723]);
  const [dx, dBias, dScale] = grad([y], [x, norm.bias, norm.logScale], { gradOutputs: [waves([2, 4], { phase: 1 })] }) as [Tensor, Tensor, Tensor];
  expect(dx.select(0, 0)).toBeAllClose([0.9474335, 0.215001, -0.6340097, -1.2112027]);
  expect(dBias).toBeAllClose([0.5451884, 0.1859583, -0.0439106, -0.0540935]);
  expect(dScale).toBeAllClose([4.607037]);
});

test("Balancer equals the reference for both places of the channels", () => {
  const { tensors, metadata } = golden("modules");
  for (const [name, text] of Object.entries(metadata)) {
    if (!name.startsWith("balancer.")) continue;
    const s = JSON.parse(text) as Record<string, number>;
    const balancer = train(
      new Balancer({
        channelDim: s.channel_dim as number,
        minPositive: s.min_positive,
        maxPositive: s.max_positive,
        minAbs: s.min_abs,
        maxAbs: s.max_abs,
        gradScale: s.grad_scale,
        prob: 1,
      }),
    );
    const x = (tensors[`${name}.x`] as Tensor).requiresGrad_(true);
    const y = balancer.forward(x);
    expect(y).toBeAllClose(x, { rtol: 0, atol: 0 });
    const [dx] = grad([y], [x], { gradOutputs: [tensors[`${name}.y_grad`] as Tensor] });
    expect(dx, name).toBeAllClose(tensors[`${name}.x_grad`]);
  }
});

test("Balancer is applied at its probability, and never in evaluation", () => {
  const balancer = train(new Balancer({ channelDim: -1, prob: 0.3 }));
  let count = 0;
  for (let i = 0; i < 4000; i++) if (balancer.decide()) count++;
  expect(Math.abs(count / 4000 - 0.3)).toBeLessThan(0.04); // 5.5 standard deviations
  expect(balancer.eval().decide()).toBe(false);
});

test("Whiten equals the reference", () => {
  const { tensors, metadata } = golden("modules");
  for (const name of ["whiten.0", "whiten.1", "whiten.2"]) {
    const s = JSON.parse(metadata[name] as string) as { num_groups: number; whitening_limit: number; grad_scale: number };
    const whiten = train(new Whiten({ groups: s.num_groups, limit: s.whitening_limit, gradScale: s.grad_scale, prob: [1, 1] }));
    const x = (tensors[`${name}.x`] as Tensor).requiresGrad_(true);
    const [dx] = grad([whiten.forward(x)], [x], { gradOutputs: [tensors[`${name}.y_grad`] as Tensor] });
    expect(dx, name).toBeAllClose(tensors[`${name}.x_grad`]);
  }
});

test("Whiten looks seldom at what is white, and often at what is not", () => {
  const x = waves([40, 4], { scale: 2 }).requiresGrad_(true);
  for (const [limit, expected] of [
    [1.2, 0.25],
    [100, 0.025],
  ] as const) {
    // prettier-ignore
    const random = new Random(3);
    let drawn: number | undefined;
    let applied = 0;
    let draws = 0;
    const whiten = train(new Whiten({ groups: 1, limit, gradScale: 0.01 }), random);
    random.uniform = () => (drawn = Random.prototype.uniform.call(random));
    for (let i = 0; i < 400; i++) {
      const y = whiten.forward(x);
      if (drawn !== undefined) draws++;
      if (y === x) continue;
      applied++;
      grad([y.sum()], [x]);
    }
    expect(draws).toBe(400);
    expect(Math.abs(applied / 400 - expected)).toBeLessThan(5.5 * Math.sqrt((expected * (1 - expected)) / 400));
  }
});

test("ActivationDropoutAndLinear equals the reference", () => {
  const { tensors: t } = golden("modules");
  const module = train(new ActivationDropoutAndLinear({ inFeatures: 20, outFeatures: 12, activation: "SwooshR", initialScale: 1, generator: generator() }));
  set(module.weight, t["act_linear.weight"] as Tensor);
  set(module.bias, t["act_linear.bias"] as Tensor);
  const x = (t["act_linear.x"] as Tensor).requiresGrad_(true);
  const y = module.forward(x);
  expect(y).toBeAllClose(t["act_linear.y"]);
  const [dx, dw, db] = grad([y], [x, module.weight, module.bias], { gradOutputs: [t["act_linear.y_grad"] as Tensor] });
  expect(dx).toBeAllClose(t["act_linear.x_grad"]);
  expect(dw).toBeAllClose(t["act_linear.weight_grad"]);
  expect(db).toBeAllClose(t["act_linear.bias_grad"]);
});

test("dropout drops at its rate, keeps the mean, and shares its mask where told", () => {
  const x = ones([20, 50, 10]);
  const y = train(new Dropout({ p: 0.25 }))
    .forward(x)
    .toArray();
  expect(new Set(y.map((v) => v.toFixed(4)))).toEqual(new Set(["0.0000", "1.3333"]));
  expect(Math.abs(y.filter((v) => v === 0).length / y.length - 0.25)).toBeLessThan(0.025);
  const shared = train(new SharedDropout({ p: 0.25, sharedDim: 0 })).forward(x);
  for (let i = 1; i < 20; i++) expect(shared.select(0, i)).toBeAllClose(shared.select(0, 0), { rtol: 0, atol: 0 });
  expect(Math.abs(shared.mean().item() - 1)).toBeLessThan(0.15);
  expect(new Dropout({ p: 0.5 }).forward(x)).toBe(x);
});

test("bypass mixes per channel, and skips whole utterances", () => {
  const bypass = new Bypass({ channels: 3, skipRate: 0.5, generator: generator() });
  set(bypass.scale, tensor([0, 0.25, 1]));
  const input = waves([4, 2, 3]);
  const output = waves([4, 2, 3], { phase: 1 });
  expect(bypass.forward(input, output)).toBeAllClose(input.add(output.sub(input).mul(tensor([0, 0.25, 1]))));
  train(bypass, new AlwaysRandom(1));
  expect(bypass.forward(input, output)).toBeAllClose(input);
});

test("utterance masks drop at their rate; a batch that loses nothing has none", () => {
  const random = new Random(5);
  let dropped = 0;
  for (let i = 0; i < 1000; i++)
    dropped +=
      8 -
      (utteranceMask(random, 8, 0.2, [1, 8, 1], ones([1]))
        ?.sum()
        .item() ?? 8);
  expect(Math.abs(dropped / 8000 - 0.2)).toBeLessThan(0.025);
  expect(utteranceMask(random, 8, 0, [8, 1], ones([1]))).toBeNull();
});

test("padding masks mark what is beyond an utterance", () => {
  expect(paddingMask([2, 3], 4)?.toArray()).toEqual([0, 0, 1, 1, 0, 0, 0, 1]);
  expect(paddingMask([4, 4], 4)).toBeNull();
});

test("initial weights are PyTorch's in spread, and smaller where scaled", () => {
  const plain = new Linear({ inFeatures: 100, outFeatures: 200, generator: generator() });
  expect(plain.weight.abs().max().item()).toBeLessThanOrEqual(0.1);
  expect(plain.weight.square().mean().sqrt().item()).toBeCloseTo(0.1 / Math.sqrt(3), 2);
  const scaled = new Linear({ inFeatures: 100, outFeatures: 200, initialScale: 0.05, generator: generator() });
  expect(scaled.weight).toBeAllClose(plain.weight.mul(0.05));
  expect(scaled.bias?.abs().max().item()).toBeLessThanOrEqual(0.005);
});

test("a wrong number of channels is named", () => {
  expect(() => new Linear({ inFeatures: 5, outFeatures: 9, generator: generator() }).forward(ones([2, 4]))).toThrow(/SHAPE_MISMATCH/);
  expect(() => new BiasNorm({ channels: 5, generator: generator() }).forward(ones([2, 4]))).toThrow(/expected 5 channels/);
});
