import { expect, test } from "vitest";
import { general } from "../../src/util/printf.ts";

test.each([
  [0.000123456, 2, "0.00012"],
  [0.0000123456, 2, "1.2e-05"],
  [123.4, 2, "1.2e+02"],
  [99.96, 3, "100"],
  [0.625, 2, "0.62"],
  [-0.375, 2, "-0.38"],
  [2.5, 1, "2"],
  [-0.5, 3, "-0.5"],
  [1e300, 2, "1e+300"],
  [Number.NaN, 2, "nan"],
  [Number.NEGATIVE_INFINITY, 2, "-inf"],
  [0, 2, "0"],
])("%d with %i digits is %s, as Python's %%g prints it", (value, digits, text) => {
  expect(general(value, digits)).toBe(text);
});
