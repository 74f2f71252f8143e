/** `serac manifest split`: parts for training, validation and tests. */
import { join } from "node:path";
import { type SplitPart, splitManifest } from "../data/index.ts";
import { ConfigError } from "../util/errors.ts";
import { integer, path, string, strings } from "../util/options.ts";
import { command } from "./command.ts";
import { BadLines, lineProgress, manifests, pathsOption, readOptions, showHours } from "./manifestOptions.ts";

/** Reads "train=0.9", "valid=2h", "test=1000", "train=rest". */
function readPart(text: string, folder: string): SplitPart {
  const [, name, size] = /^([^=]+)=(.+)$/.exec(text.trim()) ?? [];
  const bad = () =>
    new ConfigError("CONFIG_BAD_VALUE", {
      message: `--parts has ${JSON.stringify(text)}, expected NAME=SIZE`,
      fix: "write sizes as 0.9 (share), 2h (hours), 1000 (utterances) or rest",
    });
  if (name === undefined || size === undefined) throw bad();
  const file = join(folder, /\.jsonl?(\.gz)?$/.test(name) ? name : `${name}.jsonl`);
  if (size === "rest") return { path: file, amount: "rest" };
  const [, digits, unit] = /^(\d+\.?\d*|\.\d+)(h|%)?$/.exec(size) ?? [];
  if (digits === undefined) throw bad();
  const value = Number(digits);
  if (unit === "h") return { path: file, amount: { hours: value } };
  if (unit === "%") return { path: file, amount: { ratio: value / 100 } };
  if (value < 1 || digits.includes(".")) return { path: file, amount: { ratio: value } };
  return { path: file, amount: { count: value } };
}

export const manifestSplit = command({
  name: "manifest split",
  summary: "Split manifests in parts by share, hours or number, without leaks",
  description: "Sizes are shares of the utterances (0.9 or 90%), hours (2h), utterances (1000) or rest. Parts keep the order of the lines; the seed decides which goes where.",
  examples: [
    "serac manifest split all.jsonl --parts train=0.9,valid=0.05,test=0.05 --by speaker --out-dir split",
    "serac manifest split all.jsonl --parts valid=2h,test=2h,train=rest --seed 7",
  ],
  positional: { manifest: manifests },
  options: {
    parts: strings({ required: true, unit: "name=size,...", help: "the parts: each becomes NAME.jsonl" }),
    by: string({ unit: "key", help: "lines with the same value of this key stay together: speaker, audio (the recording), or any key" }),
    seed: integer({ default: 0, help: "another seed gives another split" }),
    outDir: path({ default: ".", unit: "folder", help: "where the parts go", group: "Writing" }),
    paths: pathsOption(),
    ...readOptions,
  },
  async run({ manifest, parts, by, seed, outDir, paths, skipBadLines }, out) {
    const bad = new BadLines(skipBadLines);
    const progress = lineProgress(out, "splitting");
    const result = await splitManifest(
      manifest,
      parts.map((part) => readPart(part, outDir)),
      { ...bad.options, ...(by === undefined ? {} : { by }), seed, paths, onProgress: progress.onProgress },
    );
    progress.finish();
    bad.report(out);
    if (result.withoutKey > 0) out.say(`${result.withoutKey} lines have no "${by}", and went alone`);
    if (result.skipped > 0) out.say(`left out ${result.skipped} lines with _skipme`);
    if (result.left.utterances > 0) out.say(`left over: ${result.left.utterances} utterances (${showHours(result.left.seconds)}); a part with the size rest takes them`);
    if (out.json) out.print(JSON.stringify({ ...result, badLines: bad.count }));
    else
      for (const { path: file, utterances, seconds, groups } of result.parts)
        out.print(`${file}  ${utterances} utterances  ${showHours(seconds)}${by === undefined ? "" : `  ${groups} different ${by}`}`);
    out.next(`serac manifest stats ${result.parts[0]?.path}`);
  },
});
