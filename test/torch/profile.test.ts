import { describe, expect, test } from "vitest";
import { ones, profile } from "../../src/torch/index.ts";

describe("profile", () => {
  test("counts operators of forward and backward passes, each without those that it calls", () => {
    const { result, operators } = profile(() => {
      const x = ones([50, 50], { requiresGrad: true });
      const y = x.mm(x).mm(x).sum();
      y.backward();
      return y.item();
    });
    expect(result).toBe(50 ** 3 * 50);
    const calls = Object.fromEntries(operators.map(({ name, calls }) => [name, calls]));
    expect(calls["aten::mm"]).toBe(6); // two forward, four backward
    expect(calls["aten::sum"]).toBeGreaterThan(0);
    expect(operators.every(({ seconds }) => seconds >= 0)).toBe(true);
    expect([...operators].sort((a, b) => b.seconds - a.seconds)).toEqual(operators);
  });

  test("measures nothing when it is off, and begins anew each time", () => {
    ones([3]).add(1);
    expect(profile(() => {}).operators).toEqual([]);
    expect(() =>
      profile(() => {
        throw new Error("inside");
      }),
    ).toThrow("inside");
    expect(profile(() => ones([3]).add(1)).operators.some(({ name }) => name === "aten::add")).toBe(true);
  });
});
