/**
 * Makes samples and features of sounds. Lengths are those that durations say, to the sample, so that frames are as many as a batch was planned with.
 * Features that were stored are read where nothing in a sound needs samples: they are placed and mixed as features, as lhotse does.
 * Source: lhotse's MixedCut.load_audio, AudioMixer, FeatureMixer and audio/utils.py.
 */
import {
  clipAmplitude,
  type Features,
  fbank,
  lowpass,
  meanEnergy,
  mixTracks,
  normalizeLoudness,
  reverberate,
  roomImpulseResponse,
  scaleVolume,
  speed,
  throughCodec,
} from "../../audio/index.ts";
import { AudioError, internal } from "../../util/errors.ts";
import { Random } from "../../util/random.ts";
import { paddingValue } from "../loader.ts";
import { recordedFeatures, recordedSamples } from "./audio.ts";
import type { SourceCut } from "./cut.ts";
import { type Placed, type Played, playedOf, type Response, type Sound } from "./sound.ts";
import { numFrames, numSamples } from "./times.ts";

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
      const samples = await recordedSamples(sound.cut, sampleRate);
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
    case "loudness":
      return normalizeLoudness(await renderSamples(sound.of, sampleRate), sound.target, sampleRate);
    case "lowpass":
      return lowpass(await renderSamples(sound.of, sampleRate), sampleRate, sound.cutoff);
    case "clip":
      return clipAmplitude(await renderSamples(sound.of, sampleRate), sampleRate, sound.options);
    case "codec":
      return throughCodec(await renderSamples(sound.of, sampleRate), sampleRate, sound.codec, sound.level);
    case "row":
      return placed(sound.parts, expected, sampleRate);
    case "tracks":
      return mixed(sound, expected, sampleRate);
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

async function mixed({ tracks, reference }: Extract<Sound, { kind: "tracks" }>, length: number, sampleRate: number): Promise<Float32Array> {
  const rendered = await Promise.all(tracks.map(({ of }) => renderSamples(of, sampleRate)));
  const energy = reference === undefined ? 0 : meanEnergy(rendered[reference] as Float32Array);
  const placedTracks = tracks.map(({ offset, snr }, i) => ({
    samples: rendered[i] as Float32Array,
    start: numSamples(offset, sampleRate),
    snr: i === reference && i === 0 ? undefined : snr,
  }));
  return mixTracks(new Float32Array(0), placedTracks, length, energy);
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
  return scaleVolume(await recordedSamples(response.cut, sampleRate), responseScale);
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
    case "tracks":
      return sound.tracks.every(({ of }) => hasFeatures(of));
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
      return recordedFeatures(sound.cut, options);
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
    case "tracks": {
      const rendered = await Promise.all(sound.tracks.map(({ of }) => storedFeatures(of, options)));
      const { reference } = sound;
      const tracks = sound.tracks.map(({ offset, snr }, i) => ({
        features: rendered[i] as Features,
        start: numFrames(offset, frameShift, options.sampleRate),
        snr: i === reference && i === 0 ? undefined : snr,
      }));
      return mixFeatures(tracks, frames, reference === undefined ? 0 : energyOf(rendered[reference] as Features));
    }
    default:
      return internal(`a ${sound.kind} of stored features`);
  }
}

/** Sum of the energies of log mel features. Source: lhotse, Fbank.compute_energy. */
export function energyOf({ data }: Features): number {
  let sum = 0;
  for (let i = 0; i < data.length; i++) sum += Math.exp(data[i] as number);
  return sum;
}

/**
 * Adds the energies of log mel features; gains come from sums of energies over all frames, which makes long noise quieter than in `mixTracks`.
 * @param tracks places are frames from 0, ratios dB
 * @param reference the energy that ratios are to: `energyOf` one of the tracks
 * @returns (frames, C). Source: lhotse, FeatureMixer and Fbank.mix
 */
export function mixFeatures(tracks: readonly { features: Features; start: number; snr: number | undefined }[], frames: number, reference: number): Features {
  const bins = tracks[0]?.features.bins ?? 0;
  const data = new Float32Array(frames * bins).fill(paddingValue);
  tracks.forEach(({ features, start, snr }, first) => {
    const part = features.data.subarray(0, Math.max(0, (frames - start) * bins));
    const energy = snr === undefined ? 0 : energyOf({ ...features, data: part });
    const gain = snr !== undefined && reference > 0 && energy > 0 ? (reference * 10 ** (-snr / 10)) / energy : 1;
    if (first === 0 && gain === 1) data.set(part, start * bins);
    else for (let i = 0, k = start * bins; i < part.length; i++, k++) data[k] = Math.log(Math.max(1e-10, Math.exp(data[k] as number) + gain * Math.exp(part[i] as number)));
  });
  return { frames, bins, data };
}

/** Mono samples of a cut at a rate. @throws AudioError, FormatError */
export async function sourceSamples(cut: SourceCut, sampleRate: number): Promise<Float32Array> {
  return cut.sound ? renderSamples(playedOf(cut), sampleRate) : recordedSamples(cut, sampleRate);
}

/** Features (T, C) of a cut: the stored ones, or fbank. @throws AudioError, FormatError, ManifestError FEATURES_BAD */
export async function sourceFeatures(cut: SourceCut, options: RenderOptions): Promise<Features> {
  return cut.sound ? renderFeatures(playedOf(cut), options) : recordedFeatures(cut, options);
}
