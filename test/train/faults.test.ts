/** Data that cannot be trained on, and command lines that leave nothing to do. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { toneCorpus } from "./tones.ts";

let folder: string;
let options: TrainOptionsInput;
const said: string[] = [];
const report = { say: (line: string) => void said.push(line) };
const exp = (name: string): string => join(folder, name);
const empty = (text = "low"): string => JSON.stringify({ audio_filepath: "empty.wav", duration: 1, text });

/** Writes a manifest of the corpus's first utterances with other lines before and behind them. */
function manifest(name: string, before: readonly string[], good = 0, behind: readonly string[] = []): string[] {
  const lines = readFileSync(join(folder, "train.jsonl"), "utf8").split("\n").slice(0, good);
  writeFileSync(join(folder, name), [...before, ...lines, ...behind].join("\n"));
  return [join(folder, name)];
}

const epochsIn = (name: string): string[] => readdirSync(exp(name)).filter((file) => file.endsWith(".pt"));

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-faults-"));
  const { validManifest: _, ...rest } = await toneCorpus(folder);
  writeFileSync(join(folder, "empty.wav"), "");
  options = { ...rest, trainManifest: manifest("good.jsonl", [], 8), expDir: exp("good"), numEpochs: 1 };
  await train(options);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("an epoch in which no audio can be used is an error with the reasons, and leaves no checkpoint", async () => {
  const trainManifest = manifest("none.jsonl", [empty(), empty()]);
  await expect(train({ ...options, trainManifest, expDir: exp("none") })).rejects.toMatchObject({
    code: "TRAIN_NO_DATA",
    message: expect.stringMatching(/none of the 2 utterances can be used: 2 unusable audio: AUDIO_EMPTY \(first: .*none\.jsonl:1\)/),
  });
  expect(epochsIn("none")).toEqual([]);
});

test("validation of which no audio can be used is an error before training begins", async () => {
  const validManifest = manifest("novalid.jsonl", [empty()]);
  await expect(train({ ...options, validManifest, expDir: exp("novalid") })).rejects.toMatchObject({
    code: "TRAIN_NO_DATA",
    at: validManifest[0],
    message: expect.stringContaining("AUDIO_EMPTY"),
  });
});

test("what training and validation leave out is counted by reason, each utterance once, with the lowest line; empty transcripts are left out", async () => {
  said.length = 0;
  const noText = JSON.stringify({ audio_filepath: "train/0.wav", duration: 1 });
  const trainManifest = manifest("some.jsonl", [noText, empty("")], 8, [empty(), empty("low mid"), empty("mid top")]);
  const validManifest = manifest("somevalid.jsonl", [noText], 2, [empty(), empty("low mid top")]);
  await train({ ...options, trainManifest, validManifest, expDir: exp("some"), numEpochs: 2, werInterval: 1, maxDuration: 3 }, { report });
  const about = (start: string): string[] => said.filter((line) => line.startsWith(start)).map((line) => line.replace(/\(first: .*\//, "("));
  expect(about("left out: ")).toEqual(["left out: 2 with an empty transcript (some.jsonl:1)"]);
  expect(about("left out while training: ")).toEqual(["left out while training: 3 unusable audio: AUDIO_EMPTY (some.jsonl:11)"]);
  expect(about("left out of validation: ")).toEqual([
    "left out of validation: 1 with an empty transcript (somevalid.jsonl:1)",
    "left out of validation: 2 unusable audio: AUDIO_EMPTY (somevalid.jsonl:4)",
  ]);
  const validations = said.filter((line) => line.includes(", validation:"));
  expect(validations.map((line) => /loss=[\d.]+, .*over [1-9][\d.]* frames\. (WER [\d.]+ %)?$/.exec(line)?.[1] !== undefined)).toEqual([false, true, true]);
});

test("going on with other features than the checkpoint's is refused", async () => {
  const more = { ...options, startEpoch: 2, numEpochs: 2 };
  await expect(train({ ...more, sampleRate: 16000 })).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH", fix: "give --sample-rate 8000" });
  await expect(train({ ...more, featureDim: 40 })).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH", fix: "give --feature-dim 24" });
});

test("a start behind the last epoch says that there is nothing to train", async () => {
  await expect(train({ ...options, startEpoch: 3, numEpochs: 2 })).rejects.toMatchObject({
    code: "CONFIG_BAD_VALUE",
    message: expect.stringContaining("there is nothing to train"),
    fix: "give --num-epochs 3 or more",
  });
});
