import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadManifest } from "../../src/data/index.ts";
import { longestFrames } from "../../src/decode/attentionMemory.ts";
import { Recognizer } from "../../src/decode/index.ts";
import { serializeWav } from "../../src/formats/index.ts";
import { AsrModel, asrModelOptions, type ModelConfig, modelOptions } from "../../src/models/index.ts";
import { SentencePiece, trainBpe } from "../../src/text/index.ts";
import { Generator } from "../../src/torch/index.ts";
import { parseOptions } from "../../src/util/options.ts";

const shape = {
  numEncoderLayers: [1, 1],
  downsamplingFactor: [1, 2],
  encoderDim: [16],
  encoderUnmaskedDim: [16],
  feedforwardDim: [16],
  numHeads: [2],
  queryHeadDim: [4],
  valueHeadDim: [4],
  posDim: 8,
  cnnModuleKernel: [7],
  frontEndChannels: [4, 8, 8],
  decoderDim: 16,
  joinerDim: 16,
  featureDim: 24,
};
const sampleRate = 8000;

let folder: string;
let tokenizer: Uint8Array;
let config: ModelConfig;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-recognizer-"));
  await trainBpe({ input: ["low mid top", "top low mid mid"], outPath: join(folder, "bpe.model"), vocabSize: 14, type: "bpe" });
  const model = SentencePiece.load(join(folder, "bpe.model"));
  tokenizer = model.bytes;
  config = { ...parseOptions(modelOptions, shape), vocabSize: model.vocabSize, blankId: 0, sampleRate };
});
afterAll(() => rmSync(folder, { recursive: true }));

/** One of random weights, for recordings up to so many seconds. */
function recognizer(seconds: number): Recognizer {
  const model = new AsrModel({ ...asrModelOptions(config), generator: new Generator(1) });
  const checkpoint = { config, state: undefined, model: model.stateDict(), modelAvg: undefined, optimizer: new Map(), generator: undefined, tokenizer };
  // what attention takes at this length, from the longest that fits into a gigabyte
  return Recognizer.fromCheckpoint(checkpoint, { attentionMemory: (((seconds * 100 - 7) / (longestFrames(config, 2 ** 30) - 7)) ** 2 + 1e-6) * 2 ** 30 });
}

/** Writes a file of some seconds. */
function recording(name: string, seconds: number, value = 0.1, rate = sampleRate): string {
  const path = join(folder, name);
  const samples = Float32Array.from({ length: seconds * rate }, (_, i) => value * Math.sin(i));
  writeFileSync(path, serializeWav({ sampleRate: rate, channels: [samples] }, { format: "float32" }));
  return path;
}

describe("transcribe", () => {
  test("every error names the file", async () => {
    const some = recognizer(3);
    const text = join(folder, "text.wav");
    writeFileSync(text, "no audio");
    const cases: [string, string][] = [
      [recording("big.wav", 1, 1e30), "AUDIO_NOT_FINITE"],
      [recording("resampled.wav", 1, 1e30, 16000), "AUDIO_NOT_FINITE"],
      [recording("nan.wav", 1, Number.NaN), "AUDIO_NOT_FINITE"],
      [recording("none.wav", 0), "AUDIO_EMPTY"],
      [recording("long.wav", 4), "AUDIO_TOO_LONG"],
      [recording("rate.wav", 1, 0.1, 500), "AUDIO_BAD_RATE"],
      [text, "AUDIO_NOT_AUDIO"],
      [join(folder, "missing.wav"), "AUDIO_MISSING"],
    ];
    for (const [path, code] of cases) {
      const error = (await some.transcribe(path).catch((e: unknown) => e)) as Error;
      expect(error).toMatchObject({ code, message: expect.stringContaining(path) });
      expect(error.message.split(`[${code}]`), error.message).toHaveLength(2);
    }
    some.dispose();
  });

  test("a recording that attention has no memory for is refused before it is encoded, with the length that fits", async () => {
    const some = recognizer(3);
    await expect(some.transcribe(recording("fits.wav", 3))).resolves.toMatchObject({ duration: 3 });
    await expect(some.transcribeSamples(new Float32Array(3600 * sampleRate), sampleRate)).rejects.toMatchObject({
      code: "AUDIO_TOO_LONG",
      message: expect.stringMatching(/^3600 s of audio at once: attention over all of it takes \d[\d.]* GiB.*pieces of at most [23] s/),
    });
    some.dispose();
  });

  test("of cuts, those are told and the others recognised, in batches that fit", async () => {
    const some = recognizer(3);
    const lines = [2.9, 2.9, 4, 1, 1, 0.5].map((seconds, i) => JSON.stringify({ audio_filepath: recording(`cut${i}.wav`, seconds), duration: seconds, text: "low" }));
    writeFileSync(join(folder, "cuts.jsonl"), lines.join("\n"));
    const cuts = await loadManifest(join(folder, "cuts.jsonl"));
    const told: string[] = [];
    const found: number[] = [];
    for await (const { transcript } of some.transcribeCuts(cuts, { onError: (error, cut) => told.push(`${error.code} ${error.at} ${cut.origin}`) }))
      found.push(transcript.duration);
    expect(told).toEqual([`AUDIO_TOO_LONG ${join(folder, "cut2.wav")} ${join(folder, "cuts.jsonl")}:3`]);
    expect(found.sort()).toEqual([0.5, 1, 1, 2.9, 2.9]);
    const all = async (): Promise<void> => {
      for await (const _ of some.transcribeCuts(cuts));
    };
    await expect(all()).rejects.toMatchObject({ code: "AUDIO_TOO_LONG" });
    some.dispose();
  });
});
