/** Threads that do the jobs of a conversion; without them this thread does. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { packageRoot } from "../../../util/paths.ts";
import { receiveError, type SentError } from "../../../util/sentError.ts";
import { type Job, type JobResult, runJob } from "./jobs.ts";

type Message = { entries: number } | { result: unknown } | { error: SentError };

/** Compiled code: threads cannot run TypeScript on every Node that serac supports. */
const workerFile = join(packageRoot, "build", "js", "data", "tarred", "convert", "worker.js");

/** @returns how many threads a number of workers means: -1 is one for each core */
export function threadsOf(workers: number): number {
  return workers > 0 ? workers : availableParallelism();
}

/** Threads that Node has for native work: so many files are encoded at a time without threads of ours. */
const nativeThreads = Number(process.env["UV_THREADPOOL_SIZE"]) || 4;

/**
 * How many threads do the jobs. A thread of ours takes a tenth of a second to start; where files are encoded this one can keep Node's busy.
 * @param encodes true where audio is written anew
 */
export function poolSize(workers: number, shards: number, encodes: boolean): number {
  const threads = Math.min(threadsOf(workers), Math.max(1, shards));
  return encodes && threads <= nativeThreads ? 1 : threads;
}

export class JobPool {
  private readonly workers: Worker[] = [];
  private readonly size: number;
  private closed = false;

  /** @param size how many threads at most; of one thread alone it is this one */
  constructor(size: number) {
    this.size = size;
  }

  /** Starts the threads where they are not there. Until it is called this thread does all jobs: a few are done before a thread would be there. */
  start(): void {
    if (this.size <= 1) return;
    while (this.workers.length < this.size) {
      const worker = new Worker(workerFile);
      worker.unref();
      this.workers.push(worker);
    }
  }

  /**
   * Does jobs, as many at a time as there are threads, and takes their results in any order. The first failure ends it, after jobs under way have ended.
   * @param jobs asked for one by one, so that they need not all be in memory
   * @param options.here this thread does jobs too: short ones are done while the others still start
   */
  async run<J extends Job>(
    jobs: Iterable<J>,
    onResult: (result: JobResult<J>, job: J) => void,
    { onEntries, signal, here = false }: { onEntries?: ((count: number) => void) | undefined; signal?: AbortSignal | undefined; here?: boolean } = {},
  ): Promise<void> {
    const queue = jobs[Symbol.iterator]();
    let failure: { error: unknown } | undefined;
    const lane = async (work: (job: J) => Promise<JobResult<J>>): Promise<void> => {
      for (let next = queue.next(); !next.done; next = queue.next()) {
        try {
          signal?.throwIfAborted();
          onResult(await work(next.value), next.value);
        } catch (error) {
          failure ??= { error };
        }
        if (failure) return;
      }
    };
    const hereToo = async (job: J): Promise<JobResult<J>> => {
      await setImmediate(); // an interrupt and other threads are heard between jobs
      return runJob(job, onEntries);
    };
    const lanes = this.workers.map((worker) => lane((job) => this.send(worker, job, onEntries)));
    if (here || lanes.length === 0) lanes.push(lane(hereToo));
    await Promise.all(lanes);
    if (failure) throw failure.error;
  }

  private send<J extends Job>(worker: Worker, job: J, onEntries: ((count: number) => void) | undefined): Promise<JobResult<J>> {
    return new Promise((resolve, reject) => {
      const done = (): void => {
        worker.off("message", onMessage).off("error", onError).off("exit", onExit);
        worker.unref();
      };
      const onMessage = (message: Message): void => {
        if ("entries" in message) {
          onEntries?.(message.entries);
          return;
        }
        done();
        if ("error" in message) reject(receiveError(message.error));
        else resolve(message.result as JobResult<J>);
      };
      const onError = (error: unknown): void => {
        done();
        reject(error);
      };
      const onExit = (code: number): void => {
        done();
        if (!this.closed) reject(new Error(`a thread of the conversion ended by itself (exit code ${code}); there may be too little memory`));
      };
      worker.ref();
      worker.on("message", onMessage).on("error", onError).on("exit", onExit);
      worker.postMessage(job);
    });
  }

  async close(): Promise<void> {
    this.closed = true;
    await Promise.all(this.workers.map((worker) => worker.terminate()));
  }
}
