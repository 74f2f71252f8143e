/** `serac manifest stats`: what is in a manifest. */
import { type Distribution, type ManifestStats, manifestStats as statsOf } from "../data/index.ts";
import { maxExact } from "../util/distinct.ts";
import { integer } from "../util/options.ts";
import { command } from "./command.ts";
import { BadLines, lineProgress, manifests, readOptions, showHours, showInput } from "./manifestOptions.ts";
import type { Output } from "./output.ts";

const blocks = " ▏▎▍▌▋▊▉█";

/** A bar of eighths of a character. */
function bar(part: number, width: number): string {
  const eighths = Math.round(part * width * 8);
  return "█".repeat(Math.floor(eighths / 8)) + (eighths % 8 === 0 ? "" : (blocks[eighths % 8] as string));
}

/** A number of different things, which is counted exactly up to a limit. */
const about = (distinct: number): string => (distinct > maxExact ? `about ${distinct}` : String(distinct));

const show = (value: number): string => value.toFixed(value < 10 ? 2 : 1);

function row(name: string, { mean, min, max, percentiles }: Distribution): string {
  return `${name.padEnd(22)}${[min, percentiles["5"], percentiles["25"], percentiles["50"], percentiles["75"], percentiles["95"], max, mean].map((value) => show(value).padStart(9)).join("")}`;
}

const visible = (character: string): string =>
  /[\p{C}\p{Z}]/u.test(character) ? (character === " " ? "space" : `U+${(character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, "0")}`) : character;

function print(stats: ManifestStats, out: Output, characters: number): void {
  const { duration, histogram, words, speakers } = stats;
  out.print(`utterances            ${stats.utterances}${stats.skipped > 0 ? ` (and ${stats.skipped} with _skipme)` : ""}`);
  out.print(`audio                 ${showHours(stats.seconds)}${stats.withoutDuration > 0 ? `, without ${stats.withoutDuration} lines that have no duration` : ""}`);
  if (stats.withOffset > 0) out.print(`with an offset        ${stats.withOffset}`);
  if (stats.emptyTexts > 0) out.print(`without text          ${stats.emptyTexts}`);
  out.print(`words                 ${words.total}, ${about(words.distinct)} different, ${words.perUtterance.toFixed(1)} an utterance`);
  out.print(`characters            ${stats.characters.total}, ${stats.characters.distinct} different`);
  const rates = [duration, stats.characters.perSecond, words.perSecond];
  if (rates.some((one) => one !== undefined)) {
    out.print("");
    out.print(`${"".padEnd(22)}${["min", "5 %", "25 %", "50 %", "75 %", "95 %", "max", "mean"].map((name) => name.padStart(9)).join("")}`);
    ["seconds", "characters a second", "words a second"].forEach((name, i) => rates[i] && out.print(row(name, rates[i] as Distribution)));
  }
  if (histogram) {
    out.print("");
    const most = Math.max(...histogram.counts);
    const digits = Math.max(0, -Math.floor(Math.log10(histogram.step) + 1e-9));
    histogram.counts.forEach((count, i) => {
      const from = (histogram.min + i * histogram.step).toFixed(digits);
      out.print(`${from.padStart(8)} s  ${bar(count / most, 50).padEnd(50)} ${count}`);
    });
  }
  const shares: [string, Record<string, { utterances: number; seconds: number }>, number][] = [
    ["languages", stats.languages, Object.keys(stats.languages).length],
    ["sampling rates", stats.samplingRates, Object.keys(stats.samplingRates).length],
    ["speakers", speakers.largest, speakers.distinct],
  ];
  for (const [name, byName, distinct] of shares) {
    if (distinct === 0) continue;
    out.print("");
    out.print(`${name} (${about(distinct)})`);
    for (const [one, { utterances, seconds }] of Object.entries(byName).slice(0, 10))
      out.print(`  ${one.padEnd(20)}${showHours(seconds).padStart(12)}${String(utterances).padStart(12)}`);
    if (distinct > 10) out.print(`  and ${about(distinct - 10)} more`);
  }
  if (characters > 0 && stats.characters.counts.length > 0) {
    out.print("");
    out.print("characters");
    const list = stats.characters.counts.slice(0, characters).map(({ character, count }) => `${visible(character)} ${count}`);
    for (let i = 0; i < list.length; i += 8)
      out.print(
        `  ${list
          .slice(i, i + 8)
          .map((one) => one.padEnd(14))
          .join("")
          .trimEnd()}`,
      );
    if (stats.characters.counts.length > characters) out.print(`  and ${stats.characters.counts.length - characters} rarer ones`);
  }
}

export const manifestStats = command({
  name: "manifest stats",
  summary: "Hours, durations, characters, words, languages and speakers of manifests",
  examples: ["serac manifest stats train.jsonl", "serac manifest stats 'manifest_{0..63}.json' --json"],
  positional: { manifest: manifests },
  options: { ...readOptions, characters: integer({ default: 80, min: 0, help: "how many of the most frequent characters to show" }) },
  async run({ manifest, skipBadLines, characters }, out) {
    const bad = new BadLines(skipBadLines);
    const progress = lineProgress(out, "reading");
    const stats = await statsOf(manifest, { ...bad.options, onProgress: progress.onProgress });
    progress.finish();
    bad.report(out);
    if (out.json) out.print(JSON.stringify(stats));
    else print(stats, out, characters);
    out.next(`serac manifest check ${showInput(manifest)}`);
  },
});
