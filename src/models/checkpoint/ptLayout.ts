/**
 * Checkpoints as icefall's save_checkpoint writes them: model, model_avg, optimizer, scheduler, grad_scaler, sampler and the parameters of the run,
 * which icefall's own scripts load. What they have no place for stands under one more key, "serac".
 * Source: icefall/checkpoint.py.
 */
import { openPt, type PtDict, PtTensor, type PtValue, PyPath, PyTuple, ptDict, stateDict, TorchDtype, writePt } from "../../formats/index.ts";
import { fromPtTensor, fromTypedArray, scope, type Tensor, toPtTensor } from "../../torch/index.ts";
import { CheckpointError } from "../../util/errors.ts";
import { modelOptions } from "../options.ts";
import { resolveArchitecture } from "./architecture.ts";
import type { Checkpoint, CheckpointFile, CheckpointState, OpenCheckpointOptions } from "./checkpoint.ts";
import { chooseTokenizer } from "./tokenizer.ts";

const formatVersion = 2;
const defaultSampleRate = 16000; // Hz, of icefall's recipes

/** Numbers of the optimiser that are counts in Python; all others are floats, also where they are whole. */
const counts = new Set(["step", "num_clipped", "size_update_period", "clipping_update_period"]);

function pyNumber(name: string, value: unknown): PtValue {
  if (Array.isArray(value)) return name === "params" ? value.map((index) => BigInt(index as number)) : new PyTuple(value as number[]);
  if (typeof value === "number") return counts.has(name) ? BigInt(value) : value;
  return (value ?? null) as PtValue;
}

const pyEntries = (values: Record<string, unknown>): PtDict => new Map(Object.entries(values).map(([name, value]) => [name, pyNumber(name, value)]));

function pyOptimizer(tensors: ReadonlyMap<string, Tensor>, numbers: Record<string, unknown>, baseLr: unknown): PtDict {
  const state: PtDict = new Map();
  const entryOf = (index: string): PtDict => {
    const key = BigInt(index);
    const entry = (state.get(key) as PtDict | undefined) ?? new Map();
    state.set(key, entry);
    return entry;
  };
  for (const [index, values] of Object.entries((numbers.state ?? {}) as Record<string, Record<string, number>>))
    for (const [name, value] of Object.entries(values)) entryOf(index).set(name, pyNumber(name, value));
  for (const [key, tensor] of tensors) {
    const dot = key.indexOf(".");
    entryOf(key.slice(0, dot)).set(key.slice(dot + 1), toPtTensor(tensor));
  }
  const groups = ((numbers.param_groups ?? []) as Record<string, unknown>[]).map((group) => pyEntries({ ...group, ...(typeof baseLr === "number" ? { base_lr: baseLr } : {}) }));
  return ptDict({ state, param_groups: groups });
}

const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** An option as icefall's flags hold it: lists of numbers as text, folders as paths. */
function pyOption(name: string, value: unknown): PtValue {
  if (/_dir$/.test(name) && typeof value === "string") return new PyPath(value);
  if (typeof value === "number") return Number.isInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.every((item) => typeof item === "number") ? value.join(",") : value.map(String);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : ((value ?? null) as PtValue);
}

/** What icefall's train.py keeps in its params: flags, records, constants of the recipe. */
function pyParams({ config, state }: Checkpoint): [string, PtValue][] {
  const { vocabSize, blankId, sampleRate, ...model } = config;
  const best = (loss: number | undefined): number => loss ?? Number.POSITIVE_INFINITY;
  const values = new Map<string, PtValue>();
  for (const [name, value] of Object.entries({ ...model, ...state?.options })) values.set(snake(name), pyOption(snake(name), value));
  values.set("vocab_size", BigInt(vocabSize)).set("blank_id", BigInt(blankId)).set("sos_id", 1n).set("eos_id", 1n);
  values.set("sampling_rate", BigInt(sampleRate)).set("subsampling_factor", 4n);
  if (!state) return [...values];
  const { useBf16, useFp16 } = state.options;
  values.set("batch_idx_train", BigInt(state.batchIdxTrain)).set("cur_epoch", BigInt(state.epoch));
  values.set("best_train_loss", best(state.bestTrainLoss)).set("best_train_epoch", BigInt(state.bestTrainEpoch ?? -1));
  values.set("best_valid_loss", best(state.bestValidLoss)).set("best_valid_epoch", BigInt(state.bestValidEpoch ?? -1));
  values.set("average_period", BigInt(state.averagePeriod));
  values.set("use_autocast", useBf16 === true || useFp16 === true);
  values.set("dtype", new TorchDtype(useBf16 === true ? "bfloat16" : useFp16 === true ? "float16" : "float32"));
  return [...values];
}

const pyTensors = (tensors: ReadonlyMap<string, Tensor>): PtValue => stateDict(Array.from(tensors, ([key, tensor]) => [key, toPtTensor(tensor)] as const));

/** @throws FormatError FILE_UNWRITABLE */
export function savePtCheckpoint(path: string, checkpoint: Checkpoint): void {
  scope(() => {
    const { config, state, model, modelAvg, optimizer, generator, tokenizer } = checkpoint;
    const bytes = (data: Uint8Array): PtTensor => toPtTensor(fromTypedArray(data, [data.length]));
    const own = ptDict({ version: BigInt(formatVersion), config: JSON.stringify(config), tokenizer: bytes(tokenizer) });
    const value = ptDict({ model: pyTensors(model) });
    if (state) {
      const { optimizer: numbers, scheduler, ...rest } = state;
      value.set("optimizer", pyOptimizer(optimizer, numbers, state.options.baseLr));
      value.set("scheduler", ptDict({ epoch: BigInt(scheduler.epoch), batch: BigInt(scheduler.batch) }));
      value.set("grad_scaler", new Map()).set("sampler", null);
      own.set("state", JSON.stringify(rest));
    }
    if (modelAvg) {
      const single = new Map(Array.from(modelAvg, ([key, tensor]) => [key, tensor.to({ dtype: "float32" })]));
      value.set("model_avg", pyTensors(single));
      own.set("model_avg", pyTensors(modelAvg));
    }
    if (generator) own.set("generator", bytes(generator));
    for (const [name, item] of pyParams(checkpoint)) if (!value.has(name)) value.set(name, item);
    value.set("serac", own);
    writePt(path, value);
  });
}

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

/** @throws CheckpointError CHECKPOINT_BAD, CHECKPOINT_MISMATCH, CHECKPOINT_MISSING (no tokenizer); FormatError where the file is damaged */
export function openPtCheckpoint(path: string, { bpeModel, given = {}, sampleRate }: OpenCheckpointOptions = {}): CheckpointFile {
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
    if (typeof version === "bigint" && version > BigInt(formatVersion))
      throw new CheckpointError("CHECKPOINT_BAD", { at: path, message: `it is of format ${version}, this serac reads up to ${formatVersion}` });
    const { tensors: moments, numbers } = optimizerOf(value.get("optimizer"));
    const ownBytes = (name: string): Uint8Array | undefined => {
      const tensor = ownDict?.get(name);
      return tensor instanceof PtTensor ? tensor.bytes() : undefined;
    };
    const shapes = new Map(Array.from(model, ([key, { shape }]) => [key, shape]));
    const stated = parsed<Record<string, unknown>>(ownDict?.get("config"), "description", path);
    const { vocabSize: statedVocab, blankId, sampleRate: statedRate, ...statedModel } = stated ?? foreignParams(value);
    const { options, vocabSize } = resolveArchitecture(shapes, { stated: statedModel, given, at: path });
    if (statedVocab !== undefined && statedVocab !== vocabSize)
      throw new CheckpointError("CHECKPOINT_MISMATCH", { at: path, message: `it says a vocabulary of ${statedVocab}, but its parameters are of ${vocabSize}` });
    const rest = parsed<Omit<CheckpointState, "optimizer" | "scheduler">>(ownDict?.get("state"), "state", path);
    const foreign = foreignState(value, numbers);
    const double = tensorsOf(ownDict?.get("model_avg"), path);
    const average = double.size > 0 ? double : tensorsOf(value.get("model_avg"), path);
    return {
      at: path,
      config: { ...options, vocabSize, blankId: Number(blankId ?? 0), sampleRate: Number(statedRate ?? sampleRate ?? defaultSampleRate) },
      state: rest ? { ...rest, optimizer: numbers, scheduler: (foreign as CheckpointState).scheduler } : foreign,
      tokenizer: chooseTokenizer(ownBytes("tokenizer"), bpeModel, path),
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
  for (const name of Object.keys(modelOptions)) params[name] = plain(value.get(snake(name)));
  params.vocabSize = plain(value.get("vocab_size"));
  params.blankId = plain(value.get("blank_id"));
  params.sampleRate = plain(value.get("sampling_rate"));
  return params;
}
