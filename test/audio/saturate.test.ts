import fc from "fast-check";
import { expect, test } from "vitest";
import { clipAmplitude, lowpass, throughCodec } from "../../src/audio/index.ts";
import { Random } from "../../src/util/random.ts";

const rate = 16_000;
const noise = (length: number, seed = 1): Float32Array => {
  const random = new Random(seed);
  return Float32Array.from({ length }, () => 0.2 * random.normal());
};

test("clipping keeps lengths and never exceeds the level at which it clips", () =>
  fc.assert(
    fc.asyncProperty(fc.integer({ min: 0, max: 500 }), fc.boolean(), fc.double({ min: 0.2, max: 24, noNaN: true }), fc.boolean(), async (length, hard, gainDb, normalize) => {
      const samples = noise(length);
      const clipped = await clipAmplitude(samples, rate, { hard, gainDb, normalize, oversampling: 1 });
      expect(clipped.length).toBe(length);
      const peak = (values: Float32Array): number => values.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
      const level = (normalize ? peak(samples) : 1) / 10 ** (gainDb / 20);
      expect(peak(clipped)).toBeLessThanOrEqual(level * (1 + 1e-5));
      const twice = await clipAmplitude(samples, rate, { hard, gainDb, normalize, oversampling: 2 });
      expect(twice.length).toBe(length);
    }),
    { numRuns: 40 },
  ));

test("what lies above the cut-off is gone, what lies below is as it was", async () => {
  const tone = (hz: number): Float32Array => Float32Array.from({ length: 8000 }, (_, i) => Math.sin((2 * Math.PI * hz * i) / rate));
  const middle = (values: Float32Array): number => Math.max(...values.subarray(2000, 6000).map(Math.abs));
  expect(middle(await lowpass(tone(5000), rate, 3000))).toBeLessThan(0.01);
  expect(middle(await lowpass(tone(1000), rate, 3000))).toBeCloseTo(1, 2);
  expect(await lowpass(noise(100), rate, 8000)).toEqual(noise(100));
  await expect(lowpass(noise(100), rate, 8001)).rejects.toThrow(/expected a whole number up to 8000/);
});

test.each(["opus", "mp3", "ogg"] as const)("%s gives the same length, and loses more at a higher level", async (codec) => {
  for (const length of [0, 1, 4001]) expect((await throughCodec(noise(length), rate, codec, 0.9)).length).toBe(length);
  const samples = noise(16_000);
  const loss = async (level: number): Promise<number> => {
    const coded = await throughCodec(samples, rate, codec, level);
    return coded.reduce((sum, x, i) => sum + (x - (samples[i] as number)) ** 2, 0);
  };
  expect(await loss(0.95)).toBeGreaterThan(await loss(0));
  await expect(throughCodec(noise(100), 11_111, "opus", 0.5)).rejects.toMatchObject({ code: "AUDIO_UNWRITABLE" });
});
