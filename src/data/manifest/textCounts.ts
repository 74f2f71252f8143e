/**
 * Counts characters and words of texts. Texts are gathered and looked at together as UTF-16 units in flat memory, because asking a string for its units
 * one by one costs several times as much.
 */
import { HashTable } from "../../util/hash.ts";
import { type Distribution, Logarithmic } from "./distribution.ts";

/** White space, as far as it parts words: ASCII's, the no-break space and the ideographic one. */
const isSpace = (unit: number): boolean => unit <= 0x20 || unit === 0xa0 || unit === 0x3000;

/** Units that are looked at together: few enough for the processor's cache. */
const blockUnits = 1 << 15;

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
  private readonly words = new HashTable();
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
    const { pending, pendingSeconds } = this;
    if (2 * this.pendingUnits > this.block.length) {
      this.block = Buffer.allocUnsafe(2 * this.pendingUnits);
      this.view = new Uint16Array(this.block.buffer, this.block.byteOffset, this.block.length / 2);
    }
    this.block.write(pending.join(""), "utf16le"); // the order of bytes of every machine that Node and libtorch are built for
    let start = 0;
    for (let i = 0; i < pending.length; i++) {
      const end = start + (pending[i] as string).length;
      this.count(start, end, pendingSeconds[i] as number);
      start = end;
    }
    this.pending = [];
    this.pendingSeconds = [];
    this.pendingUnits = 0;
  }

  /** Counts a text of the block. */
  private count(from: number, to: number, seconds: number): void {
    const { units, words, view } = this;
    let wordCount = 0;
    let pairs = 0;
    for (let i = from; i < to; ) {
      let unit = view[i] as number;
      if (isSpace(unit)) {
        units[unit]!++;
        i++;
        continue;
      }
      // A word: its hash is FNV-1a, with its length and first letter as the other half.
      const start = i;
      const first = unit;
      let hash = 0x811c9dc5 | 0;
      do {
        units[unit]!++;
        hash = Math.imul(hash ^ unit, 0x01000193);
        if (unit >= 0xd800 && unit < 0xdc00 && i + 1 < to) {
          const next = view[i + 1] as number;
          if (next >= 0xdc00 && next < 0xe000) {
            const point = 0x10000 + ((unit - 0xd800) << 10) + (next - 0xdc00);
            units[unit]!--;
            this.astral.set(point, (this.astral.get(point) ?? 0) + 1);
            pairs++;
            hash = Math.imul(hash ^ next, 0x01000193);
            i++;
          }
        }
        unit = ++i < to ? (view[i] as number) : 0x20;
      } while (!isSpace(unit));
      words.add(hash, (first << 16) ^ (i - start));
      wordCount++;
    }
    const characters = to - from - pairs;
    this.characters += characters;
    this.wordTotal += wordCount;
    if (seconds > 0) {
      this.characterRates.add(characters / seconds);
      this.wordRates.add(wordCount / seconds);
    }
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
