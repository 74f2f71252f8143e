/** From cuts to padded batches of features, off the main thread and ahead of who trains. */
import { type Features, fbank, resample, resampleSinc, type SpecAugment, speed, toMono } from "../audio/index.ts";
import { SeracError } from "../util/errors.ts";
import { Random } from "../util/random.ts";
import { readCutAudio } from "./audioSource.ts";
import type { Cut } from "./cut.ts";
import { prefetch } from "./prefetch.ts";

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

/** A batch and where it stood in its epoch. */
export interface LoadedBatch extends Batch {
  /** From 0; places of batches of which nothing could be used are passed over. */
  place: number;
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

/** How to load batches. */
export interface LoadOptions extends FeatureOptions {
  /** Masks to put on each utterance; none where absent. */
  specAugment?: SpecAugment;
  /** Seeds the masks, together with the batch's place in the epoch. */
  seed?: number;
  /** Place of the first of these batches in the epoch, where it was resumed. */
  start?: number;
  /** Batches to prepare ahead. */
  ahead?: number;
  /** Utterances whose audio cannot be used are reported here and left out. Without it the first one throws. */
  onError?: (error: SeracError, cut: Cut) => void;
  /** Tells, once the audio was read, whether an utterance can be used; those refused are left out. */
  accept?: (cut: Cut, frames: number) => boolean;
}

/** The batches in order, each with features and masks; what they hold does not depend on how many are prepared ahead. */
export async function* loadBatches(
  batches: Iterable<readonly Cut[]>,
  { specAugment, seed = 0, start = 0, ahead = 3, onError, accept, ...options }: LoadOptions,
): AsyncGenerator<LoadedBatch> {
  const load = async ([index, cuts]: readonly [number, readonly Cut[]]): Promise<LoadedBatch> => {
    const items = await Promise.all(
      cuts.map(async (cut) => {
        try {
          const features = await cutFeatures(cut, options);
          return accept && !accept(cut, features.frames) ? undefined : { cut, features };
        } catch (error) {
          if (!onError || !(error instanceof SeracError)) throw error;
          onError(error, cut);
          return undefined;
        }
      }),
    );
    const batch = collate(
      items.filter((item) => item !== undefined),
      options.featureDim,
    );
    if (specAugment) {
      const random = new Random(seed * 1_000_003 + start + index);
      const rowLength = batch.frames * batch.bins;
      for (let i = 0; i < batch.cuts.length; i++)
        specAugment.apply({ frames: batch.frames, bins: batch.bins, data: batch.inputs.subarray(i * rowLength, (i + 1) * rowLength) }, random);
    }
    return { ...batch, place: start + index };
  };
  for await (const batch of prefetch(enumerate(batches), ahead, load)) if (batch.cuts.length > 0) yield batch;
}

function* enumerate<T>(items: Iterable<T>): Iterable<readonly [number, T]> {
  let index = 0;
  for (const item of items) yield [index++, item] as const;
}
