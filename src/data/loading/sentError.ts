/** Errors as they cross threads: their class and their code would be lost by copying. */
import type { ErrorCode } from "../../util/errorCodes.ts";
import { AudioError, ConfigError, FormatError, ManifestError, NativeError, SeracError } from "../../util/errors.ts";

const classes = { AudioError, ConfigError, FormatError, ManifestError, NativeError, SeracError } as const;

/** An error as plain data. */
export interface SentError {
  /** Of serac's errors; undefined for others, which are faults of the program. */
  className: keyof typeof classes | undefined;
  code: string;
  at: string | undefined;
  fix: string | undefined;
  /** Without place, code and remedy where it is serac's. */
  message: string;
}

/** @returns the error as plain data */
export function sendError(error: unknown): SentError {
  if (!(error instanceof SeracError))
    return { className: undefined, code: "", at: undefined, fix: undefined, message: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  const before = error.at === undefined ? 0 : error.at.length + 2;
  const message = error.message.slice(before, error.message.lastIndexOf(` [${error.code}]`));
  return { className: error.name in classes ? (error.name as keyof typeof classes) : "SeracError", code: error.code, at: error.at, fix: error.fix, message };
}

/** @returns the error that was sent, with the utterance that it is of before its place */
export function receiveError({ className, code, at, fix, message }: SentError, utterance: string): Error {
  if (className === undefined) return new Error(`${utterance}: ${message}`);
  const place = at === undefined || at === utterance ? utterance : `${utterance}: ${at}`;
  return new classes[className](code as ErrorCode, { at: place, message, ...(fix === undefined ? {} : { fix }) });
}
