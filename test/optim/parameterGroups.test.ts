import fc from "fast-check";
import { expect, test } from "vitest";
import { Linear, Module } from "../../src/nn/index.ts";
import { Eden, parameterGroups, ScaledAdam } from "../../src/optim/index.ts";
import { fromTypedArray, Generator, liveTensors, scope } from "../../src/torch/index.ts";

class Two extends Module {
  readonly a: Linear;
  readonly b: Linear;

  constructor() {
    super();
    const generator = new Generator(1);
    this.a = this.child("a", new Linear({ inFeatures: 3, outFeatures: 2, generator }));
    this.b = this.child("b", new Linear({ inFeatures: 3, outFeatures: 2, generator }));
  }
}

test("a model without scales is one group; scales multiply along the path, and modules can be frozen", () => {
  scope(() => {
    const model = new Two();
    const names = (groups: ReturnType<typeof parameterGroups>): unknown => groups.map(({ lr, named }) => [lr, Array.from(named, ([name]) => name)]);
    expect(names(parameterGroups(model, { lr: 0.5 }))).toEqual([[0.5, ["a.weight", "a.bias", "b.weight", "b.bias"]]]);
    model.lrScale = 0.5;
    model.b.lrScale = 0.25;
    expect(names(parameterGroups(model, { lr: 1 }))).toEqual([
      [0.5, ["a.weight", "a.bias"]],
      [0.125, ["b.weight", "b.bias"]],
    ]);
    expect(names(parameterGroups(model, { lr: 1, freeze: ["a"] }))).toEqual([[0.125, ["b.weight", "b.bias"]]]);
    model.dispose();
  });
});

test("groups are updated as optimisers of their own, keep the ratio of their rates under a schedule, and go on from their state", () => {
  const before = liveTensors();
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9 }), (stop, more) => {
      scope(() => {
        const make = (): Two => new Two();
        const [grouped, alone, resumed] = [make(), make(), make()];
        for (const model of [grouped, resumed]) model.b.lrScale = 0.25;
        const optimizer = new ScaledAdam(parameterGroups(grouped, { lr: 0.04 }));
        const schedule = new Eden(optimizer, { lrBatches: 5, lrEpochs: 2 });
        const parts = [new ScaledAdam(alone.a.namedParameters("a."), { lr: 0.04 }), new ScaledAdam(alone.b.namedParameters("b."), { lr: 0.01 })];
        const schedules = parts.map((part) => new Eden(part, { lrBatches: 5, lrEpochs: 2 }));
        let second: ScaledAdam | undefined;
        for (let step = 1; step <= stop + more; step++) {
          for (const model of [grouped, alone, ...(second ? [resumed] : [])]) setGradients(model, step);
          schedule.stepBatch(step);
          expect(optimizer.groupRates[1]).toBeCloseTo(0.25 * optimizer.lr, 12);
          optimizer.step();
          schedules.forEach((one, i) => {
            one.stepBatch(step);
            (parts[i] as ScaledAdam).step();
          });
          if (second) {
            second.lr = optimizer.lr;
            second.step();
          }
          if (step === stop) {
            resumed.loadStateDict(grouped.stateDict());
            second = new ScaledAdam(parameterGroups(resumed, { lr: 0.04 }));
            second.loadStateDict(optimizer.stateDict());
            expect(second.stepCount).toBe(step);
          }
        }
        for (const [name, value] of grouped.namedParameters()) {
          for (const other of [alone, resumed]) expect(other.stateDict().get(name)?.equal(value), name).toBe(true);
        }
        const single = new ScaledAdam(alone.namedParameters());
        expect(() => single.loadStateDict(optimizer.stateDict())).toThrow(/2 groups of parameters, this one has 1/);
        for (const one of [optimizer, second as ScaledAdam, single, ...parts]) one.dispose();
        for (const model of [grouped, alone, resumed]) model.dispose();
      });
    }),
    { numRuns: 10 },
  );
  expect(liveTensors()).toBe(before);
});

function setGradients(model: Two, step: number): void {
  let index = 0;
  for (const [, parameter] of model.namedParameters()) {
    const values = Float32Array.from({ length: parameter.numel }, (_, i) => Math.sin(i + 3 * step + index));
    parameter.grad = fromTypedArray(values, parameter.shape);
    index++;
  }
}
