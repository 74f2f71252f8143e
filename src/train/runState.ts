/** A run as checkpoints hold it: model, average, optimiser, schedule, generators, and where in the data it stands. */
import type { LoaderState } from "../data/index.ts";
import { AsrModel, asrModelOptions, type Checkpoint, type CheckpointState, disposeCheckpoint, loadCheckpoint, type ModelConfig, modelOptions } from "../models/index.ts";
import { Eden, GradScaler, parameterGroups, ScaledAdam } from "../optim/index.ts";
import { Generator, keep, scope, type Tensor } from "../torch/index.ts";
import { CheckpointError } from "../util/errors.ts";
import { parseOptions } from "../util/options.ts";
import { Random } from "../util/random.ts";
import type { LossSums } from "./metrics.ts";
import { flattenState, unflattenState } from "./optimizerState.ts";
import type { TrainOptions } from "./options.ts";
import { modulesState, type ReplicaState, restoreModules } from "./replicaState.ts";
import type { Tokens } from "./tokens.ts";

/** What lives as long as a run and is saved with it. */
export interface RunParts {
  config: ModelConfig;
  model: AsrModel;
  optimizer: ScaledAdam;
  scheduler: Eden;
  /** Does nothing in full precision. */
  scaler: GradScaler;
  generator: Generator;
  random: Random;
  tokenizerBytes: Uint8Array;
  /** Versions and the state of the checkout; see `envInfo`. */
  env: Readonly<Record<string, string | boolean>>;
}

/** A model, and all that trains it, at the beginning. */
export function makeParts(options: TrainOptions, tokens: Tokens, { say, env }: { say: (line: string) => void; env: RunParts["env"] }): RunParts {
  const shape = Object.fromEntries(Object.keys(modelOptions).map((name) => [name, options[name as keyof TrainOptions]]));
  const config = { ...parseOptions(modelOptions, shape), vocabSize: tokens.model.vocabSize, blankId: 0, sampleRate: options.sampleRate };
  const model = scope(() => new AsrModel({ ...asrModelOptions(config), generator: new Generator(options.seed) }));
  if (options.device !== "cpu") model.to({ device: options.device });
  say(`model: ${model.parameterCount.toLocaleString("en")} parameters, vocabulary of ${config.vocabSize}`);
  const optimizer = new ScaledAdam(parameterGroups(model, { lr: options.baseLr }), { lr: options.baseLr, clippingScale: 2, log: say });
  return {
    config,
    model,
    optimizer,
    scheduler: new Eden(optimizer, { lrBatches: options.lrBatches, lrEpochs: options.lrEpochs, warmupStart: options.recipe === "2026" ? 0.1 : 0.5 }),
    scaler: new GradScaler({ enabled: options.useFp16 || options.useBf16, initScale: 1 }),
    generator: new Generator(options.seed, { device: options.device }),
    random: new Random(options.seed),
    tokenizerBytes: tokens.bytes,
    env,
  };
}

/** How far a run is. */
export interface RunPlace extends Pick<CheckpointState, "epoch" | "batchesDone" | "batchIdxTrain" | "bestTrainLoss" | "bestTrainEpoch" | "bestValidLoss" | "bestValidEpoch"> {
  replicas: readonly ReplicaState[] | undefined;
  /** Within an epoch, or of a source without end: where the data stands. It is kept under `extra`. */
  loader: LoaderState | undefined;
  /** The fading average of the losses that is shown. */
  totalLoss: LossSums | undefined;
  /** True where the validation that belongs to the last batch is still to be made. */
  validationDue: boolean;
}

/** The checkpoint of a run; the tensors are its own, or made in the scope of the caller. */
export function checkpointOf(parts: RunParts, average: Map<string, Tensor>, { loader, totalLoss, validationDue, ...place }: RunPlace, options: TrainOptions): Checkpoint {
  const { config, model, optimizer, scheduler, scaler, generator, random, tokenizerBytes } = parts;
  const { tensors, numbers } = flattenState(optimizer.stateDict());
  return {
    config,
    state: {
      ...place,
      random: random.state(),
      modules: modulesState(model),
      optimizer: numbers,
      scheduler: scheduler.stateDict(),
      scaler: scaler.enabled ? (scaler.stateDict() as Record<string, number>) : undefined,
      averagePeriod: options.averagePeriod,
      options: { ...options, envInfo: parts.env },
      extra: { ...(loader && { loader }), ...(totalLoss && { totalLoss }), ...(validationDue && { validationDue }) },
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
  try {
    return checkResumable(checkpoint, path, config);
  } catch (error) {
    disposeCheckpoint(checkpoint);
    throw error;
  }
}

function checkResumable(checkpoint: Checkpoint, path: string, config: ModelConfig): ResumableCheckpoint {
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
export function restoreParts({ model, optimizer, scheduler, scaler, generator, random }: RunParts, checkpoint: ResumableCheckpoint, device: string): Map<string, Tensor> {
  const { state } = checkpoint;
  model.loadStateDict(checkpoint.model);
  optimizer.loadStateDict(unflattenState({ tensors: checkpoint.optimizer, numbers: state.optimizer }));
  scheduler.loadStateDict(state.scheduler);
  if (state.scaler) scaler.loadStateDict(state.scaler);
  if (checkpoint.generator) generator.restore(checkpoint.generator);
  if (state.random) random.restore(state.random);
  restoreModules(model, state.modules);
  return new Map(Array.from(checkpoint.modelAvg ?? [], ([key, tensor]) => [key, keep(tensor.to({ dtype: "float64", device }))]));
}
