/** Loudness as ITU-R BS.1770-4 measures it, of one channel, and scaling to a loudness. Source: the recommendation; RBJ's audio EQ cookbook for its filters at any rate. */
import { scaleVolume } from "./augment.ts";

/** Seconds of a gating block, and the share of it from one block to the next. */
const blockSeconds = 0.4;
const step = 0.25;
/** LUFS below which a block is silence, and LU below the mean of the others. */
const absoluteGate = -70;
const relativeGate = -10;
/** Makes a sine of 997 Hz at full scale -3.01 LUFS. */
const offset = -0.691;

interface Biquad {
  b: readonly [number, number, number];
  a: readonly [number, number];
}

/** The head's shelf: 4 dB above 1500 Hz. */
function shelf(sampleRate: number): Biquad {
  const gain = 10 ** (4 / 40);
  const w = (2 * Math.PI * 1500) / sampleRate;
  const cos = Math.cos(w);
  const root = 2 * Math.sqrt(gain) * (Math.sin(w) / (2 * Math.SQRT1_2));
  const a0 = gain + 1 - (gain - 1) * cos + root;
  return {
    b: [(gain * (gain + 1 + (gain - 1) * cos + root)) / a0, (-2 * gain * (gain - 1 + (gain + 1) * cos)) / a0, (gain * (gain + 1 + (gain - 1) * cos - root)) / a0],
    a: [(2 * (gain - 1 - (gain + 1) * cos)) / a0, (gain + 1 - (gain - 1) * cos - root) / a0],
  };
}

/** Above 38 Hz. */
function highPass(sampleRate: number): Biquad {
  const w = (2 * Math.PI * 38) / sampleRate;
  const cos = Math.cos(w);
  const alpha = Math.sin(w) / (2 * 0.5);
  const a0 = 1 + alpha;
  return { b: [(1 + cos) / 2 / a0, -(1 + cos) / a0, (1 + cos) / 2 / a0], a: [(-2 * cos) / a0, (1 - alpha) / a0] };
}

function filter(samples: Float64Array, { b, a }: Biquad): void {
  let [x1, x2, y1, y2] = [0, 0, 0, 0];
  for (let i = 0; i < samples.length; i++) {
    const x = samples[i] as number;
    const y = b[0] * x + b[1] * x1 + b[2] * x2 - a[0] * y1 - a[1] * y2;
    [x2, x1, y2, y1] = [x1, x, y1, y];
    samples[i] = y;
  }
}

const toLoudness = (energy: number): number => offset + 10 * Math.log10(energy);
const mean = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length;

/** LUFS of mono samples; -Infinity for silence. What is shorter than a block is one block. */
export function integratedLoudness(samples: Float32Array, sampleRate: number): number {
  const seconds = samples.length / sampleRate;
  const block = Math.min(blockSeconds, seconds - 1e-10); // lhotse's, for short cuts
  if (!(block > 0)) return Number.NEGATIVE_INFINITY;
  const weighted = Float64Array.from(samples);
  filter(weighted, shelf(sampleRate));
  filter(weighted, highPass(sampleRate));
  const count = Math.round((seconds - block) / (block * step)) + 1;
  const energies = Array.from({ length: count }, (_, i) => {
    const from = Math.floor(block * i * step * sampleRate);
    const to = Math.min(weighted.length, Math.floor(block * (i * step + 1) * sampleRate));
    let sum = 0;
    for (let k = from; k < to; k++) sum += (weighted[k] as number) ** 2;
    return sum / (block * sampleRate);
  });
  const loud = energies.filter((energy) => toLoudness(energy) >= absoluteGate);
  if (loud.length === 0) return Number.NEGATIVE_INFINITY;
  const gate = toLoudness(mean(loud)) + relativeGate;
  return toLoudness(mean(loud.filter((energy) => toLoudness(energy) > gate)));
}

/** The same samples at a loudness of `target` LUFS; silence stays. Nothing is clipped. Source: lhotse, augmentation/loudness.py. */
export function normalizeLoudness(samples: Float32Array, target: number, sampleRate: number): Float32Array {
  const loudness = integratedLoudness(samples, sampleRate);
  return Number.isFinite(loudness) ? scaleVolume(samples, 10 ** ((target - loudness) / 20)) : samples;
}
