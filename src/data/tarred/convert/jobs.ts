/** What threads do for a conversion, and the messages about it. */

import type { ErrorCode } from "../../../util/errorCodes.ts";
import { FormatError, ManifestError, SeracError } from "../../../util/errors.ts";
import { type CheckResult, checkRows } from "./check.ts";
import type { PlanRows } from "./entries.ts";
import { makeShard, type ShardJob, type ShardResult } from "./shard.ts";

export type Job = { kind: "check"; rows: PlanRows } | ({ kind: "shard" } & ShardJob);
export type JobResult<J extends Job> = J extends { kind: "check" } ? CheckResult : ShardResult;

/** Does a job in this thread. */
export async function runJob<J extends Job>(job: J, onEntries?: (count: number) => void): Promise<JobResult<J>> {
  return (job.kind === "check" ? checkRows(job.rows) : await makeShard(job, onEntries)) as JobResult<J>;
}

/** An error as it crosses threads: class and code are lost by copying. */
export interface SentError {
  kind: "manifest" | "format" | "other";
  code: string;
  at: string | undefined;
  fix: string | undefined;
  /** Without place, code and remedy where it is serac's. */
  message: string;
  systemCode: string | undefined;
}

/** @returns the error as plain data */
export function sendError(error: unknown): SentError {
  const cause = error instanceof Error ? (error.cause as { code?: unknown } | undefined) : undefined;
  const systemCode = typeof cause?.code === "string" ? cause.code : undefined;
  if (!(error instanceof SeracError))
    return { kind: "other", code: "", at: undefined, fix: undefined, message: error instanceof Error ? (error.stack ?? error.message) : String(error), systemCode };
  const before = error.at === undefined ? 0 : error.at.length + 2;
  const message = error.message.slice(before, error.message.lastIndexOf(` [${error.code}]`));
  return { kind: error instanceof FormatError ? "format" : "manifest", code: error.code, at: error.at, fix: error.fix, message, systemCode };
}

/** @returns the error that was sent */
export function receiveError({ kind, code, at, fix, message, systemCode }: SentError): Error {
  if (kind === "other") return new Error(message);
  const cause = systemCode === undefined ? undefined : Object.assign(new Error(systemCode), { code: systemCode });
  const Class = kind === "format" ? FormatError : ManifestError;
  return new Class(code as ErrorCode, { at, message, fix, cause });
}
