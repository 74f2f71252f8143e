/** Audio files in and out: libsndfile where the media addon is built, else WAV alone. */
import { readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { makeFolder, removeQuietly, temporaryPath } from "../formats/atomic.ts";
import { type PcmAudio, parseWav, parseWavHeader, type WavHeader } from "../formats/wav.ts";
import { AudioError, FormatError, isErrnoException, SeracError } from "../util/errors.ts";
import { type AudioCodec, media, mediaIfBuilt, nativeError } from "./media.ts";

/** Samples in [-1, 1] by channel, all of one length; `sampleRate` in Hz. */
export type Audio = PcmAudio;

/** Which part of a recording, in seconds. */
export interface AudioRange {
  /** Where to begin; 0 by default. */
  offset?: number | undefined;
  /** How much; to the end by default. A recording that ends earlier gives less. */
  duration?: number | undefined;
}

/** What a file says about itself. */
export interface AudioInfo {
  sampleRate: number;
  channels: number;
  /** Samples of one channel. */
  frames: number;
  durationSeconds: number;
  /** Container and encoding, in words. */
  format: string;
}

/** Containers that can be written: 16 bits where no width is named. */
export type AudioFormat = AudioCodec;

const fixes = {
  AUDIO_TRUNCATED: "copy the file again, or leave it out",
  AUDIO_NOT_AUDIO: "WAV, FLAC, Ogg Vorbis, Opus and MP3 can be read",
} as const;

/** The name that errors give to a source. */
function nameOf(source: string | Uint8Array, name?: string): string {
  return name ?? (typeof source === "string" ? source : `${source.byteLength} bytes of audio`);
}

function checkRange({ offset = 0, duration }: AudioRange, at: string): { offset: number; duration: number } {
  if (!(offset >= 0 && Number.isFinite(offset))) throw new AudioError("AUDIO_BAD_RANGE", { at, message: `the offset must be a time of 0 s or more, it is ${offset}` });
  if (duration !== undefined && !(duration >= 0)) throw new AudioError("AUDIO_BAD_RANGE", { at, message: `the duration must be a time of 0 s or more, it is ${duration}` });
  if (offset > 1e9) throw new AudioError("AUDIO_BAD_RANGE", { at, message: `offset ${offset} s is after the end of any recording` });
  return { offset, duration: duration === undefined || duration > 1e9 ? -1 : duration };
}

async function wavOf(source: string | Uint8Array, at: string): Promise<{ bytes: Uint8Array; header: WavHeader }> {
  let bytes: Uint8Array;
  try {
    bytes = typeof source === "string" ? await readFile(source) : source;
  } catch (cause) {
    const code = isErrnoException(cause) ? cause.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") throw new AudioError("AUDIO_MISSING", { at, message: "no such file", cause });
    if (code === "EISDIR") throw new AudioError("AUDIO_NOT_AUDIO", { at, message: "not a regular file", cause });
    throw new AudioError("AUDIO_UNREADABLE", { at, message: cause instanceof Error ? cause.message : String(cause), cause });
  }
  if (bytes.byteLength === 0) throw new AudioError("AUDIO_EMPTY", { at, message: "the file has no bytes" });
  try {
    const header = parseWavHeader(bytes, { at });
    if (header.truncated) throw new AudioError("AUDIO_TRUNCATED", { at, message: "the header promises more samples than the file holds", fix: fixes.AUDIO_TRUNCATED });
    return { bytes, header };
  } catch (cause) {
    if (!(cause instanceof FormatError)) throw cause;
    throw new AudioError("AUDIO_NOT_AUDIO", {
      at,
      message: "not a WAV file, and without the media addon only WAV can be read",
      fix: "run: npm run setup (it needs libsndfile)",
      cause,
    });
  }
}

/** Seconds to samples, half up, after rounding away the noise of the product: lhotse's rule, and the addon's. */
export function toFrames(seconds: number, rate: number): number {
  return Math.floor(Math.round(seconds * rate * 1e8) / 1e8 + 0.5);
}

/** Rates that recordings have, in Hz: resampling from others would take as much memory as a damaged header asks for. */
const rates = { min: 1000, max: 768_000 };

function checkRate(audio: Audio, at: string): Audio {
  const { sampleRate } = audio;
  if (sampleRate >= rates.min && sampleRate <= rates.max) return audio;
  throw new AudioError("AUDIO_BAD_RATE", {
    at,
    message: `the header gives a sampling rate of ${sampleRate} Hz, expected ${rates.min} to ${rates.max}`,
    fix: "mend the header, or write the file anew at the rate that it was recorded with",
  });
}

/** `readAudio` without the addon: WAV only, on this thread. */
export async function readWavAudio(source: string | Uint8Array, range: AudioRange = {}, name?: string): Promise<Audio> {
  const at = nameOf(source, name);
  const { offset, duration } = checkRange(range, at);
  const { bytes, header } = await wavOf(source, at);
  if (header.numFrames === 0) throw new AudioError("AUDIO_EMPTY", { at, message: "the file holds no samples" });
  const start = toFrames(offset, header.sampleRate);
  if (start >= header.numFrames) throw new AudioError("AUDIO_BAD_RANGE", { at, message: `offset ${offset} s is at or after the end, ${header.numFrames / header.sampleRate} s` });
  const audio = parseWav(bytes, { at, start, frames: duration < 0 ? Infinity : toFrames(duration, header.sampleRate) });
  if (!audio.channels.every(isFinite32)) throw new AudioError("AUDIO_NOT_FINITE", { at, message: "the file holds samples that are NaN or infinite" });
  return checkRate(audio, at);
}

/** True when no sample is NaN or infinite. */
export function isFinite32(samples: Float32Array): boolean {
  let sum = 0; // stays 0 unless something is not finite
  for (let i = 0; i < samples.length; i++) sum += (samples[i] as number) * 0;
  return sum === 0;
}

/**
 * Reads audio off the main thread: WAV, FLAC, Ogg Vorbis, Opus and MP3, as libsndfile can; only the asked-for part is decoded.
 * @param source a path, or the bytes of a file
 * @param range which part, in seconds
 * @param name what errors call the source, when it is not a path
 * @throws AudioError AUDIO_MISSING, AUDIO_EMPTY, AUDIO_NOT_AUDIO, AUDIO_TRUNCATED, AUDIO_NOT_FINITE, AUDIO_BAD_RANGE, AUDIO_BAD_RATE, AUDIO_UNREADABLE
 */
export async function readAudio(source: string | Uint8Array, range: AudioRange = {}, name?: string): Promise<Audio> {
  const addon = mediaIfBuilt();
  if (addon === undefined) return readWavAudio(source, range, name);
  const at = nameOf(source, name);
  const { offset, duration } = checkRange(range, at);
  try {
    return checkRate(await addon.decode(source, offset, duration), at);
  } catch (error) {
    throw nativeError(error, AudioError, at, fixes);
  }
}

/**
 * Reads only the header. A file without samples has 0 frames.
 * @throws AudioError AUDIO_MISSING, AUDIO_EMPTY (no bytes), AUDIO_NOT_AUDIO, AUDIO_TRUNCATED, AUDIO_UNREADABLE
 */
export async function audioInfo(source: string | Uint8Array, name?: string): Promise<AudioInfo> {
  const at = nameOf(source, name);
  const addon = mediaIfBuilt();
  if (addon === undefined) {
    const { header } = await wavOf(source, at);
    const { sampleRate, numChannels, numFrames, encoding, bits } = header;
    return { sampleRate, channels: numChannels, frames: numFrames, durationSeconds: numFrames / sampleRate, format: `WAV, ${bits} bit ${encoding === "int" ? "PCM" : "float"}` };
  }
  try {
    return await addon.audioInfo(source);
  } catch (error) {
    throw nativeError(error, AudioError, at, fixes);
  }
}

const formatOfSuffix: Readonly<Record<string, AudioFormat>> = { wav: "wav", flac: "flac", ogg: "ogg", opus: "opus", mp3: "mp3" };

/**
 * Writes audio, whole or not at all; full scale clips. Without `format` the suffix of the path decides.
 * @throws AudioError AUDIO_UNWRITABLE, AUDIO_NOT_FINITE; NativeError NATIVE_MISSING
 */
export async function writeAudio(
  path: string,
  { sampleRate, channels }: Audio,
  { format = formatOfSuffix[path.slice(path.lastIndexOf(".") + 1).toLowerCase()] }: { format?: AudioFormat } = {},
): Promise<void> {
  if (format === undefined)
    throw new AudioError("AUDIO_UNWRITABLE", { at: path, message: "no known audio suffix", fix: `use one of ${Object.keys(formatOfSuffix).join(", ")}, or name the format` });
  if (!channels.every(isFinite32)) throw new AudioError("AUDIO_NOT_FINITE", { at: path, message: "samples that are NaN or infinite cannot be written" });
  if (!Number.isInteger(sampleRate) || sampleRate <= 0) throw new AudioError("AUDIO_UNWRITABLE", { at: path, message: `a sampling rate of ${sampleRate} Hz` });
  const temporary = temporaryPath(path);
  try {
    makeFolder(dirname(path));
    await media().encode(temporary, format, sampleRate, channels);
    await rename(temporary, path);
  } catch (error) {
    removeQuietly(temporary);
    const mine = nativeError(error, AudioError, path);
    throw mine instanceof SeracError || !isErrnoException(mine) ? mine : new AudioError("AUDIO_UNWRITABLE", { at: path, message: mine.message, cause: mine });
  }
}

/**
 * The mean of the channels; the channel itself where there is one.
 * @throws AudioError AUDIO_EMPTY without channels
 */
export function toMono({ channels }: Audio): Float32Array {
  const first = channels[0];
  if (first === undefined) throw new AudioError("AUDIO_EMPTY", { message: "audio without channels" });
  if (channels.length === 1) return first;
  const mono = new Float32Array(first.length);
  for (let i = 0; i < mono.length; i++) {
    let sum = 0;
    for (const channel of channels) sum += channel[i] as number;
    mono[i] = sum / channels.length;
  }
  return mono;
}
