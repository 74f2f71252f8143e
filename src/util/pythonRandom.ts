/**
 * CPython's random numbers: the same seed gives the same shuffles, so that files made here equal those of Python programs.
 * Sources: Matsumoto and Nishimura, mt19937ar.c; CPython 3.11 Modules/_randommodule.c and Lib/random.py.
 * For everything that need not agree with Python there is util/random.ts.
 */
const n = 624;
const m = 397;

/** A list, or a typed array, that can be shuffled in place. */
export interface Shufflable<T> {
  readonly length: number;
  [index: number]: T;
}

/** What `getstate()` holds: 624 words and how many of them are used. */
export type PythonRandomState = readonly number[];

/** `random.Random(seed)`. */
export class PythonRandom {
  private readonly words = new Uint32Array(n);
  private index = n;

  /** @param seed any whole number, as random.seed() takes it: its sign does not matter, its size is not limited */
  constructor(seed: number | bigint) {
    let rest = BigInt(seed);
    if (rest < 0n) rest = -rest;
    const key: number[] = [];
    do {
      key.push(Number(rest & 0xffffffffn));
      rest >>= 32n;
    } while (rest > 0n);
    this.seedByArray(key);
  }

  /** The generator of NumPy's `RandomState(seed)`, which is seeded by a single number from 0 to 2^32 - 1: see util/numpyRandom.ts. */
  static ofNumpy(seed: number): PythonRandom {
    const generator = new PythonRandom(0);
    const { words: state } = generator;
    state[0] = seed;
    for (let i = 1; i < n; i++) {
      const x = (state[i - 1] as number) ^ ((state[i - 1] as number) >>> 30);
      state[i] = Math.imul(1812433253, x) + i;
    }
    return generator;
  }

  /** The words of `getstate()`, whose last one is the place among them. */
  state(): PythonRandomState {
    return [...this.words, this.index];
  }

  /** Goes on where `state()` was taken. */
  restore(state: PythonRandomState): this {
    this.words.set(state.slice(0, n));
    this.index = state[n] as number;
    return this;
  }

  private seedByArray(key: readonly number[]): void {
    const { words: state } = this;
    state[0] = 19650218;
    for (let i = 1; i < n; i++) {
      const x = (state[i - 1] as number) ^ ((state[i - 1] as number) >>> 30);
      state[i] = Math.imul(1812433253, x) + i;
    }
    let i = 1;
    const mix = (factor: number): number => {
      const x = (state[i - 1] as number) ^ ((state[i - 1] as number) >>> 30);
      return (state[i] as number) ^ Math.imul(x, factor);
    };
    const step = () => {
      if (++i < n) return;
      state[0] = state[n - 1] as number;
      i = 1;
    };
    for (let k = 0; k < Math.max(n, key.length); k++) {
      const j = k % key.length;
      state[i] = mix(1664525) + (key[j] as number) + j;
      step();
    }
    for (let k = 0; k < n - 1; k++) {
      state[i] = mix(1566083941) - i;
      step();
    }
    state[0] = 0x80000000;
  }

  private refill(): void {
    const { words: state } = this;
    const mix = (i: number, next: number, far: number): void => {
      const y = ((state[i] as number) & 0x80000000) | ((state[next] as number) & 0x7fffffff);
      state[i] = (state[far] as number) ^ (y >>> 1) ^ (-(y & 1) & 0x9908b0df);
    };
    let i = 0;
    for (; i < n - m; i++) mix(i, i + 1, i + m);
    for (; i < n - 1; i++) mix(i, i + 1, i + m - n);
    mix(n - 1, 0, m - 1);
    this.index = 0;
  }

  /** @returns the next 32 bits, as an unsigned number */
  uint32(): number {
    if (this.index === n) this.refill();
    let y = this.words[this.index++] as number;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  /** `random()`: a number in [0, 1). */
  random(): number {
    return ((this.uint32() >>> 5) * 67108864 + (this.uint32() >>> 6)) / 9007199254740992;
  }

  /** `randrange(limit)`: a whole number in [0, limit); limit is within 1 to 2^32 - 1. */
  below(limit: number): number {
    const shift = Math.clz32(limit); // 32 - bit length
    for (;;) {
      const r = this.uint32() >>> shift;
      if (r < limit) return r;
    }
  }

  /** `choice(items)`. */
  choice<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }

  /** `randint(low, high)`: both ends included. */
  randint(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** `shuffle(items)`: in place. */
  shuffle<T, A extends Shufflable<T>>(items: A): A {
    for (let i = items.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      const t = items[i] as T;
      items[i] = items[j] as T;
      items[j] = t;
    }
    return items;
  }

  /** `choices(range(count), weights, k=1)[0]`. */
  weighted(weights: readonly number[]): number {
    const sums: number[] = [];
    for (const weight of weights) sums.push((sums.at(-1) ?? 0) + weight);
    const x = this.random() * (sums.at(-1) ?? 0);
    const at = sums.findIndex((sum) => sum > x);
    return at < 0 ? weights.length - 1 : at;
  }
}
