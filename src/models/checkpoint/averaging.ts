/**
 * The average of a model over a stretch of training: of checkpoints, or of every update between two, by their running averages.
 * Source: icefall checkpoint.py, update_averaged_model, average_checkpoints and average_checkpoints_with_averaged_model.
 */

import type { Module } from "../../nn/index.ts";
import { noGrad, scope, type Tensor } from "../../torch/index.ts";
import { CheckpointError, FormatError } from "../../util/errors.ts";
import { listed, shapeDifferences } from "./check.ts";
import { type Checkpoint, type CheckpointFile, type OpenCheckpointOptions, openCheckpoint } from "./checkpoint.ts";
import { batchPath, epochPath, savedBatches } from "./files.ts";

/** A running average with the model's present values, in double precision. */
export function startAverage(model: Module): Map<string, Tensor> {
  return noGrad(() => scope(() => new Map(Array.from(model.namedParameters(), ([key, parameter]) => [key, parameter.detach().to({ dtype: "float64", copy: true })]))));
}

/** Takes the model's present values in: average = average (1 - P / b) + model P / b, with b updates done and P the period. */
export function updateAverage(average: ReadonlyMap<string, Tensor>, model: Module, { batchIdxTrain, averagePeriod }: { batchIdxTrain: number; averagePeriod: number }): void {
  const weight = averagePeriod / batchIdxTrain;
  noGrad(() =>
    scope(() => {
      for (const [key, parameter] of model.namedParameters()) {
        const running = average.get(key) as Tensor;
        running.mul_(1 - weight).add_(parameter.detach().to({ dtype: running.dtype }), { alpha: weight });
      }
    }),
  );
}

/** Which parameters of an experiment to use. */
export interface AverageOptions {
  /** The last epoch; where `iter` is above 0 it does not count. */
  epoch: number;
  /** Checkpoint-B files up to this many updates instead of epochs; 0 for epochs. */
  iter?: number | undefined;
  /** Checkpoints to average; 1 is the last one alone, unless `useAveragedModel` is set. */
  avg: number;
  /** Average over every update between the ends by the running averages, not over the checkpoints' own values. */
  useAveragedModel: boolean;
}

interface Chosen {
  /** The checkpoint before the stretch; undefined where it begins with training. */
  start: string | undefined;
  /** Checkpoints of the stretch, the last one last. */
  within: [...string[], string];
}

const refuse = (at: string, message: string, fix: string): CheckpointError => new CheckpointError("CHECKPOINT_BAD_AVERAGE", { at, message, fix });

/** Files of a stretch of epochs. */
function epochsOf(expDir: string, { epoch, avg, useAveragedModel }: AverageOptions): Chosen {
  // Without a checkpoint before it, the running average of the last one is that of all of training.
  if (avg < 1 || avg > epoch) throw refuse(expDir, `--avg is ${avg}, expected 1 to ${epoch} with --epoch ${epoch}`, "average fewer epochs");
  const first = useAveragedModel ? epoch : epoch - avg + 1;
  const within = Array.from({ length: epoch - first + 1 }, (_, i) => epochPath(expDir, first + i)) as [string];
  return { start: epoch > avg ? epochPath(expDir, epoch - avg) : undefined, within };
}

/** Files of the newest checkpoints up to a number of updates. */
function batchesOf(expDir: string, { iter = 0, avg, useAveragedModel }: AverageOptions): Chosen {
  const found = savedBatches(expDir).filter((batch) => batch <= iter);
  const needed = useAveragedModel ? avg + 1 : avg;
  if (avg < 1 || found.length < needed)
    throw refuse(
      expDir,
      `--avg ${avg} with --iter ${iter}${useAveragedModel ? " and the running averages" : ""} needs ${Math.max(1, needed)} checkpoint-B files up to ${iter}, of which there are ${found.length}${found.length > 0 ? `: ${found.slice(0, 10).join(", ")}` : ""}`,
      "average fewer, or raise --iter; training keeps --keep-last-k of them",
    );
  const chosen = found.slice(0, useAveragedModel ? 1 : avg).reverse();
  const within = chosen.map((batch) => batchPath(expDir, batch)) as [string];
  return { start: useAveragedModel ? batchPath(expDir, found[avg] as number) : undefined, within };
}

/** Reads checkpoints one after the other and closes each. */
function withFile<T>(path: string, options: OpenCheckpointOptions, read: (file: CheckpointFile) => T): T {
  const file = openCheckpoint(path, options);
  try {
    return read(file);
  } catch (cause) {
    if (!(cause instanceof FormatError)) throw cause;
    throw new CheckpointError("CHECKPOINT_BAD", { message: cause.message, cause });
  } finally {
    file.close();
  }
}

/**
 * A checkpoint of an experiment with averaged parameters, for recognition: without optimiser.
 * @throws CheckpointError CHECKPOINT_MISSING, CHECKPOINT_BAD, CHECKPOINT_BAD_AVERAGE, CHECKPOINT_MISMATCH
 */
export function averagedCheckpoint(expDir: string, options: AverageOptions, open: OpenCheckpointOptions = {}): Checkpoint {
  const { start, within } = (options.iter ?? 0) > 0 ? batchesOf(expDir, options) : epochsOf(expDir, options);
  const end = within.at(-1) as string;
  return withFile(end, open, (file) => {
    let model: Map<string, Tensor>;
    if (!options.useAveragedModel) model = meanOf(file, within.slice(0, -1), open);
    else if (start !== undefined) model = withFile(start, open, (before) => between(before, file, expDir));
    else model = fromStart(file, expDir);
    const { config, state, tokenizer } = file;
    return { config, state, tokenizer, model, modelAvg: undefined, optimizer: new Map(), generator: undefined };
  });
}

const shapesOf = (tensors: ReadonlyMap<string, Tensor>): Map<string, readonly number[]> => new Map(Array.from(tensors, ([key, { shape }]) => [key, shape]));

/** @throws CheckpointError CHECKPOINT_MISMATCH where the parameters of two files are not those of one model */
function checkSameModel(one: ReadonlyMap<string, Tensor>, other: ReadonlyMap<string, Tensor>, at: string): void {
  const problems = shapeDifferences(shapesOf(one), shapesOf(other));
  if (problems.length > 0) throw new CheckpointError("CHECKPOINT_MISMATCH", { at, message: `the checkpoints are of different models: ${listed(problems)}` });
}

/** The mean of checkpoints' own values; the last one's where there are no others. */
function meanOf(last: CheckpointFile, others: readonly string[], open: OpenCheckpointOptions): Map<string, Tensor> {
  return scope(() => {
    const sum = last.model();
    for (const path of others) {
      scope(() => {
        const values = withFile(path, open, (file) => file.model());
        checkSameModel(sum, values, path);
        for (const [key, tensor] of sum) tensor.add_(values.get(key) as Tensor);
      });
    }
    if (others.length > 0) for (const tensor of sum.values()) tensor.div_(others.length + 1);
    return sum;
  });
}

const noAverage = (at: string): CheckpointError => refuse(at, "a checkpoint has no running average", "use --use-averaged-model 0");

/** The running average of all of training. */
function fromStart(end: CheckpointFile, at: string): Map<string, Tensor> {
  return scope(() => {
    const average = end.modelAvg();
    if (!average) throw noAverage(at);
    return new Map(Array.from(average, ([key, tensor]) => [key, tensor.to({ dtype: "float32" })]));
  });
}

/** The average over the updates after `start` until `end`, from their running averages. */
function between(start: CheckpointFile, end: CheckpointFile, at: string): Map<string, Tensor> {
  return scope(() => {
    const before = start.modelAvg();
    const after = end.modelAvg();
    if (!before || !after || !start.state || !end.state) throw noAverage(at);
    checkSameModel(after, before, start.at);
    const period = start.state.averagePeriod;
    const from = Math.floor(start.state.batchIdxTrain / period) * period;
    const to = Math.floor(end.state.batchIdxTrain / period) * period;
    if (to <= from) throw refuse(at, `the checkpoints lie less than --average-period (${period} updates) apart`, "average over more of them, or use --use-averaged-model 0");
    const weightEnd = to / (to - from);
    return new Map(
      Array.from(after, ([key, tensor]) => {
        const wide = tensor.to({ dtype: "float64" }).mul(weightEnd);
        const other = (before.get(key) as Tensor).to({ dtype: "float64" });
        return [key, wide.add(other, { alpha: 1 - weightEnd }).to({ dtype: "float32" })];
      }),
    );
  });
}
