import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Eden, type OptimizerState, ScaledAdam } from "../../src/optim/index.ts";
import { fromTypedArray, full, Generator, liveTensors, randn, scope, type Tensor, tensor, zeros } from "../../src/torch/index.ts";
import { golden, wave } from "../golden.ts";

const leaf = (shape: number[], settings: object) => fromTypedArray(wave(shape, settings), shape).to({ dtype: "float32" }).requiresGrad_(true);

/** The five parameters of the printed golden values, and their gradients at update i (from 1). */
function toy(): { named: [string, Tensor][]; setGradients: (i: number) => void } {
  const named: [string, Tensor][] = [
    ["a", leaf([3, 4], { scale: 0.5 })],
    ["b", leaf([3, 4], { scale: 0.2, phase: 1 })],
    ["c", leaf([5], { scale: 0.3 })],
    ["s", tensor(0.7, { requiresGrad: true })],
    ["t", tensor([1.5], { requiresGrad: true })],
  ];
  const setGradients = (i: number): void => {
    named.forEach(([, p], k) => {
      const scale = 0.1 * (k + 1) * (i === 14 || i === 22 ? 50 : 1);
      p.grad = fromTypedArray(wave(p.shape, { scale, phase: 0.3 * i + k }), p.shape).to({ dtype: "float32" });
    });
  };
  return { named, setGradients };
}

describe("ScaledAdam", () => {
  test.each([true, false])("follows the reference over 25 updates of parameters of several shapes, fused: %s", (fused) => {
    const { named, setGradients } = toy();
    const lines: string[] = [];
    const optimizer = new ScaledAdam(named, { lr: 0.045, fused, log: (line) => lines.push(line) });
    const schedule = new Eden(optimizer, { lrBatches: 7500, lrEpochs: 3.5, warmupStart: 0.1 });
    schedule.stepEpoch(0);
    const sums: Record<number, number[]> = {
      1: [2.4161273, 0.2744193, 1.1863652, 0.7000458, 1.5000458],
      5: [2.4112487, 0.2763024, 1.1942466, 0.7006238, 1.5004336],
      11: [2.4239673, 0.2854418, 1.2032304, 0.701447, 1.4997131],
      15: [2.4451202, 0.2886836, 1.1946516, 0.7006999, 1.4983805],
      25: [2.4335784, 0.2803792, 1.1879387, 0.6998077, 1.4991094],
    };
    const rates: Record<number, number> = { 1: 0.004581, 11: 0.005391, 25: 0.00652498 };
    for (let i = 1; i <= 25; i++) {
      setGradients(i);
      schedule.stepBatch(i);
      optimizer.step();
      if (i in rates) expect(optimizer.lr).toBeCloseTo(rates[i] as number, 7);
      if (i in sums) expect(named.map(([, p]) => p.sum().item())).toBeAllClose(sums[i], { rtol: 1e-6, atol: 2e-6 });
    }
    const thresholds = [...optimizer.stateDict().state.values()].map((entry) => entry.model_norm_threshold).filter((t) => t !== undefined);
    expect(thresholds).toBeAllClose([0.8313866], { rtol: 1e-5 });
    expect(lines[0]).toMatch(/^Clipping_scale=2\.0, grad-norm quartiles 1.967e-01 1.996e-01 2.050e-01 2.106e-01 2.149e-01, threshold=8.199e-01, percent-clipped=0.0$/);
    expect(lines.some((line) => line.startsWith("Scaling gradients by"))).toBe(true);
  });

  test.each([true, false])("follows the reference over 60 updates, one with an outlier, fused: %s", (fused) => {
    const { tensors: g, metadata } = golden("scaled_adam");
    const lrs = JSON.parse(metadata.lrs as string) as number[];
    const names = ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias", "scalar"];
    const named = names.map((name): [string, Tensor] => [name, (g[`param.0.${name}`] as Tensor).clone().requiresGrad_(true)]);
    const optimizer = new ScaledAdam(named, { lr: 0.045, clippingUpdatePeriod: 10, fused });
    const schedule = new Eden(optimizer, { lrBatches: 20, lrEpochs: 2, warmupBatches: 10 });
    let compared = 0;
    for (let i = 0; i < 60; i++) {
      if (i % 20 === 0) schedule.stepEpoch(i / 20);
      schedule.stepBatch(i);
      expect(optimizer.lr).toBeCloseTo(lrs[i] as number, 12);
      for (const [name, p] of named) p.grad = g[`grad.${i + 1}.${name}`] as Tensor;
      optimizer.step();
      for (const [name, p] of named) {
        const expected = g[`param.${i + 1}.${name}`];
        if (!expected) continue;
        expect(p, `${name} after update ${i + 1}`).toBeAllClose(expected, { rtol: 1e-5, atol: 2e-6 });
        compared++;
      }
    }
    expect(compared).toBeGreaterThan(40);
  });

  test.each(["float32", "float64"] as const)("is the same fused and composed, for %s parameters of many sizes and gradients with strides", (dtype) => {
    const shapes = [[3, 5, 7], [3, 5, 7], [20_000], [33, 501], [1], [], [0, 3]];
    const models = [true, false].map((fused) => {
      const generator = new Generator(1);
      const parameters = shapes.map((shape) => randn(shape, { generator, dtype }).requiresGrad_(true));
      const optimizer = new ScaledAdam(
        parameters.map((p, i): [string, Tensor] => [`${i}`, p]),
        { lr: 0.05, clippingUpdatePeriod: 4, fused },
      );
      return { generator, parameters, optimizer };
    });
    for (let step = 0; step < 12; step++) {
      for (const { generator, parameters, optimizer } of models) {
        for (const p of parameters) {
          const g = randn([...p.shape].reverse(), { generator, dtype }).mul(step === 9 ? Number.NaN : 0.3);
          p.grad = p.shape.length > 1 ? g.permute(p.shape.map((_, i) => p.shape.length - 1 - i)) : g;
        }
        optimizer.step();
      }
      const [a, b] = models.map(({ parameters }) => parameters) as [Tensor[], Tensor[]];
      a.forEach((p, i) => expect(p, `parameter ${i}, step ${step}`).toBeAllClose(b[i] as Tensor, dtype === "float64" ? { rtol: 1e-9, atol: 1e-12 } : { rtol: 1e-4, atol: 1e-5 }));
    }
  });

  test("goes on from its saved state as if it had not stopped", () => {
    const one = toy();
    const first = new ScaledAdam(one.named, { lr: 0.01 });
    const run = (optimizer: ScaledAdam, setGradients: (i: number) => void, from: number, to: number): void => {
      for (let i = from; i <= to; i++) {
        setGradients(i);
        optimizer.step();
      }
    };
    run(first, one.setGradients, 1, 13);
    const saved: OptimizerState = structuredState(first.stateDict());
    const two = toy();
    two.named.forEach(([, p], i) => p.detach().copy_(one.named[i]?.[1].detach() as Tensor));
    const second = new ScaledAdam(two.named, { lr: 0.5 });
    second.loadStateDict(saved);
    expect(second.lr).toBe(0.01);
    expect(second.stepCount).toBe(13);
    run(first, one.setGradients, 14, 30);
    run(second, two.setGradients, 14, 30);
    two.named.forEach(([, p], i) => expect(p.toArray()).toEqual(one.named[i]?.[1].toArray()));
  });

  test("keeps its state under the keys of icefall's checkpoints", () => {
    const { named, setGradients } = toy();
    const optimizer = new ScaledAdam(named);
    expect(optimizer.stateDict().state.size).toBe(0);
    for (let i = 1; i <= 12; i++) {
      setGradients(i);
      optimizer.step();
    }
    const { state, param_groups: groups } = optimizer.stateDict();
    const shapes = (entry: object) => Object.fromEntries(Object.entries(entry).map(([name, v]) => [name, typeof v === "number" ? v : (v as Tensor).shape]));
    expect([...state.keys()]).toEqual([3, 4, 0, 2]);
    expect(shapes(state.get(3) as object)).toEqual({ step: 12, exp_avg_sq: [1], delta: [1], model_norms: [100], model_norm_threshold: expect.any(Number), num_clipped: 0 });
    expect(shapes(state.get(0) as object)).toEqual({
      step: 12,
      exp_avg_sq: [2, 3, 4],
      param_rms: [2, 1, 1],
      scale_grads: [4, 2, 1, 1],
      scale_exp_avg_sq: [2, 1, 1],
      delta: [2, 3, 4],
    });
    expect(groups).toEqual([expect.objectContaining({ lr: 0.03, clipping_scale: 2, betas: [0.9, 0.98], params: [0, 1, 2, 3, 4] })]);
  });

  test("refuses the state of another model and stays as it was", () => {
    const { named, setGradients } = toy();
    const optimizer = new ScaledAdam(named);
    setGradients(1);
    optimizer.step();
    const { state, param_groups: groups } = optimizer.stateDict();
    const attempt = (change: (entries: Map<number, Record<string, Tensor | number>>) => void, paramGroups = groups) => {
      const entries = new Map([...state].map(([i, entry]) => [i, { ...entry }] as const));
      change(entries);
      return () => new ScaledAdam(toy().named).loadStateDict({ state: entries, param_groups: paramGroups });
    };
    expect(attempt(() => {})).not.toThrow();
    expect(attempt((e) => e.delete(2))).toThrow(/CHECKPOINT_MISMATCH/);
    expect(attempt((e) => delete e.get(2)?.delta)).toThrow(/no delta for c/);
    expect(attempt((e) => Object.assign(e.get(2) as object, { delta: zeros([1, 6]) }))).toThrow(/delta for c and 0 others of its shape is \(1, 6\), not \(1, 5\)/);
    expect(attempt((e) => Object.assign(e.get(2) as object, { step: 7 }))).toThrow(/1 and 7 steps/);
    expect(attempt(() => {}, [{ ...groups[0], params: [0] }])).toThrow(/of 1 parameters, the model has 5/);
  });

  test("takes a missing gradient for 0", () => {
    const [one, two] = [toy(), toy()];
    const [first, second] = [new ScaledAdam(one.named), new ScaledAdam(two.named)];
    one.setGradients(1);
    two.setGradients(1);
    (one.named[1]?.[1] as Tensor).grad = null;
    (two.named[1]?.[1] as Tensor).grad = zeros([3, 4]);
    const before = one.named[1]?.[1].toArray();
    first.step();
    second.step();
    expect(one.named[0]?.[1].toArray()).toEqual(two.named[0]?.[1].toArray());
    expect(one.named[1]?.[1].toArray()).toEqual(before);
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY])("survives gradients of %d and stops when they do not end", (bad) => {
    const { named, setGradients } = toy();
    const optimizer = new ScaledAdam(named, { clippingUpdatePeriod: 20 });
    const spoil = (i: number) => {
      setGradients(i);
      named[0]?.[1].grad?.fill_(bad);
    };
    for (let i = 1; i <= 3; i++) {
      if (i % 2) spoil(i);
      else setGradients(i);
      optimizer.step();
    }
    for (const [, p] of named) expect(p.toArray().every(Number.isFinite)).toBe(true);
    const endless = (): void => {
      for (let i = 4; i < 30; i++) {
        spoil(i);
        optimizer.step();
      }
    };
    expect(endless).toThrow(/TRAIN_GRADIENTS_NOT_FINITE/);
    for (const [, p] of named) expect(p.toArray().every(Number.isFinite)).toBe(true);
  });

  test("updates every parameter as if it were alone, without clipping", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom<number[]>([2, 3], [4], [1], [], [3, 2, 2]), { minLength: 1, maxLength: 6 }), fc.nat(1000), (shapes, seed) => {
        const values = shapes.map((shape, i) => randn(shape, { generator: new Generator(seed + i) }));
        const gradsOf = (i: number, k: number) => randn(shapes[i] as number[], { generator: new Generator(seed + 100 * k + i) });
        const make = () => values.map((v, i): [string, Tensor] => [`${i}`, v.clone().requiresGrad_(true)]);
        const [together, alone] = [make(), make()];
        const all = new ScaledAdam(together, { clippingScale: null });
        const each = alone.map((one) => new ScaledAdam([one], { clippingScale: null }));
        for (let k = 0; k < 9; k++) {
          [together, alone].forEach((list) =>
            list.forEach(([, p], i) => {
              p.grad = gradsOf(i, k);
            }),
          );
          all.step();
          for (const optimizer of each) optimizer.step();
        }
        together.forEach(([, p], i) => expect(p).toBeAllClose(alone[i]?.[1], { rtol: 1e-5, atol: 1e-6 }));
      }),
      { numRuns: 20 },
    );
  });

  test("leaves no tensors behind", () => {
    const { named, setGradients } = toy();
    const optimizer = new ScaledAdam(named);
    const step = (i: number) =>
      scope(() => {
        setGradients(i);
        optimizer.step();
        optimizer.zeroGrad();
      });
    step(1);
    const before = liveTensors();
    for (let i = 2; i < 12; i++) step(i);
    expect(liveTensors()).toBe(before);
  });

  test("changes the parameters themselves", () => {
    const p = full([2], 1, { requiresGrad: true });
    const optimizer = new ScaledAdam([["p", p]], { lr: 0.1 });
    const losses = Array.from({ length: 30 }, () => {
      optimizer.zeroGrad();
      const loss = p
        .sub(tensor([1.5, 0.5]))
        .square()
        .sum();
      loss.backward();
      optimizer.step();
      return loss.item();
    });
    expect(p.isLeaf).toBe(true);
    expect(losses.at(-1)).toBeLessThan((losses[0] as number) / 2);
  });

  test("refuses options out of their range", () => {
    const named = toy().named;
    for (const options of [{ lr: Number.NaN }, { betas: [0.9, 1] as const }, { clippingScale: 0 }, { sizeUpdatePeriod: 0 }, { clippingUpdatePeriod: 2.5 }]) {
      expect(() => new ScaledAdam(named, options)).toThrow(/CONFIG_BAD_VALUE/);
    }
    expect(() => new ScaledAdam([])).toThrow(/no parameters/);
  });
});

/** A copy that shares nothing with the optimiser, as a checkpoint does. */
function structuredState({ state, param_groups: groups }: OptimizerState): OptimizerState {
  const copy = (v: Tensor | number) => (typeof v === "number" ? v : v.clone());
  return { state: new Map([...state].map(([i, entry]) => [i, Object.fromEntries(Object.entries(entry).map(([name, v]) => [name, copy(v)]))])), param_groups: groups };
}
