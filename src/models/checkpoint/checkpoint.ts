/**
 * Checkpoints: one file that holds the model, its running average, the optimiser, the generators' state, the tokenizer and the options: enough
 * to go on training or to recognise speech with nothing else. Files are icefall's (.pt) with one key more, or safetensors; icefall's own are read too.
 */
import { existsSync } from "node:fs";
import { formatOfName, looksLikePt } from "../../formats/index.ts";
import type { Tensor } from "../../torch/index.ts";
import { CheckpointError, FormatError } from "../../util/errors.ts";
import type { RandomState } from "../../util/random.ts";
import type { ModelConfig, ModelOptions } from "../options.ts";
import { openPtCheckpoint } from "./ptRead.ts";
import { copyCheckpoint } from "./raw.ts";
import { openSafetensorsCheckpoint } from "./safetensorsRead.ts";
import { writeCheckpoint } from "./write.ts";

/** The part of a checkpoint that is no tensor. */
export interface CheckpointState {
  /** Epoch that the checkpoint is of, from 1. */
  epoch: number;
  /** Batches done in that epoch; 0 when it is complete. */
  batchesDone: number;
  /** Updates since the start of training. */
  batchIdxTrain: number;
  bestTrainLoss?: number | undefined;
  bestTrainEpoch?: number | undefined;
  bestValidLoss: number | undefined;
  bestValidEpoch: number | undefined;
  /** undefined in icefall's files, whose generators cannot be taken over. */
  random: RandomState | undefined;
  /** What modules remember between steps, by their paths. */
  modules: Record<string, number>;
  /** Of each further thread that trains: its streams, and what its modules remember. */
  replicas?: readonly { random: RandomState; generator: string; modules: Record<string, number> }[] | undefined;
  /** Adam's and Eden's numbers. */
  optimizer: Record<string, unknown>;
  scheduler: { epoch: number; batch: number };
  /** GradScaler's state, where there is one. */
  scaler?: Record<string, number> | undefined;
  averagePeriod: number;
  /** Every option of the run, as resolved. */
  options: Record<string, unknown>;
  /** What else a run keeps, by the name of its keeper; plain JSON. */
  extra?: Record<string, unknown> | undefined;
}

/** What a checkpoint holds. Tensors are the caller's to free. */
export interface Checkpoint {
  config: ModelConfig;
  /** undefined in files for recognition only. */
  state: CheckpointState | undefined;
  model: Map<string, Tensor>;
  /** float64 as it is kept in training; float32 of icefall's files. */
  modelAvg: Map<string, Tensor> | undefined;
  optimizer: Map<string, Tensor>;
  generator: Uint8Array | undefined;
  /** The SentencePiece model's bytes. */
  tokenizer: Uint8Array;
}

/** An open checkpoint: its tensors are read when they are asked for, and are the caller's to free. */
export interface CheckpointFile {
  readonly at: string;
  readonly config: ModelConfig;
  readonly state: CheckpointState | undefined;
  readonly tokenizer: Uint8Array;
  model(): Map<string, Tensor>;
  modelAvg(): Map<string, Tensor> | undefined;
  /** By "INDEX.NAME". */
  optimizer(): Map<string, Tensor>;
  generator(): Uint8Array | undefined;
  close(): void;
}

/** What a file may not tell itself. */
export interface OpenCheckpointOptions {
  /** SentencePiece model of a checkpoint that has none; where it has one, they must be the same. */
  bpeModel?: string | undefined;
  /** The tokenizer, as bytes, of a checkpoint that has none; where it has one, that counts. */
  fallbackTokenizer?: Uint8Array | undefined;
  /** Shape of the model, where neither the file's options nor its parameters tell it. */
  given?: Partial<ModelOptions> | undefined;
  /** Of the audio that an icefall model was trained on. 16000 unless given. */
  sampleRate?: number | undefined;
}

/**
 * Writes a checkpoint beside its place and renames it: a killed run never leaves half of one. The name tells the format: .pt, or .safetensors.
 * @throws FormatError FILE_UNWRITABLE
 */
export function saveCheckpoint(path: string, checkpoint: Checkpoint): void {
  writeCheckpoint(path, copyCheckpoint(checkpoint));
}

/** @throws CheckpointError CHECKPOINT_MISSING, CHECKPOINT_BAD, CHECKPOINT_MISMATCH */
export function openCheckpoint(path: string, options: OpenCheckpointOptions = {}): CheckpointFile {
  if (!existsSync(path)) throw new CheckpointError("CHECKPOINT_MISSING", { at: path, message: "no such checkpoint", fix: "give the path of an epoch-N.pt file" });
  try {
    return looksLikePt(path) || formatOfName(path) === "pt" ? openPtCheckpoint(path, options) : openSafetensorsCheckpoint(path, options);
  } catch (cause) {
    if (!(cause instanceof FormatError)) throw cause;
    throw new CheckpointError("CHECKPOINT_BAD", { message: cause.message, cause });
  }
}

/** All of a checkpoint. @throws CheckpointError CHECKPOINT_MISSING, CHECKPOINT_BAD, CHECKPOINT_MISMATCH */
export function loadCheckpoint(path: string, options: OpenCheckpointOptions = {}): Checkpoint {
  const file = openCheckpoint(path, options);
  try {
    const { config, state, tokenizer } = file;
    return { config, state, tokenizer, model: file.model(), modelAvg: file.modelAvg(), optimizer: file.optimizer(), generator: file.generator() };
  } catch (cause) {
    if (!(cause instanceof FormatError)) throw cause;
    throw new CheckpointError("CHECKPOINT_BAD", { message: cause.message, cause });
  } finally {
    file.close();
  }
}

/** Frees the tensors of a checkpoint. */
export function disposeCheckpoint({ model, modelAvg, optimizer }: Checkpoint): void {
  for (const tensors of [model, modelAvg ?? new Map<string, Tensor>(), optimizer]) for (const tensor of tensors.values()) tensor.dispose();
}
