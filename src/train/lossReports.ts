/** Losses in icefall's log lines, in metrics.jsonl and in TensorBoard's events. Source: icefall zipformer/train.py, train_one_epoch. */
import { type ErrorCounts, errorRate } from "../text/index.ts";
import { peakBytes } from "../torch/index.ts";
import { pythonFloat } from "../util/printf.ts";
import { type LossSums, perFrame, showLosses } from "./metrics.ts";
import type { RunLog } from "./runLog.ts";

/** Losses of a batch, and the faded sums of its epoch. */
export interface TrainReport {
  epoch: number;
  /** Within the epoch, from 0. */
  batchIdx: number;
  /** Batches trained on since the start of training. */
  b: number;
  batchSize: number;
  lr: number;
  /** undefined without mixed precision. */
  gradScale: number | undefined;
  /** Seconds of audio a second. */
  rate: number;
  sums: LossSums;
  total: LossSums;
}

/** Reports a batch of training. */
export function reportBatch(log: RunLog, { epoch, batchIdx, b, batchSize, lr, gradScale, rate, sums, total }: TrainReport): void {
  const scale = gradScale === undefined ? "" : `, grad_scale: ${pythonFloat(gradScale)}`;
  log.say(
    `Epoch ${epoch}, batch ${batchIdx}, loss[${showLosses(sums)}], tot_loss[${showLosses(total)}], batch size: ${batchSize}, lr: ${lr.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2")}${scale}`,
  );
  log.metrics({ kind: "train", epoch, batch: b, lr, audioSecondsPerSecond: rate, ...perFrame(total) });
  log.scalars({ "train/learning_rate": lr, ...(gradScale === undefined ? {} : { "train/grad_scale": gradScale }) }, b);
  log.scalars(perFrame(sums), b, "train/current_");
  log.scalars(perFrame(total), b, "train/tot_");
}

/** Losses of the validation data. */
export interface ValidationReport {
  epoch: number;
  /** Batches trained on since the start of training. */
  b: number;
  device: string;
  sums: LossSums;
  /** Where words were recognised. */
  errors: ErrorCounts | undefined;
}

/** Reports a validation. @returns the word error rate where words were recognised and there are some */
export function reportValidation(log: RunLog, { epoch, b, device, sums, errors }: ValidationReport): number | undefined {
  const wer = errors && errorRate(errors);
  log.say(`Epoch ${epoch}, validation: ${showLosses(sums)}${errors ? `WER ${wer === undefined ? "-" : (100 * wer).toFixed(2)} %` : ""}`);
  if (device === "cpu") log.note(`Maximum memory allocated so far is ${Math.floor(peakBytes() / 1e6)}MB`);
  log.metrics({ kind: "valid", epoch, batch: b, ...perFrame(sums), ...(wer === undefined ? {} : { wer }) });
  log.scalars(perFrame(sums), b, "train/valid_");
  return wer;
}
