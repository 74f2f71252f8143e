/** A random order of n items of which every place is computed by itself: nothing to shuffle, to keep, or to draw again after a restart. */
import { mix } from "../../util/hash.ts";

const rounds = 8;

/**
 * A seeded one-to-one map of 0 to n - 1 onto themselves: a Feistel network over a grid of about sqrt(n) by sqrt(n), whose few surplus places are
 * walked over. Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
 */
export class Permutation {
  readonly length: number;
  private readonly width: number;
  private readonly height: number;
  private readonly keys: Uint32Array;

  /** @param length below 2^53 @param seed any whole number @param epoch another order each */
  constructor(length: number, seed: number, epoch: number) {
    this.length = length;
    this.width = Math.max(1, Math.ceil(Math.sqrt(length)));
    this.height = Math.max(1, Math.ceil(length / this.width));
    this.keys = new Uint32Array(rounds);
    let key = mix((seed >>> 0) ^ mix(Math.floor(seed / 2 ** 32) >>> 0) ^ 0x9e3779b9);
    key = mix(key ^ mix((epoch >>> 0) + 0x85ebca6b));
    for (let i = 0; i < rounds; i++) {
      key = mix(key + 0x9e3779b9);
      this.keys[i] = key;
    }
  }

  /** @returns the item at a place of the order */
  at(place: number): number {
    const { width, height, keys, length } = this;
    let x = place;
    do {
      let row = Math.floor(x / width);
      let column = x - row * width;
      for (let i = 0; i < rounds; i += 2) {
        column += (mix(row ^ (keys[i] as number)) & 0x7fffffff) % width; // 31 bits: division of small integers is several times as fast
        if (column >= width) column -= width;
        row += (mix(column ^ (keys[i + 1] as number)) & 0x7fffffff) % height;
        if (row >= height) row -= height;
      }
      x = row * width + column;
    } while (x >= length);
    return x;
  }
}
