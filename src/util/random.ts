/**
 * Seeded random numbers with a state that can be saved: xoshiro128** (Blackman and Vigna, public domain).
 * Not for cryptography, and not the stream of Python or NumPy.
 */
export type RandomState = readonly [number, number, number, number];

/** A stream of random numbers. Two streams of one seed are equal; nothing in serac draws from a global one. */
export class Random {
  private readonly s: Uint32Array = new Uint32Array(4);

  /** @param seed any integer; it is spread over the state by splitmix32 */
  constructor(seed: number) {
    let z = (seed ^ Math.floor(seed / 2 ** 32)) >>> 0;
    for (let i = 0; i < 4; i++) {
      z = (z + 0x9e3779b9) >>> 0;
      let x = z;
      x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
      x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
      this.s[i] = (x ^ (x >>> 15)) >>> 0;
    }
  }

  /** @returns an integer in [0, 2^32) */
  uint32(): number {
    const s = this.s as unknown as [number, number, number, number];
    const x = Math.imul(s[1], 5);
    const result = Math.imul((x << 7) | (x >>> 25), 9) >>> 0;
    const t = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return result;
  }

  /** @returns a number in [0, 1) with 53 random bits */
  uniform(): number {
    return ((this.uint32() >>> 5) * 67108864 + (this.uint32() >>> 6)) / 9007199254740992;
  }

  /** @returns an integer in [low, high), without bias */
  integer(low: number, high: number): number {
    const range = high - low;
    if (range <= 2 ** 32) {
      const limit = 2 ** 32 - (2 ** 32 % range);
      for (;;) {
        const x = this.uint32();
        if (x < limit) return low + (x % range);
      }
    }
    return low + Math.floor(this.uniform() * range);
  }

  /** @returns a number from the standard normal distribution (Box and Muller) */
  normal(): number {
    const u = 1 - this.uniform();
    return Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * this.uniform());
  }

  /** @returns one of the items; `items` must not be empty */
  choice<T>(items: readonly T[]): T {
    return items[this.integer(0, items.length)] as T;
  }

  /** Shuffles in place (Fisher and Yates). */
  shuffle<T>(items: T[]): T[] {
    for (let i = items.length - 1; i > 0; i--) {
      const j = this.integer(0, i + 1);
      const t = items[i] as T;
      items[i] = items[j] as T;
      items[j] = t;
    }
    return items;
  }

  /** A new stream that depends on this one's next number and on `key`. */
  fork(key = 0): Random {
    return new Random(this.uint32() + key * 2 ** 32);
  }

  state(): RandomState {
    return Array.from(this.s) as unknown as RandomState;
  }

  restore(state: RandomState): this {
    this.s.set(state);
    return this;
  }
}
