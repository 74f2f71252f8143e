/**
 * Counts characters and words of texts. Texts are gathered and looked at together as UTF-16 units in flat memory, because asking a string for its units
 * one by one costs several times as much.
 */
import { type Distribution, Logarithmic } from "./distribution.ts";

/** White space, as far as it parts words: ASCII's, the no-break space and the ideographic one. */
const isSpace = (unit: number): boolean => unit <= 0x20 || (unit >= 0xa0 && (unit === 0xa0 || unit === 0x3000));

/** First halves of characters above 0xffff, and second ones. */
const isHigh = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000;

/** Units that are looked at together: few enough for the processor's cache. */
const blockUnits = 1 << 15;

/** Different words, by a hash of 32 bits beside length and first letter: 8 bytes a place, of which a quarter to a half are used. */
class WordSet {
  size = 0;
  private mask = (1 << 12) - 1;
  /** Pairs of hash and tag; a tag of 0 is a free place. */
  private table = new Int32Array(2 << 12);

  /** @param tag not 0 */
  add(hash: number, tag: number): void {
    const { table, mask } = this;
    let at = (hash ^ (hash >>> 15)) & mask;
    for (; table[2 * at + 1] !== 0; at = (at + 1) & mask) if (table[2 * at] === hash && table[2 * at + 1] === tag) return;
    table[2 * at] = hash;
    table[2 * at + 1] = tag;
    if (++this.size * 2 > mask) this.grow();
  }

  private grow(): void {
    const { table } = this;
    this.mask = 2 * this.mask + 1;
    this.table = new Int32Array(2 * (this.mask + 1));
    this.size = 0;
    for (let i = 0; i < table.length; i += 2) if (table[i + 1] !== 0) this.add(table[i] as number, table[i + 1] as number);
  }
}

/** A character and how often it was seen. */
export interface CharacterCount {
  character: string;
  count: number;
}

export class TextCounts {
  private characters = 0;
  private wordTotal = 0;
  private readonly characterRates = new Logarithmic();
  private readonly wordRates = new Logarithmic();
  /** By UTF-16 unit; halves of pairs are not in it. */
  private readonly units = new Float64Array(1 << 16);
  /** By code points above 0xffff. */
  private readonly astral = new Map<number, number>();
  private readonly words = new WordSet();
  private block = Buffer.allocUnsafe(2 * 2 * blockUnits);
  private view = new Uint16Array(this.block.buffer, this.block.byteOffset, this.block.length / 2);
  private pending: string[] = [];
  private pendingSeconds: number[] = [];
  private pendingUnits = 0;

  /** @param seconds of the audio; 0 where they are not known */
  add(text: string, seconds: number): void {
    this.pending.push(text);
    this.pendingSeconds.push(seconds);
    this.pendingUnits += text.length;
    if (this.pendingUnits >= blockUnits) this.flush();
  }

  private flush(): void {
    const { pending, pendingSeconds, pendingUnits } = this;
    if (2 * pendingUnits > this.block.length) {
      this.block = Buffer.allocUnsafe(2 * pendingUnits);
      this.view = new Uint16Array(this.block.buffer, this.block.byteOffset, this.block.length / 2);
    }
    this.block.write(pending.join(""), "utf16le"); // the order of bytes of every machine that Node and libtorch are built for
    const mayHavePairs = this.countUnits(pendingUnits);
    let start = 0;
    for (let i = 0; i < pending.length; i++) {
      const end = start + (pending[i] as string).length;
      const seconds = pendingSeconds[i] as number;
      const characters = end - start - (mayHavePairs ? this.countPairs(start, end) : 0);
      const words = this.countWords(start, end);
      this.characters += characters;
      this.wordTotal += words;
      if (seconds > 0) {
        this.characterRates.add(characters / seconds);
        this.wordRates.add(words / seconds);
      }
      start = end;
    }
    this.pending = [];
    this.pendingSeconds = [];
    this.pendingUnits = 0;
  }

  /** Counts the units of a block: a loop of its own, which runs twice as fast as one that also looks for words. @returns false where none of them is half of a pair */
  private countUnits(count: number): boolean {
    const { units, view } = this;
    let all = 0;
    for (let i = 0; i < count; i++) {
      const unit = view[i] as number;
      units[unit]!++;
      all |= unit;
    }
    return all >= 0xd800;
  }

  /** Moves the halves of pairs from `units` to `astral`. @returns how many pairs a text has */
  private countPairs(from: number, to: number): number {
    const { units, view, astral } = this;
    let pairs = 0;
    for (let i = from; i + 1 < to; i++) {
      const high = view[i] as number;
      const low = view[i + 1] as number;
      if (!isHigh(high) || !isLow(low)) continue;
      const point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
      astral.set(point, (astral.get(point) ?? 0) + 1);
      units[high]!--;
      units[low]!--;
      pairs++;
      i++;
    }
    return pairs;
  }

  /** Hashes the words of a text by FNV-1a. @returns how many there are */
  private countWords(from: number, to: number): number {
    const { words, view } = this;
    let count = 0;
    let start = from;
    let hash = 0x811c9dc5 | 0;
    for (let i = from; i < to; i++) {
      const unit = view[i] as number;
      if (!isSpace(unit)) {
        hash = Math.imul(hash ^ unit, 0x01000193);
        continue;
      }
      if (i > start) {
        words.add(hash, ((view[start] as number) << 16) ^ (i - start));
        count++;
        hash = 0x811c9dc5 | 0;
      }
      start = i + 1;
    }
    if (to > start) {
      words.add(hash, ((view[start] as number) << 16) ^ (to - start));
      count++;
    }
    return count;
  }

  /** The counts; the most frequent characters first. */
  result(): {
    characters: { total: number; distinct: number; perSecond: Distribution | undefined; counts: CharacterCount[] };
    words: { total: number; distinct: number; perSecond: Distribution | undefined };
  } {
    this.flush();
    const counts: CharacterCount[] = [];
    for (let unit = 0; unit < this.units.length; unit++) {
      const count = this.units[unit] as number;
      if (count > 0) counts.push({ character: String.fromCharCode(unit), count });
    }
    for (const [point, count] of this.astral) counts.push({ character: String.fromCodePoint(point), count });
    counts.sort((x, y) => y.count - x.count);
    return {
      characters: { total: this.characters, distinct: counts.length, perSecond: this.characterRates.result(), counts },
      words: { total: this.wordTotal, distinct: this.words.size, perSecond: this.wordRates.result() },
    };
  }
}
