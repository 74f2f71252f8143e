import { expect, test } from "vitest";
import { PythonRandom } from "../../src/util/pythonRandom.ts";

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

test("shuffles equal CPython's for small, zero, negative and long seeds", () => {
  expect(new PythonRandom(0).shuffle(range(10))).toEqual([7, 8, 1, 5, 3, 4, 2, 0, 9, 6]);
  // python3 -c 'import random; random.seed(S); x = list(range(12)); random.shuffle(x); print(x)'
  const known: [number | bigint, number[]][] = [
    [1, [7, 11, 0, 8, 5, 6, 3, 10, 4, 1, 9, 2]],
    [42, [7, 5, 2, 8, 9, 6, 11, 3, 4, 0, 1, 10]],
    [-42, [7, 5, 2, 8, 9, 6, 11, 3, 4, 0, 1, 10]],
    [4294967296, [11, 10, 7, 3, 9, 2, 4, 8, 0, 6, 5, 1]],
    [4294967295, [0, 6, 1, 5, 8, 2, 7, 4, 11, 3, 9, 10]],
    [12345678901234567890123456789n, [6, 5, 7, 10, 1, 4, 11, 8, 2, 3, 0, 9]],
  ];
  for (const [seed, order] of known) expect(new PythonRandom(seed).shuffle(range(12)), String(seed)).toEqual(order);
  expect(Array.from(new PythonRandom(0).shuffle(Uint32Array.from(range(10))))).toEqual([7, 8, 1, 5, 3, 4, 2, 0, 9, 6]);
});

test("numbers equal CPython's beyond the first 624 words", () => {
  const random = new PythonRandom(1);
  for (let i = 0; i < 1000; i++) random.random();
  expect(random.random()).toBe(0.4116430517162146);
  expect(random.randint(-5, 1000)).toBe(128);
  expect(random.weighted([1, 0, 3])).toBe(2);
  expect(random.below(2 ** 31 + 1)).toBe(1751134904);
});
