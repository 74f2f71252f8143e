/** `serac manifest sample`: some lines at random. */
import { sampleManifest } from "../data/index.ts";
import { integer, number } from "../util/options.ts";
import { command } from "./command.ts";
import { BadLines, lineProgress, manifests, readOptions, showHours, writeOptions } from "./manifestOptions.ts";

export const manifestSample = command({
  name: "manifest sample",
  summary: "Write some lines of manifests, chosen at random",
  description: "The order of the lines stays; the seed decides which are chosen. Lines with _skipme are not.",
  examples: ["serac manifest sample all.jsonl --count 1000 -o some.jsonl", "serac manifest sample all.jsonl --hours 10 --seed 3 -o ten-hours.jsonl"],
  positional: { manifest: manifests },
  options: {
    count: integer({ short: "n", min: 0, help: "number of lines" }),
    ratio: number({ min: 0, max: 1, help: "share of the lines" }),
    hours: number({ min: 0, help: "hours of audio, at most" }),
    seed: integer({ default: 0, help: "another seed chooses others" }),
    ...writeOptions,
    ...readOptions,
  },
  async run({ manifest, count, ratio, hours, seed, out: file, paths, skipBadLines }, out) {
    const bad = new BadLines(skipBadLines);
    const progress = lineProgress(out, "sampling");
    const size = { seed, ...(count === undefined ? {} : { count }), ...(ratio === undefined ? {} : { ratio }), ...(hours === undefined ? {} : { hours }) };
    const result = await sampleManifest(manifest, file, size, { ...bad.options, paths, onProgress: progress.onProgress });
    progress.finish();
    bad.report(out);
    if (out.json && file !== "-") out.print(JSON.stringify({ ...result, badLines: bad.count, out: file }));
    out.say(`chose ${result.kept} of ${result.kept + result.dropped} (${showHours(result.keptSeconds)})`);
  },
});
