/** What bad equipment does to speech: clipping and saturation, and narrow bands. Source: lhotse, augmentation/clipping.py, cut_transforms/lowpass.py. */
import { ConfigError } from "../util/errors.ts";
import { resampleSinc } from "./resample.ts";

/** How samples are clipped. */
export interface ClipOptions {
  /** True cuts peaks off; false saturates as a tube does (tanh). */
  hard: boolean;
  /** By how much samples are amplified before, and made quieter again behind it. */
  gainDb: number;
  /** Amplifies the loudest sample to full scale before that. */
  normalize: boolean;
  /** Times the sampling rate at which it is done; 1 at the rate itself. */
  oversampling: number;
}

/** A peak below which there is nothing to clip, dBFS, and a gain that is none. Source: lhotse. */
const silence = -96;
const leastGain = 0.1;

function clip(samples: Float32Array, { hard, gainDb, normalize }: ClipOptions): Float32Array {
  let peak = 0;
  for (const x of samples) if (Math.abs(x) > peak) peak = Math.abs(x);
  if (peak === 0 || 20 * Math.log10(peak) < silence) return samples;
  const gain = (Math.abs(gainDb) >= leastGain ? 10 ** (gainDb / 20) : 1) / (normalize ? peak : 1);
  return samples.map((x) => (hard ? Math.max(-1, Math.min(1, x * gain)) : Math.tanh(x * gain)) / gain);
}

/** Clips samples at full scale. Lengths stay. */
export async function clipAmplitude(samples: Float32Array, sampleRate: number, options: ClipOptions): Promise<Float32Array> {
  const { oversampling } = options;
  if (!Number.isInteger(oversampling) || oversampling < 1)
    throw new ConfigError("CONFIG_BAD_VALUE", { at: "clipAmplitude", message: `oversampling is ${oversampling}, expected a whole number of 1 or more` });
  if (oversampling === 1) return clip(samples, options);
  const higher = await resampleSinc(samples, sampleRate, sampleRate * oversampling);
  return (await resampleSinc(clip(higher, options), sampleRate * oversampling, sampleRate)).subarray(0, samples.length);
}

/** Takes away what is above `cutoff` Hz, by resampling to twice as much and back. Lengths stay. */
export async function lowpass(samples: Float32Array, sampleRate: number, cutoff: number): Promise<Float32Array> {
  if (!(Number.isInteger(cutoff) && cutoff > 0 && 2 * cutoff <= sampleRate))
    throw new ConfigError("CONFIG_BAD_VALUE", { at: "lowpass", message: `the cut-off is ${cutoff} Hz, expected a whole number up to ${sampleRate / 2}` });
  if (2 * cutoff === sampleRate) return samples;
  const back = await resampleSinc(await resampleSinc(samples, sampleRate, 2 * cutoff), 2 * cutoff, sampleRate);
  if (back.length === samples.length) return back;
  const same = new Float32Array(samples.length);
  same.set(back.subarray(0, samples.length));
  return same;
}
