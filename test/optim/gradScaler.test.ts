import { describe, expect, test } from "vitest";
import { GradScaler } from "../../src/optim/index.ts";
import { full, ones, tensor } from "../../src/torch/index.ts";

function setup(grad: number) {
  const p = ones([2]).requiresGrad_(true);
  p.grad = full([2], grad);
  let steps = 0;
  return { p, optimizer: { parameters: [p, ones([1])], step: () => void steps++ }, steps: () => steps };
}

describe("GradScaler", () => {
  test("gives the gradients back as they would be without it", () => {
    const scaler = new GradScaler({ initScale: 1024 });
    const { p, optimizer, steps } = setup(0);
    p.grad = null;
    scaler.scale(p.mul(tensor([3, 5])).sum()).backward();
    expect(p.grad).toBeAllClose([3072, 5120]);
    expect(scaler.step(optimizer)).toBe(true);
    expect(p.grad).toBeAllClose([3, 5]);
    expect(steps()).toBe(1);
  });

  test.each([Number.NaN, Number.POSITIVE_INFINITY])("leaves a step out and halves after %d", (bad) => {
    const scaler = new GradScaler({ initScale: 8 });
    const { optimizer, steps } = setup(bad);
    expect(scaler.step(optimizer)).toBe(false);
    scaler.update();
    expect(steps()).toBe(0);
    expect(scaler.factor).toBe(4);
    expect(scaler.step(setup(1).optimizer)).toBe(true);
  });

  test("doubles after enough good steps and begins to count anew after a bad one", () => {
    const scaler = new GradScaler({ initScale: 8, growthInterval: 3 });
    const step = (grad: number) => {
      scaler.step(setup(grad).optimizer);
      scaler.update();
      return scaler.factor;
    };
    expect([1, 1, 1, 1, 1, Number.NaN, 1, 1, 1].map(step)).toEqual([8, 8, 16, 16, 16, 8, 8, 8, 16]);
  });

  test("goes on from its state, and does nothing when disabled", () => {
    const scaler = new GradScaler({ initScale: 4, growthInterval: 2 });
    scaler.step(setup(1).optimizer);
    scaler.update();
    const other = new GradScaler({ growthInterval: 2 });
    other.loadStateDict(scaler.stateDict());
    other.step(setup(1).optimizer);
    other.update();
    expect(other.factor).toBe(8);
    const off = new GradScaler({ enabled: false });
    const { p, optimizer, steps } = setup(Number.NaN);
    expect(off.step(optimizer)).toBe(true);
    off.update();
    expect(steps()).toBe(1);
    expect(off.factor).toBe(1);
    expect(off.scale(p)).toBe(p);
    expect(off.stateDict()).toEqual({});
  });

  test("refuses options out of their range", () => {
    for (const options of [{ initScale: 0 }, { growthFactor: 1 }, { backoffFactor: 1 }, { growthInterval: 0 }]) expect(() => new GradScaler(options)).toThrow(/CONFIG_BAD_VALUE/);
  });
});
