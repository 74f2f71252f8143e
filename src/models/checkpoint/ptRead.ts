/** Reads checkpoints that icefall or serac wrote as .pt. Source: icefall/checkpoint.py. */
import { openPt, type PtDict, PtTensor, type PtValue, PyPath, PyTuple } from "../../formats/index.ts";
import { fromPtTensor, type Tensor } from "../../torch/index.ts";
import { CheckpointError } from "../../util/errors.ts";
import { modelOptions } from "../options.ts";
import { resolveArchitecture } from "./architecture.ts";
import { checkAverage, checkGivenRate, checkNumbers, checkState } from "./check.ts";
import type { CheckpointFile, CheckpointState, OpenCheckpointOptions } from "./checkpoint.ts";
import { snakeCase } from "./names.ts";
import { ptLayoutVersion } from "./ptWrite.ts";
import { chooseTokenizer } from "./tokenizer.ts";

const defaultSampleRate = 16000; // Hz, of icefall's recipes

const isDict = (value: PtValue | undefined): value is PtDict => value instanceof Map;

/** Tensors of a state_dict, without DDP's prefix. @throws CheckpointError CHECKPOINT_BAD where something else stands among them */
function tensorsOf(value: PtValue | undefined, at: string): Map<string, PtTensor> {
  const tensors = new Map<string, PtTensor>();
  if (!isDict(value)) return tensors;
  for (const [key, tensor] of value) {
    if (typeof key !== "string" || !(tensor instanceof PtTensor))
      throw new CheckpointError("CHECKPOINT_BAD", {
        at,
        message: `among the model's parameters stands ${String(key)}, which is no tensor`,
        fix: "look at it with: serac checkpoint show",
      });
    tensors.set(key.replace(/^module\./, ""), tensor);
  }
  return tensors;
}

const toTensors = (tensors: ReadonlyMap<string, PtTensor>): Map<string, Tensor> => new Map(Array.from(tensors, ([key, tensor]) => [key, fromPtTensor(tensor)]));

/** A value of Python's as JSON holds it; undefined where it holds none. */
function plain(value: PtValue | undefined): unknown {
  if (typeof value === "bigint") return Number(value);
  if (value instanceof PyTuple) return value.items.map(plain);
  if (value instanceof PyPath) return value.path;
  if (Array.isArray(value)) return value.map(plain);
  return typeof value === "number" || typeof value === "string" || typeof value === "boolean" ? value : undefined;
}

/** The optimiser's state: tensors by "INDEX.NAME", and the rest. */
function optimizerOf(value: PtValue | undefined): { tensors: Map<string, PtTensor>; numbers: Record<string, unknown> } {
  const tensors = new Map<string, PtTensor>();
  const state: Record<string, Record<string, unknown>> = {};
  const given = isDict(value) ? value.get("state") : undefined;
  for (const [index, entry] of isDict(given) ? given : []) {
    const numbers: Record<string, unknown> = {};
    for (const [name, item] of isDict(entry) ? entry : []) {
      if (item instanceof PtTensor) tensors.set(`${String(index)}.${String(name)}`, item);
      else numbers[String(name)] = plain(item);
    }
    state[String(index)] = numbers;
  }
  const groups = isDict(value) ? value.get("param_groups") : undefined;
  const param_groups = (Array.isArray(groups) ? groups : []).map((group) =>
    Object.fromEntries(Array.from(isDict(group) ? group : [], ([key, item]) => [String(key), plain(item)])),
  );
  return { tensors, numbers: { state, param_groups } };
}

const finite = (value: unknown): number | undefined => (typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined);

/** torch's state of a GradScaler; undefined where it was not enabled. */
function scalerOf(value: PtValue | undefined): Record<string, number> | undefined {
  if (!isDict(value) || value.size === 0) return undefined;
  return Object.fromEntries(Array.from(value, ([key, item]) => [String(key), Number(plain(item))]));
}

/** The state of training in an icefall checkpoint; undefined where there is none. */
function foreignState(value: PtDict, numbers: Record<string, unknown>): CheckpointState | undefined {
  const scheduler = value.get("scheduler");
  const batchIdxTrain = plain(value.get("batch_idx_train"));
  if (!isDict(scheduler) || typeof batchIdxTrain !== "number") return undefined;
  const options = Object.fromEntries(Array.from(value, ([key, item]) => [String(key), plain(item)] as const).filter(([, item]) => item !== undefined));
  const number = (name: string): number | undefined => finite(plain(value.get(name)));
  return {
    epoch: number("cur_epoch") ?? 1,
    batchesDone: 0,
    batchIdxTrain,
    bestTrainLoss: number("best_train_loss"),
    bestTrainEpoch: number("best_train_epoch"),
    bestValidLoss: number("best_valid_loss"),
    bestValidEpoch: number("best_valid_epoch"),
    random: undefined,
    modules: {},
    optimizer: numbers,
    scheduler: { epoch: Number(plain(scheduler.get("epoch")) ?? 0), batch: Number(plain(scheduler.get("batch")) ?? batchIdxTrain) },
    scaler: scalerOf(value.get("grad_scaler")),
    averagePeriod: number("average_period") ?? 200,
    options,
  };
}

function parsed<T>(value: PtValue | undefined, what: string, at: string): T | undefined {
  if (value === undefined) return undefined;
  try {
    if (typeof value === "string") return JSON.parse(value) as T;
  } catch {
    // Said below.
  }
  throw new CheckpointError("CHECKPOINT_BAD", { at, message: `its ${what} is not JSON` });
}

const shapesOf = (tensors: ReadonlyMap<string, PtTensor>): Map<string, readonly number[]> => new Map(Array.from(tensors, ([key, { shape }]) => [key, shape]));

/** The state of training of a checkpoint of ours. @throws CheckpointError CHECKPOINT_BAD */
function ownState(rest: unknown, foreign: CheckpointState | undefined, at: string): CheckpointState {
  if (!foreign)
    throw new CheckpointError("CHECKPOINT_BAD", {
      at,
      message: "it lacks scheduler or batch_idx_train, without which its state of training is none",
      fix: "look at it with: serac checkpoint show",
    });
  const { optimizer, scheduler } = foreign;
  return checkState(typeof rest === "object" && rest !== null ? { ...rest, optimizer, scheduler } : rest, at);
}

/** @throws CheckpointError CHECKPOINT_BAD, CHECKPOINT_MISMATCH, CHECKPOINT_MISSING (no tokenizer); FormatError where the file is damaged */
export function openPtCheckpoint(path: string, { bpeModel, fallbackTokenizer, given = {}, sampleRate }: OpenCheckpointOptions = {}): CheckpointFile {
  const file = openPt(path);
  try {
    const { value } = file;
    if (!isDict(value))
      throw new CheckpointError("CHECKPOINT_BAD", { at: path, message: "it holds no dict, as icefall's checkpoints do", fix: "look at it with: serac checkpoint show" });
    const bare = value.has("encoder_embed.conv.0.weight");
    const model = tensorsOf(bare ? value : value.get("model"), path);
    if (model.size === 0)
      throw new CheckpointError("CHECKPOINT_BAD", { at: path, message: 'there are no parameters under "model"', fix: "look at it with: serac checkpoint show" });
    const own = value.get("serac");
    const ownDict = isDict(own) ? own : undefined;
    const version = ownDict?.get("version");
    if (typeof version === "bigint" && version > BigInt(ptLayoutVersion))
      throw new CheckpointError("CHECKPOINT_BAD", { at: path, message: `it is of format ${version}, this serac reads up to ${ptLayoutVersion}` });
    const { tensors: moments, numbers } = optimizerOf(value.get("optimizer"));
    const ownBytes = (name: string): Uint8Array | undefined => {
      const tensor = ownDict?.get(name);
      return tensor instanceof PtTensor ? tensor.bytes() : undefined;
    };
    const shapes = shapesOf(model);
    const stated = parsed<Record<string, unknown>>(ownDict?.get("config"), "description", path);
    const { vocabSize: statedVocab, blankId, sampleRate: statedRate, ...statedModel } = stated ?? foreignParams(value);
    const { options, vocabSize } = resolveArchitecture(shapes, { stated: statedModel, given, at: path });
    if (statedVocab !== undefined && statedVocab !== vocabSize)
      throw new CheckpointError("CHECKPOINT_MISMATCH", { at: path, message: `it says a vocabulary of ${statedVocab}, but its parameters are of ${vocabSize}` });
    const said = checkNumbers({ vocabSize, blankId: blankId ?? 0, sampleRate: statedRate ?? sampleRate ?? defaultSampleRate }, path);
    checkGivenRate(sampleRate, statedRate, path);
    const rest = parsed(ownDict?.get("state"), "state", path);
    const foreign = foreignState(value, numbers);
    const double = tensorsOf(ownDict?.get("model_avg"), path);
    const average = double.size > 0 ? double : tensorsOf(value.get("model_avg"), path);
    checkAverage(shapes, shapesOf(average), path);
    return {
      at: path,
      config: { ...options, vocabSize, ...said },
      state: rest !== undefined ? ownState(rest, foreign, path) : foreign && checkState(foreign, path),
      tokenizer: chooseTokenizer(ownBytes("tokenizer"), { bpeModel, fallbackTokenizer }, path),
      model: () => toTensors(model),
      modelAvg: () => (average.size > 0 ? toTensors(average) : undefined),
      optimizer: () => toTensors(moments),
      generator: () => ownBytes("generator"),
      close: () => file.close(),
    };
  } catch (error) {
    file.close();
    throw error;
  }
}

/** icefall's parameters that say what the model is, by serac's names. */
function foreignParams(value: PtDict): Record<string, unknown> {
  const params: Record<string, unknown> = {};
  for (const name of Object.keys(modelOptions)) params[name] = plain(value.get(snakeCase(name)));
  params.vocabSize = plain(value.get("vocab_size"));
  params.blankId = plain(value.get("blank_id"));
  params.sampleRate = plain(value.get("sampling_rate"));
  return params;
}
