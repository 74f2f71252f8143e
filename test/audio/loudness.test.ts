import { expect, test } from "vitest";
import { integratedLoudness, normalizeLoudness } from "../../src/audio/index.ts";

const sine = (hz: number, seconds: number, rate: number, scale = 1): Float32Array =>
  Float32Array.from({ length: seconds * rate }, (_, i) => scale * Math.sin((2 * Math.PI * hz * i) / rate));

test("a sine of 997 Hz at full scale has -3.01 LUFS, at any rate", () => {
  // ITU-R BS.1770-4, section 2.8.
  for (const rate of [16_000, 44_100, 48_000]) expect(Math.abs(integratedLoudness(sine(997, 3, rate), rate) + 3.01)).toBeLessThan(0.1);
});

test("silence around speech does not make it quieter", () => {
  const rate = 16_000;
  const tone = sine(500, 4, rate, 0.1);
  const padded = new Float32Array(12 * rate);
  padded.set(tone, 4 * rate);
  expect(Math.abs(integratedLoudness(padded, rate) - integratedLoudness(tone, rate))).toBeLessThan(0.5);
});

test("is normalised to what is asked for; silence and nothing stay", () => {
  const rate = 16_000;
  for (const seconds of [0.05, 0.3, 2]) expect(integratedLoudness(normalizeLoudness(sine(700, seconds, rate, 0.02), -23, rate), rate)).toBeCloseTo(-23, 3);
  expect(integratedLoudness(new Float32Array(8000), rate)).toBe(Number.NEGATIVE_INFINITY);
  expect(normalizeLoudness(new Float32Array(8000), -23, rate)).toEqual(new Float32Array(8000));
  expect(normalizeLoudness(new Float32Array(0), -23, rate)).toEqual(new Float32Array(0));
});
