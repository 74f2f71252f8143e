/**
 * Errors with a code, a place, and what to do about them.
 * The codes live in errorCodes.ts; docs/errors.md is generated from there.
 */
import type { ErrorCode } from "./errorCodes.ts";

/** What every serac error says. */
export interface ErrorDetails {
  /** What was wrong, and what was expected. */
  message: string;
  /** Where: `file:line`, `shard:member`, an utterance id, an operator. */
  at?: string;
  /** What to do about it, as a sentence without its full stop. */
  fix?: string;
  cause?: unknown;
}

/** Base of all errors that serac throws on purpose. `code` is stable; the wording is not. */
export class SeracError extends Error {
  readonly code: ErrorCode;
  readonly at: string | undefined;
  readonly fix: string | undefined;

  constructor(code: ErrorCode, { message, at, fix, cause }: ErrorDetails) {
    const where = at === undefined ? "" : `${at}: `;
    const remedy = fix === undefined ? "" : `. ${fix.charAt(0).toUpperCase()}${fix.slice(1)}`;
    super(`${where}${message} [${code}]${remedy}`, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.at = at;
    this.fix = fix;
  }
}

/** What an error says, without its place, code and remedy. */
export function messageOf({ message, at, code }: SeracError): string {
  return message.slice(at === undefined ? 0 : at.length + 2, message.lastIndexOf(` [${code}]`));
}

/** An error with a place, where it has none, or one that says too little without: "a.wav, frame 3: ...". */
export function placed(error: SeracError, place: string): SeracError {
  const { code, at, fix } = error;
  if (at?.includes(place)) return error;
  const message = messageOf(error);
  const Class = error.constructor as new (code: ErrorCode, details: ErrorDetails) => SeracError;
  return new Class(code, { message, at: at === undefined ? place : `${place}, ${at}`, fix, cause: error });
}

/** A tensor or array has a shape that the operation cannot take. */
export class ShapeError extends SeracError {}
/** libtorch refused a call, or a tensor was used after it was freed. */
export class TorchError extends SeracError {}
/** A native library is missing or could not be loaded. */
export class NativeError extends SeracError {}
/** Bytes that are not what their format promises. */
export class FormatError extends SeracError {}
/** Audio that cannot be read, or not as asked. */
export class AudioError extends SeracError {}
/** Text, tokens or a tokenizer model that cannot be used. */
export class TextError extends SeracError {}
/** A manifest line that cannot be used. */
export class ManifestError extends SeracError {}
/** An option, flag or configuration value that cannot be used. */
export class ConfigError extends SeracError {}
/** A checkpoint that cannot be read or does not fit the model. */
export class CheckpointError extends SeracError {}
/** Training cannot go on. */
export class TrainError extends SeracError {}

/** A broken promise of serac's own code: never the user's fault. */
export function internal(message: string): never {
  throw new Error(`internal: ${message}. This is a bug in serac: please report it with this message`);
}

/** True for errors of the file system and of Node that carry a string `code`. */
export function isErrnoException(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && typeof (error as NodeJS.ErrnoException).code === "string";
}
