/** `serac manifest filter`: the lines that fulfil conditions. */
import { type Condition, filterManifest, parseCondition } from "../data/index.ts";
import { boolean, number, path, string, strings } from "../util/options.ts";
import { command } from "./command.ts";
import { BadLines, lineProgress, manifests, readOptions, showHours, writeOptions } from "./manifestOptions.ts";

export const manifestFilter = command({
  name: "manifest filter",
  summary: "Write the lines of manifests that fulfil conditions",
  description: [
    "Conditions compare keys with values: =, !=, <, <=, >, >=, ~ (regular expression), !~, in A|B; a key alone must be there and not be empty.",
    "They are joined by and, or, not and parentheses; custom.snr looks inside of objects; chars, words, char_rate and word_rate are computed.",
    "Lines are written as they were read. All that is given must hold.",
  ].join("\n"),
  examples: [
    "serac manifest filter train.jsonl --min-duration 1 --max-duration 20 -o train-1-20.jsonl",
    "serac manifest filter all.jsonl --where 'lang in en|de and char_rate < 25 and not text ~ \"[0-9]\"' -o clean.jsonl --rejected rest.jsonl",
  ],
  positional: { manifest: manifests },
  options: {
    where: string({ unit: "condition", help: "what lines must fulfil", group: "Conditions" }),
    minDuration: number({ min: 0, unit: "seconds", help: "shorter lines are left out", group: "Conditions" }),
    maxDuration: number({ min: 0, unit: "seconds", help: "longer lines are left out", group: "Conditions" }),
    lang: strings({ unit: "codes", help: "languages to keep", group: "Conditions" }),
    speaker: strings({ unit: "names", help: "speakers to keep", group: "Conditions" }),
    invert: boolean({ default: false, help: "write the lines that do not fulfil all of it", group: "Conditions" }),
    rejected: path({ unit: "file", help: "manifest for the lines that are left out", group: "Writing" }),
    ...writeOptions,
    ...readOptions,
  },
  async run({ manifest, out: file, where, minDuration, maxDuration, lang, speaker, invert, rejected, paths, skipBadLines }, out) {
    const parts: Condition[] = [];
    if (where !== undefined) parts.push(parseCondition(where));
    // A line without a duration passes the bounds, as in NeMo.
    if (minDuration !== undefined) parts.push(({ duration }) => typeof duration !== "number" || duration >= minDuration);
    if (maxDuration !== undefined) parts.push(({ duration }) => typeof duration !== "number" || duration <= maxDuration);
    if (lang !== undefined) parts.push((line) => lang.includes(String(line["lang"] ?? line["target_lang"])));
    if (speaker !== undefined) parts.push((line) => speaker.includes(String(line["speaker"])));
    const bad = new BadLines(skipBadLines);
    const progress = lineProgress(out, "filtering");
    const result = await filterManifest(manifest, file, (line) => parts.every((part) => part(line)) !== invert, {
      ...bad.options,
      ...(rejected === undefined ? {} : { rejected }),
      paths,
      onProgress: progress.onProgress,
    });
    progress.finish();
    bad.report(out);
    if (out.json && file !== "-") out.print(JSON.stringify({ ...result, badLines: bad.count, out: file, rejected }));
    out.say(`kept ${result.kept} (${showHours(result.keptSeconds)}), left out ${result.dropped} (${showHours(result.droppedSeconds)})`);
    if (file !== "-") out.next(`serac manifest stats ${file}`);
  },
});
