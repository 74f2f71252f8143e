/**
 * Holds out a part of a training manifest for validation, where a folder of recordings brings none.
 *
 *   node build/demo/demo/holdOut.js MANIFEST --every 30 --out DIR
 *
 * Writes DIR/train.jsonl and DIR/valid.jsonl with absolute paths; every N-th line is validation.
 */
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { readJsonl, writeFileAtomic } from "../src/formats/index.ts";

const { values, positionals } = parseArgs({ options: { every: { type: "string", default: "30" }, out: { type: "string" } }, allowPositionals: true });
const [manifest] = positionals;
if (manifest === undefined || values.out === undefined) {
  console.error("usage: holdOut MANIFEST --out DIR [--every N]");
  process.exit(2);
}
const sets: Record<"train" | "valid", string[]> = { train: [], valid: [] };
for await (const { value, line } of readJsonl<{ audio_filepath: string }>(manifest)) {
  const text = JSON.stringify({ ...value, audio_filepath: resolve(dirname(manifest), value.audio_filepath) });
  sets[line % Number(values.every) === 0 ? "valid" : "train"].push(text);
}
for (const [name, lines] of Object.entries(sets)) writeFileAtomic(join(values.out, `${name}.jsonl`), lines.map((line) => `${line}\n`).join(""));
console.error(`held out ${sets.valid.length} of ${sets.valid.length + sets.train.length} utterances for validation`);
