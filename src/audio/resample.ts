/** Changing the sampling rate: libsoxr for reading audio, torchaudio's windowed sinc for training. */
import { ConfigError } from "../util/errors.ts";
import { media } from "./media.ts";

/** Shape of the windowed sinc; torchaudio's names and defaults. */
export interface SincOptions {
  /** Zero crossings on each side; 6 by default. */
  lowpassFilterWidth?: number;
  /** Where the pass band ends, as a part of the lower Nyquist frequency; 0.99 by default. */
  rolloff?: number;
}

function checkRate(name: string, rate: number, whole: boolean): void {
  if (!(rate >= 1 && rate <= 1e7) || (whole && !Number.isInteger(rate)))
    throw new ConfigError("CONFIG_BAD_VALUE", { at: "resample", message: `${name} is ${rate}, not a ${whole ? "whole " : ""}number of Hz within 1 to 10000000` });
}

/**
 * High quality, for transcription and for writing files; off the main thread.
 * @param from sampling rate of the samples, Hz
 * @param to the wanted sampling rate, Hz
 * @returns ceil(n * to / from) samples; the samples themselves when the rates are equal
 * @throws ConfigError CONFIG_BAD_VALUE; NativeError NATIVE_MISSING
 */
export async function resample(samples: Float32Array, from: number, to: number): Promise<Float32Array> {
  checkRate("from", from, false);
  checkRate("to", to, false);
  return from === to ? samples : media().resampleSoxr(samples, from, to);
}

/**
 * Hann-windowed sinc as torchaudio.functional.resample defines it; off the main thread. The filter is computed once per pair of rates.
 * @param from sampling rate of the samples, whole Hz
 * @param to the wanted sampling rate, whole Hz
 * @returns ceil(n * to / from) samples, both rates in lowest terms; the samples themselves when the rates are equal
 * @throws ConfigError CONFIG_BAD_VALUE; NativeError NATIVE_MISSING
 */
export async function resampleSinc(samples: Float32Array, from: number, to: number, { lowpassFilterWidth = 6, rolloff = 0.99 }: SincOptions = {}): Promise<Float32Array> {
  checkRate("from", from, true);
  checkRate("to", to, true);
  if (!Number.isInteger(lowpassFilterWidth) || lowpassFilterWidth < 1 || lowpassFilterWidth > 1024)
    throw new ConfigError("CONFIG_BAD_VALUE", { at: "resample", message: `lowpassFilterWidth is ${lowpassFilterWidth}, not a whole number of 1 to 1024` });
  if (!(rolloff > 0 && rolloff <= 1)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "resample", message: `rolloff is ${rolloff}, not within 0 to 1` });
  return from === to ? samples : media().resampleSinc(samples, from, to, lowpassFilterWidth, rolloff);
}

/**
 * Plays the samples `factor` times as fast, tempo and pitch together: lhotse's speed perturbation, which resamples from round(rate * factor) to rate.
 * @param factor above 1 is faster and shorter
 * @param sampleRate Hz, kept
 * @throws ConfigError CONFIG_BAD_VALUE; NativeError NATIVE_MISSING
 */
export async function speed(samples: Float32Array, factor: number, sampleRate: number): Promise<Float32Array> {
  if (!(factor > 0.01 && factor < 100)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "speed", message: `the factor is ${factor}, not within 0.01 to 100` });
  return resampleSinc(samples, roundHalfToEven(sampleRate * factor), sampleRate);
}

/** Python's round(). */
function roundHalfToEven(x: number): number {
  const floor = Math.floor(x);
  if (x - floor !== 0.5) return Math.round(x);
  return floor % 2 === 0 ? floor : floor + 1;
}
