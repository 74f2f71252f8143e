/** Writes checkpoints in a thread of its own: training waits for no more than the copying of tensors. */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { packageRoot } from "../../util/paths.ts";
import { receiveError } from "../../util/sentError.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { buffersOf, copyCheckpoint } from "./raw.ts";
import type { SaverReply, SaverRequest } from "./saverThread.ts";

/** Compiled code: threads cannot run TypeScript on every Node that serac supports. */
const workerFile = join(packageRoot, "build", "js", "models", "checkpoint", "saverThread.js");

/** One file is written at a time; its errors come with the next call. */
export class CheckpointSaver {
  private worker: Worker | undefined;
  private writing: Promise<void> = Promise.resolve();

  /**
   * Copies a checkpoint and begins to write it, once the one before is written.
   * @returns the writing: resolved when the file is in its place, on the disk; rejected with FormatError FILE_UNWRITABLE, with nothing left behind
   */
  save(path: string, checkpoint: Checkpoint): Promise<void> {
    const copy = copyCheckpoint(checkpoint);
    const written = this.writing.then(
      () =>
        new Promise<void>((resolve, reject) => {
          const worker = (this.worker ??= new Worker(workerFile));
          const ended = (error: unknown): void => {
            this.worker = undefined;
            reject(error instanceof Error ? error : new Error(`the thread that writes ${path} ended by itself (exit code ${String(error)}); there may be too little memory`));
          };
          worker.once("error", ended).once("exit", ended);
          worker.once("message", ({ error }: SaverReply) => {
            worker.off("error", ended).off("exit", ended).unref();
            if (error) reject(receiveError(error));
            else resolve();
          });
          worker.ref();
          worker.postMessage({ path, checkpoint: copy } satisfies SaverRequest, buffersOf(copy));
        }),
    );
    this.writing = written.catch(() => {}); // told to who asked for it
    return written;
  }

  /** Waits until nothing is being written. */
  async settled(): Promise<void> {
    await this.writing;
  }

  /** Waits for what is being written, and ends the thread. */
  async close(): Promise<void> {
    await this.writing;
    await this.worker?.terminate();
    this.worker = undefined;
  }
}
