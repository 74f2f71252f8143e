import { expect, test } from "vitest";
import { GradScaler } from "../../src/optim/index.ts";
import { fromTypedArray, scope, type Tensor } from "../../src/torch/index.ts";
import { GradScaleWatch, gradScaleVerdict } from "../../src/train/gradScale.ts";

test.each([
  // scale, batch, seed's, June 2026's
  [1, 100, true, true],
  [1, 25, false, true],
  [7.9, 100, true, true],
  [7.9, 125, false, false],
  [8, 100, false, false],
  [31, 400, true, true],
  [32, 400, false, false],
  [1, 7, false, false],
])("a scale of %d after batch %i is doubled by the seed: %s, by June 2026: %s", (scale, batch, seed, later) => {
  expect(gradScaleVerdict(scale, batch, "seed").grow).toBe(seed);
  expect(gradScaleVerdict(scale, batch, "2026").grow).toBe(later);
});

test("the seed looks every 100 batches, June 2026 at every batch", () => {
  expect(gradScaleVerdict(0.005, 99, "seed")).toEqual({ grow: false, small: false, hopeless: false });
  expect(gradScaleVerdict(0.005, 99, "2026")).toEqual({ grow: false, small: true, hopeless: false });
  expect(gradScaleVerdict(1e-6, 200, "seed")).toEqual({ grow: true, small: true, hopeless: true });
});

test("injected infinities leave steps out, halve the scale, are told, and end training with advice when they do not stop", () => {
  scope(() => {
    const parameter = fromTypedArray(new Float32Array([1]), [1]).requiresGrad_(true);
    let steps = 0;
    const optimizer = { parameters: [parameter], step: () => void steps++ };
    const scaler = new GradScaler({ initScale: 1 });
    const told: boolean[] = [];
    const watch = new GradScaleWatch(scaler, "2026", (first) => told.push(first));
    const run = (grad: number): void => {
      parameter.grad = fromTypedArray(new Float32Array([grad]), [1]);
      scaler.step(optimizer);
      scaler.update();
    };
    run(Number.POSITIVE_INFINITY);
    watch.afterBatch(1);
    expect([steps, scaler.factor]).toEqual([0, 0.5]);
    run(2);
    watch.afterBatch(25);
    expect([steps, scaler.factor, (parameter.grad as Tensor).item()]).toEqual([1, 1, 4]);
    for (let i = 0; i < 16; i++) {
      run(Number.NaN);
      watch.afterBatch(1);
    }
    expect(told[0]).toBe(true);
    expect(told.slice(1).some(Boolean)).toBe(false);
    run(Number.NaN);
    expect(() => watch.afterBatch(1)).toThrow(expect.objectContaining({ code: "TRAIN_GRADIENTS_NOT_FINITE", message: expect.stringContaining("--base-lr") }));
    expect(steps).toBe(1);
  });
});
