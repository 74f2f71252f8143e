import fc from "fast-check";
import { expect, test } from "vitest";
import { DistinctCounter } from "../../src/util/distinct.ts";
import { hashText } from "../../src/util/hash.ts";

function addTo(counter: DistinctCounter, text: string): void {
  const { high, low } = hashText(text);
  counter.add(high | 0, low | 0 || 1);
}

test("counts are exact up to the limit, however often things come", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 2 }), { maxLength: 500 }), (texts) => {
      const counter = new DistinctCounter(512);
      for (const text of texts) addTo(counter, text);
      expect(counter.count).toBe(new Set(texts).size);
      expect(counter.level).toBe(0);
    }),
  );
});

test("beyond the limit counts are near, in memory that grows no more, and counts of parts are those of the whole", () => {
  const [limit, number] = [1 << 12, 200_000];
  const whole = new DistinctCounter(limit);
  const parts = [new DistinctCounter(limit), new DistinctCounter(limit), new DistinctCounter(limit)] as const;
  for (let i = 0; i < number; i++) {
    for (const text of [`word-${i}`, `word-${i >> 1}`]) {
      addTo(whole, text);
      addTo(parts[i % 3] as DistinctCounter, text);
    }
  }
  expect(whole.level).toBeGreaterThan(4);
  expect(whole.table.length).toBe(4 * limit);
  expect(Math.abs(whole.count / number - 1)).toBeLessThan(0.06); // 4 deviations of 1 / sqrt(limit)
  const few = new DistinctCounter(limit);
  addTo(few, "word-1");
  for (const part of [...parts, few]) parts[0] !== part && parts[0].merge({ table: part.table, level: part.level });
  expect(parts[0].count).toBe(whole.count);
});
