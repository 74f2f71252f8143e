import fc from "fast-check";
import { expect, test } from "vitest";
import { ScheduledFloat } from "../../src/nn/index.ts";

const training = (batchCount?: number) => ({ training: true, batchCount });

test("values lie on lines between the points and are constant outside", () => {
  const s = new ScheduledFloat(
    [
      [0, 0.2],
      [4000, 0.05],
      [16000, 0],
    ],
    { fallback: 0.4 },
  ); // prettier-ignore
  expect([-5, 0, 2000, 4000, 10000, 16000, 1e9].map((x) => s.at(x))).toBeAllClose([0.2, 0.2, 0.125, 0.05, 0.025, 0, 0]);
});

test("the fallback holds in evaluation and before the first batch count", () => {
  const s = new ScheduledFloat(
    [
      [0, 1],
      [10, 2],
    ],
    { fallback: 7 },
  ); // prettier-ignore
  expect(s.value(training())).toBe(7);
  expect(s.value({ training: false, batchCount: 5 })).toBe(7);
  expect(s.value(training(5))).toBe(1.5);
});

const schedules = fc
  .uniqueArray(fc.record({ x: fc.integer({ min: 0, max: 100 }), y: fc.integer({ min: -50, max: 50 }) }), { minLength: 1, maxLength: 6, selector: (p) => p.x })
  .map((points) => new ScheduledFloat(points.sort((a, b) => a.x - b.x).map(({ x, y }) => [x, y] as const)));

test("sums, products, largest and smallest are those of the values everywhere", () => {
  fc.assert(
    fc.property(schedules, schedules, fc.integer({ min: -10, max: 110 }), fc.integer({ min: -3, max: 3 }), (a, b, x, k) => {
      expect(a.plus(b).at(x)).toBeCloseTo(a.at(x) + b.at(x), 6);
      expect(a.times(k).at(x)).toBeCloseTo(a.at(x) * k, 6);
      expect(a.max(b).at(x)).toBeCloseTo(Math.max(a.at(x), b.at(x)), 6);
      expect(a.min(b).at(x)).toBeCloseTo(Math.min(a.at(x), b.at(x)), 6);
      expect(a.max(k).at(x)).toBeCloseTo(Math.max(a.at(x), k), 6);
    }),
  );
});

test("points out of order are an error of the caller", () => {
  expect(
    () =>
      new ScheduledFloat([
        [5, 1],
        [5, 2],
      ]),
  ).toThrow("internal"); // prettier-ignore
  expect(() => new ScheduledFloat([])).toThrow("internal");
});
