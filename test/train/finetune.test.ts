import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadManifest } from "../../src/data/index.ts";
import { disposeCheckpoint, loadCheckpoint, saveCheckpoint } from "../../src/models/index.ts";
import { trainBpe } from "../../src/text/index.ts";
import { liveTensors } from "../../src/torch/index.ts";
import { finetune, type TrainOptionsInput, train } from "../../src/train/index.ts";
import { toneCorpus } from "./tones.ts";

let folder: string;
let options: TrainOptionsInput;
const exp = (name: string): string => join(folder, name);
const said: string[] = [];
const report = { say: (line: string) => void said.push(line) };
let first: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-finetune-"));
  options = { ...(await toneCorpus(folder)), numEpochs: 1 };
  first = (await train({ ...options, expDir: exp("first"), numEpochs: 2 })).checkpoint;
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const lossesOf = (name: string): number[] =>
  readFileSync(join(exp(name), "metrics.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
    .filter(({ kind }) => kind === "train")
    .map(({ loss }) => loss);

/** What the corpus's options say besides the model's shape, which the checkpoint tells. */
function withoutShape(): TrainOptionsInput {
  const { trainManifest, validManifest, bpeModel, sampleRate, featureDim, maxDuration, numBuckets, minUtterance } = options;
  const kept = { trainManifest, validManifest, bpeModel, sampleRate, featureDim, maxDuration, numBuckets, minUtterance };
  return Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== undefined));
}

describe("finetune", () => {
  test("begins with the checkpoint's parameters and shape, schedules at their end; the first loss is far below that of a new model", async () => {
    const before = liveTensors();
    said.length = 0;
    await finetune({ ...withoutShape(), finetuneCkpt: first, expDir: exp("more"), numEpochs: 1, logInterval: 1, numWorkers: 0 }, { report });
    expect(said.find((line) => line.startsWith("begins with"))).toMatch(/epoch-2\.pt: \d+ parameters taken$/);
    await train({ ...options, expDir: exp("new"), logInterval: 1, maxSteps: 3 });
    expect(lossesOf("more")[0]).toBeLessThan(0.7 * (lossesOf("new")[0] as number));
    expect(liveTensors()).toBe(before);
  });

  test("features are of the checkpoint's sampling rate; another one is refused", async () => {
    const { sampleRate: _, ...rest } = withoutShape();
    await finetune({ ...rest, finetuneCkpt: first, expDir: exp("rate"), maxSteps: 1 });
    const checkpoint = loadCheckpoint(join(exp("rate"), "checkpoint-1.pt"));
    disposeCheckpoint(checkpoint);
    expect(checkpoint.config.sampleRate).toBe(8000);
    await expect(finetune({ ...rest, sampleRate: 16000, finetuneCkpt: first, expDir: exp("other-rate") })).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
  });

  test("another vocabulary: tokens that both have keep their rows, which is said", async () => {
    const cuts = await loadManifest(options.trainManifest as string[]);
    const bpeModel = join(folder, "other.model");
    await trainBpe({ input: cuts.map((cut) => cut.text), outPath: bpeModel, vocabSize: 12, type: "bpe" });
    said.length = 0;
    await finetune({ ...withoutShape(), bpeModel, finetuneCkpt: first, expDir: exp("vocabulary"), maxSteps: 2 }, { report });
    expect(said.find((line) => line.startsWith("the vocabulary differs"))).toMatch(/: \d+ parameters are re-made, with the rows of \d+ of 12 tokens that both have/);
  });

  test("modules alone; a checkpoint of icefall's, which has no tokenizer", async () => {
    const checkpoint = loadCheckpoint(first);
    const bare = join(folder, "pretrained.safetensors");
    saveCheckpoint(bare, { ...checkpoint, state: undefined, modelAvg: undefined, optimizer: new Map() });
    disposeCheckpoint(checkpoint);
    said.length = 0;
    await finetune({ ...withoutShape(), finetuneCkpt: bare, initModules: ["encoder_embed", "encoder"], expDir: exp("modules"), maxSteps: 1 }, { report });
    expect(said.find((line) => line.startsWith("begins with"))).toMatch(/\d+ parameters taken, \d+ of other modules drawn$/);
  });

  test.each<[string, Parameters<typeof finetune>[0], RegExp]>([
    ["no checkpoint", {}, /--finetune-ckpt is missing/],
    ["a missing one", { finetuneCkpt: "none.pt" }, /none\.pt: no such checkpoint/],
    ["--use-mux without the original data", { finetuneCkpt: "none.pt", useMux: true }, /--use-mux needs --train-manifest and --mux-manifest/],
  ])("%s: an error that says so, and nothing is made", async (_, more, message) => {
    await expect(finetune({ ...withoutShape(), ...more, expDir: exp("never") })).rejects.toThrow(message);
    expect(existsSync(exp("never"))).toBe(false);
  });

  test("--use-mux trains on the original data as well", async () => {
    said.length = 0;
    await finetune({ ...withoutShape(), finetuneCkpt: first, useMux: true, muxManifest: options.validManifest as string[], expDir: exp("mux"), maxSteps: 1 }, { report });
    expect(said.find((line) => line.startsWith("training data: "))).toMatch(/^training data: 112 utterances/);
  });
});

describe("--config", () => {
  test("a YAML file of options in any spelling; what is given beside it counts more; mistakes are named by line", async () => {
    const file = join(folder, "train.yaml");
    const { trainManifest, expDir: _, numEpochs: __, ...rest } = options;
    const lines = Object.entries({ ...rest, "train-manifest": trainManifest, num_epochs: 9, baseLr: 0.01 }).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
    writeFileSync(file, `${lines.join("\n")}\n`);
    const result = await train({ config: file, expDir: exp("config"), numEpochs: 1, maxSteps: 2 });
    expect(result.updates).toBe(2);
    expect(JSON.parse(readFileSync(join(exp("config"), "options.json"), "utf8"))).toMatchObject({ baseLr: 0.01, numEpochs: 1, config: file });
    writeFileSync(file, `${lines.join("\n")}\nnum_epoch: 3\n`);
    await expect(train({ config: file, expDir: exp("never") })).rejects.toMatchObject({
      code: "CONFIG_UNKNOWN_OPTION",
      message: expect.stringMatching(new RegExp(`train\\.yaml:${lines.length + 1}: .*num_epoch.*numEpochs`)),
    });
    writeFileSync(file, `${lines.join("\n")}\nwarm_step: many\n`);
    await expect(train({ config: file, expDir: exp("never") })).rejects.toMatchObject({
      code: "CONFIG_BAD_VALUE",
      message: expect.stringMatching(new RegExp(`train\\.yaml:${lines.length + 1}: warm_step is "many", expected`)),
    });
  });
});
