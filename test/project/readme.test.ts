/** The README's example runs as printed, but for sizes: a tiny model, two epochs, a small vocabulary. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import * as data from "../../src/data/index.ts";
import * as decode from "../../src/decode/index.ts";
import { serializeWav } from "../../src/formats/index.ts";
import * as text from "../../src/text/index.ts";
import * as train from "../../src/train/index.ts";
import { packageRoot } from "../../src/util/paths.ts";
import { Random } from "../../src/util/random.ts";
import { speak, toneCorpus } from "../train/tones.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-readme-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the API example", async () => {
  const example = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(packageRoot, "README.md"), "utf8"))?.[1] as string;
  const options = await toneCorpus(folder);
  writeFileSync(join(folder, "valid.jsonl"), readFileSync(join(folder, "test.jsonl")));
  writeFileSync(join(folder, "a.wav"), serializeWav({ sampleRate: 8000, channels: [speak(["low"], new Random(1))] }, { format: "pcm16" }));
  const { trainManifest, validManifest, bpeModel, ...tiny } = options;
  const printed: unknown[][] = [];
  const modules: Record<string, object> = { "serac/data": data, "serac/decode": decode, "serac/text": text, "serac/train": train };
  const code = example
    .replace(/import (\{[^}]+\}) from ("[^"]+");/g, "const $1 = modules[$2];")
    .replace(/"((?:train|valid)\.jsonl|bpe\.model|exp|a\.wav)"/g, (_, name: string) => JSON.stringify(join(folder, name)))
    .replace("vocabSize: 500", 'vocabSize: 18, type: "bpe"')
    .replace("numEpochs: 30", "numEpochs: 2, ...tiny");
  expect(code).toContain("...tiny");
  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor as new (...args: string[]) => (...args: unknown[]) => Promise<void>;
  await new AsyncFunction("modules", "tiny", "console", code)(modules, tiny, { log: (...args: unknown[]) => printed.push(args) });
  expect(printed).toEqual([[expect.any(String), expect.any(Array)]]);
  expect([trainManifest, validManifest, bpeModel]).not.toContain(undefined);
});
