import { expect, test } from "vitest";
import { NumpyRandom } from "../../src/util/numpyRandom.ts";

// Made by NumPy 2.4.6: RandomState(seed).permutation(n), .random_sample(), .choice(3, p=[0.2, 0.3, 0.5])
test("orders and draws are those of NumPy's RandomState", () => {
  const zero = new NumpyRandom(0);
  expect(zero.permutation(8)).toEqual([6, 2, 1, 7, 3, 0, 5, 4]);
  expect(zero.permutation(8)).toEqual([1, 6, 3, 7, 0, 4, 2, 5]);
  const other = new NumpyRandom(12345);
  expect([other.random(), other.random()]).toEqual([0.9296160928171479, 0.3163755545817859]);
  expect(Array.from({ length: 12 }, () => other.choice([0.2, 0.3, 0.5]))).toEqual([0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0]);
  expect(new NumpyRandom(7).permutation(1)).toEqual([0]);
});
