/** Batches whose loss or gradients are not finite: left out, named and counted, until there are too many. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import type { SpeechBatch } from "../data/index.ts";
import { TrainError } from "../util/errors.ts";
import { type LossSums, showLosses } from "./metrics.ts";

/** A line for every utterance of a batch. */
export function describeBatch({ cuts }: SpeechBatch, more: Record<string, unknown>): string {
  return cuts.map(({ id, origin, duration, text }) => `${JSON.stringify({ ...more, id, origin, duration, text })}\n`).join("");
}

export class BadBatches {
  /** Where their utterances are listed. */
  readonly path: string;
  private readonly say: (line: string) => void;
  private readonly limit: number;
  private inRow = 0;
  total = 0;

  /** @param limit so many in a row end training; 1 ends it at the first */
  constructor(expDir: string, { limit, say }: { limit: number; say: (line: string) => void }) {
    this.path = join(expDir, "bad-batches.jsonl");
    this.limit = limit;
    this.say = say;
  }

  /** A batch of which the update can be made. */
  good(): void {
    this.inRow = 0;
  }

  /** A batch that is left out for its loss. @throws TrainError TRAIN_LOSS_NOT_FINITE when there are too many */
  bad(batch: SpeechBatch, sums: LossSums, update: number): void {
    this.leaveOut([batch], `the loss is ${sums.loss} (${showLosses(sums).trim()})`, update);
  }

  /** Batches that are left out for their gradients, with a loss that is finite. @throws TrainError TRAIN_LOSS_NOT_FINITE when there are too many */
  badGradients(batches: readonly SpeechBatch[], update: number): void {
    this.leaveOut(batches, "the gradients are infinite or not a number", update);
  }

  private leaveOut(batches: readonly SpeechBatch[], what: string, update: number): void {
    this.total += batches.length;
    this.inRow += batches.length;
    try {
      appendFileSync(this.path, batches.map((batch) => describeBatch(batch, { update })).join(""));
    } catch {
      // A full disk must not hide what is said below.
    }
    const cuts = batches.flatMap((batch) => batch.cuts);
    const first = cuts
      .slice(0, 3)
      .map((cut) => cut.origin)
      .join(", ");
    const message = `${what} in ${batches.length === 1 ? "a batch" : `${batches.length} batches`} of ${cuts.length} with ${first}; all of it is listed in ${this.path}`;
    if (this.inRow >= this.limit)
      throw new TrainError("TRAIN_LOSS_NOT_FINITE", {
        at: `update ${update}`,
        message: this.limit === 1 ? message : `${message}; ${this.inRow} batches in a row were so`,
        fix: "look at these utterances; if they are sound, lower --base-lr, or train in full precision; --inf-check 1 tells where infinities begin",
      });
    this.say(`left out update ${update}: ${message}`);
  }
}
