/** A run as checkpoints hold it: model, average, optimiser, schedule, generators, and where in the data it stands. */
import type { LoaderState } from "../data/index.ts";
import { type AsrModel, type Checkpoint, type CheckpointState, loadCheckpoint, type ModelConfig } from "../models/index.ts";
import type { Eden, ScaledAdam } from "../optim/index.ts";
import { type Generator, keep, type Tensor } from "../torch/index.ts";
import { CheckpointError } from "../util/errors.ts";
import type { Random } from "../util/random.ts";
import { flattenState, unflattenState } from "./optimizerState.ts";
import type { TrainOptions } from "./options.ts";
import { modulesState, type ReplicaState, restoreModules } from "./replicaState.ts";

/** What lives as long as a run and is saved with it. */
export interface RunParts {
  config: ModelConfig;
  model: AsrModel;
  optimizer: ScaledAdam;
  scheduler: Eden;
  generator: Generator;
  random: Random;
  tokenizerBytes: Uint8Array;
}

/** How far a run is. */
export interface RunPlace extends Pick<CheckpointState, "epoch" | "batchesDone" | "batchIdxTrain" | "bestValidLoss" | "bestValidEpoch"> {
  replicas: readonly ReplicaState[] | undefined;
  /** Within an epoch, or of a source without end: where the data stands. It is kept under `extra`. */
  loader: LoaderState | undefined;
}

/** The checkpoint of a run; the tensors are its own, or made in the scope of the caller. */
export function checkpointOf(parts: RunParts, average: Map<string, Tensor>, { loader, ...place }: RunPlace, options: TrainOptions): Checkpoint {
  const { config, model, optimizer, scheduler, generator, random, tokenizerBytes } = parts;
  const { tensors, numbers } = flattenState(optimizer.stateDict());
  return {
    config,
    state: {
      ...place,
      random: random.state(),
      modules: modulesState(model),
      optimizer: numbers,
      scheduler: scheduler.stateDict(),
      averagePeriod: options.averagePeriod,
      options: { ...options },
      extra: loader && { loader },
    },
    model: model.stateDict(),
    modelAvg: average,
    optimizer: tensors,
    generator: generator.state(),
    tokenizer: tokenizerBytes,
  };
}

/** A checkpoint of which a run can go on. */
export type ResumableCheckpoint = Checkpoint & { state: CheckpointState };

/** Where the data stood when a checkpoint was saved within an epoch, or at the end of one of a source without end. */
export function savedPlace({ extra, batchesDone }: CheckpointState): { state: LoaderState; batchesDone: number } | undefined {
  const state = extra?.["loader"] as LoaderState | undefined;
  return state && { state, batchesDone };
}

/**
 * Loads a checkpoint to go on from.
 * @throws CheckpointError CHECKPOINT_MISSING, CHECKPOINT_BAD; CHECKPOINT_MISMATCH for another tokenizer or other features
 */
export function loadResumable(path: string, config: ModelConfig, { bpeModel, sampleRate }: Pick<TrainOptions, "bpeModel" | "sampleRate">): ResumableCheckpoint {
  const checkpoint = loadCheckpoint(path, { bpeModel, sampleRate });
  const { state } = checkpoint;
  if (!state) throw new CheckpointError("CHECKPOINT_BAD", { at: path, message: "it was saved for recognition only: there is no state to go on from" });
  // Of icefall's, which have no random numbers, an epoch starts at its beginning.
  if (state.random && state.batchesDone > 0 && !savedPlace(state))
    throw new CheckpointError("CHECKPOINT_BAD", {
      at: path,
      message: "it does not hold where its epoch stands: an earlier serac wrote it",
      fix: `go on from an epoch's end: --start-epoch ${state.epoch}`,
    });
  for (const [name, flag] of [
    ["sampleRate", "--sample-rate"],
    ["featureDim", "--feature-dim"],
  ] as const)
    if (checkpoint.config[name] !== config[name])
      throw new CheckpointError("CHECKPOINT_MISMATCH", {
        at: path,
        message: `it was trained on features of ${flag} ${checkpoint.config[name]}, not ${config[name]}`,
        fix: `give ${flag} ${checkpoint.config[name]}`,
      });
  return checkpoint as ResumableCheckpoint;
}

/** Puts a checkpoint's state into the parts of a run. @returns the average, in double precision, which the caller keeps */
export function restoreParts({ model, optimizer, scheduler, generator, random }: RunParts, checkpoint: ResumableCheckpoint, device: string): Map<string, Tensor> {
  const { state } = checkpoint;
  model.loadStateDict(checkpoint.model);
  optimizer.loadStateDict(unflattenState({ tensors: checkpoint.optimizer, numbers: state.optimizer }));
  scheduler.loadStateDict(state.scheduler);
  if (checkpoint.generator) generator.restore(checkpoint.generator);
  if (state.random) random.restore(state.random);
  restoreModules(model, state.modules);
  return new Map(Array.from(checkpoint.modelAvg ?? [], ([key, tensor]) => [key, keep(tensor.to({ dtype: "float64", device }))]));
}
