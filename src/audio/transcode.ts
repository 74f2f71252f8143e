/** A part of an audio file in another codec and at another rate, as bytes: decoding, resampling and encoding in one step. */
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { hasEscapedBytes, toFsPath } from "../formats/surrogateEscape.ts";
import { serializeWav } from "../formats/wav.ts";
import { AudioError } from "../util/errors.ts";
import { type Audio, readAudio, toMono } from "./decode.ts";
import { type AudioCodec, type MediaAddon, media, nativeError } from "./media.ts";

/** What to make of the audio. */
export interface TranscodeOptions {
  /** Seconds; the first sample is the whole part of offset times rate, as in NeMo's converter. */
  offset?: number | undefined;
  /** Seconds, to the end by default; counted in samples like the offset. A file that ends earlier gives less. */
  duration?: number | undefined;
  /** Hertz; that of the source by default. */
  sampleRate?: number | undefined;
  /** That of the source by default, WAV where it cannot be written. */
  codec?: AudioCodec | undefined;
  /** Of compression, 0 to 1 for the smallest file and the worst sound: for Opus, Vorbis and MP3. The codec's own by default. */
  level?: number | undefined;
}

/** A file in memory. */
export interface EncodedAudio {
  bytes: Uint8Array;
  codec: AudioCodec;
  sampleRate: number;
  /** Samples of each channel. */
  frames: number;
}

const fixes = {
  AUDIO_TRUNCATED: "copy the file again, or leave it out",
  AUDIO_NOT_AUDIO: "WAV, FLAC, Ogg Vorbis, Opus and MP3 can be read",
  AUDIO_UNWRITABLE: "choose another codec or sampling rate (Opus takes 8000, 12000, 16000, 24000 and 48000 Hz)",
} as const;

type Source = string | Uint8Array;

/** @returns the addon's arguments, and the name that errors give. @throws AudioError AUDIO_BAD_RANGE */
function prepare(
  source: Source,
  { offset = 0, duration, sampleRate, codec, level = -1 }: TranscodeOptions,
  name: string | undefined,
): { settings: [offset: number, duration: number, sampleRate: number, format: string, level: number]; at: string } {
  const at = name ?? (typeof source === "string" ? source : `${source.byteLength} bytes of audio`);
  if (!(offset >= 0 && offset <= 1e9)) throw new AudioError("AUDIO_BAD_RANGE", { at, message: `the offset must be a time of 0 s or more, it is ${offset}` });
  if (duration !== undefined && !(duration >= 0 && duration <= 1e9))
    throw new AudioError("AUDIO_BAD_RANGE", { at, message: `the duration must be a time of 0 s or more, it is ${duration}` });
  return { settings: [offset, duration ?? -1, sampleRate ?? 0, codec ?? "", level], at };
}

const encoded = ({ bytes, format, sampleRate, frames }: Awaited<ReturnType<MediaAddon["transcode"]>>): EncodedAudio => ({ bytes, codec: format, sampleRate, frames });

/**
 * Transcodes a file; integer codecs keep the samples of 16 bits as they are.
 * @param source a path, or the bytes of a file
 * @param name what errors call the source, when it is not a path
 * @throws AudioError AUDIO_MISSING, AUDIO_EMPTY, AUDIO_NOT_AUDIO, AUDIO_TRUNCATED, AUDIO_NOT_FINITE, AUDIO_BAD_RANGE, AUDIO_UNREADABLE, AUDIO_UNWRITABLE;
 *   NativeError NATIVE_MISSING
 */
export async function transcodeAudio(source: Source, options: TranscodeOptions = {}, name?: string): Promise<EncodedAudio> {
  const { settings, at } = prepare(source, options, name);
  const input = typeof source === "string" && hasEscapedBytes(source) ? await readFile(toFsPath(source)) : source;
  try {
    return encoded(await media().transcode(input, ...settings));
  } catch (error) {
    throw nativeError(error, AudioError, at, fixes);
  }
}

/** The same in the calling thread, which is meant to be a worker. */
export function transcodeAudioSync(source: Source, options: TranscodeOptions = {}, name?: string): EncodedAudio {
  const { settings, at } = prepare(source, options, name);
  const input = typeof source === "string" && hasEscapedBytes(source) ? readFileSync(toFsPath(source)) : source;
  try {
    return encoded(media().transcodeSync(input, ...settings));
  } catch (error) {
    throw nativeError(error, AudioError, at, fixes);
  }
}

/**
 * Samples as the bytes of a file: 16 bits where the codec has integers, and full scale clips.
 * @throws AudioError AUDIO_UNWRITABLE, AUDIO_NOT_FINITE; FormatError WAV_UNSUPPORTED for no or more than 8 channels; NativeError NATIVE_MISSING, for WAV never
 */
export async function encodeAudio(audio: Audio, codec: AudioCodec, { level }: Pick<TranscodeOptions, "level"> = {}): Promise<Uint8Array> {
  if (codec === "wav") return serializeWav(audio);
  return (await transcodeAudio(serializeWav(audio, { format: "float32" }), { codec, level })).bytes;
}

/** Codecs that lose something: "ogg" is Vorbis. */
export type LossyCodec = Extract<AudioCodec, "opus" | "mp3" | "ogg">;

/**
 * Mono samples as they are after a codec: encoded and decoded again, at the same rate and of the same length.
 * @param level of compression, 0 to 1 for the worst sound
 * @throws AudioError AUDIO_UNWRITABLE for rates that the codec does not have
 */
export async function throughCodec(samples: Float32Array, sampleRate: number, codec: LossyCodec, level: number): Promise<Float32Array> {
  if (samples.length === 0) return samples;
  const most = codec === "mp3" ? 0.999 : 1; // libsndfile's limits
  const decoded = toMono(await readAudio(await encodeAudio({ sampleRate, channels: [samples] }, codec, { level: Math.min(level, most) }), {}, codec));
  const same = new Float32Array(samples.length);
  same.set(decoded.subarray(0, samples.length));
  return same;
}
