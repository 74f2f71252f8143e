import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fbankSync } from "../../src/audio/index.ts";
import { Recognizer, StreamingRecognizer, transducerGreedySearch } from "../../src/decode/index.ts";
import { AsrModel, asrModelOptions, featurePadding, type ModelConfig, modelOptions } from "../../src/models/index.ts";
import { SentencePiece, trainBpe } from "../../src/text/index.ts";
import { fromTypedArray, Generator, liveTensors, noGrad, scope } from "../../src/torch/index.ts";
import { parseOptions } from "../../src/util/options.ts";
import { Random } from "../../src/util/random.ts";
import { wave } from "../golden.ts";
import { fillByWaves } from "../models/helpers.ts";

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
  causal: true,
};
const sampleRate = 8000;
const chunks = { chunkSize: 8, leftContextFrames: 16 };

let folder: string;
let tokenizer: Uint8Array;
let config: ModelConfig;
let recognizer: StreamingRecognizer;
let whole: Recognizer;

/** One of made-up weights, by which frames differ and some are blank. */
function recognizerOf(options: Partial<ModelConfig> = {}): Recognizer {
  const own = { ...config, ...options };
  const model = new AsrModel({ ...asrModelOptions(own), generator: new Generator(1) });
  fillByWaves(model, wave);
  if (model.transducer) noGrad(() => scope(() => void model.transducer?.joiner.outputLinear.bias?.slice(0, 0, 1).add_(0.5)));
  const checkpoint = { config: own, state: undefined, model: model.stateDict(), modelAvg: undefined, optimizer: new Map(), generator: undefined, tokenizer };
  return Recognizer.fromCheckpoint(checkpoint);
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-streaming-"));
  await trainBpe({ input: ["low mid top", "top low mid mid"], outPath: join(folder, "bpe.model"), vocabSize: 14, type: "bpe" });
  const model = SentencePiece.load(join(folder, "bpe.model"));
  tokenizer = model.bytes;
  config = { ...parseOptions(modelOptions, shape), vocabSize: model.vocabSize, blankId: 0, sampleRate };
  whole = recognizerOf();
  recognizer = new StreamingRecognizer(whole, chunks);
  simulated(audio(1, 0)); // every kept tensor exists afterwards: tables of positions
});
afterAll(() => {
  recognizer.dispose();
  rmSync(folder, { recursive: true });
});

/** Noise and tones, so that frames differ. */
function audio(seconds: number, seed: number): Float32Array {
  const random = new Random(seed);
  const pitch = 0.05 + random.uniform();
  return Float32Array.from({ length: Math.round(seconds * sampleRate) }, (_, i) => 0.3 * Math.sin(pitch * i * (1 + Math.sin(i / 900))) + 0.1 * (random.uniform() - 0.5));
}

/** What the simulated encoder and the search over the whole give: features, then silence up to the last chunk's end. */
function simulated(samples: Float32Array): { text: string; tokens: { piece: string; time: number }[] } {
  const { featureDim } = config;
  const features = fbankSync(samples, { sampleRate, numMelBins: featureDim });
  if (features.frames === 0) return { text: "", tokens: [] };
  const { shift, chunkFrames } = recognizer.encoder;
  const count = Math.ceil((features.frames + 30 + 13) / shift);
  const frames = (count - 1) * shift + chunkFrames;
  const padded = new Float32Array(frames * featureDim).fill(featurePadding);
  padded.set(features.data);
  const [result] = noGrad(() =>
    scope(() => {
      const { encoderOut } = whole.model.forwardEncoder(fromTypedArray(padded, [1, frames, featureDim]), [frames], chunks);
      return transducerGreedySearch(whole.model.transducer as NonNullable<AsrModel["transducer"]>, encoderOut, [(count * chunks.chunkSize) / 2]);
    }),
  );
  const { tokens, times } = result as NonNullable<typeof result>;
  return { text: whole.tokenizer.decode(tokens), tokens: tokens.map((id, i) => ({ piece: whole.tokenizer.idToPiece(id), time: Number((times[i] as number).toFixed(2)) })) };
}

describe("streams", () => {
  test("of any cut, in any company, give what the simulated output gives, and leave no tensors", () => {
    let found = 0;
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 250 }), { minLength: 1, maxLength: 4 }), fc.nat(1000), (lengths, seed) => {
        const live = liveTensors();
        const random = new Random(seed);
        const recordings = lengths.map((length, i) => audio(length / 100, seed + i));
        const streams = recordings.map((samples) => ({ samples, at: 0, stream: recognizer.createStream() }));
        while (streams.some(({ stream }) => !stream.done)) {
          for (const one of streams) {
            if (one.stream.done) continue;
            const size = Math.floor(random.uniform() ** 3 * 6000);
            if (one.at < one.samples.length) one.stream.accept(one.samples.subarray(one.at, one.at + size));
            else one.stream.finish();
            one.at += size;
          }
          if (random.uniform() < 0.6) recognizer.decode(streams.filter(() => random.uniform() < 0.7).map(({ stream }) => stream));
        }
        for (const [i, { stream }] of streams.entries()) {
          const samples = recordings[i] as Float32Array;
          expect({ text: stream.text, tokens: stream.tokens }).toEqual(simulated(samples));
          expect(stream.duration).toBe(samples.length / sampleRate);
          expect(stream.ready).toBe(false);
          found += stream.tokens.length;
        }
        expect(liveTensors()).toBe(live);
      }),
      { numRuns: 25 },
    );
    expect(found).toBeGreaterThan(500);
  });

  test("show what was said while it is spoken", () => {
    const stream = recognizer.createStream();
    const samples = audio(2, 1);
    const expected = simulated(samples);
    const seen = [0];
    for (let i = 0; i < samples.length; i += 800) {
      stream.accept(samples.subarray(i, i + 800));
      recognizer.decode([stream]);
      expect(stream.ready).toBe(false);
      expect(stream.tokens).toEqual(expected.tokens.slice(0, stream.tokens.length));
      seen.push(stream.tokens.length);
    }
    expect(new Set(seen).size).toBeGreaterThan(5);
    stream.finish();
    stream.finish();
    expect(stream.done).toBe(false);
    expect(recognizer.decode([stream, stream])).toBeGreaterThan(0);
    expect(stream.done).toBe(true);
    expect(stream.text).toBe(expected.text);
    expect(() => stream.accept(samples)).toThrow(/after the end/);
  });

  test("without audio are done at once and empty; one may be given up", () => {
    const live = liveTensors();
    const stream = recognizer.createStream();
    stream.finish();
    expect([stream.done, stream.ready, stream.text, recognizer.decode([stream])]).toEqual([true, false, "", 0]);
    const other = recognizer.createStream();
    other.accept(audio(1, 2));
    recognizer.decode([other]);
    const { text } = other;
    other.accept(audio(1, 2));
    other.dispose();
    expect([other.done, other.ready, other.text, recognizer.decode([other])]).toEqual([true, false, text, 0]);
    expect(() => other.accept(audio(1, 2))).toThrow(/after the end/);
    expect(liveTensors()).toBe(live);
  });

  test("refuse samples that are not finite, and go on", () => {
    const stream = recognizer.createStream();
    const samples = audio(1, 3);
    stream.accept(samples.subarray(0, 4000));
    expect(() => stream.accept(Float32Array.of(Number.NaN))).toThrow(/AUDIO_NOT_FINITE/);
    stream.accept(samples.subarray(4000));
    stream.finish();
    recognizer.decode([stream]);
    expect(stream.text).toBe(simulated(samples).text);
  });
});

test("models and settings that cannot stream are refused", () => {
  const full = recognizerOf({ causal: false });
  expect(() => new StreamingRecognizer(full, chunks)).toThrow(/cannot stream/);
  full.dispose();
  const ctc = recognizerOf({ useTransducer: false, useCtc: true });
  expect(() => new StreamingRecognizer(ctc, chunks)).toThrow(/no transducer/);
  ctc.dispose();
  expect(() => new StreamingRecognizer(whole, { ...chunks, tailFrames: -1 })).toThrow(/tailFrames/);
  expect(() => new StreamingRecognizer(whole, { ...chunks, chunkSize: 7 })).toThrow(/chunkSize/);
  writeFileSync(join(folder, "no.pt"), "no");
  expect(() => StreamingRecognizer.load(join(folder, "no.pt"), chunks)).toThrow(/CHECKPOINT/);
});
