/** What threads do for a conversion. */
import { type CheckResult, checkRows } from "./check.ts";
import type { PlanRows } from "./entries.ts";
import { makeShard, type ShardJob, type ShardResult } from "./shard.ts";

export type Job = { kind: "check"; rows: PlanRows } | ({ kind: "shard" } & ShardJob);
export type JobResult<J extends Job> = J extends { kind: "check" } ? CheckResult : ShardResult;

/** Does a job in this thread. */
export async function runJob<J extends Job>(job: J, onEntries?: (count: number) => void): Promise<JobResult<J>> {
  return (job.kind === "check" ? checkRows(job.rows) : await makeShard(job, onEntries)) as JobResult<J>;
}
