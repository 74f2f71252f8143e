/** Errors as they cross threads: their class and their code would be lost by copying. */
import type { ErrorCode } from "./errorCodes.ts";
import * as errors from "./errors.ts";

const classes = new Map<string, new (code: ErrorCode, details: errors.ErrorDetails) => errors.SeracError>(
  Object.entries(errors).flatMap(([name, value]) => (typeof value === "function" && value.prototype instanceof errors.SeracError ? [[name, value as never]] : [])),
);

/** An error as plain data. */
export interface SentError {
  /** Of serac's errors; undefined for others, which are faults of the program. */
  className: string | undefined;
  code: string;
  at: string | undefined;
  fix: string | undefined;
  /** Without place, code and remedy where it is serac's. */
  message: string;
  /** The system's code of its cause: ENOSPC. */
  systemCode: string | undefined;
}

/** @returns the error as plain data */
export function sendError(error: unknown): SentError {
  const cause = error instanceof Error ? (error.cause as { code?: unknown } | undefined) : undefined;
  const systemCode = typeof cause?.code === "string" ? cause.code : undefined;
  if (!(error instanceof errors.SeracError))
    return { className: undefined, code: "", at: undefined, fix: undefined, message: error instanceof Error ? (error.stack ?? error.message) : String(error), systemCode };
  return { className: error.name, code: error.code, at: error.at, fix: error.fix, message: errors.messageOf(error), systemCode };
}

/** @returns the error that was sent. @param place what stands before its own place, or instead of it */
export function receiveError({ className, code, at, fix, message, systemCode }: SentError, place?: string): Error {
  if (className === undefined) return new Error(place === undefined ? message : `${place}: ${message}`);
  const where = place === undefined ? at : at === undefined || at === place ? place : `${place}: ${at}`;
  const Class = classes.get(className) ?? errors.SeracError;
  const cause = systemCode === undefined ? undefined : Object.assign(new Error(systemCode), { code: systemCode });
  return new Class(code as ErrorCode, { message, ...(where === undefined ? {} : { at: where }), ...(fix === undefined ? {} : { fix }), ...(cause === undefined ? {} : { cause }) });
}
