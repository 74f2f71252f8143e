/** Matchers shared by all tests. */
import { expect } from "vitest";

/** Numbers of a tensor, a typed array or nested arrays. */
function numbers(value: unknown): number[] {
  if (typeof value === "number" || typeof value === "bigint") return [Number(value)];
  if (typeof value === "object" && value !== null && "toArray" in value) return (value as { toArray(): number[] }).toArray();
  if (ArrayBuffer.isView(value)) return Array.from(value as unknown as ArrayLike<number>, Number);
  if (Array.isArray(value)) return value.flatMap(numbers);
  throw new Error(`toBeAllClose cannot read ${Object.prototype.toString.call(value)}`);
}

expect.extend({
  /** |a - b| <= atol + rtol |b| for every element; NaN equals NaN, infinities equal themselves. */
  toBeAllClose(received: unknown, expected: unknown, { rtol = 1e-4, atol = 1e-5 }: { rtol?: number; atol?: number } = {}) {
    const a = numbers(received);
    const b = numbers(expected);
    if (a.length !== b.length) return { pass: false, message: () => `expected ${b.length} elements, got ${a.length}` };
    let worst = -1;
    let excess = 0;
    for (let i = 0; i < a.length; i++) {
      const x = a[i] as number;
      const y = b[i] as number;
      if (Object.is(x, y) || x === y) continue;
      const over = Math.abs(x - y) - (atol + rtol * Math.abs(y));
      if (!(over <= 0) && (worst < 0 || !(over <= excess))) {
        worst = i;
        excess = over;
      }
    }
    const pass = worst < 0;
    return { pass, message: () => (pass ? "expected the numbers to differ" : `at ${worst} of ${a.length}: got ${a[worst]}, expected ${b[worst]} (rtol ${rtol}, atol ${atol})`) };
  },
});

declare module "vitest" {
  // biome-ignore lint/suspicious/noExplicitAny: the signature must equal vitest's own
  interface Assertion<T = any> {
    toBeAllClose(expected: unknown, tolerance?: { rtol?: number; atol?: number }): T;
  }
}
