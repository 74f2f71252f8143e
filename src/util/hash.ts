/** 64-bit hashes and a set of them in flat memory: for telling duplicates among many millions of texts. */

/** Both halves of a hash of 64 bits. */
export interface Hash {
  high: number;
  low: number;
}

/** Two streams of FNV-1a with different primes over UTF-16 units, then mixed as MurmurHash3 does. Two of 10 million texts collide with a chance of 3e-6. */
export function hashText(text: string, start = 0, end = text.length): Hash {
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  for (let i = start; i < end; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x5bd1e995);
    b ^= b >>> 15;
  }
  return { high: mix(a ^ (b >>> 16)), low: mix(b ^ Math.imul(a, 0x85ebca6b)) };
}

/** Spreads every bit over all 32 (MurmurHash3's finaliser). */
export function mix(x: number): number {
  let h = x;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Hashes, numbered in the order in which they came: 8 bytes an entry, and 4 for each of 2^k places, of which at most three quarters are used. */
export class HashTable {
  /** By the entry's number. */
  private readonly highs = new NumberList(Uint32Array);
  private readonly lows = new NumberList(Uint32Array);
  /** The number of the entry plus 1; 0 is a free place. */
  private numbers: Uint32Array;
  private mask: number;

  /** @param capacity a power of 2 */
  constructor(capacity = 1 << 12) {
    this.mask = capacity - 1;
    this.numbers = new Uint32Array(capacity);
  }

  /** How many different hashes there are. */
  get size(): number {
    return this.highs.length;
  }

  /** @returns the number of the hash, or -1 where it is not there */
  find(high: number, low: number): number {
    return (this.numbers[this.place(high >>> 0, low >>> 0)] as number) - 1;
  }

  /** @returns the number of the hash, which is new where it equals the `size` before */
  add(high: number, low: number): number {
    const h = high >>> 0;
    const l = low >>> 0;
    const at = this.place(h, l);
    const number = this.numbers[at] as number;
    if (number !== 0) return number - 1;
    this.highs.push(h);
    this.lows.push(l);
    this.numbers[at] = this.size;
    if (this.size * 4 > (this.mask + 1) * 3) this.grow();
    return this.size - 1;
  }

  private place(high: number, low: number): number {
    const { mask, highs, lows, numbers } = this;
    let at = (low ^ high) & mask;
    for (; ; at = (at + 1) & mask) {
      const number = numbers[at] as number;
      if (number === 0 || (lows.get(number - 1) === low && highs.get(number - 1) === high)) return at;
    }
  }

  private grow(): void {
    const capacity = (this.mask + 1) * 2;
    this.mask = capacity - 1;
    this.numbers = new Uint32Array(capacity);
    const { mask, numbers, highs, lows } = this;
    for (let number = 0; number < this.size; number++) {
      let at = (lows.get(number) ^ highs.get(number)) & mask;
      while (numbers[at] !== 0) at = (at + 1) & mask;
      numbers[at] = number + 1;
    }
  }
}

type NumberArray = Float64Array | Float32Array | Uint32Array;

/** Of a `NumberList`: an index is a block's number and 16 bits for the place in it, so that a list has at most 2^32 numbers. */
const blockSize = 1 << 16;

/** Numbers in blocks, so that growing never copies what is there; of 8 bytes, or of 4 where `kind` says so. */
export class NumberList {
  length = 0;
  private readonly blocks: NumberArray[] = [];
  private readonly kind: new (
    length: number,
  ) => NumberArray;

  constructor(kind: new (length: number) => NumberArray = Float64Array) {
    this.kind = kind;
  }

  push(value: number): void {
    const at = this.length++;
    if ((at & 0xffff) === 0) this.blocks.push(new this.kind(blockSize));
    (this.blocks[at >>> 16] as NumberArray)[at & 0xffff] = value;
  }

  get(index: number): number {
    return this.blocks[index >>> 16]?.[index & 0xffff] as number;
  }

  add(index: number, value: number): void {
    (this.blocks[index >>> 16] as NumberArray)[index & 0xffff]! += value;
  }

  /** @returns all of them in one array, and forgets them */
  take(): Float64Array {
    const all = new Float64Array(this.length);
    for (let i = 0; i < this.blocks.length; i++) all.set((this.blocks[i] as NumberArray).subarray(0, Math.min(blockSize, this.length - i * blockSize)), i * blockSize);
    this.blocks.length = 0;
    this.length = 0;
    return all;
  }
}
