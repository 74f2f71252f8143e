/** The checkpoints of a run: written beside the training, the best ones copied, old ones removed. A full disk does not end the run. */
import { copyFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { removeQuietly, temporaryPath } from "../formats/atomic.ts";
import { batchPath, type Checkpoint, CheckpointSaver, epochPath, removeOldCheckpoints } from "../models/index.ts";

/** What a file is saved for. */
export type SaveReason =
  | { kind: "epoch"; epoch: number; bestTrain: boolean; bestValid: boolean }
  /** In the middle of an epoch. `keep` files of the kind remain. */
  | { kind: "batch"; batch: number; keep: number };

export class RunSaver {
  private readonly expDir: string;
  private readonly say: (line: string) => void;
  private readonly saver = new CheckpointSaver();
  private pending: Promise<void> = Promise.resolve();
  private failed: unknown;
  /** The last file that is surely whole. */
  lastGood: string | undefined;

  constructor(expDir: string, say: (line: string) => void) {
    this.expDir = expDir;
    this.say = say;
  }

  /** Copies the checkpoint; its file appears later. @returns the file's path */
  save(checkpoint: Checkpoint, reason: SaveReason): string {
    const path = reason.kind === "epoch" ? epochPath(this.expDir, reason.epoch) : batchPath(this.expDir, reason.batch);
    const written = this.saver.save(path, checkpoint);
    this.pending = Promise.all([this.pending, written.then(() => this.afterwards(path, reason))]).then(
      () => {},
      (error: unknown) => this.onFailure(path, error),
    );
    return path;
  }

  private afterwards(path: string, reason: SaveReason): void {
    this.failed = undefined;
    this.lastGood = path;
    if (reason.kind === "batch") removeOldCheckpoints(this.expDir, { newest: reason.batch, keep: reason.keep });
    else this.copyBest(path, reason);
  }

  /** Copies an epoch's file under the names of the best ones. @throws what the system says */
  copyBest(path: string, { bestTrain, bestValid }: { bestTrain: boolean; bestValid: boolean }): void {
    if (bestTrain) this.copy(path, "best-train-loss.pt");
    if (bestValid) this.copy(path, "best-valid-loss.pt");
  }

  private copy(from: string, name: string): void {
    const to = join(this.expDir, name);
    const temporary = temporaryPath(to);
    try {
      copyFileSync(from, temporary);
      renameSync(temporary, to);
    } catch (error) {
      removeQuietly(temporary);
      throw error;
    }
  }

  private onFailure(path: string, error: unknown): void {
    this.failed = error;
    const reason = error instanceof Error ? error.message : String(error);
    const last = this.lastGood === undefined ? "none was saved yet" : `the last good one is ${this.lastGood}`;
    this.say(`a checkpoint could not be saved (${last}); training goes on. ${reason.includes(path) ? "" : `${path}: `}${reason}`);
  }

  /** Waits for what is being written. @throws what the last file could not be written for */
  async settled(): Promise<void> {
    await this.pending;
    if (this.failed !== undefined) throw this.failed;
  }

  /** Waits for what is being written, and ends its thread. */
  async close(): Promise<void> {
    await this.pending;
    await this.saver.close();
  }
}
