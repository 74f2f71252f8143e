import fc from "fast-check";
import { expect, test } from "vitest";
import { type FbankOptions, fbank, fbankSync, numFramesOf } from "../../src/audio/fbank.ts";
import { readSafetensors } from "../../src/formats/safetensors.ts";

const { tensors, metadata } = readSafetensors(new URL("../golden/fbank.safetensors", import.meta.url).pathname);

function optionsOf(name: string): FbankOptions {
  const s = JSON.parse(metadata[name] as string);
  return { sampleRate: s.sampling_rate, numMelBins: s.num_filters, snipEdges: s.snip_edges, lowFreq: s.low_freq, highFreq: s.high_freq, window: s.window_type };
}
const get = (name: string) => tensors.get(name) as { shape: number[]; data: Float32Array };

/** The largest |a - b| - 1e-4 |b|. */
function mostExcess(a: Float32Array, b: Float32Array): number {
  return a.reduce((most, x, i) => Math.max(most, Math.abs(x - (b[i] as number)) - 1e-4 * Math.abs(b[i] as number)), 0);
}

test.each(["a", "b", "c", "d", "e", "f"])("equals lhotse's Fbank, case %s", async (name) => {
  const expected = get(`${name}.fbank`);
  const options = optionsOf(name);
  const features = await fbank(get(`${name}.wave`).data, options);
  expect([features.frames, features.bins]).toEqual(expected.shape);
  expect(numFramesOf(get(`${name}.wave`).data.length, options)).toBe(features.frames);
  expect(mostExcess(features.data, expected.data)).toBeLessThanOrEqual(1e-5);
  expect(fbankSync(get(`${name}.wave`).data, options)).toEqual(features);
});

/**
 * Every step as its formula says, in doubles, with a plain Fourier sum: the energies of the filters, and by how much each may differ, since places on
 * the mel scale are known to 5e-4 in single precision.
 */
function plainFbank(x: Float32Array, sampleRate: number, bins: number, snip: boolean): { energy: number; slack: number }[] {
  const n = Math.floor(0.025 * sampleRate + 1e-9);
  const shift = Math.floor(0.01 * sampleRate + 1e-9);
  let size = 2;
  while (size < n) size *= 2;
  const frames = snip ? (x.length < n ? 0 : 1 + Math.floor((x.length - n) / shift)) : Math.floor((x.length + Math.floor(shift / 2)) / shift);
  const lead = snip ? 0 : Math.floor((n - shift) / 2);
  const at = (i: number): number => (i < 0 ? at(-1 - i) : i >= x.length ? at(2 * x.length - 1 - i) : (x[i] as number));
  const mel = (f: number) => 1127 * Math.log(1 + f / 700);
  const low = mel(20);
  const step = (mel(sampleRate / 2 - 400) - low) / (bins + 1);
  const result: { energy: number; slack: number }[] = [];
  for (let t = 0; t < frames; t++) {
    const raw = Array.from({ length: n }, (_, i) => at(t * shift - lead + i));
    const mean = raw.reduce((a, b) => a + b, 0) / n;
    const centered = raw.map((v) => v - mean);
    const y = centered.map((v, i) => (v - 0.97 * (centered[Math.max(0, i - 1)] as number)) * (0.5 - 0.5 * Math.cos((2 * Math.PI * i) / (n - 1))) ** 0.85);
    const power = Array.from({ length: size / 2 }, (_, k) => {
      let re = 0;
      let im = 0;
      y.forEach((v, i) => {
        re += v * Math.cos((2 * Math.PI * k * i) / size);
        im -= v * Math.sin((2 * Math.PI * k * i) / size);
      });
      return re * re + im * im;
    });
    for (let m = 0; m < bins; m++) {
      const left = low + m * step;
      let energy = 0;
      let around = 0;
      power.forEach((p, k) => {
        const f = mel((k * sampleRate) / size);
        const weight = Math.min((f - left) / step, (left + 2 * step - f) / step);
        energy += p * Math.max(0, weight);
        if (weight > -5e-4 / step) around += p;
      });
      result.push({ energy: Math.max(energy, 1.1920928955078125e-7), slack: 2e-3 * energy + (5e-4 / step) * around + 1e-9 });
    }
  }
  return result;
}

test("equals the formula at any rate, length and number of bins", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2000, max: 12000 }),
      fc.integer({ min: 3, max: 40 }),
      fc.integer({ min: 0, max: 700 }),
      fc.boolean(),
      fc.integer(),
      (sampleRate, numMelBins, length, snipEdges, seed) => {
        const samples = Float32Array.from({ length }, (_, i) => 0.3 * Math.sin(0.1 * i + (seed % 10)) + 0.1 * Math.sin(0.003 * i * i));
        const features = fbankSync(samples, { sampleRate, numMelBins, snipEdges });
        const expected = plainFbank(samples, sampleRate, numMelBins, snipEdges);
        expect(features.frames * numMelBins).toBe(expected.length);
        features.data.forEach((x, i) => {
          const { energy, slack } = expected[i] as { energy: number; slack: number };
          expect(Math.abs(Math.exp(x) - energy)).toBeLessThan(slack);
        });
      },
    ),
    { numRuns: 15 },
  );
});

test("too little audio gives no frames, silence the floor", async () => {
  expect(await fbank(new Float32Array(0), { sampleRate: 16000 })).toEqual({ frames: 0, bins: 80, data: new Float32Array(0) });
  expect((await fbank(new Float32Array(79), { sampleRate: 16000 })).frames).toBe(0);
  expect((await fbank(new Float32Array(80), { sampleRate: 16000 })).frames).toBe(1);
  expect((await fbank(new Float32Array(399), { sampleRate: 16000, snipEdges: true })).frames).toBe(0);
  expect(new Set(fbankSync(new Float32Array(4000), { sampleRate: 16000 }).data)).toEqual(new Set([Math.fround(Math.log(1.1920928955078125e-7))]));
});

test("NaN, infinity and impossible settings are coded errors", async () => {
  const samples = new Float32Array(1600).fill(0.1);
  samples[800] = NaN;
  await expect(fbank(samples, { sampleRate: 16000 })).rejects.toMatchObject({ code: "AUDIO_NOT_FINITE" });
  samples[800] = Infinity;
  await expect(fbank(samples, { sampleRate: 16000 })).rejects.toMatchObject({ code: "AUDIO_NOT_FINITE" });
  for (const options of [
    { sampleRate: 0 },
    { sampleRate: NaN },
    { sampleRate: 16000, numMelBins: 0 },
    { sampleRate: 16000, highFreq: 9000 },
    { sampleRate: 16000, lowFreq: 7700 },
    { sampleRate: 16000, frameShift: 0 },
    { sampleRate: 700 },
  ]) {
    expect(() => fbankSync(samples, options)).toThrow(expect.objectContaining({ code: "CONFIG_BAD_VALUE" }));
  }
});

test("many at once give what one at a time gives", async () => {
  const waves = Array.from({ length: 12 }, (_, k) => Float32Array.from({ length: 1000 * (k + 1) }, (_, i) => Math.sin(i * (k + 1) * 0.01)));
  const together = await Promise.all(waves.map((w, k) => fbank(w, { sampleRate: k % 2 ? 8000 : 16000, numMelBins: 20 + k })));
  together.forEach((f, k) => expect(f).toEqual(fbankSync(waves[k] as Float32Array, { sampleRate: k % 2 ? 8000 : 16000, numMelBins: 20 + k })));
});
