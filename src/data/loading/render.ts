/**
 * Makes samples and features of sounds. Lengths are those that durations say, to the sample, so that frames are as many as a batch was planned with.
 * Features that were stored are read where nothing in a sound needs samples: they are placed and mixed as features, as lhotse does.
 * Source: lhotse's MixedCut.load_audio, AudioMixer, FeatureMixer and audio/utils.py.
 */
import { type Features, fbank, mixTracks, reverberate, roomImpulseResponse, scaleVolume, speed } from "../../audio/index.ts";
import { AudioError, internal } from "../../util/errors.ts";
import { Random } from "../../util/random.ts";
import { paddingValue } from "../loader.ts";
import { sourceFeatures, sourceSamples } from "../sources/audio.ts";
import type { SourceCut } from "../sources/cut.ts";
import { numFrames, numSamples } from "../sources/times.ts";
import type { Placed, Played, Response } from "./played.ts";

/** How sounds are rendered. */
export interface RenderOptions {
  /** Hz of all samples. */
  sampleRate: number;
  /** Of features. */
  numMelBins: number;
}

/** Seconds between frames: fbank's. */
const frameShift = 0.01;
/** Seconds by which a recording may differ from what its manifest says. Source: lhotse, set_audio_duration_mismatch_tolerance. */
const lengthTolerance = 0.5;

/**
 * Exactly so many samples: what is too much is cut off, what is missing mirrored at the end.
 * @throws AudioError AUDIO_LENGTH where the recording is half a second or more from what the manifest says
 */
export function fitLength(samples: Float32Array, expected: number, sampleRate: number, at: string): Float32Array {
  const missing = expected - samples.length;
  if (missing === 0) return samples;
  if (Math.abs(missing) > lengthTolerance * sampleRate || samples.length < 2)
    throw new AudioError("AUDIO_LENGTH", {
      at,
      message: `the audio is ${(samples.length / sampleRate).toFixed(3)} s long, the manifest says ${(expected / sampleRate).toFixed(3)} s`,
      fix: "mend the durations: serac manifest check --fix OUT.jsonl MANIFEST",
    });
  if (missing < 0) return samples.subarray(0, expected);
  const longer = new Float32Array(expected);
  longer.set(samples);
  const period = 2 * (samples.length - 1);
  for (let i = samples.length; i < expected; i++) {
    const place = i % period;
    longer[i] = samples[place < samples.length ? place : period - place] as number;
  }
  return longer;
}

const at = ({ id, origin }: SourceCut): string => (origin === "" ? id : origin);

/** Mono samples of a sound. @throws AudioError, FormatError */
export async function renderSamples(played: Played, sampleRate: number): Promise<Float32Array> {
  const { sound } = played;
  const expected = numSamples(played.duration, sampleRate);
  switch (sound.kind) {
    case "cut": {
      const samples = await sourceSamples(sound.cut, sampleRate);
      return Number.isFinite(expected) ? fitLength(samples, expected, sampleRate, at(sound.cut)) : samples;
    }
    case "part": {
      const start = numSamples(sound.offset, sampleRate);
      return zeroed((await renderSamples(sound.of, sampleRate)).subarray(start), expected);
    }
    case "speed":
      return zeroed(await speed(await renderSamples(sound.of, sampleRate), sound.factor, sampleRate), expected);
    case "volume":
      return scaleVolume(await renderSamples(sound.of, sampleRate), sound.factor);
    case "row":
      return placed(sound.parts, expected, sampleRate);
    case "mix": {
      const [signal, ...noises] = await Promise.all([sound.of, ...sound.noises.map(({ of }) => of)].map((one) => renderSamples(one, sampleRate)));
      const tracks = sound.noises.map(({ offset, snr }, i) => ({ samples: noises[i] as Float32Array, start: numSamples(offset, sampleRate), snr }));
      return mixTracks(signal as Float32Array, tracks, expected);
    }
    case "reverb": {
      const [dry, response] = await Promise.all([renderSamples(sound.of, sampleRate), responseSamples(sound.response, sampleRate)]);
      return reverberate(dry, response, { normalize: sound.normalize });
    }
  }
}

/** So many samples, zeros at the end where there are fewer: rounding that a stage brings along. */
function zeroed(samples: Float32Array, expected: number): Float32Array {
  if (samples.length >= expected) return samples.length === expected ? samples : samples.subarray(0, expected);
  const longer = new Float32Array(expected);
  longer.set(samples);
  return longer;
}

async function placed(parts: readonly Placed[], length: number, sampleRate: number): Promise<Float32Array> {
  const row = new Float32Array(length);
  const rendered = await Promise.all(parts.map(({ of }) => renderSamples(of, sampleRate)));
  parts.forEach(({ offset }, i) => {
    const start = numSamples(offset, sampleRate);
    row.set((rendered[i] as Float32Array).subarray(0, Math.max(0, length - start)), start);
  });
  return row;
}

/** Kaldi's scale of responses, which shows where loudness is not kept. Source: lhotse, RIR_SCALING_FACTOR. */
const responseScale = 0.5 ** 15;

async function responseSamples(response: Response, sampleRate: number): Promise<Float32Array> {
  if (response.kind === "room") return roomImpulseResponse({ sampleRate, reverberationTime: response.reverberationTime }, new Random(response.seed));
  return scaleVolume(await sourceSamples(response.cut, sampleRate), responseScale);
}

/** True where a sound can be made of stored features alone. */
export function hasFeatures({ sound }: Played): boolean {
  switch (sound.kind) {
    case "cut":
      return sound.cut.features !== undefined || (sound.cut.tracks?.every((track) => (track as SourceCut).features !== undefined) ?? false);
    case "part":
      return hasFeatures(sound.of);
    case "row":
      return sound.parts.every(({ of }) => hasFeatures(of));
    case "mix":
      return hasFeatures(sound.of) && sound.noises.every(({ of }) => hasFeatures(of));
    default:
      return false;
  }
}

/** Features (T, C) of a sound: stored ones where they suffice, else fbank of its samples. @throws AudioError, FormatError, ManifestError FEATURES_BAD */
export async function renderFeatures(played: Played, options: RenderOptions): Promise<Features> {
  if (hasFeatures(played)) return storedFeatures(played, options);
  return fbank(await renderSamples(played, options.sampleRate), options);
}

async function storedFeatures(played: Played, options: RenderOptions): Promise<Features> {
  const { sound } = played;
  const frames = numFrames(played.duration, frameShift, options.sampleRate);
  switch (sound.kind) {
    case "cut":
      return sourceFeatures(sound.cut, options);
    case "part": {
      const whole = await storedFeatures(sound.of, options);
      const start = Math.min(whole.frames, numFrames(sound.offset, frameShift, options.sampleRate));
      const count = Math.min(frames, whole.frames - start);
      return { frames: count, bins: whole.bins, data: whole.data.subarray(start * whole.bins, (start + count) * whole.bins) };
    }
    case "row": {
      const parts = await Promise.all(sound.parts.map(({ of }) => storedFeatures(of, options)));
      const bins = parts[0]?.bins ?? options.numMelBins;
      const data = new Float32Array(frames * bins).fill(paddingValue);
      sound.parts.forEach(({ offset }, i) => {
        const start = numFrames(offset, frameShift, options.sampleRate) * bins;
        data.set((parts[i] as Features).data.subarray(0, Math.max(0, data.length - start)), start);
      });
      return { frames, bins, data };
    }
    case "mix": {
      const [signal, ...noises] = await Promise.all([sound.of, ...sound.noises.map(({ of }) => of)].map((one) => storedFeatures(one, options)));
      const tracks = sound.noises.map(({ offset, snr }, i) => ({
        features: noises[i] as Features,
        start: numFrames(offset, frameShift, options.sampleRate),
        snr,
      }));
      return mixFeatures(signal as Features, tracks, frames);
    }
    default:
      return internal(`a ${sound.kind} of stored features`);
  }
}

/** Sum of the energies of log mel features. Source: lhotse, Fbank.compute_energy. */
function energyOf({ data }: Features): number {
  let sum = 0;
  for (let i = 0; i < data.length; i++) sum += Math.exp(data[i] as number);
  return sum;
}

/**
 * Adds the energies of log mel features; gains come from sums of energies over all frames, which makes long noise quieter than in `mixTracks`.
 * @param tracks places are frames from 0
 * @returns (frames, C). Source: lhotse, FeatureMixer and Fbank.mix
 */
export function mixFeatures(signal: Features, tracks: readonly { features: Features; start: number; snr: number | undefined }[], frames: number): Features {
  const { bins } = signal;
  const data = new Float32Array(frames * bins).fill(paddingValue);
  data.set(signal.data.subarray(0, data.length));
  const reference = energyOf(signal);
  for (const { features, start, snr } of tracks) {
    const part = features.data.subarray(0, Math.max(0, (frames - start) * bins));
    const energy = snr === undefined ? 0 : energyOf({ ...features, data: part });
    const gain = snr !== undefined && reference > 0 && energy > 0 ? (reference * 10 ** (-snr / 10)) / energy : 1;
    for (let i = 0, k = start * bins; i < part.length; i++, k++) data[k] = Math.log(Math.max(1e-10, Math.exp(data[k] as number) + gain * Math.exp(part[i] as number)));
  }
  return { frames, bins, data };
}
