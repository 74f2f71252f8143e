/**
 * What is in manifests: hours, durations, texts, languages, speakers. One pass; what grows with the lines is 8 bytes for each, for the exact
 * percentiles of durations. More than a million different words or speakers (`maxExact`) are counted within some 0.1 %.
 */
import { type Distribution, distribution, type Histogram, histogramOf, Numbers } from "./distribution.ts";
import { isSkipped } from "./entry.ts";
import type { ManifestSpec } from "./inputs.ts";
import { audioKeys, durationOf, firstKey, rateKeys, textOf } from "./keys.ts";
import { eachManifestLine, type ManifestObject, type ReadLinesOptions } from "./lines.ts";
import { maxNames, type Share, Shares } from "./shares.ts";
import { TextCounter } from "./textCounter.ts";
import type { CharacterCount } from "./textCounts.ts";

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
  characters: { total: number; distinct: number; perSecond: Distribution | undefined; counts: CharacterCount[] };
  words: { total: number; distinct: number; perUtterance: number; perSecond: Distribution | undefined };
  emptyTexts: number;
  withOffset: number;
  samplingRates: Record<string, Share>;
  languages: Record<string, Share>;
  /** The speakers with the most audio, and how many there are in all. */
  speakers: { distinct: number; largest: Record<string, Share> };
  keys: Record<string, number>;
}

const objectOf = (value: unknown): ManifestObject => (typeof value === "object" && value !== null ? (value as ManifestObject) : {});

/** A cut of lhotse with what its recording and supervisions say under NeMo's names. */
function withSupervisions(line: ManifestObject): ManifestObject {
  const supervisions = (line["supervisions"] as unknown[]).map(objectOf);
  const first = (key: string): unknown => supervisions.map((one) => one[key]).find((value) => value !== undefined && value !== null);
  const texts = supervisions.map(({ text }) => text).filter((text) => typeof text === "string" && text !== "");
  return { duration: line["duration"], text: texts.join(" "), lang: first("language"), speaker: first("speaker"), sampling_rate: objectOf(line["recording"])["sampling_rate"] };
}

/** Counts what lines hold, those of NeMo's manifests and lhotse's cuts; feed it, then ask. */
export class StatsCollector {
  private utterances = 0;
  private skipped = 0;
  private seconds = 0;
  private withoutDuration = 0;
  private emptyTexts = 0;
  private withOffset = 0;
  private readonly durations = new Numbers();
  private readonly texts = new TextCounter();
  private readonly rates = new Shares();
  private readonly languages = new Shares();
  private readonly speakers = new Shares();
  private readonly keys = new Map<string, { key: string; count: number }>();
  private readonly keyOrder: { key: string; count: number }[] = [];

  add(read: ManifestObject): void {
    if (isSkipped(read)) {
      this.skipped++;
      return;
    }
    const line = Array.isArray(read["supervisions"]) && firstKey(read, audioKeys) === undefined ? withSupervisions(read) : read;
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
    else this.texts.add(text, seconds);
    this.countKeys(read);
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

  /** Ends the thread that counts texts, where there is one and the counts are not wanted any more. */
  async close(): Promise<void> {
    await this.texts.close();
  }

  /** The counts. Call it once. */
  async result(badLines = 0): Promise<ManifestStats> {
    const durations = this.durations.all;
    const duration = distribution(durations);
    const histogram = duration === undefined ? undefined : histogramOf(durations);
    const { characters, words } = (await this.texts.result()).result();
    return {
      utterances: this.utterances,
      skipped: this.skipped,
      badLines,
      seconds: this.seconds,
      duration,
      withoutDuration: this.withoutDuration,
      histogram,
      characters,
      words: { ...words, perUtterance: this.utterances === 0 ? 0 : words.total / this.utterances },
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
  try {
    await eachManifestLine(spec, (line) => collector.add(line), options, onProgress);
    return await collector.result(badLines);
  } finally {
    await collector.close();
  }
}
