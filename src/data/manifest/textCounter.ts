/** Counts characters and words of many texts, beside whoever reads them: in a thread, once there are enough. */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { packageRoot } from "../../util/paths.ts";
import { type TextBlock, TextBlocks } from "./textBlocks.ts";
import { TextCounts, type TextCountsFields } from "./textCounts.ts";

/** Compiled code: threads cannot run TypeScript on every Node that serac supports. */
const workerFile = join(packageRoot, "build", "js", "data", "manifest", "textCounterWorker.js");

/** So many blocks wait for the thread at most; further ones are counted here. */
const mostWaiting = 16;

/** What the thread is told: a block to count, or that no more will come. */
export type TextCounterJob = TextBlock | "end";
/** What it tells: that a block is counted, or all its counts. */
export type TextCounterAnswer = "counted" | TextCountsFields;

export class TextCounter {
  private readonly counts = new TextCounts();
  private readonly blocks: TextBlocks;
  private blocksBefore: number;
  private waiting = 0;
  private worker: Worker | undefined;
  private answer: Promise<TextCountsFields> | undefined;

  /**
   * @param blockUnits UTF-16 units that are counted together
   * @param blocksBefore so many blocks are counted here before a thread is worth its start
   */
  constructor({ blockUnits = 1 << 18, blocksBefore = 8 }: { blockUnits?: number; blocksBefore?: number } = {}) {
    this.blocks = new TextBlocks(blockUnits);
    this.blocksBefore = blocksBefore;
  }

  /** @param seconds of the audio; 0 where they are not known */
  add(text: string, seconds: number): void {
    const block = this.blocks.add(text, seconds);
    if (block === undefined) return;
    if (this.blocksBefore-- <= 0) this.worker ??= this.start();
    if (this.worker === undefined || this.waiting >= mostWaiting) {
      this.counts.add(block);
      return;
    }
    this.waiting++;
    this.worker.postMessage(block satisfies TextCounterJob, [block.units.buffer, block.ends.buffer, block.seconds.buffer]);
  }

  private start(): Worker {
    const worker = new Worker(workerFile);
    worker.unref(); // an error elsewhere ends the process all the same
    this.answer = new Promise((resolve, reject) => {
      worker.on("error", reject);
      worker.on("exit", (code) => reject(new Error(`the thread that counts texts ended with ${code}`)));
      worker.on("message", (answer: TextCounterAnswer) => (answer === "counted" ? this.waiting-- : resolve(answer)));
    });
    this.answer.catch(() => undefined); // thrown where it is awaited
    return worker;
  }

  /** The counts of all texts. Call it once. */
  async result(): Promise<TextCounts> {
    const { worker, answer, counts } = this;
    counts.add(this.blocks.take());
    if (worker === undefined || answer === undefined) return counts;
    worker.ref();
    worker.postMessage("end" satisfies TextCounterJob);
    counts.merge(await answer);
    await this.close();
    return counts;
  }

  /** Ends the thread where there is one. */
  async close(): Promise<void> {
    await this.worker?.terminate();
  }
}
