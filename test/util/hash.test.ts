import fc from "fast-check";
import { expect, test } from "vitest";
import { HashTable, hashText, NumberList } from "../../src/util/hash.ts";

test("a table numbers different texts in the order in which they come", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ maxLength: 3 }), { maxLength: 300 }), (texts) => {
      const table = new HashTable(4);
      const order = new Map<string, number>();
      for (const text of texts) {
        if (!order.has(text)) order.set(text, order.size);
        const { high, low } = hashText(text);
        expect(table.add(high, low)).toBe(order.get(text));
        expect(table.size).toBe(order.size);
      }
      for (const [text, number] of order) expect(table.find(hashText(text).high, hashText(text).low)).toBe(number);
      expect(table.find(1, 2)).toBe(-1);
    }),
  );
});

test("a hundred thousand texts that differ little have different hashes", () => {
  const table = new HashTable();
  for (let i = 0; i < 100_000; i++) {
    const { high, low } = hashText(`audio/${i % 10}/utterance-${i}.wav`);
    table.add(high, low);
  }
  expect(table.size).toBe(100_000);
});

test("a list of numbers keeps them over the borders of its blocks", () => {
  const list = new NumberList();
  for (let i = 0; i < 200_000; i++) list.push(i);
  list.add(70_000, 0.5);
  expect(list.get(70_000)).toBe(70_000.5);
  expect(list.length).toBe(200_000);
  const all = list.take();
  expect(all.length).toBe(200_000);
  expect(all[199_999]).toBe(199_999);
  expect(list.length).toBe(0);
});
