/**
 * Counts different things by their hashes in bounded memory. Up to `maxExact` the count is exact, as far as hashes tell things apart; beyond that only
 * hashes of a random share are kept, a half less each time, and their number is multiplied (adaptive sampling: Wegman; Flajolet, Computing 43, 1990).
 */
import { mix } from "./hash.ts";

/** Different things up to which a count is exact: 8 bytes a place, of which a quarter to a half are used, are 16 MB. */
export const maxExact = 1 << 20;

/** What a `DistinctCounter` has counted, as its fields: these can be sent to another thread. */
export type DistinctFields = Pick<DistinctCounter, "table" | "level">;

export class DistinctCounter {
  /** Pairs of hash and tag; a tag of 0 is a free place. */
  table: Int32Array;
  /** One of 2^level is kept. */
  level = 0;
  private kept = 0;
  private mask: number;
  private readonly places: number;

  /** @param exact up to how many things the count is exact: a power of 2 */
  constructor(exact = maxExact) {
    this.places = 2 * exact;
    this.mask = Math.min(1 << 10, this.places) - 1;
    this.table = new Int32Array(2 * (this.mask + 1));
  }

  /** How many different things were added: exact, or beyond `maxExact` within some 0.1 %. */
  get count(): number {
    return this.kept * 2 ** this.level;
  }

  /** Two numbers of 32 bits tell a thing from others. @param tag not 0 */
  add(hash: number, tag: number): void {
    if (this.level > 0 && mix(hash ^ Math.imul(tag, 0x9e3779b1)) >>> (32 - this.level) !== 0) return;
    const { table, mask } = this;
    let at = (hash ^ (hash >>> 15)) & mask;
    for (; table[2 * at + 1] !== 0; at = (at + 1) & mask) if (table[2 * at] === hash && table[2 * at + 1] === tag) return;
    table[2 * at] = hash;
    table[2 * at + 1] = tag;
    if (++this.kept * 2 <= mask) return;
    if (mask + 1 < this.places) this.mask = 2 * mask + 1;
    else this.level++;
    this.rebuild();
  }

  private rebuild(): void {
    const { table } = this;
    this.table = new Int32Array(2 * (this.mask + 1));
    this.kept = 0;
    this.addAll(table);
  }

  private addAll(table: Int32Array): void {
    for (let i = 0; i < table.length; i += 2) if (table[i + 1] !== 0) this.add(table[i] as number, table[i + 1] as number);
  }

  /** Adds what another has counted. */
  merge({ table, level }: DistinctFields): void {
    if (level > this.level) {
      this.level = level;
      this.rebuild();
    }
    this.addAll(table);
  }
}
