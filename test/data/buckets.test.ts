import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bucketBatches } from "../../src/data/buckets.ts";
import { type Cut, concatenate, perturbSpeed } from "../../src/data/cut.ts";

const cut = (id: string, duration: number): Cut => ({
  id,
  audioPath: id,
  offset: undefined,
  duration,
  text: id,
  speaker: undefined,
  lang: undefined,
  speed: 1,
  tracks: undefined,
  gap: 0,
  origin: id,
});
const cuts = fc.array(fc.double({ min: 0.1, max: 30, noNaN: true }), { minLength: 1, maxLength: 200 }).map((durations) => durations.map((d, i) => cut(`c${i}`, d)));
const options = fc.record({
  maxDuration: fc.double({ min: 1, max: 100, noNaN: true }),
  numBuckets: fc.integer({ min: 1, max: 40 }),
  shuffle: fc.boolean(),
  seed: fc.nat(),
  epoch: fc.nat({ max: 50 }),
});

describe("bucketBatches", () => {
  test("every cut is in exactly one batch, and no batch of several exceeds the limit", () => {
    fc.assert(
      fc.property(cuts, options, (list, o) => {
        const batches = bucketBatches(list, o);
        expect(
          batches
            .flat()
            .map((c) => c.id)
            .sort(),
        ).toEqual(list.map((c) => c.id).sort());
        for (const batch of batches) if (batch.length > 1) expect(batch.length * Math.max(...batch.map((c) => c.duration))).toBeLessThanOrEqual(o.maxDuration);
      }),
    );
  });

  test("the same seed and epoch give the same batches, another epoch gives others", () => {
    const list = Array.from({ length: 300 }, (_, i) => cut(`c${i}`, 1 + (i % 17)));
    const make = (epoch: number) => bucketBatches(list, { maxDuration: 60, seed: 3, epoch }).map((b) => b.map((c) => c.id));
    expect(make(1)).toEqual(make(1));
    expect(make(1)).not.toEqual(make(2));
  });

  test("dropLast only leaves out batches that are not full", () => {
    const list = Array.from({ length: 25 }, (_, i) => cut(`c${i}`, 1));
    expect(bucketBatches(list, { maxDuration: 10, dropLast: true, numBuckets: 1 }).map((b) => b.length)).toEqual([10, 10]);
  });

  test("refuses a limit that is none", () => {
    expect(() => bucketBatches([], { maxDuration: 0 })).toThrow(/maxDuration/);
    expect(() => bucketBatches([], { maxDuration: Number.NaN })).toThrow(/maxDuration/);
  });
});

describe("cuts", () => {
  test("speed changes the duration", () => {
    expect(perturbSpeed(cut("a", 3), 1.1)).toMatchObject({ duration: 3 / 1.1, speed: 1.1 });
    expect(perturbSpeed(cut("a", 3), 1)).toMatchObject({ duration: 3, speed: 1, id: "a" });
  });
  test("concatenation adds durations and gaps and joins texts", () => {
    const joined = concatenate([cut("a", 1), cut("b", 2), { ...cut("c", 3), text: "" }], 0.5);
    expect(joined).toMatchObject({ duration: 7, text: "a b", gap: 0.5 });
    expect(joined.tracks).toHaveLength(3);
    expect(concatenate([cut("a", 1)], 1)).toMatchObject({ id: "a", tracks: undefined });
  });
});
