/** The media addon: loaded when first needed, and what its functions look like. */
import { createRequire } from "node:module";
import { join } from "node:path";
import type { PcmAudio } from "../formats/wav.ts";
import { type ErrorCode, errorCodes } from "../util/errorCodes.ts";
import { NativeError, SeracError } from "../util/errors.ts";
import { nativeFolder } from "../util/paths.ts";

/** A loaded SentencePiece model on the native side. */
export type ModelHandle = { readonly brand: unique symbol };

/** Containers and encodings that can be written: 16 bits where no width is named. */
export type AudioCodec = "wav" | "wav24" | "wavfloat" | "flac" | "flac24" | "ogg" | "opus" | "mp3";

/** The exports of native/media. */
export interface MediaAddon {
  decode(source: string | Uint8Array, offset: number, duration: number): Promise<PcmAudio>;
  audioInfo(source: string | Uint8Array): Promise<{ sampleRate: number; channels: number; frames: number; durationSeconds: number; format: string }>;
  encode(path: string, format: string, sampleRate: number, channels: readonly Float32Array[]): Promise<void>;
  transcode(
    source: string | Uint8Array,
    offset: number,
    duration: number,
    sampleRate: number,
    format: string,
    level: number,
  ): Promise<{ bytes: Uint8Array; format: AudioCodec; sampleRate: number; frames: number }>;
  transcodeSync(
    source: string | Uint8Array,
    offset: number,
    duration: number,
    sampleRate: number,
    format: string,
    level: number,
  ): { bytes: Uint8Array; format: AudioCodec; sampleRate: number; frames: number };
  fbank(samples: Float32Array, settings: Float64Array): Promise<Float32Array>;
  fbankSync(samples: Float32Array, settings: Float64Array): Float32Array;
  resampleSoxr(samples: Float32Array, from: number, to: number): Promise<Float32Array>;
  resampleSinc(samples: Float32Array, from: number, to: number, lowpassFilterWidth: number, rolloff: number): Promise<Float32Array>;
  loadModel(bytes: Uint8Array): ModelHandle;
  encodeIds(model: ModelHandle, text: string): Int32Array;
  encodePieces(model: ModelHandle, text: string): string[];
  decodeIds(model: ModelHandle, ids: Int32Array): string;
  vocabSize(model: ModelHandle): number;
  unknownId(model: ModelHandle): number;
  idToPiece(model: ModelHandle, id: number): string;
  pieceToId(model: ModelHandle, piece: string): number;
  trainModel(text: Uint8Array, options: Record<string, string>): Promise<Uint8Array>;
}

let loaded: MediaAddon | undefined;
let failure: NativeError | undefined;

/**
 * The addon. A failure is remembered and thrown again.
 * @throws NativeError NATIVE_MISSING
 */
export function media(): MediaAddon {
  if (loaded !== undefined) return loaded;
  if (failure === undefined) {
    const path = join(nativeFolder, "serac_media.node");
    try {
      loaded = createRequire(import.meta.url)(path) as MediaAddon;
      return loaded;
    } catch (cause) {
      failure = new NativeError("NATIVE_MISSING", {
        at: path,
        message: `the media addon cannot be loaded: ${cause instanceof Error ? (cause.message.split("\n")[0] ?? "") : String(cause)}`,
        fix: "run: npm run setup (it needs libsndfile, libsoxr, libsentencepiece and kissfft)",
        cause,
      });
    }
  }
  throw failure;
}

/** The addon, or undefined where it was not built. */
export function mediaIfBuilt(): MediaAddon | undefined {
  try {
    return media();
  } catch {
    return undefined;
  }
}

type ErrorClass = new (code: ErrorCode, details: { at?: string; message: string; fix?: string; cause?: unknown }) => SeracError;

/** The native error as one of serac's classes, with its place; what carries no code of ours passes unchanged. */
export function nativeError(error: unknown, Class: ErrorClass, at: string | undefined, fixes: Partial<Record<ErrorCode, string>> = {}): unknown {
  if (error instanceof SeracError || !(error instanceof Error)) return error;
  const code = (error as { code?: unknown }).code;
  if (typeof code !== "string" || !Object.hasOwn(errorCodes, code)) return error;
  return new Class(code as ErrorCode, {
    ...(at === undefined ? {} : { at }),
    message: error.message,
    ...(fixes[code as ErrorCode] === undefined ? {} : { fix: fixes[code as ErrorCode] as string }),
    cause: error,
  });
}
