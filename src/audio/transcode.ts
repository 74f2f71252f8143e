/** A part of an audio file in another codec and at another rate, as bytes: decoding, resampling and encoding in one step. */
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { hasEscapedBytes, toFsPath } from "../formats/surrogateEscape.ts";
import { serializeWav } from "../formats/wav.ts";
import { AudioError } from "../util/errors.ts";
import type { Audio } from "./decode.ts";
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
  { offset = 0, duration, sampleRate, codec }: TranscodeOptions,
  name: string | undefined,
): { settings: [offset: number, duration: number, sampleRate: number, format: string]; at: string } {
  const at = name ?? (typeof source === "string" ? source : `${source.byteLength} bytes of audio`);
  if (!(offset >= 0 && offset <= 1e9)) throw new AudioError("AUDIO_BAD_RANGE", { at, message: `the offset must be a time of 0 s or more, it is ${offset}` });
  if (duration !== undefined && !(duration >= 0 && duration <= 1e9))
    throw new AudioError("AUDIO_BAD_RANGE", { at, message: `the duration must be a time of 0 s or more, it is ${duration}` });
  return { settings: [offset, duration ?? -1, sampleRate ?? 0, codec ?? ""], at };
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
export async function encodeAudio(audio: Audio, codec: AudioCodec): Promise<Uint8Array> {
  if (codec === "wav") return serializeWav(audio);
  return (await transcodeAudio(serializeWav(audio, { format: "float32" }), { codec })).bytes;
}
