/** Who renders batches: threads, or this thread with Node's threads for decoding and features. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { AudioError, NativeError } from "../../util/errors.ts";
import { packageRoot } from "../../util/paths.ts";
import { type Job, type JobResult, renderJob } from "./job.ts";

/** Compiled code: threads cannot run TypeScript on every Node that serac supports. */
const workerFile = join(packageRoot, "build", "js", "data", "loading", "worker.js");
/** Rows in work at a time where there is no thread of ours: whole batches, so that a busy event loop has to turn a few times for each and no more. */
const rowsAtOnce = 64;

interface Waiting {
  job: Job;
  /** Name of a row, for the error of a thread that dies. */
  nameOf(row: number): string;
  resolve(result: JobResult): void;
  reject(error: unknown): void;
}

interface Thread {
  worker: Worker;
  /** The row that it works on; shared, so that it can be read when the thread is gone. */
  row: Int32Array;
  doing: Waiting | undefined;
}

/** Renders batches, as many at a time as there are threads, the one that was given first first. */
export class RenderPool {
  private readonly threads: Thread[] = [];
  private readonly queue: Waiting[] = [];
  private failure: Error | undefined;
  private closed = false;

  /** @param size threads; 0 renders in this thread @throws NativeError NATIVE_MISSING where the code for threads was not compiled */
  constructor(size: number) {
    if (size > 0 && !existsSync(workerFile))
      throw new NativeError("NATIVE_MISSING", { at: workerFile, message: "the compiled code that threads run is not there", fix: "run: npm run build:js; or use workers: 0" });
    for (let i = 0; i < size; i++) this.threads.push(this.start());
  }

  /** How many threads there are. */
  get size(): number {
    return this.threads.length;
  }

  /** The threads, for whoever watches over them. */
  get workers(): readonly Worker[] {
    return this.threads.map(({ worker }) => worker);
  }

  /** True while a thread works. */
  get isBusy(): boolean {
    return this.threads.some(({ doing }) => doing !== undefined);
  }

  private start(): Thread {
    const row = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(workerFile, { workerData: { row } });
    worker.unref();
    const thread: Thread = { worker, row, doing: undefined };
    worker.on("message", (result: JobResult) => {
      if (this.closed) return; // too late; and without its hold on the process, nothing would wait for the thread's end
      const done = thread.doing;
      thread.doing = undefined;
      worker.unref();
      done?.resolve(result);
      this.deal();
    });
    worker.on("error", (error) => this.died(thread, error instanceof Error ? error.message : String(error)));
    worker.on("exit", (code) => this.died(thread, `exit code ${code}`));
    return thread;
  }

  /** A thread that is gone took its batch along: nothing that comes after it can be given either. */
  private died(thread: Thread, why: string): void {
    if (this.closed || this.failure) return;
    const { doing, row } = thread;
    const name = doing?.nameOf(Atomics.load(row, 0));
    this.failure = new AudioError("LOADER_THREAD_DIED", {
      ...(name === undefined ? {} : { at: name }),
      message: `a thread of the loader ended by itself ${name === undefined ? "between two batches" : "while it worked on this utterance"} (${why})`,
      fix:
        name === undefined ? "look at the memory that is left; fewer workers need less" : "try this utterance alone, and look at the memory that is left; fewer workers need less",
    });
    for (const { doing: other } of this.threads) other?.reject(this.failure);
    for (const waiting of this.queue.splice(0)) waiting.reject(this.failure);
    for (const one of this.threads) {
      one.doing = undefined;
      one.worker.unref();
    }
  }

  /** Hands batches to threads that have none. */
  private deal(): void {
    for (const thread of this.threads) {
      if (thread.doing) continue;
      const waiting = this.queue.shift();
      if (!waiting) return;
      thread.doing = waiting;
      Atomics.store(thread.row, 0, 0);
      try {
        thread.worker.postMessage(waiting.job);
        thread.worker.ref();
      } catch (error) {
        thread.doing = undefined;
        waiting.reject(error); // something in a cut cannot be copied
      }
    }
  }

  /** @throws AudioError LOADER_THREAD_DIED */
  render(job: Job, nameOf: (row: number) => string): Promise<JobResult> {
    if (this.failure) return Promise.reject(this.failure);
    if (this.threads.length === 0) return renderJob(job, rowsAtOnce);
    return new Promise((resolve, reject) => {
      this.queue.push({ job, nameOf, resolve, reject });
      this.deal();
    });
  }

  /** Ends the threads. Batches in work are given up. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all(this.threads.map(({ worker }) => worker.terminate()));
    const gone = new AudioError("LOADER_THREAD_DIED", { message: "the loader was closed before this batch was rendered" });
    for (const thread of this.threads) {
      thread.doing?.reject(gone);
      thread.doing = undefined;
    }
    for (const waiting of this.queue.splice(0)) waiting.reject(gone);
  }
}
