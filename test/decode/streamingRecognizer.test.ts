import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fbankSync } from "../../src/audio/index.ts";
import { type Recognizer, StreamingRecognizer, transducerGreedySearch } from "../../src/decode/index.ts";
import { type AsrModel, featurePadding, subsampledLength } from "../../src/models/index.ts";
import { fromTypedArray, liveTensors, noGrad, scope } from "../../src/torch/index.ts";
import { Random } from "../../src/util/random.ts";
import { causalRecognizer, sampleRate, speechlike } from "./causal.ts";

const chunks = { chunkSize: 8, leftContextFrames: 16 };
const featureDim = 24;

let recognizer: StreamingRecognizer;
let whole: Recognizer;
beforeAll(async () => {
  whole = await causalRecognizer();
  recognizer = new StreamingRecognizer(whole, chunks);
  simulated(speechlike(1, 0)); // every kept tensor exists afterwards: tables of positions
});
afterAll(() => recognizer.dispose());

/** What the simulated encoder and the search over the whole give: features, then silence up to the last chunk's end. */
function simulated(samples: Float32Array, maxSymPerFrame = 1): { text: string; tokens: { piece: string; time: number }[] } {
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
      return transducerGreedySearch(whole.model.transducer as NonNullable<AsrModel["transducer"]>, encoderOut, [(count * chunks.chunkSize) / 2], { maxSymPerFrame });
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
        const recordings = lengths.map((length, i) => speechlike(length / 100, seed + i));
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

  test("equal what the recording alone gives, but for its last chunk", async () => {
    for (const seed of [1, 2, 3]) {
      const samples = speechlike(1.5 + 0.07 * seed, seed);
      const alone = await whole.transcribeSamples(samples, sampleRate);
      const stream = recognizer.createStream();
      stream.accept(samples);
      stream.finish();
      recognizer.decode([stream]);
      const frames = fbankSync(samples, { sampleRate, numMelBins: featureDim }).frames + 30; // with the silence after it
      const until = Math.floor((subsampledLength(frames) - 3) / chunks.chunkSize) * (chunks.chunkSize / 2) * 0.04;
      const early = (tokens: typeof alone.tokens) => tokens.filter(({ time }) => time < until - 0.001);
      expect(early(alone.tokens).length).toBeGreaterThan(5);
      expect(early(stream.tokens)).toEqual(early(alone.tokens));
      expect(Math.max(...alone.tokens.map(({ time }) => time))).toBeGreaterThan(until - 1);
    }
  });

  test("with several symbols a frame give what this search over the whole gives", async () => {
    const several = new StreamingRecognizer(await causalRecognizer({}, { maxSymPerFrame: 3 }), chunks);
    for (const seed of [1, 2]) {
      const samples = speechlike(1.2, seed);
      const stream = several.createStream();
      stream.accept(samples);
      stream.finish();
      several.decode([stream]);
      expect({ text: stream.text, tokens: stream.tokens }).toEqual(simulated(samples, 3));
      expect(stream.tokens.length).toBeGreaterThan(simulated(samples).tokens.length);
    }
    several.dispose();
  });

  test("show what was said while it is spoken", () => {
    const stream = recognizer.createStream();
    const samples = speechlike(2, 1);
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
    other.accept(speechlike(1, 2));
    recognizer.decode([other]);
    const { text } = other;
    other.accept(speechlike(1, 2));
    other.dispose();
    expect([other.done, other.ready, other.text, recognizer.decode([other])]).toEqual([true, false, text, 0]);
    expect(() => other.accept(speechlike(1, 2))).toThrow(/after the end/);
    expect(liveTensors()).toBe(live);
  });

  test("refuse samples that are not finite, and go on", () => {
    const stream = recognizer.createStream();
    const samples = speechlike(1, 3);
    stream.accept(samples.subarray(0, 4000));
    expect(() => stream.accept(Float32Array.of(Number.NaN))).toThrow(/AUDIO_NOT_FINITE/);
    stream.accept(samples.subarray(4000));
    stream.finish();
    recognizer.decode([stream]);
    expect(stream.text).toBe(simulated(samples).text);
  });
});

test("models and settings that cannot stream are refused", async () => {
  const full = await causalRecognizer({ causal: false });
  expect(() => new StreamingRecognizer(full, chunks)).toThrow(/cannot stream/);
  full.dispose();
  const ctc = await causalRecognizer({ useTransducer: false, useCtc: true });
  expect(() => new StreamingRecognizer(ctc, chunks)).toThrow(/no transducer/);
  ctc.dispose();
  expect(() => new StreamingRecognizer(whole, { ...chunks, tailFrames: -1 })).toThrow(/tailFrames/);
  expect(() => new StreamingRecognizer(whole, { ...chunks, chunkSize: 7 })).toThrow(/chunkSize/);
  expect(() => StreamingRecognizer.load("missing.pt", chunks)).toThrow(/CHECKPOINT_MISSING/);
});
