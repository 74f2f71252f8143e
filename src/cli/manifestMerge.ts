/** `serac manifest merge`: several manifests in one. */
import { mergeManifests } from "../data/index.ts";
import { boolean } from "../util/options.ts";
import { command } from "./command.ts";
import { BadLines, lineProgress, manifests, readOptions, showHours, writeOptions } from "./manifestOptions.ts";

export const manifestMerge = command({
  name: "manifest merge",
  summary: "Write several manifests as one",
  description: "Relative paths are rewritten, so that they name the same audio from where the new manifest lies.",
  examples: ["serac manifest merge en/train.jsonl de/train.jsonl -o train.jsonl", "serac manifest merge 'part_{0..9}.jsonl' --deduplicate -o all.jsonl.gz"],
  positional: { manifest: manifests },
  options: {
    deduplicate: boolean({ default: false, help: "leave out lines that name the same audio, offset and duration as an earlier one" }),
    ...writeOptions,
    ...readOptions,
  },
  async run({ manifest, deduplicate, out: file, paths, skipBadLines }, out) {
    const bad = new BadLines(skipBadLines);
    const progress = lineProgress(out, "merging");
    const result = await mergeManifests(manifest, file, { ...bad.options, deduplicate, paths, onProgress: progress.onProgress });
    progress.finish();
    bad.report(out);
    if (out.json && file !== "-") out.print(JSON.stringify({ ...result, badLines: bad.count, out: file }));
    out.say(`wrote ${result.kept} lines (${showHours(result.keptSeconds)})${result.dropped > 0 ? `, left out ${result.dropped} duplicates` : ""}`);
    if (file !== "-") out.next(`serac manifest check ${file}`);
  },
});
