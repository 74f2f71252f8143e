/**
 * Augmentation of waveforms: loudness, noise, reverberation. All randomness comes from the given stream.
 * Source: lhotse's augmentation (gain from mean energies; reverberation cut at the direct path, loudness kept).
 */
import { AudioError, ConfigError } from "../util/errors.ts";
import type { Random } from "../util/random.ts";
import { convolve, fft } from "./fft.ts";

/** Mean of the squared samples; 0 of none. */
export function meanEnergy(samples: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < samples.length; i++) sum += (samples[i] as number) ** 2;
  return samples.length === 0 ? 0 : sum / samples.length;
}

/** Multiplies by a factor; nothing is clipped. */
export function scaleVolume(samples: Float32Array, factor: number): Float32Array {
  return samples.map((x) => x * factor);
}

/** Multiplies by a factor drawn evenly from [low, high); lhotse's PerturbVolume draws from 0.125 to 2. */
export function randomVolume(samples: Float32Array, { low = 0.125, high = 2 }: { low?: number; high?: number }, random: Random): Float32Array {
  return scaleVolume(samples, low + (high - low) * random.uniform());
}

/**
 * Adds noise at a ratio of mean energies. Noise that is too short repeats; silence on either side leaves the gain at 1.
 * @param snr signal to noise ratio, dB
 * @param start where in the noise to begin
 */
export function addNoise(samples: Float32Array, noise: Float32Array, snr: number, start = 0): Float32Array {
  if (noise.length === 0) return samples.slice();
  if (!Number.isFinite(snr)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "addNoise", message: `the signal to noise ratio is ${snr}, not a number of dB` });
  const part = Float32Array.from({ length: samples.length }, (_, i) => noise[(start + i) % noise.length] as number);
  const signalEnergy = meanEnergy(samples);
  const noiseEnergy = meanEnergy(part);
  const gain = signalEnergy > 0 && noiseEnergy > 0 ? Math.sqrt((signalEnergy * 10 ** (-snr / 10)) / noiseEnergy) : 1;
  for (let i = 0; i < part.length; i++) part[i] = (samples[i] as number) + gain * (part[i] as number);
  return part;
}

/** Adds a random part of the noise at a ratio drawn evenly from [low, high) dB; 10 to 20 by default, as icefall's recipes do. */
export function addRandomNoise(samples: Float32Array, noise: Float32Array, { low = 10, high = 20 }: { low?: number; high?: number }, random: Random): Float32Array {
  const snr = low + (high - low) * random.uniform();
  return addNoise(samples, noise, snr, noise.length > 0 ? random.integer(0, noise.length) : 0);
}

/** Another sound in a mix. */
export interface MixTrack {
  samples: Float32Array;
  /** In the mix, the place of its first sample: from 0. */
  start: number;
  /** Signal to noise ratio, dB; undefined mixes it as loud as it is. */
  snr?: number | undefined;
}

/**
 * Adds tracks to a signal, each with the gain that gives its ratio of mean energies; silence on either side leaves a gain at 1. What reaches beyond
 * `length` is cut off before energies are measured. Source: lhotse's AudioMixer.
 * @param length samples of the mix; those of the longest by default
 * @param reference the mean energy that ratios are to; the signal's by default
 */
export function mixTracks(
  samples: Float32Array,
  tracks: readonly MixTrack[],
  length = tracks.reduce((most, one) => Math.max(most, one.start + one.samples.length), samples.length),
  reference = meanEnergy(samples),
): Float32Array {
  const mixed = new Float32Array(length);
  mixed.set(samples.subarray(0, length));
  for (const { samples: track, start, snr } of tracks) {
    if (!Number.isInteger(start) || start < 0)
      throw new ConfigError("CONFIG_BAD_VALUE", { at: "mixTracks", message: `a track starts at sample ${start}, expected a whole number from 0` });
    if (snr !== undefined && !Number.isFinite(snr))
      throw new ConfigError("CONFIG_BAD_VALUE", { at: "mixTracks", message: `the signal to noise ratio is ${snr}, not a number of dB` });
    const part = track.subarray(0, Math.max(0, length - start));
    const energy = snr === undefined ? 0 : meanEnergy(part);
    const gain = snr !== undefined && reference > 0 && energy > 0 ? Math.sqrt((reference * 10 ** (-snr / 10)) / energy) : 1;
    for (let i = 0; i < part.length; i++) mixed[start + i] = (mixed[start + i] as number) + gain * (part[i] as number);
  }
  return mixed;
}

/**
 * Convolves with a room's impulse response. The output begins at the direct path (the largest value of the response), so that nothing moves in time, and has the
 * length of the input.
 * @param normalize keep the mean energy of the input; true by default
 * @throws AudioError AUDIO_EMPTY without a response
 */
export function reverberate(samples: Float32Array, impulseResponse: Float32Array, { normalize = true }: { normalize?: boolean } = {}): Float32Array {
  if (impulseResponse.length === 0) throw new AudioError("AUDIO_EMPTY", { at: "reverberate", message: "the impulse response has no samples" });
  let peak = 0;
  for (let i = 1; i < impulseResponse.length; i++) if ((impulseResponse[i] as number) > (impulseResponse[peak] as number)) peak = i;
  const wet = convolve(samples, impulseResponse).slice(peak, peak + samples.length);
  if (!normalize) return wet;
  const before = meanEnergy(samples);
  const after = meanEnergy(wet);
  return after > 0 ? scaleVolume(wet, Math.sqrt(before / after)) : wet;
}

/** What a made-up room sounds like. */
export interface RoomOptions {
  /** Hz */
  sampleRate: number;
  /** Seconds until the echo has lost 60 dB. */
  reverberationTime: number;
  /** Energy of the direct path over that of the echo, dB; 3 by default. */
  directToReverberant?: number;
  /** Seconds between the direct path and the first echo; 0.005 by default. */
  preDelay?: number;
}

/**
 * A made-up impulse response: the direct path, then noise that decays exponentially (Polack's model of a diffuse room).
 * @returns the direct path is sample 0, with the value 1
 * @throws ConfigError CONFIG_BAD_VALUE
 */
export function roomImpulseResponse({ sampleRate, reverberationTime, directToReverberant = 3, preDelay = 0.005 }: RoomOptions, random: Random): Float32Array {
  if (!(sampleRate > 0 && reverberationTime > 0 && reverberationTime <= 30 && preDelay >= 0 && preDelay <= 1)) {
    throw new ConfigError("CONFIG_BAD_VALUE", { at: "room", message: `cannot make a room of ${reverberationTime} s reverberation and ${preDelay} s delay at ${sampleRate} Hz` });
  }
  const delay = Math.max(1, Math.round(preDelay * sampleRate));
  const response = new Float32Array(delay + Math.round(reverberationTime * sampleRate));
  const decay = Math.log(1000) / (reverberationTime * sampleRate); // 60 dB are a factor of 1000 in amplitude
  let energy = 0;
  for (let i = delay; i < response.length; i++) {
    const x = random.normal() * Math.exp(-decay * (i - delay));
    response[i] = x;
    energy += x * x;
  }
  const gain = energy > 0 ? Math.sqrt(10 ** (-directToReverberant / 10) / energy) : 0;
  // The direct path stays the largest value, since the start of the response is found by it.
  for (let i = delay; i < response.length; i++) response[i] = Math.max(-0.99, Math.min(0.99, (response[i] as number) * gain));
  response[0] = 1;
  return response;
}

/** How the power of noise falls with frequency: f^-exponent. */
export type NoiseColor = "white" | "pink" | "brown" | "blue";
const exponents: Readonly<Record<NoiseColor, number>> = { white: 0, pink: 1, brown: 2, blue: -1 };

/** Gaussian noise of a colour, with mean energy 1. The lowest and the highest frequency are left out of the slope's extremes: there is no offset. */
export function coloredNoise(length: number, color: NoiseColor, random: Random): Float32Array {
  if (length === 0) return new Float32Array(0);
  let n = 2;
  while (n < length) n *= 2;
  const re = new Float64Array(n);
  const im = new Float64Array(n);
  for (let i = 0; i < n; i++) re[i] = random.normal();
  if (color !== "white") {
    fft(re, im);
    re[0] = 0;
    im[0] = 0;
    for (let k = 1; k < n; k++) {
      const gain = Math.min(k, n - k) ** (-exponents[color] / 2);
      re[k] = (re[k] as number) * gain;
      im[k] = (im[k] as number) * gain;
    }
    fft(re, im, true);
  }
  const noise = Float32Array.from(re.subarray(0, length));
  const energy = meanEnergy(noise);
  return energy > 0 ? scaleVolume(noise, 1 / Math.sqrt(energy)) : noise;
}
