/**
 * The average of a model over the updates of a stretch of training, from running averages in checkpoints.
 * Source: icefall checkpoint.py, update_averaged_model and average_checkpoints_with_averaged_model.
 */

import type { Module } from "../nn/index.ts";
import { noGrad, scope, type Tensor } from "../torch/index.ts";
import { CheckpointError } from "../util/errors.ts";
import { type Checkpoint, disposeCheckpoint, epochPath, loadCheckpoint } from "./checkpoint.ts";

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

/** The same average as float32, as checkpoints hold it. */
export const toFloat32 = (average: ReadonlyMap<string, Tensor>): Map<string, Tensor> => new Map(Array.from(average, ([key, tensor]) => [key, tensor.to({ dtype: "float32" })]));

/** Which parameters of an experiment to use. */
export interface AverageOptions {
  epoch: number;
  /** Epochs to average; 1 is the last one alone, unless `useAveragedModel` is set. */
  avg: number;
  /** Average over every update of the epochs by the running averages, not over the epochs' last values. */
  useAveragedModel: boolean;
}

/**
 * The checkpoint of an epoch with averaged parameters. Its optimiser is left out.
 * @throws CheckpointError CHECKPOINT_MISSING, CHECKPOINT_BAD_AVERAGE
 */
export function averagedCheckpoint(expDir: string, { epoch, avg, useAveragedModel }: AverageOptions): Checkpoint {
  const end = loadCheckpoint(epochPath(expDir, epoch));
  if (useAveragedModel) {
    if (avg >= 1 && epoch - avg >= 1) {
      const start = loadCheckpoint(epochPath(expDir, epoch - avg));
      const model = between(start, end, expDir);
      disposeCheckpoint(start);
      return replaceModel(end, model);
    }
    if (epoch - avg === 0 && end.modelAvg) return replaceModel(end, new Map(Array.from(end.modelAvg, ([key, tensor]) => [key, tensor.clone()])));
    throw new CheckpointError("CHECKPOINT_BAD_AVERAGE", { at: expDir, message: `--avg is ${avg}, expected 1 to ${epoch} with --epoch ${epoch}`, fix: "average fewer epochs" });
  }
  if (avg < 1 || avg > epoch)
    throw new CheckpointError("CHECKPOINT_BAD_AVERAGE", { at: expDir, message: `--avg is ${avg}, expected 1 to ${epoch} with --epoch ${epoch}`, fix: "average fewer epochs" });
  if (avg === 1) return end;
  const sum = new Map(Array.from(end.model, ([key, tensor]) => [key, tensor.clone()]));
  for (let e = epoch - avg + 1; e < epoch; e++) {
    const other = loadCheckpoint(epochPath(expDir, e));
    for (const [key, tensor] of sum) tensor.add_(sameKey(other.model, key, epochPath(expDir, e)));
    disposeCheckpoint(other);
  }
  for (const tensor of sum.values()) tensor.div_(avg);
  return replaceModel(end, sum);
}

function sameKey(tensors: ReadonlyMap<string, Tensor>, key: string, at: string): Tensor {
  const tensor = tensors.get(key);
  if (!tensor) throw new CheckpointError("CHECKPOINT_MISMATCH", { at, message: `${key} is missing: the checkpoints are of different models` });
  return tensor;
}

/** The average over the updates after `start` until `end`, from their running averages. */
function between(start: Checkpoint, end: Checkpoint, at: string): Map<string, Tensor> {
  if (!start.modelAvg || !end.modelAvg || !start.state || !end.state)
    throw new CheckpointError("CHECKPOINT_BAD_AVERAGE", { at, message: "a checkpoint has no running average", fix: "decode with --use-averaged-model 0" });
  const period = start.state.averagePeriod;
  const from = Math.floor(start.state.batchIdxTrain / period) * period;
  const to = Math.floor(end.state.batchIdxTrain / period) * period;
  if (to <= from)
    throw new CheckpointError("CHECKPOINT_BAD_AVERAGE", {
      at,
      message: `the epochs lie less than --average-period (${period} updates) apart`,
      fix: "average over more epochs, or decode with --use-averaged-model 0",
    });
  const weightEnd = to / (to - from);
  const weightStart = 1 - weightEnd;
  const startAvg = start.modelAvg;
  const average = end.modelAvg;
  return scope(
    () =>
      new Map(
        Array.from(average, ([key, tensor]) => {
          const wide = tensor.to({ dtype: "float64" }).mul(weightEnd);
          const other = sameKey(startAvg, key, at).to({ dtype: "float64" });
          return [key, wide.add(other, { alpha: weightStart }).to({ dtype: "float32" })];
        }),
      ),
  );
}

function replaceModel(checkpoint: Checkpoint, model: Map<string, Tensor>): Checkpoint {
  disposeCheckpoint(checkpoint);
  return { ...checkpoint, model, modelAvg: undefined, optimizer: new Map() };
}
