/**
 * Checkpoints: one safetensors file that holds the model, its running average, the optimiser, the generators' state, the
 * tokenizer and the options: enough to go on training or to recognise speech with nothing else.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fromTypedArray, loadTensors, saveTensors, scope, type Tensor } from "../torch/index.ts";
import { CheckpointError, FormatError } from "../util/errors.ts";
import { parseOptions } from "../util/options.ts";
import type { RandomState } from "../util/random.ts";
import { type ModelConfig, modelOptions } from "./options.ts";

const formatVersion = 1;

/** The part of a checkpoint that is no tensor. */
export interface CheckpointState {
  /** Epoch that the checkpoint is of, from 1. */
  epoch: number;
  /** Batches done in that epoch; 0 when it is complete. */
  batchesDone: number;
  /** Updates since the start of training. */
  batchIdxTrain: number;
  bestValidLoss: number | undefined;
  bestValidEpoch: number | undefined;
  random: RandomState;
  /** What modules remember between steps, by their paths. */
  modules: Record<string, number>;
  /** Of each further thread that trains: its streams, and what its modules remember. */
  replicas?: readonly { random: RandomState; generator: string; modules: Record<string, number> }[];
  /** Adam's and Eden's numbers. */
  optimizer: Record<string, unknown>;
  scheduler: { epoch: number; batch: number };
  averagePeriod: number;
  /** Every option of the run, as resolved. */
  options: Record<string, unknown>;
}

/** What a checkpoint file holds. Tensors are the caller's to free. */
export interface Checkpoint {
  config: ModelConfig;
  /** undefined in files for recognition only. */
  state: CheckpointState | undefined;
  model: Map<string, Tensor>;
  modelAvg: Map<string, Tensor> | undefined;
  optimizer: Map<string, Tensor>;
  generator: Uint8Array | undefined;
  /** The SentencePiece model's bytes. */
  tokenizer: Uint8Array;
}

const prefixes = { model: "model.", modelAvg: "model_avg.", optimizer: "optimizer." } as const;

function withPrefix(tensors: ReadonlyMap<string, Tensor>, prefix: string): Map<string, Tensor> {
  const found = new Map<string, Tensor>();
  for (const [key, tensor] of tensors) if (key.startsWith(prefix)) found.set(key.slice(prefix.length), tensor);
  return found;
}

/** Writes a checkpoint beside its place and renames it: a killed run never leaves half of one. @throws FormatError FILE_UNWRITABLE */
export function saveCheckpoint(path: string, { config, state, model, modelAvg, optimizer, generator, tokenizer }: Checkpoint): void {
  scope(() => {
    const tensors = new Map<string, Tensor>();
    for (const [key, tensor] of model) tensors.set(prefixes.model + key, tensor);
    for (const [key, tensor] of modelAvg ?? []) tensors.set(prefixes.modelAvg + key, tensor);
    for (const [key, tensor] of optimizer) tensors.set(prefixes.optimizer + key, tensor);
    if (generator) tensors.set("generator", fromTypedArray(generator, [generator.length]));
    tensors.set("tokenizer", fromTypedArray(tokenizer, [tokenizer.length]));
    saveTensors(path, tensors, { serac: JSON.stringify({ version: formatVersion, config, state }) });
  });
}

/** @throws CheckpointError CHECKPOINT_MISSING, CHECKPOINT_BAD */
export function loadCheckpoint(path: string): Checkpoint {
  if (!existsSync(path))
    throw new CheckpointError("CHECKPOINT_MISSING", { at: path, message: "no such checkpoint", fix: "give the path of an epoch-N.safetensors file that serac train wrote" });
  let file: ReturnType<typeof loadTensors>;
  try {
    file = loadTensors(path);
  } catch (cause) {
    if (!(cause instanceof FormatError)) throw cause;
    throw new CheckpointError("CHECKPOINT_BAD", { message: cause.message, cause });
  }
  const { tensors, metadata } = file;
  const bad = (message: string): never => {
    for (const tensor of tensors.values()) tensor.dispose();
    throw new CheckpointError("CHECKPOINT_BAD", { at: path, message, fix: "give a file that serac train wrote" });
  };
  let header: { version: number; config: Record<string, unknown>; state?: CheckpointState };
  try {
    header = JSON.parse(metadata.serac ?? "null");
  } catch {
    return bad("its description is not JSON");
  }
  if (!header || typeof header !== "object" || !header.config) return bad("a safetensors file, but no checkpoint of serac's");
  if (header.version > formatVersion) return bad(`it is of format ${header.version}, this serac reads up to ${formatVersion}`);
  const { vocabSize, blankId, sampleRate, ...rest } = header.config;
  if (typeof vocabSize !== "number" || typeof sampleRate !== "number") return bad("its description lacks the vocabulary size or the sampling rate");
  const tokenizer = tensors.get("tokenizer");
  if (!tokenizer) return bad("it has no tokenizer");
  const generator = tensors.get("generator");
  const modelAvg = withPrefix(tensors, prefixes.modelAvg);
  const checkpoint: Checkpoint = {
    config: { ...parseOptions(modelOptions, rest), vocabSize, blankId: Number(blankId ?? 0), sampleRate },
    state: header.state,
    model: withPrefix(tensors, prefixes.model),
    modelAvg: modelAvg.size > 0 ? modelAvg : undefined,
    optimizer: withPrefix(tensors, prefixes.optimizer),
    generator: generator?.toTypedArray() as Uint8Array | undefined,
    tokenizer: tokenizer.toTypedArray() as Uint8Array,
  };
  generator?.dispose();
  tokenizer.dispose();
  return checkpoint;
}

/** Frees the tensors of a checkpoint. */
export function disposeCheckpoint({ model, modelAvg, optimizer }: Checkpoint): void {
  for (const tensors of [model, modelAvg ?? new Map<string, Tensor>(), optimizer]) for (const tensor of tensors.values()) tensor.dispose();
}

export const epochPath = (expDir: string, epoch: number): string => join(expDir, `epoch-${epoch}.safetensors`);
export const batchPath = (expDir: string, batch: number): string => join(expDir, `checkpoint-${batch}.safetensors`);

/** Removes the oldest checkpoint-B files, so that `keep` remain. Epoch files are never removed. */
export function removeOldCheckpoints(expDir: string, keep: number): void {
  const batches = readdirSync(expDir)
    .map((name) => /^checkpoint-(\d+)\.safetensors$/.exec(name)?.[1])
    .filter((batch) => batch !== undefined)
    .map(Number)
    .sort((a, b) => b - a);
  for (const batch of batches.slice(keep)) rmSync(batchPath(expDir, batch), { force: true });
}

/** The bytes of a tokenizer file, to be kept in checkpoints. @throws CheckpointError CHECKPOINT_MISSING */
export function readTokenizer(path: string): Uint8Array {
  if (!existsSync(path))
    throw new CheckpointError("CHECKPOINT_MISSING", {
      at: path,
      message: "no such SentencePiece model",
      fix: "make one: serac bpe train --manifest train.jsonl --vocab-size 500 --out bpe.model",
    });
  return readFileSync(path);
}
