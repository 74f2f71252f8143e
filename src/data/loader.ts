/** From cuts to features, and from features to padded batches: for recognition. Training has `loading/`. */
import { type Features, fbank, resample, resampleSinc, speed, toMono } from "../audio/index.ts";
import { readCutAudio } from "./audioSource.ts";
import type { Cut } from "./cut.ts";

/** ln(1e-10), the value of padding frames. Source: lhotse's LOG_EPSILON. */
export const paddingValue = Math.log(1e-10);

/** A padded batch, still as typed arrays. */
export interface Batch<C = Cut> {
  /** By duration, longest first. */
  cuts: C[];
  /** (N, T, C) row-major, padded with `paddingValue`. */
  inputs: Float32Array;
  /** T: frames of the longest. */
  frames: number;
  /** C: mel bins. */
  bins: number;
  /** Frames of each utterance. */
  inputLens: number[];
  /** Seconds of audio, padding not counted. */
  audioSeconds: number;
}

/** How audio becomes features. */
export interface FeatureOptions {
  /** Audio of other rates is resampled to this. */
  sampleRate: number;
  /** Mel bins. */
  featureDim: number;
  /** "training" resamples as torchaudio does, "transcription" by soxr. */
  purpose?: "training" | "transcription";
}

/** The mono samples of a cut at the rate asked for, with its speed and tracks applied. @throws AudioError */
export async function cutSamples(cut: Cut, { sampleRate, purpose = "training" }: FeatureOptions): Promise<Float32Array> {
  if (cut.tracks) return join(await Promise.all(cut.tracks.map((track) => cutSamples(track, { sampleRate, featureDim: 0, purpose }))), Math.round(cut.gap * sampleRate));
  const audio = await readCutAudio(cut);
  const mono = toMono(audio);
  const atSpeed = cut.speed === 1 ? mono : await speed(mono, cut.speed, audio.sampleRate);
  if (audio.sampleRate === sampleRate) return atSpeed;
  return purpose === "training" ? resampleSinc(atSpeed, audio.sampleRate, sampleRate) : resample(atSpeed, audio.sampleRate, sampleRate);
}

function join(parts: readonly Float32Array[], gap: number): Float32Array {
  const joined = new Float32Array(parts.reduce((sum, part) => sum + part.length, gap * (parts.length - 1)));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length + gap;
  }
  return joined;
}

/** Log mel filterbank features (frames, bins) of a cut. @throws AudioError */
export async function cutFeatures(cut: Cut, options: FeatureOptions): Promise<Features> {
  return fbank(await cutSamples(cut, options), { sampleRate: options.sampleRate, numMelBins: options.featureDim });
}

/** Puts features of different lengths in one array, longest first. */
export function collate<C>(items: readonly { cut: C; features: Features }[], bins: number): Batch<C> {
  const sorted = [...items].sort((a, b) => b.features.frames - a.features.frames);
  const frames = sorted[0]?.features.frames ?? 0;
  const inputs = new Float32Array(sorted.length * frames * bins).fill(paddingValue);
  sorted.forEach(({ features }, i) => inputs.set(features.data, i * frames * bins));
  return {
    cuts: sorted.map(({ cut }) => cut),
    inputs,
    frames,
    bins,
    inputLens: sorted.map(({ features }) => features.frames),
    audioSeconds: sorted.reduce((sum, { features }) => sum + features.frames * 0.01, 0),
  };
}
