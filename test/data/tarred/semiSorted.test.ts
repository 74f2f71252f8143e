import fc from "fast-check";
import { expect, test } from "vitest";
import { semiSortedBatches } from "../../../src/data/tarred/semiSorted.ts";

const durations = fc.array(fc.double({ min: 0.1, max: 30, noNaN: true }), { minLength: 1, maxLength: 60 });

test("every utterance comes once beside the counted repeats, and every rank has as many batches", () => {
  fc.assert(
    fc.property(durations, fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 5 }), fc.nat(9), (list, batchSize, worldSize, epoch) => {
      const ranks = semiSortedBatches(list, { batchSize, worldSize, epoch });
      expect(new Set(ranks.map((batches) => batches.length)).size).toBe(1);
      const items = ranks.flat().flatMap(({ items }) => items);
      const repeated = ranks.flat().reduce((sum, batch) => sum + batch.repeated, 0);
      expect(items).toHaveLength(list.length + repeated);
      expect(new Set(items).size).toBe(list.length);
      expect(Math.max(...ranks.flat().map(({ items }) => items.length))).toBeLessThanOrEqual(batchSize);
    }),
  );
});

test("without noise batches are sorted; the noise, the seed and the epoch change the order; drop_last leaves full batches", () => {
  const list = Array.from({ length: 40 }, (_, i) => ((i * 17) % 40) + 1);
  const sorted = semiSortedBatches(list, { batchSize: 8, randomizationFactor: 0, shuffle: false })[0] ?? [];
  expect(sorted.flatMap(({ items }) => items.map((i) => list[i]))).toEqual([...list].sort((a, b) => a - b));
  const noisy = semiSortedBatches(list, { batchSize: 8, randomizationFactor: 0.2, shuffle: false })[0] ?? [];
  expect(noisy).not.toEqual(sorted);
  for (const { items } of noisy) {
    const lengths = items.map((i) => list[i] as number);
    expect(Math.max(...lengths) - Math.min(...lengths)).toBeLessThanOrEqual(7 + 2 * 0.1 * 39);
  }
  const at = (options: object) => JSON.stringify(semiSortedBatches(list, { batchSize: 8, ...options }));
  expect(at({ epoch: 1 })).toBe(at({ epoch: 1 }));
  expect(at({ epoch: 1 })).not.toBe(at({ epoch: 2 }));
  expect(at({ seed: 1 })).not.toBe(at({ seed: 2 }));
  const dropped = semiSortedBatches(list, { batchSize: 7, dropLast: true })[0] ?? [];
  expect(dropped.map(({ items }) => items.length)).toEqual([7, 7, 7, 7, 7]);
});
