import fc from "fast-check";
import { expect, test } from "vitest";
import { fbankSync, OnlineFbank } from "../../src/audio/index.ts";

/** All frames of a stream that comes in such pieces. */
function online(samples: Float32Array, cuts: readonly number[], options: { sampleRate: number; numMelBins: number }): { frames: number; data: number[] } {
  const stream = new OnlineFbank(options);
  const data: number[] = [];
  let start = 0;
  for (const size of [...cuts, samples.length]) {
    data.push(...stream.accept(samples.subarray(start, start + size)).data);
    start = Math.min(samples.length, start + size);
  }
  data.push(...stream.finish().data);
  expect(stream.samples).toBe(samples.length);
  return { frames: stream.frames, data };
}

const wave = (length: number, seed: number): Float32Array => Float32Array.from({ length }, (_, i) => 0.3 * Math.sin(0.1 * i + seed) + 0.1 * Math.sin(0.003 * i * i));

test("any cut of the samples gives the frames of the whole, bit for bit", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(8000, 11025, 16000),
      fc.integer({ min: 1, max: 40 }),
      fc.oneof(fc.nat(700), fc.nat(4000)),
      fc.array(fc.oneof(fc.nat(50), fc.nat(900)), { maxLength: 30 }),
      fc.nat(100),
      (sampleRate, numMelBins, length, cuts, seed) => {
        const samples = wave(length, seed);
        const whole = fbankSync(samples, { sampleRate, numMelBins });
        const { frames, data } = online(samples, cuts, { sampleRate, numMelBins });
        expect(frames).toBe(whole.frames);
        expect(data).toEqual(Array.from(whole.data));
      },
    ),
    { numRuns: 150 },
  );
});

test("single samples too, and frames with room before and after of another size", () => {
  const samples = wave(900, 1);
  for (const options of [
    { sampleRate: 8000, numMelBins: 20 },
    { sampleRate: 8000, numMelBins: 20, frameLength: 0.01 },
    { sampleRate: 8000, numMelBins: 20, frameLength: 0.0321, frameShift: 0.0127 },
  ])
    expect(online(samples, new Array(899).fill(1), options).data).toEqual(Array.from(fbankSync(samples, options).data));
});

test("a frame comes with its last sample, and memory does not grow", () => {
  const stream = new OnlineFbank({ sampleRate: 16000 });
  expect(stream.accept(new Float32Array(279)).frames).toBe(0); // the first frame is samples -120 to 279
  expect(stream.accept(new Float32Array(1)).frames).toBe(1);
  expect(stream.accept(new Float32Array(159)).frames).toBe(0);
  expect(stream.accept(new Float32Array(1)).frames).toBe(1);
  for (let i = 0; i < 100; i++) stream.accept(new Float32Array(1000));
  expect((stream as unknown as { kept: Float32Array }).kept.buffer.byteLength).toBeLessThanOrEqual(4 * 1200);
  expect(stream.frames).toBe(Math.floor((100_440 + 120 - 400) / 160) + 1);
});

test("values that are not finite are refused with their place, and the stream goes on without them", () => {
  const stream = new OnlineFbank({ sampleRate: 16000 });
  const samples = wave(1600, 1);
  const first = stream.accept(samples.subarray(0, 1000));
  expect(() => stream.accept(Float32Array.of(0, Number.NaN))).toThrow(expect.objectContaining({ code: "AUDIO_NOT_FINITE", at: "sample 1001" }));
  const rest = [stream.accept(samples.subarray(1000)), stream.finish()];
  expect([first, ...rest].flatMap((f) => Array.from(f.data))).toEqual(Array.from(fbankSync(samples, { sampleRate: 16000 }).data));
  expect(() => stream.accept(samples)).toThrow(/after the end/);
  expect(() => new OnlineFbank({ sampleRate: Number.NaN })).toThrow(expect.objectContaining({ code: "CONFIG_BAD_VALUE" }));
});
