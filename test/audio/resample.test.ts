import fc from "fast-check";
import { expect, test } from "vitest";
import { resample, resampleSinc, speed } from "../../src/audio/resample.ts";

/** torchaudio's definition, written as one sum per output sample: no blocks, no tables. */
function plainSinc(x: Float32Array, from: number, to: number, width = 6, rolloff = 0.99): number[] {
  const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));
  const d = gcd(from, to);
  const [orig, fresh] = [from / d, to / d];
  const cutoff = Math.min(orig, fresh) * rolloff;
  return Array.from({ length: Math.ceil((fresh * x.length) / orig) }, (_, j) => {
    let sum = 0;
    x.forEach((v, i) => {
      const t = (i / orig - j / fresh) * cutoff;
      if (Math.abs(t) >= width) return;
      const sinc = t === 0 ? 1 : Math.sin(Math.PI * t) / (Math.PI * t);
      sum += v * sinc * Math.cos((t * Math.PI) / width / 2) ** 2;
    });
    return (sum * cutoff) / orig;
  });
}
const wave = (n: number) => Float32Array.from({ length: n }, (_, i) => Math.sin(0.05 * i) + 0.3 * Math.sin(0.7 * i + 1));
const tone = (n: number, hertz: number, rate: number) => Float32Array.from({ length: n }, (_, i) => Math.sin((2 * Math.PI * hertz * i) / rate));

test("resampleSinc equals its formula at any pair of rates", async () => {
  const rates = fc.constantFrom(8000, 14400, 16000, 17600, 22050, 44100, 48000, 1, 3, 7919);
  await fc.assert(
    fc.asyncProperty(
      rates,
      rates,
      fc.integer({ min: 0, max: 200 }),
      fc.integer({ min: 1, max: 12 }),
      fc.constantFrom(0.5, 0.99, 1),
      async (from, to, n, lowpassFilterWidth, rolloff) => {
        if (to / from > 50) return; // too much output for the plain sum
        const x = wave(n);
        const y = await resampleSinc(x, from, to, { lowpassFilterWidth, rolloff });
        const expected = from === to ? [...x] : plainSinc(x, from, to, lowpassFilterWidth, rolloff);
        expect(y.length).toBe(expected.length);
        y.forEach((v, i) => expect(Math.abs(v - (expected[i] as number))).toBeLessThan(2e-5));
      },
    ),
    { numRuns: 80 },
  );
});

test("speed changes length and pitch", async () => {
  const x = tone(16000, 440, 16000);
  for (const factor of [0.9, 1.1]) {
    const y = await speed(x, factor, 16000);
    expect(y.length).toBe(Math.ceil(16000 / factor));
    const expected = tone(y.length, 440 * factor, 16000);
    y.slice(200, -200).forEach((v, i) => expect(Math.abs(v - (expected[i + 200] as number))).toBeLessThan(0.02));
  }
  expect(await speed(x, 1, 16000)).toBe(x);
});

test("resample keeps a tone in the pass band and removes one above the new Nyquist frequency", async () => {
  const down = await resample(tone(44100, 1000, 44100), 44100, 16000);
  expect(down.length).toBe(16000);
  const expected = tone(16000, 1000, 16000);
  down.slice(1000, -1000).forEach((v, i) => expect(Math.abs(v - (expected[i + 1000] as number))).toBeLessThan(1e-3));
  const alias = await resample(tone(44100, 12000, 44100), 44100, 16000);
  expect(Math.max(...alias.slice(1000, -1000).map(Math.abs))).toBeLessThan(1e-4);
  expect((await resample(wave(8001), 8000, 16000)).length).toBe(16002);
  expect(await resample(new Float32Array(0), 8000, 16000)).toHaveLength(0);
});

test("impossible rates are coded errors", async () => {
  for (const [from, to] of [
    [0, 1],
    [1, NaN],
    [-1, 2],
    [1e9, 1],
  ] as const) {
    await expect(resample(wave(3), from, to)).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE" });
    await expect(resampleSinc(wave(3), from, to)).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE" });
  }
  await expect(resampleSinc(wave(3), 1.5, 3)).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE" });
  await expect(speed(wave(3), 0, 16000)).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE" });
});
