/**
 * What happens to a voice between the mouth and the file: another build of body and pace, a room, a microphone, a line, noise.
 * Each is drawn at random, so that a network hears no two utterances over the same path.
 */
import type { Random } from "../src/util/random.ts";
import { convertRate, peak, sampleRate } from "./sound.ts";

/**
 * One random path. The first step changes the length, the others keep it.
 * @param samples a dry voice at 16 kHz
 */
export function distort(samples: Float32Array, random: Random): Float32Array {
  let x = resize(samples, random);
  if (random.uniform() < 0.5) x = reverberate(x, random);
  if (random.uniform() < 0.7) x = equalize(x, random);
  if (random.uniform() < 0.85) x = addNoise(x, random);
  // Most recordings that people try are telephone-like: half of the training speech has nothing above 4 kHz.
  if (random.uniform() < 0.55) x = telephone(x, random);
  return setLevel(x, random);
}

/** Higher and faster, or lower and slower: the resonances move with the pitch, as between small and large people. */
function resize(samples: Float32Array, random: Random): Float32Array {
  const speed = Math.exp(0.1 * Math.max(-2, Math.min(2, random.normal())));
  return convertRate(samples, sampleRate * speed, sampleRate);
}

/** A room as sparse noise of random signs that decays by 60 dB in 0.08 to 0.48 s ("velvet noise"), behind the direct sound. */
function reverberate(samples: Float32Array, random: Random): Float32Array {
  const decay = 0.08 + 0.4 * random.uniform() ** 2;
  const level = 0.05 + 0.3 * random.uniform();
  const taps: { delay: number; gain: number }[] = [];
  for (let delay = 0.002 + 0.01 * random.uniform(); delay < decay; delay += 0.0005 + 0.004 * random.uniform()) {
    taps.push({ delay: Math.round(delay * sampleRate), gain: level * (random.uniform() < 0.5 ? -1 : 1) * 10 ** ((-3 * delay) / decay) });
  }
  const out = samples.slice();
  for (const { delay, gain } of taps) {
    for (let i = delay; i < out.length; i++) out[i] = (out[i] as number) + gain * (samples[i - delay] as number);
  }
  return out;
}

/** A second-order filter, applied in place. Coefficients after Bristow-Johnson's cookbook. */
function biquad(x: Float32Array, [b0, b1, b2, a0, a1, a2]: readonly [number, number, number, number, number, number]): Float32Array {
  let [x1, x2, y1, y2] = [0, 0, 0, 0];
  for (let i = 0; i < x.length; i++) {
    const x0 = x[i] as number;
    const y0 = (b0 * x0 + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2) / a0;
    [x2, x1, y2, y1] = [x1, x0, y1, y0];
    x[i] = y0;
  }
  return x;
}

/** A microphone and a mouth at some angle: two broad peaks or dips of up to 8 dB, and a slope. */
function equalize(samples: Float32Array, random: Random): Float32Array {
  const x = samples.slice();
  for (let i = 0; i < 2; i++) {
    const w = (2 * Math.PI * 150 * 40 ** random.uniform()) / sampleRate; // 150 to 6000 Hz
    const a = 10 ** ((8 * (2 * random.uniform() - 1)) / 40);
    const alpha = Math.sin(w) / (2 * (0.4 + random.uniform()));
    biquad(x, [1 + alpha * a, -2 * Math.cos(w), 1 - alpha * a, 1 + alpha / a, -2 * Math.cos(w), 1 - alpha / a]);
  }
  const slope = 0.7 * random.uniform() - 0.3; // y[i] = x[i] - slope * x[i-1]
  let previous = 0;
  for (let i = 0; i < x.length; i++) {
    const now = x[i] as number;
    x[i] = now - slope * previous;
    previous = now;
  }
  return x;
}

/** Noise of a random colour, 8 to 45 dB under the voice, sometimes with the mains' hum. */
function addNoise(samples: Float32Array, random: Random): Float32Array {
  const noise = new Float32Array(samples.length);
  const pole = random.choice([0, 0.5, 0.9, 0.98]); // white to brown
  const hum = random.uniform() < 0.15 ? 2 * random.uniform() : 0;
  const step = (2 * Math.PI * random.choice([50, 60])) / sampleRate;
  let state = 0;
  for (let i = 0; i < noise.length; i++) {
    state = pole * state + random.normal() * Math.sqrt(1 - pole * pole);
    noise[i] = state + hum * (Math.sin(step * i) + 0.5 * Math.sin(3 * step * i));
  }
  const snr = 8 + 37 * random.uniform();
  const gain = Math.sqrt(power(samples) / (power(noise) + 1e-12)) * 10 ** (-snr / 20);
  const out = samples.slice();
  for (let i = 0; i < out.length; i++) out[i] = (out[i] as number) + gain * (noise[i] as number);
  return out;
}

/** Nothing above 4 kHz (often 3.4), often little under 300 Hz, and sometimes the 8-bit code of telephone lines (G.711). */
function telephone(samples: Float32Array, random: Random): Float32Array {
  const narrow = convertRate(samples, sampleRate, 8000);
  const corner = random.choice([0, 0, 100, 200, 300]);
  if (corner > 0) {
    const w = (2 * Math.PI * corner) / 8000;
    const alpha = Math.sin(w) / Math.SQRT2;
    const c = Math.cos(w);
    biquad(narrow, [(1 + c) / 2, -(1 + c), (1 + c) / 2, 1 + alpha, -2 * c, 1 - alpha]);
  }
  if (random.uniform() < 0.4) {
    const scale = 0.7 / (peak(narrow) + 1e-9);
    const mu = Math.log(256);
    for (let i = 0; i < narrow.length; i++) {
      const y = (narrow[i] as number) * scale;
      const code = Math.round((127 * Math.log(1 + 255 * Math.abs(y))) / mu) / 127;
      narrow[i] = (Math.sign(y) * (256 ** code - 1)) / 255;
    }
  }
  const out = new Float32Array(samples.length);
  out.set(convertRate(narrow, 8000, sampleRate).subarray(0, samples.length));
  return out;
}

/** A peak between -26 and -0.5 dB of full scale, at times driven into clipping. */
function setLevel(samples: Float32Array, random: Random): Float32Array {
  const clip = random.uniform() < 0.05 ? 2 : 1;
  const gain = (clip * 10 ** (-(0.5 + 25 * random.uniform() ** 1.5) / 20)) / (peak(samples) + 1e-9);
  return samples.map((x) => Math.max(-1, Math.min(1, x * gain)));
}

/** Mean square of the frames of 20 ms that are at most 20 dB below the loudest, so that silence around a word does not count. */
function power(samples: Float32Array): number {
  const frame = sampleRate / 50;
  const powers: number[] = [];
  for (let start = 0; start < samples.length; start += frame) {
    const end = Math.min(samples.length, start + frame);
    let sum = 0;
    for (let i = start; i < end; i++) sum += (samples[i] as number) ** 2;
    powers.push(sum / (end - start));
  }
  const loud = powers.filter((x) => x >= 0.01 * Math.max(...powers));
  return loud.reduce((sum, x) => sum + x, 0) / Math.max(1, loud.length);
}
