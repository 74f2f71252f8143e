/** Counts characters and words of texts. */
import { DistinctCounter, type DistinctFields } from "../../util/distinct.ts";
import { type Distribution, Logarithmic } from "./distribution.ts";
import type { TextBlock } from "./textBlocks.ts";

/** White space, as far as it parts words: ASCII's, the no-break space and the ideographic one. */
const isSpace = (unit: number): boolean => unit <= 0x20 || (unit >= 0xa0 && (unit === 0xa0 || unit === 0x3000));

/** First halves of characters above 0xffff, and second ones. */
const isHigh = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000;

/** A character and how often it was seen. */
export interface CharacterCount {
  character: string;
  count: number;
}

/** What a `TextCounts` has counted, as its fields: these can be sent to another thread. */
export type TextCountsFields = Pick<TextCounts, "characters" | "wordTotal" | "characterRates" | "wordRates" | "units" | "astral"> & { words: DistinctFields };

export class TextCounts {
  characters = 0;
  wordTotal = 0;
  readonly characterRates = new Logarithmic();
  readonly wordRates = new Logarithmic();
  /** By UTF-16 unit; halves of pairs are not in it. */
  readonly units = new Float64Array(1 << 16);
  /** By code points above 0xffff. */
  readonly astral = new Map<number, number>();
  /** By a hash of 32 bits, beside length and first letter. */
  readonly words = new DistinctCounter();
  private view = new Uint16Array(0);

  add({ units, ends, seconds }: TextBlock): void {
    this.view = units;
    const mayHavePairs = this.countUnits(units.length);
    let start = 0;
    for (let i = 0; i < ends.length; i++) {
      const end = ends[i] as number;
      const characters = end - start - (mayHavePairs ? this.countPairs(start, end) : 0);
      const words = this.countWords(start, end);
      this.characters += characters;
      this.wordTotal += words;
      const duration = seconds[i] as number;
      if (duration > 0) {
        this.characterRates.add(characters / duration);
        this.wordRates.add(words / duration);
      }
      start = end;
    }
  }

  /** Adds what another has counted. */
  merge(other: TextCountsFields): void {
    this.characters += other.characters;
    this.wordTotal += other.wordTotal;
    this.characterRates.merge(other.characterRates);
    this.wordRates.merge(other.wordRates);
    for (let unit = 0; unit < this.units.length; unit++) this.units[unit]! += other.units[unit] as number;
    for (const [point, count] of other.astral) this.astral.set(point, (this.astral.get(point) ?? 0) + count);
    this.words.merge(other.words);
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
    const counts: CharacterCount[] = [];
    for (let unit = 0; unit < this.units.length; unit++) {
      const count = this.units[unit] as number;
      if (count > 0) counts.push({ character: String.fromCharCode(unit), count });
    }
    for (const [point, count] of this.astral) counts.push({ character: String.fromCodePoint(point), count });
    counts.sort((x, y) => y.count - x.count);
    return {
      characters: { total: this.characters, distinct: counts.length, perSecond: this.characterRates.result(), counts },
      words: { total: this.wordTotal, distinct: this.words.count, perSecond: this.wordRates.result() },
    };
  }
}
