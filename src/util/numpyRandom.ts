/**
 * NumPy's older random numbers, `numpy.random.RandomState(seed)`: the same seed gives the same order of buckets and the same draws as in NeMo.
 * Source: NumPy 2.4, numpy/random/mtrand.pyx and _legacy.
 */
import { PythonRandom } from "./pythonRandom.ts";

export class NumpyRandom {
  private readonly bits: PythonRandom;

  /** @param seed a whole number from 0 to 2^32 - 1 */
  constructor(seed: number) {
    this.bits = PythonRandom.ofNumpy(seed);
  }

  /** `permutation(count)` */
  permutation(count: number): number[] {
    const order = Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const mask = 2 ** (32 - Math.clz32(i)) - 1;
      let j: number;
      do j = (this.bits.uint32() & mask) >>> 0;
      while (j > i);
      [order[i], order[j]] = [order[j] as number, order[i] as number];
    }
    return order;
  }

  /** `random_sample()`: a number in [0, 1). */
  random(): number {
    return this.bits.random();
  }

  /** `choice(len(p), p=p)`: p sums to 1. */
  choice(p: readonly number[]): number {
    const sums: number[] = [];
    for (const x of p) sums.push((sums.at(-1) ?? 0) + x);
    const total = sums.at(-1) ?? 1;
    const x = this.random();
    const at = sums.findIndex((sum) => sum / total > x);
    return at < 0 ? p.length - 1 : at;
  }
}
