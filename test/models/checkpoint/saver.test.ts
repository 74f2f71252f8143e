import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Checkpoint, CheckpointSaver, loadCheckpoint, modelOptions, saveCheckpoint } from "../../../src/models/index.ts";
import { liveTensors, noGrad, scope, type Tensor, tensor } from "../../../src/torch/index.ts";
import { parseOptions } from "../../../src/util/options.ts";

let folder: string;
let bpeModel: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-saver-"));
  bpeModel = join(folder, "bpe.model");
  writeFileSync(bpeModel, "a tokenizer");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A real one of icefall's, small enough. */
const source = new URL("../../golden/icefall/icefall_checkpoint-6.pt", import.meta.url).pathname;
const load = (): Checkpoint => loadCheckpoint(source, { bpeModel });

test.each([".pt", ".safetensors"])("a thread writes %s as the caller would, and what changes after the copying changes nothing", async (extension) => {
  const before = liveTensors();
  const saver = new CheckpointSaver();
  const checkpoint = load();
  const [alone, threaded] = [join(folder, `alone${extension}`), join(folder, "thread", `alone${extension}`)];
  saveCheckpoint(alone, checkpoint);
  const written = saver.save(threaded, checkpoint);
  noGrad(() => {
    for (const value of checkpoint.model.values()) value.zero_();
  });
  await written;
  expect(readFileSync(threaded).equals(readFileSync(alone))).toBe(true);
  for (const part of [checkpoint.model, checkpoint.modelAvg as Map<string, Tensor>, checkpoint.optimizer]) for (const value of part.values()) value.dispose();
  await saver.close();
  expect(liveTensors()).toBe(before);
});

test("files are written one after the other; one that cannot be written is told to who asked for it, and leaves nothing", async () => {
  const saver = new CheckpointSaver();
  const config = { ...parseOptions(modelOptions, {}), vocabSize: 3, blankId: 0, sampleRate: 16000 };
  const value = tensor([1, 2, 3]);
  const checkpoint: Checkpoint = {
    config,
    state: undefined,
    model: new Map([["encoder_embed.conv.0.weight", value]]),
    modelAvg: undefined,
    optimizer: new Map(),
    generator: undefined,
    tokenizer: new Uint8Array(4),
  };
  mkdirSync(join(folder, "blocked.pt", "x"), { recursive: true }); // a folder where the file belongs
  const results = await Promise.allSettled([
    saver.save(join(folder, "queue", "a.pt"), checkpoint),
    saver.save(join(folder, "blocked.pt"), checkpoint),
    saver.save(join(folder, "queue", "b.pt"), checkpoint),
  ]);
  await saver.settled();
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect((results[1] as PromiseRejectedResult).reason).toMatchObject({ code: "FILE_UNWRITABLE", message: expect.stringContaining("blocked.pt") });
  expect(readdirSync(join(folder, "queue")).sort()).toEqual(["a.pt", "b.pt"]);
  expect(readdirSync(folder).filter((name) => name.includes("blocked"))).toEqual(["blocked.pt"]);
  value.dispose();
  await saver.close();
});

test("a loaded file keeps the average in double precision, and icefall finds it in single precision", () => {
  scope(() => {
    const checkpoint = load();
    const average = new Map(Array.from(checkpoint.modelAvg as Map<string, Tensor>, ([key, value]) => [key, value.to({ dtype: "float64" }).add(1e-12)]));
    const path = join(folder, "double.pt");
    saveCheckpoint(path, { ...checkpoint, modelAvg: average });
    const again = loadCheckpoint(path).modelAvg as Map<string, Tensor>;
    for (const [key, value] of average) expect(again.get(key)?.equal(value), key).toBe(true);
  });
});
