/**
 * What happens to a voice between the mouth and the file: another build of body and pace, a room, a microphone, a line, noise.
 * Each is drawn at random, so that a network hears no two utterances over the same path.
 */
import { addRandomNoise, coloredNoise, resample, reverberate, roomImpulseResponse } from "../src/audio/index.ts";
import { Random } from "../src/util/random.ts";
import { peak, sampleRate } from "./sound.ts";

/**
 * One random path. The first step changes the length, the others keep it.
 * @param samples a dry voice at 16 kHz
 * @returns at 16 kHz
 */
export async function distort(samples: Float32Array, random: Random): Promise<Float32Array> {
  // Most recordings that people try are telephone-like: half of the training speech has nothing above 4 kHz.
  const narrow = random.uniform() < 0.55;
  const rate = narrow ? 8000 : sampleRate;
  // Higher and faster, or lower and slower: the resonances move with the pitch, as between small and large people.
  const speed = Math.exp(0.12 * Math.max(-2, Math.min(2, random.normal())));
  let x = await resample(samples, Math.round(sampleRate * speed), rate);
  if (random.uniform() < 0.25) x = room(x, rate, random);
  if (random.uniform() < 0.7) equalize(x, rate, random);
  if (random.uniform() < 0.5) x = noise(x, random);
  if (narrow) x = await resample(telephone(x, random), 8000, sampleRate);
  return setLevel(x, random);
}

/** A room of 0.08 to 0.48 s, with the direct sound 0 to 20 dB over the echo. */
function room(samples: Float32Array, rate: number, random: Random): Float32Array {
  const reverberationTime = 0.08 + 0.4 * random.uniform() ** 2;
  const directToReverberant = 20 * random.uniform();
  return reverberate(samples, roomImpulseResponse({ sampleRate: rate, reverberationTime, directToReverberant }, random));
}

/** A second-order filter, applied in place. Coefficients after Bristow-Johnson's cookbook. */
function biquad(x: Float32Array, [b0, b1, b2, a0, a1, a2]: readonly [number, number, number, number, number, number]): void {
  let [x1, x2, y1, y2] = [0, 0, 0, 0];
  for (let i = 0; i < x.length; i++) {
    const x0 = x[i] as number;
    const y0 = (b0 * x0 + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2) / a0;
    x2 = x1;
    x1 = x0;
    y2 = y1;
    y1 = y0;
    x[i] = y0;
  }
}

/** A microphone and a mouth at some angle, in place: three broad peaks or dips of up to 10 dB, and a slope. */
function equalize(x: Float32Array, rate: number, random: Random): void {
  for (let i = 0; i < 3; i++) {
    const w = (2 * Math.PI * 150 * (rate / 400) ** random.uniform()) / rate; // 150 Hz to 3 or 6 kHz
    const a = 10 ** ((10 * (2 * random.uniform() - 1)) / 40);
    const alpha = Math.sin(w) / (2 * (0.4 + random.uniform()));
    biquad(x, [1 + alpha * a, -2 * Math.cos(w), 1 - alpha * a, 1 + alpha / a, -2 * Math.cos(w), 1 - alpha / a]);
  }
  const slope = 1.1 * random.uniform() - 0.5; // y[i] = x[i] - slope * x[i-1]
  let previous = 0;
  for (let i = 0; i < x.length; i++) {
    const now = x[i] as number;
    x[i] = now - slope * previous;
    previous = now;
  }
}

/** Half a minute of each colour, the same in every worker. */
const noises = (["white", "pink", "brown"] as const).map((color, i) => coloredNoise(2 ** 18, color, new Random(i)));

/** Steady noise 10 to 45 dB under the voice. */
function noise(samples: Float32Array, random: Random): Float32Array {
  return addRandomNoise(samples, random.choice(noises), { low: 10, high: 45 }, random);
}

/** Often little under 300 Hz, and sometimes the 8-bit code of telephone lines (G.711). In place, at 8 kHz. */
function telephone(x: Float32Array, random: Random): Float32Array {
  const corner = random.choice([0, 0, 100, 200, 300]);
  if (corner > 0) {
    const w = (2 * Math.PI * corner) / 8000;
    const alpha = Math.sin(w) / Math.SQRT2;
    const c = Math.cos(w);
    biquad(x, [(1 + c) / 2, -(1 + c), (1 + c) / 2, 1 + alpha, -2 * c, 1 - alpha]);
  }
  if (random.uniform() < 0.4) {
    const scale = 0.7 / (peak(x) + 1e-9);
    const mu = Math.log(256);
    for (let i = 0; i < x.length; i++) {
      const y = (x[i] as number) * scale;
      const code = Math.round((127 * Math.log(1 + 255 * Math.abs(y))) / mu) / 127;
      x[i] = (Math.sign(y) * (256 ** code - 1)) / 255;
    }
  }
  return x;
}

/** A peak between -26 and -0.5 dB of full scale, at times driven into clipping. */
function setLevel(samples: Float32Array, random: Random): Float32Array {
  const clip = random.uniform() < 0.05 ? 2 : 1;
  const gain = (clip * 10 ** (-(0.5 + 25 * random.uniform() ** 1.5) / 20)) / (peak(samples) + 1e-9);
  return samples.map((x) => Math.max(-1, Math.min(1, x * gain)));
}
