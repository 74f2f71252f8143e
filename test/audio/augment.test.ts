import fc from "fast-check";
import { expect, test } from "vitest";
import { addNoise, addRandomNoise, coloredNoise, meanEnergy, randomVolume, reverberate, roomImpulseResponse, scaleVolume } from "../../src/audio/augment.ts";
import { convolve } from "../../src/audio/fft.ts";
import { Random } from "../../src/util/random.ts";

const noise = (n: number, seed = 1) => {
  const random = new Random(seed);
  return Float32Array.from({ length: n }, () => random.normal());
};

test("noise is added at the asked-for ratio, and repeats when it is short", () => {
  fc.assert(
    fc.property(fc.integer({ min: -20, max: 40 }), fc.integer({ min: 1, max: 500 }), (snr, n) => {
      const speech = noise(400, 2);
      const noisy = addNoise(speech, noise(n, 3), snr);
      const added = noisy.map((x, i) => x - (speech[i] as number));
      expect(10 * Math.log10(meanEnergy(speech) / meanEnergy(added))).toBeCloseTo(snr, 2);
      if (n < 400) expect((added[n] as number) - (added[0] as number)).toBeCloseTo(0, 3);
    }),
  );
});

test("silence on either side does not divide by zero", () => {
  expect(addNoise(new Float32Array(3), Float32Array.of(1, 2, 3), 10)).toEqual(Float32Array.of(1, 2, 3));
  expect(addNoise(Float32Array.of(1, 2), new Float32Array(5), 10)).toEqual(Float32Array.of(1, 2));
  expect(addNoise(Float32Array.of(1, 2), new Float32Array(0), 10)).toEqual(Float32Array.of(1, 2));
  expect(() => addNoise(Float32Array.of(1), Float32Array.of(1), NaN)).toThrow(expect.objectContaining({ code: "CONFIG_BAD_VALUE" }));
});

test("convolution equals its sum", () => {
  const signal = fc.array(fc.float({ min: -1, max: 1, noNaN: true }), { maxLength: 60 }).map((a) => Float32Array.from(a));
  fc.assert(
    fc.property(signal, signal, (a, b) => {
      const expected = new Float64Array(a.length && b.length ? a.length + b.length - 1 : 0);
      if (expected.length) a.forEach((x, i) => b.forEach((y, j) => void (expected[i + j] = (expected[i + j] as number) + x * y)));
      const result = convolve(a, b);
      expect(result.length).toBe(expected.length);
      result.forEach((x, i) => expect(Math.abs(x - (expected[i] as number))).toBeLessThan(1e-5));
    }),
  );
});

test("reverberation keeps length, time and loudness", () => {
  const speech = noise(1000);
  const delayed = new Float32Array(60);
  delayed[50] = 0.5; // only a direct path, late and quiet
  reverberate(speech, delayed).forEach((x, i) => expect(x).toBeCloseTo(speech[i] as number, 4));
  const room = roomImpulseResponse({ sampleRate: 16000, reverberationTime: 0.4 }, new Random(5));
  const wet = reverberate(speech, room);
  expect(wet.length).toBe(1000);
  expect(meanEnergy(wet)).toBeCloseTo(meanEnergy(speech), 4);
  expect(reverberate(new Float32Array(0), room)).toHaveLength(0);
  expect(() => reverberate(speech, new Float32Array(0))).toThrow(expect.objectContaining({ code: "AUDIO_EMPTY" }));
});

test("a made-up room decays by 60 dB in its time and holds its ratio", () => {
  const room = roomImpulseResponse({ sampleRate: 16000, reverberationTime: 0.5, directToReverberant: 3 }, new Random(7));
  expect(room[0]).toBe(1);
  expect(Math.max(...room.subarray(1))).toBeLessThan(1);
  const echo = room.subarray(80);
  expect(10 * Math.log10(1 / (meanEnergy(echo) * echo.length))).toBeCloseTo(3, 1);
  const level = (from: number) => 10 * Math.log10(meanEnergy(echo.subarray(from, from + 800)));
  expect(level(0) - level(4000)).toBeGreaterThan(25);
  expect(level(0) - level(4000)).toBeLessThan(35);
  expect(() => roomImpulseResponse({ sampleRate: 16000, reverberationTime: 0 }, new Random(1))).toThrow(expect.objectContaining({ code: "CONFIG_BAD_VALUE" }));
});

test("coloured noise has mean energy 1 and the slope of its name", () => {
  for (const [color, slope] of [
    ["white", 0],
    ["pink", -3.01],
    ["brown", -6.02],
    ["blue", 3.01],
  ] as const) {
    const x = coloredNoise(1 << 14, color, new Random(3));
    expect(meanEnergy(x)).toBeCloseTo(1, 4);
    const octave = (low: number) => {
      let sum = 0;
      for (let k = low; k < 2 * low; k += Math.max(1, low >> 5)) {
        let [re, im] = [0, 0];
        x.forEach((v, i) => {
          re += v * Math.cos((2 * Math.PI * k * i) / x.length);
          im += v * Math.sin((2 * Math.PI * k * i) / x.length);
        });
        sum += re * re + im * im;
      }
      return 10 * Math.log10(sum / Math.min(low, 32));
    };
    expect(Math.abs((octave(2048) - octave(128)) / 4 - slope)).toBeLessThan(1);
  }
  expect(coloredNoise(0, "pink", new Random(1))).toHaveLength(0);
});

test("equal seeds give equal results, other seeds others", () => {
  const run = (seed: number) => {
    const random = new Random(seed);
    const x = randomVolume(addRandomNoise(noise(100), noise(300, 9), {}, random), {}, random);
    return reverberate(x, roomImpulseResponse({ sampleRate: 8000, reverberationTime: 0.1 }, random));
  };
  expect(run(4)).toEqual(run(4));
  expect(run(4)).not.toEqual(run(5));
  expect(scaleVolume(Float32Array.of(1, -2), 0.5)).toEqual(Float32Array.of(0.5, -1));
});
