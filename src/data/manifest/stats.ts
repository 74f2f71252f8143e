/**
 * What is in manifests: hours, durations, texts, languages, speakers. One pass; memory is 8 bytes a line for the exact percentiles
 * of durations, and 16 to 32 bytes for each different word.
 */
import { HashTable, hashText, NumberList } from "../../util/hash.ts";
import { isSkipped } from "./entry.ts";
import type { ManifestSpec } from "./inputs.ts";
import { durationOf, firstKey, rateKeys, textOf } from "./keys.ts";
import { type ManifestObject, type ReadLinesOptions, readManifestBatches } from "./lines.ts";

/**
 * How some quantity is distributed. Percentiles of durations are exact, linear between the two nearest values as numpy's; those of rates are
 * within 0.05 %.
 */
export interface Distribution {
  count: number;
  mean: number;
  min: number;
  max: number;
  percentiles: Record<"1" | "5" | "10" | "25" | "50" | "75" | "90" | "95" | "99", number>;
}

/** Equal steps from `min` to `max`. */
export interface Histogram {
  min: number;
  step: number;
  counts: number[];
}

/** Utterances and seconds of one speaker, language or sampling rate. */
export interface Share {
  utterances: number;
  seconds: number;
}

export interface ManifestStats {
  utterances: number;
  /** Lines that `_skipme` leaves out; they are counted nowhere else. */
  skipped: number;
  badLines: number;
  seconds: number;
  /** Seconds; over the lines that have a duration. */
  duration: Distribution | undefined;
  withoutDuration: number;
  histogram: Histogram | undefined;
  characters: { total: number; distinct: number; perSecond: Distribution | undefined; counts: { character: string; count: number }[] };
  words: { total: number; distinct: number; perUtterance: number; perSecond: Distribution | undefined };
  emptyTexts: number;
  withOffset: number;
  samplingRates: Record<string, Share>;
  languages: Record<string, Share>;
  /** The speakers with the most audio, and how many there are in all. */
  speakers: { distinct: number; largest: Record<string, Share> };
  keys: Record<string, number>;
}

/** Names that are counted one by one; of further ones only the number is kept. */
const maxNames = 100_000;

/** Sums by name, in bounded memory. */
class Shares {
  readonly byName = new Map<string, Share>();
  private readonly others = new HashTable(1 << 8);
  private lastName: string | undefined;
  private last: Share | undefined;

  add(name: string, seconds: number): void {
    const share = name === this.lastName ? this.last : this.byName.get(name);
    if (share !== undefined) {
      this.lastName = name;
      this.last = share;
      share.utterances++;
      share.seconds += seconds;
    } else if (this.byName.size < maxNames) this.byName.set(name, { utterances: 1, seconds });
    else {
      const { high, low } = hashText(name);
      this.others.add(high, low);
    }
  }

  get distinct(): number {
    return this.byName.size + this.others.size;
  }

  largest(count = Number.POSITIVE_INFINITY): Record<string, Share> {
    return Object.fromEntries([...this.byName].sort(([, a], [, b]) => b.seconds - a.seconds || b.utterances - a.utterances).slice(0, count));
  }
}

/** Sorts `values` and describes them. */
export function distribution(values: Float64Array): Distribution | undefined {
  if (values.length === 0) return undefined;
  values.sort();
  const at = (percent: number): number => {
    const place = (percent / 100) * (values.length - 1);
    const low = values[Math.floor(place)] as number;
    return low + ((values[Math.ceil(place)] as number) - low) * (place % 1);
  };
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i] as number; // by index: several times as fast over millions
  return {
    count: values.length,
    mean: sum / values.length,
    min: values[0] as number,
    max: values[values.length - 1] as number,
    percentiles: { 1: at(1), 5: at(5), 10: at(10), 25: at(25), 50: at(50), 75: at(75), 90: at(90), 95: at(95), 99: at(99) },
  };
}

/** Positive numbers, counted in steps of 0.1 %: percentiles in constant memory. */
class Logarithmic {
  private readonly counts = new Float64Array(1 << 15); // from exp(-16) to exp(16)
  private count = 0;
  private sum = 0;
  private min = Number.POSITIVE_INFINITY;
  private max = 0;

  add(value: number): void {
    this.count++;
    this.sum += value;
    if (value < this.min) this.min = value;
    if (value > this.max) this.max = value;
    const place = value > 0 ? Math.round((Math.log(value) + 16) * 1000) : 0;
    this.counts[place < 0 ? 0 : Math.min(place, 32000)]!++;
  }

  result(): Distribution | undefined {
    const { count, sum, min, max, counts } = this;
    if (count === 0) return undefined;
    const at = (percent: number): number => {
      let left = (percent / 100) * (count - 1);
      let place = 0;
      while (place < 32000 && left >= (counts[place] as number)) left -= counts[place++] as number;
      return Math.min(max, Math.max(min, place === 0 ? 0 : Math.exp(place / 1000 - 16)));
    };
    return { count, mean: sum / count, min, max, percentiles: { 1: at(1), 5: at(5), 10: at(10), 25: at(25), 50: at(50), 75: at(75), 90: at(90), 95: at(95), 99: at(99) } };
  }
}

/** Of sorted values, in steps of 1, 2 or 5 times a power of ten. */
function histogramOf(sorted: Float64Array, bars = 20): Histogram {
  const max = sorted[sorted.length - 1] as number;
  const min = sorted[0] as number;
  const raw = Math.max((max - min) / bars, 1e-3);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999) as number);
  const first = Math.floor(min / step) * step;
  const counts: number[] = new Array(Math.floor((max - first) / step) + 1).fill(0);
  for (let i = 0; i < sorted.length; i++) counts[Math.floor(((sorted[i] as number) - first) / step)]!++;
  return { min: first, step, counts };
}

/** White space, as far as it parts words: ASCII's, the no-break space and the ideographic one. */
const isSpace = (unit: number): boolean => unit <= 0x20 || unit === 0xa0 || unit === 0x3000;

/** Counts what lines hold; feed it, then ask. */
export class StatsCollector {
  private utterances = 0;
  private skipped = 0;
  private seconds = 0;
  private withoutDuration = 0;
  private emptyTexts = 0;
  private withOffset = 0;
  private characterTotal = 0;
  private wordTotal = 0;
  private readonly durations = new NumberList();
  private readonly characterRates = new Logarithmic();
  private readonly wordRates = new Logarithmic();
  /** Counts of UTF-16 units, moved to `unitTotals` before they can overflow. */
  private readonly units = new Uint32Array(1 << 16);
  private readonly unitTotals = new Float64Array(1 << 16);
  private unitsSince = 0;
  private readonly astral = new Map<number, number>();
  private readonly words = new HashTable();
  private readonly rates = new Shares();
  private readonly languages = new Shares();
  private readonly speakers = new Shares();
  private readonly keys = new Map<string, { key: string; count: number }>();
  private readonly keyOrder: { key: string; count: number }[] = [];

  add(line: ManifestObject): void {
    if (isSkipped(line)) {
      this.skipped++;
      return;
    }
    this.utterances++;
    const duration = durationOf(line);
    const seconds = duration ?? 0;
    if (duration === undefined) this.withoutDuration++;
    else {
      this.durations.push(duration);
      this.seconds += duration;
    }
    if (typeof line["offset"] === "number") this.withOffset++;
    const text = textOf(line);
    if (text === undefined || text === "") this.emptyTexts++;
    else this.countText(text, seconds);
    this.countKeys(line);
    const rate = firstKey(line, rateKeys);
    if (rate !== undefined) this.rates.add(String(line[rate]), seconds);
    const { lang, target_lang: target, speaker } = line;
    if (typeof lang === "string") this.languages.add(lang, seconds);
    else if (typeof target === "string") this.languages.add(target, seconds);
    if (typeof speaker === "string" || typeof speaker === "number") this.speakers.add(String(speaker), seconds);
  }

  /** Most lines have the keys of the line before, in the same order. */
  private countKeys(line: ManifestObject): void {
    let place = 0;
    for (const key in line) {
      let slot = this.keyOrder[place];
      if (slot === undefined || slot.key !== key) {
        slot = this.keys.get(key);
        if (slot === undefined) {
          if (this.keys.size >= maxNames) continue;
          slot = { key, count: 0 };
          this.keys.set(key, slot);
        }
        this.keyOrder[place] = slot;
      }
      slot.count++;
      place++;
    }
  }

  private countText(text: string, seconds: number): void {
    const { units, words } = this;
    const { length } = text;
    let wordCount = 0;
    let pairs = 0;
    for (let i = 0; i < length; ) {
      let unit = text.charCodeAt(i);
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
        if (unit >= 0xd800 && unit < 0xdc00) {
          const point = text.codePointAt(i) as number;
          if (point > 0xffff) {
            units[unit]!--;
            this.astral.set(point, (this.astral.get(point) ?? 0) + 1);
            pairs++;
            hash = Math.imul(hash ^ text.charCodeAt(++i), 0x01000193);
          }
        }
        unit = text.charCodeAt(++i);
      } while (i < length && !isSpace(unit));
      words.add(hash, (first << 16) ^ (i - start));
      wordCount++;
    }
    const characters = length - pairs;
    this.characterTotal += characters;
    this.wordTotal += wordCount;
    if (seconds > 0) {
      this.characterRates.add(characters / seconds);
      this.wordRates.add(wordCount / seconds);
    }
    this.unitsSince += length;
    if (this.unitsSince > 2 ** 31) this.moveUnits();
  }

  private moveUnits(): void {
    for (let unit = 0; unit < this.units.length; unit++) this.unitTotals[unit]! += this.units[unit] as number;
    this.units.fill(0);
    this.unitsSince = 0;
  }

  /** The counts. The collector is empty afterwards. */
  result(badLines = 0): ManifestStats {
    const durations = this.durations.take();
    const duration = distribution(durations);
    const histogram = duration === undefined ? undefined : histogramOf(durations);
    const counts: { character: string; count: number }[] = [];
    this.moveUnits();
    this.unitTotals.forEach((count, unit) => {
      if (count > 0) counts.push({ character: String.fromCharCode(unit), count });
    });
    for (const [point, count] of this.astral) counts.push({ character: String.fromCodePoint(point), count });
    counts.sort((x, y) => y.count - x.count);
    return {
      utterances: this.utterances,
      skipped: this.skipped,
      badLines,
      seconds: this.seconds,
      duration,
      withoutDuration: this.withoutDuration,
      histogram,
      characters: { total: this.characterTotal, distinct: counts.length, perSecond: this.characterRates.result(), counts },
      words: {
        total: this.wordTotal,
        distinct: this.words.size,
        perUtterance: this.utterances === 0 ? 0 : this.wordTotal / this.utterances,
        perSecond: this.wordRates.result(),
      },
      emptyTexts: this.emptyTexts,
      withOffset: this.withOffset,
      samplingRates: this.rates.largest(),
      languages: this.languages.largest(),
      speakers: { distinct: this.speakers.distinct, largest: this.speakers.largest(20) },
      keys: Object.fromEntries([...this.keys].map(([key, { count }]) => [key, count])),
    };
  }
}

/**
 * Counts what manifests hold.
 * @param onProgress called with the number of lines of each block
 * @throws ManifestError and FormatError of reading; bad lines are counted where `onError` takes them
 */
export async function manifestStats(spec: ManifestSpec, { onError, onProgress }: ReadLinesOptions & { onProgress?: (lines: number) => void } = {}): Promise<ManifestStats> {
  const collector = new StatsCollector();
  let badLines = 0;
  const options: ReadLinesOptions = onError
    ? {
        onError: (error) => {
          badLines++;
          onError(error);
        },
      }
    : {};
  for await (const lines of readManifestBatches(spec, options)) {
    for (const { value } of lines) collector.add(value);
    onProgress?.(lines.length);
  }
  return collector.result(badLines);
}
