/**
 * Log mel filter banks, the features that icefall's recipes train on.
 * Source: lhotse Fbank ("kaldi-fbank"), waveforms in [-1, 1]; numbers are equal to within rounding.
 */
import { AudioError, ConfigError } from "../util/errors.ts";
import { media } from "./media.ts";

const windows = ["povey", "hanning", "hamming", "rectangular", "blackman"] as const;

/** Settings by lhotse's names in camelCase, with its defaults. */
export interface FbankOptions {
  /** Hz, of the samples. Required, since a wrong one gives plausible nonsense. */
  sampleRate: number;
  /** 80 by default. */
  numMelBins?: number;
  /** Seconds; 0.025 by default. */
  frameLength?: number;
  /** Seconds; 0.01 by default. */
  frameShift?: number;
  /** Only frames that lie wholly inside; false by default: the edges are mirrored and T = round(samples / shift). */
  snipEdges?: boolean;
  /** Hz; 20 by default. */
  lowFreq?: number;
  /** Hz, counted down from the Nyquist frequency where not positive; -400 by default. */
  highFreq?: number;
  /** 0.97 by default. */
  preemphasis?: number;
  /** Each frame's mean is taken off; true by default. */
  removeDcOffset?: boolean;
  /** "povey" by default. */
  window?: (typeof windows)[number];
}

/** Features: `frames` rows of `bins`. */
export interface Features {
  /** T */
  frames: number;
  /** C */
  bins: number;
  /** (T, C), row by row. */
  data: Float32Array;
}

const settingsMade = new WeakMap<FbankOptions, Float64Array>();

/** The settings as native/media/fbank.cc reads them. */
function settingsOf(options: FbankOptions): Float64Array {
  const made = settingsMade.get(options);
  if (made !== undefined && Object.isFrozen(options)) return made;
  const {
    sampleRate,
    numMelBins = 80,
    frameLength = 0.025,
    frameShift = 0.01,
    snipEdges = false,
    lowFreq = 20,
    highFreq = -400,
    preemphasis = 0.97,
    removeDcOffset = true,
    window = "povey",
  } = options;
  const bad = (message: string) => new ConfigError("CONFIG_BAD_VALUE", { at: "fbank", message });
  const nyquist = sampleRate / 2;
  const high = highFreq > 0 ? highFreq : nyquist + highFreq;
  if (!(sampleRate >= 100 && sampleRate <= 1e7)) throw bad(`sampleRate is ${sampleRate}, not within 100 to 10000000 Hz`);
  if (!Number.isInteger(numMelBins) || numMelBins < 1 || numMelBins > 4096) throw bad(`numMelBins is ${numMelBins}, not a whole number of 1 to 4096`);
  if (!(frameLength * sampleRate >= 2 && frameLength <= 10)) throw bad(`frameLength is ${frameLength} s, not within 2 samples to 10 s`);
  if (!(frameShift * sampleRate >= 1 && frameShift <= frameLength)) throw bad(`frameShift is ${frameShift} s, not within 1 sample to frameLength`);
  if (!(lowFreq >= 0 && high > lowFreq && high <= nyquist)) throw bad(`lowFreq ${lowFreq} and highFreq ${highFreq} leave no band below ${nyquist} Hz`);
  if (!(preemphasis >= 0 && preemphasis <= 1)) throw bad(`preemphasis is ${preemphasis}, not within 0 to 1`);
  if (!windows.includes(window)) throw bad(`window is ${String(window)}, not one of ${windows.join(", ")}`);
  const settings = Float64Array.of(
    sampleRate,
    frameLength,
    frameShift,
    lowFreq,
    highFreq,
    preemphasis,
    numMelBins,
    snipEdges ? 1 : 0,
    removeDcOffset ? 1 : 0,
    windows.indexOf(window),
  );
  settingsMade.set(options, settings);
  return settings;
}

function toFeatures(data: Float32Array, bins: number): Features {
  return { frames: data.length / bins, bins, data };
}

function checkFinite(features: Features): Features {
  // A NaN spreads over its whole frame; the log floor hides nothing but -inf.
  for (let i = 0; i < features.data.length; i += features.bins) {
    if (!Number.isFinite(features.data[i]))
      throw new AudioError("AUDIO_NOT_FINITE", { at: `frame ${i / features.bins}`, message: "the samples hold NaN or infinite values, or overflow" });
  }
  return features;
}

/**
 * Features off the main thread. Audio shorter than a frame (half a shift with mirrored edges) gives 0 frames.
 * @param samples in [-1, 1]
 * @returns (T, C)
 * @throws ConfigError CONFIG_BAD_VALUE; AudioError AUDIO_NOT_FINITE; NativeError NATIVE_MISSING
 */
export async function fbank(samples: Float32Array, options: FbankOptions): Promise<Features> {
  return checkFinite(toFeatures(await media().fbank(samples, settingsOf(options)), options.numMelBins ?? 80));
}

/** `fbank` on this thread. */
export function fbankSync(samples: Float32Array, options: FbankOptions): Features {
  return checkFinite(toFeatures(media().fbankSync(samples, settingsOf(options)), options.numMelBins ?? 80));
}

/** How many frames `fbank` makes of `numSamples` samples. */
export function numFramesOf(
  numSamples: number,
  { sampleRate, frameLength = 0.025, frameShift = 0.01, snipEdges = false }: Pick<FbankOptions, "sampleRate" | "frameLength" | "frameShift" | "snipEdges">,
): number {
  const length = Math.floor(frameLength * sampleRate + 1e-9);
  const shift = Math.floor(frameShift * sampleRate + 1e-9);
  if (snipEdges) return numSamples < length ? 0 : 1 + Math.floor((numSamples - length) / shift);
  return Math.floor((numSamples + Math.floor(shift / 2)) / shift);
}
