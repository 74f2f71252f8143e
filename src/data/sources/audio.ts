/** The samples and the features of a stretch of a recording: what was computed before where there is any, else from its audio. */
import { type Features, fbank, resampleSinc, speed, toMono } from "../../audio/index.ts";
import { AudioError } from "../../util/errors.ts";
import { readCutAudio } from "../audioSource.ts";
import { paddingValue } from "../loader.ts";
import type { SourceCut } from "./cut.ts";
import { readFeatures } from "./features.ts";
import { numSamples } from "./times.ts";

/** Mono samples at a rate: the cut's channel, or the mean of all; its speed and its tracks applied. @throws AudioError, FormatError */
export async function recordedSamples(cut: SourceCut, sampleRate: number): Promise<Float32Array> {
  if (cut.tracks) {
    const parts = await Promise.all(cut.tracks.map((track) => recordedSamples(track as SourceCut, sampleRate)));
    return joined(parts, Math.round(cut.gap * sampleRate), 0);
  }
  if (cut.audioPath === "") throw new AudioError("AUDIO_MISSING", { at: cut.origin, message: "the cut has features and no audio" });
  const audio = await readCutAudio(cut);
  const channel = cut.channel === undefined ? toMono(audio) : audio.channels[cut.channel];
  if (!channel) throw new AudioError("AUDIO_BAD_RANGE", { at: cut.origin, message: `channel ${cut.channel} of ${audio.channels.length}, counted from 0` });
  const played = exact(cut.speed === 1 ? channel : await speed(channel, cut.speed, audio.sampleRate), numSamples(cut.duration, audio.sampleRate));
  return audio.sampleRate === sampleRate ? played : resampleSinc(played, audio.sampleRate, sampleRate);
}

/** A sample or two that rounding added or took are cut off or mirrored, as lhotse does, so that frames are as many as the cut says. */
function exact(samples: Float32Array, expected: number): Float32Array {
  const missing = expected - samples.length;
  if (missing === 0 || Math.abs(missing) > 2 || samples.length < 4) return samples;
  if (missing < 0) return samples.subarray(0, expected);
  const longer = new Float32Array(expected);
  longer.set(samples);
  for (let i = 0; i < missing; i++) longer[samples.length + i] = samples[samples.length - 2 - i] as number;
  return longer;
}

/** Features (T, C): the stored ones, or fbank. @throws AudioError, FormatError, ManifestError FEATURES_BAD */
export async function recordedFeatures(cut: SourceCut, options: { sampleRate: number; numMelBins: number }): Promise<Features> {
  if (cut.features) return readFeatures(cut.features);
  const tracks = cut.tracks as readonly SourceCut[] | undefined;
  if (tracks?.every((track) => track.features)) {
    const parts = await Promise.all(tracks.map((track) => recordedFeatures(track, options)));
    const bins = parts[0]?.bins ?? options.numMelBins;
    const data = joined(
      parts.map((part) => part.data),
      Math.round(cut.gap * 100) * bins,
      paddingValue,
    );
    return { frames: data.length / bins, bins, data };
  }
  return fbank(await recordedSamples(cut, options.sampleRate), options);
}

function joined(parts: readonly Float32Array[], gap: number, filling: number): Float32Array {
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, gap * (parts.length - 1))).fill(filling);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length + gap;
  }
  return all;
}
