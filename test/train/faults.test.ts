/** Data that cannot be trained on, and command lines that leave nothing to do. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encoderFrames, featureFrames, neededFrames } from "../../src/data/index.ts";
import { serializeNpy, serializeWav } from "../../src/formats/index.ts";
import { readTokenizer } from "../../src/models/index.ts";
import { SentencePiece } from "../../src/text/index.ts";
import { liveTensors } from "../../src/torch/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { Random } from "../../src/util/random.ts";
import { differences } from "./kills.ts";
import { speak, toneCorpus } from "./tones.ts";

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
  const before = liveTensors();
  const more = { ...options, startEpoch: 2, numEpochs: 2 };
  await expect(train({ ...more, sampleRate: 16000 })).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH", fix: expect.stringMatching(/^give --sample-rate 8000\b/) });
  await expect(train({ ...more, featureDim: 40 })).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH", fix: "give --feature-dim 24" });
  expect(liveTensors()).toBe(before);
});

test("a start behind the last epoch says that there is nothing to train", async () => {
  await expect(train({ ...options, startEpoch: 3, numEpochs: 2 })).rejects.toMatchObject({
    code: "CONFIG_BAD_VALUE",
    message: expect.stringContaining("there is nothing to train"),
    fix: "give --num-epochs 3 or more",
  });
});

describe("in the middle of a run", () => {
  /** Trains on a copy of the corpus, and does something to it once a line of the log was said. */
  async function trainOnCopy(name: string, after: string, harm: (copy: string) => void, more: TrainOptionsInput = {}): Promise<{ said: string[]; run: Promise<unknown> }> {
    const copy = exp(`${name}-data`);
    cpSync(join(folder, "train"), join(copy, "train"), { recursive: true });
    cpSync(join(folder, "train.jsonl"), join(copy, "train.jsonl"));
    const lines: string[] = [];
    const say = (line: string): void => {
      lines.push(line);
      if (line.startsWith(after)) harm(copy);
    };
    const given = { ...options, trainManifest: [join(copy, "train.jsonl")], expDir: exp(name), numEpochs: 3, logInterval: 1, numWorkers: 0, ...more };
    const run = train(given, { report: { say } });
    await run.catch(() => {});
    return { said: lines, run };
  }

  test("audio that vanishes is left out, named and counted, and training goes on", async () => {
    const { said, run } = await trainOnCopy("some-gone", "Epoch 1, batch 3,", (copy) => {
      for (let i = 40; i < 60; i++) rmSync(join(copy, "train", `${i}.wav`));
    });
    expect(await run).toMatchObject({ epochs: 3 });
    const [, count] =
      /^left out while training: (\d+) unusable audio: AUDIO_MISSING \(first: .*train\.jsonl:41\)$/.exec(said.find((line) => line.startsWith("left out while")) ?? "") ?? [];
    expect(count).toBe("20");
  });

  test("where all of it vanishes, the next epoch ends with the reason, and the epochs before are kept", async () => {
    const { run } = await trainOnCopy("all-gone", "Epoch 1, batch 3,", (copy) => rmSync(join(copy, "train"), { recursive: true }));
    await expect(run).rejects.toMatchObject({ code: "TRAIN_NO_DATA", message: expect.stringContaining("AUDIO_MISSING") });
    expect(epochsIn("all-gone")).toContain("epoch-1.pt");
  });

  test("a manifest that cannot be read any more ends it with what was learnt saved, and the run goes on from there bit for bit", async () => {
    const before = liveTensors();
    const { said, run } = await trainOnCopy("manifest-gone", "Epoch 1, batch 3,", (copy) => writeFileSync(join(copy, "train.jsonl"), "{}\n"));
    await expect(run).rejects.toMatchObject({ code: "FILE_CHANGED" });
    const startBatch = Number(/^saved .*checkpoint-\d+\.pt; to go on: --start-batch (\d+)$/.exec(said.at(-1) as string)?.[1]);
    expect(startBatch).toBeGreaterThanOrEqual(4);
    cpSync(join(folder, "train.jsonl"), exp("manifest-gone-data/train.jsonl"));
    const more = { ...options, trainManifest: [exp("manifest-gone-data/train.jsonl")], numEpochs: 1, numWorkers: 0 };
    await train({ ...more, expDir: exp("manifest-gone"), startBatch });
    await train({ ...more, expDir: exp("manifest-there") });
    expect(differences(exp("manifest-gone"), exp("manifest-there")).filter((line) => line.startsWith("epoch-1.pt"))).toEqual([]);
    expect(liveTensors()).toBe(before);
  });
});

/** A manifest of cuts with stored features of 24 bins, a second each; some are of one value throughout. */
function storedFeatures(name: string, count: number, throughout: Readonly<Record<number, number>>): string {
  const random = new Random(3);
  const storage = exp(`${name}-features`);
  mkdirSync(storage);
  const cuts = Array.from({ length: count }, (_, i) => {
    const data = Float32Array.from({ length: 100 * 24 }, () => random.normal() - 4);
    const value = throughout[i];
    if (value !== undefined) data.fill(value);
    writeFileSync(join(storage, `${i}.npy`), serializeNpy({ shape: [100, 24], data }));
    const times = { start: 0, duration: 1, channels: 0 };
    const features = { ...times, type: "kaldi-fbank", num_frames: 100, num_features: 24, frame_shift: 0.01, sampling_rate: 8000, storage_type: "numpy_files" };
    return {
      ...{ id: `${i}`, start: 0, duration: 1, channel: 0, type: "MonoCut" },
      supervisions: [{ id: `${i}`, recording_id: `${i}`, start: 0, duration: 1, channel: 0, text: i % 2 ? "low" : "mid" }],
      features: { ...features, storage_path: storage, storage_key: `${i}.npy`, recording_id: `${i}` },
    };
  });
  writeFileSync(exp(`${name}.jsonl`), cuts.map((cut) => `${JSON.stringify(cut)}\n`).join(""));
  return exp(`${name}.jsonl`);
}

test("NaN in the features of an utterance leaves it out; values that overflow leave their batch out: both are named and counted, and training goes on", async () => {
  const cuts = storedFeatures("stored", 24, { 4: Number.NaN, 9: 3e38 });
  const { trainManifest: _, maxDuration: _2, numBuckets: _3, dropLast: _4, minUtterance: _5, ...rest } = options;
  said.length = 0;
  const given = { ...rest, trainDs: { cuts_path: cuts, batch_size: 4, min_duration: 0.1, use_bucketing: false, shuffle: false, force_finite: true }, numEpochs: 2, logInterval: 1 };
  const result = await train({ ...given, expDir: exp("stored") }, { report });
  expect(result).toMatchObject({ epochs: 2 });
  expect(said.filter((line) => /^left out while training: 1 unusable features: FEATURES_BAD \(first: .*stored\.jsonl:5\)$/.test(line))).toHaveLength(1);
  const left = said.filter((line) => /^left out update \d+: the (loss is NaN|gradients are infinite or not a number) .*stored\.jsonl:/.test(line));
  expect(left).toHaveLength(2); // once an epoch
  expect(said).toContain(`left out while training: 2 batches whose loss or gradients were not finite, listed in ${join(exp("stored"), "bad-batches.jsonl")}`);
  expect(readFileSync(join(exp("stored"), "bad-batches.jsonl"), "utf8")).toContain("stored.jsonl:10");
});

test("what filters leave out is counted and is not bad: --on-bad throw trains on the rest; transcripts of nothing but spaces do not stop it", async () => {
  const line = (duration: number, text: string): string => JSON.stringify({ audio_filepath: "train/0.wav", duration, text });
  const filtered = [line(0.05, "low"), line(30, "low"), line(1, ""), line(1, "   "), line(1, "\u3000\t"), line(1, "ünknown"), line(0.15, "low mid top low mid top")];
  const trainManifest = manifest("filtered.jsonl", filtered, 8);
  said.length = 0;
  const given = { ...options, trainManifest, onBad: "throw" as const, numEpochs: 1 };
  expect(await train({ ...given, expDir: exp("filtered") }, { report })).toMatchObject({ epochs: 1 });
  expect(said.filter((one) => one.startsWith("left out: ")).map((one) => one.replace(/ \(first.*/, ""))).toEqual([
    "left out: 1 shorter than 0.1 s",
    "left out: 1 longer than 20 s",
    "left out: 3 with an empty transcript",
    "left out: 1 with characters that the tokenizer does not know",
    "left out: 1 with more tokens than frames",
  ]);
  await expect(train({ ...given, trainManifest: manifest("broken.jsonl", ["{oops"], 8), expDir: exp("broken") })).rejects.toMatchObject({ code: "JSONL_BAD_LINE" });
  await expect(train({ ...given, trainManifest: manifest("unread.jsonl", [empty()], 8), expDir: exp("unread") })).rejects.toMatchObject({ code: "AUDIO_EMPTY" });
});

test("an utterance that has too few frames only as it is played is filtered under --on-bad throw too", async () => {
  const text = "low mid top low mid";
  const needed = neededFrames(SentencePiece.fromBytes(readTokenizer(options.bpeModel as string)).encode(text), true);
  const framesOf = (seconds: number): number => encoderFrames(featureFrames(seconds, 8000));
  const duration = Array.from({ length: 200 }, (_, i) => i / 100).find((seconds) => framesOf(seconds) >= needed) as number;
  expect(framesOf(duration / 1.1)).toBeLessThan(needed);
  const samples = speak(text.split(" "), new Random(1)).subarray(0, Math.round(8000 * duration));
  writeFileSync(exp("tight.wav"), serializeWav({ sampleRate: 8000, channels: [samples] }, { format: "pcm16" }));
  const lines = Array.from({ length: 12 }, () => JSON.stringify({ audio_filepath: "tight.wav", duration, text }));
  const trainManifest = manifest("tight.jsonl", lines, 8);
  said.length = 0;
  await train({ ...options, trainManifest, speedPerturb: true, onBad: "throw", numEpochs: 2, expDir: exp("tight") }, { report });
  expect(said.filter((text) => /^left out while training: \d+ with more tokens than frames, as they are played \(first: .*tight\.jsonl:\d+\)$/.test(text))).toHaveLength(1);
});

test("audio of another rate is resampled; a header that names a wrong rate makes another length, and is left out and counted", async () => {
  const samples = speak(["low", "mid"], new Random(2));
  const twice = Float32Array.from({ length: 2 * samples.length }, (_, i) => samples[i >> 1] as number);
  writeFileSync(exp("right.wav"), serializeWav({ sampleRate: 16000, channels: [twice] }, { format: "pcm16" }));
  writeFileSync(exp("wrong.wav"), serializeWav({ sampleRate: 48000, channels: [twice] }, { format: "pcm16" }));
  const lines = ["right", "wrong"].map((name) => JSON.stringify({ audio_filepath: `${name}.wav`, duration: samples.length / 8000, text: "low mid" }));
  said.length = 0;
  await train({ ...options, trainManifest: manifest("rates.jsonl", lines, 8), numEpochs: 1, expDir: exp("rates") }, { report });
  expect(said.filter((line) => line.startsWith("left out"))).toEqual([
    expect.stringMatching(/^left out while training: 1 unusable audio: AUDIO_LENGTH \(first: .*rates\.jsonl:2\)$/),
  ]);
});
