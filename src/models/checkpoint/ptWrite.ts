/**
 * Writes checkpoints as icefall's save_checkpoint does: model, model_avg, optimizer, scheduler, grad_scaler, sampler and the parameters of the run,
 * which icefall's own scripts load. What they have no place for stands under one more key, "serac".
 * Source: icefall/checkpoint.py.
 */
import { memoryTensor, type PtDict, PtStorage, PtTensor, type PtValue, PyPath, PyTuple, ptDict, rowMajorStrides, stateDict, TorchDtype, writePt } from "../../formats/index.ts";
import { snakeCase } from "./names.ts";
import type { RawCheckpoint, RawTensor } from "./raw.ts";

/** Files of a higher number are not read. */
export const ptLayoutVersion = 2;

/** Numbers of the optimiser that are counts in Python; all others are floats, also where they are whole. */
const counts = new Set(["step", "num_clipped", "size_update_period", "clipping_update_period"]);

function pyNumber(name: string, value: unknown): PtValue {
  if (Array.isArray(value)) return name === "params" ? value.map((index) => BigInt(index as number)) : new PyTuple(value as number[]);
  if (typeof value === "number") return counts.has(name) ? BigInt(value) : value;
  return (value ?? null) as PtValue;
}

const pyEntries = (values: Record<string, unknown>): PtDict => new Map(Object.entries(values).map(([name, value]) => [name, pyNumber(name, value)]));

function pyOptimizer(tensors: ReadonlyMap<string, RawTensor>, numbers: Record<string, unknown>, baseLr: unknown): PtDict {
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
    entryOf(key.slice(0, dot)).set(key.slice(dot + 1), toPt(tensor));
  }
  const groups = ((numbers.param_groups ?? []) as Record<string, unknown>[]).map((group) => pyEntries({ ...group, ...(typeof baseLr === "number" ? { base_lr: baseLr } : {}) }));
  return ptDict({ state, param_groups: groups });
}

/** An option as icefall's flags hold it: lists of numbers as text, folders as paths. */
function pyOption(name: string, value: unknown): PtValue {
  if (/_dir$/.test(name) && typeof value === "string") return new PyPath(value);
  if (typeof value === "number") return Number.isInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.every((item) => typeof item === "number") ? value.join(",") : value.map(String);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : ((value ?? null) as PtValue);
}

/** torch's state of a GradScaler; empty where there is none. */
function pyScaler(state: Record<string, number> | undefined): PtDict {
  return new Map(Object.entries(state ?? {}).map(([name, value]) => [name, name === "growth_interval" || name === "_growth_tracker" ? BigInt(value) : value]));
}

/** What icefall's train.py keeps in its params: flags, records, constants of the recipe. */
function pyParams({ config, state }: RawCheckpoint): [string, PtValue][] {
  const { vocabSize, blankId, sampleRate, ...model } = config;
  const best = (loss: number | undefined): number => loss ?? Number.POSITIVE_INFINITY;
  const values = new Map<string, PtValue>();
  for (const [name, value] of Object.entries({ ...model, ...state?.options })) values.set(snakeCase(name), pyOption(snakeCase(name), value));
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

const toPt = ({ dtype, shape, bytes }: RawTensor): PtTensor => memoryTensor(dtype, shape, bytes);

const pyTensors = (tensors: ReadonlyMap<string, RawTensor>): PtValue => stateDict(Array.from(tensors, ([key, tensor]) => [key, toPt(tensor)] as const));

/** icefall keeps the average in single precision: it is converted piece by piece, as it is written. */
function toSingle({ dtype, shape, bytes }: RawTensor): PtTensor {
  if (dtype !== "float64") return memoryTensor(dtype, shape, bytes);
  const doubles = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
  const storage = new PtStorage({
    dtype: "float32",
    size: doubles.length,
    at: "a tensor in memory",
    read(begin, into) {
      new Float32Array(into.buffer, into.byteOffset, into.byteLength / 4).set(doubles.subarray(begin / 4, (begin + into.byteLength) / 4));
    },
  });
  return new PtTensor(storage, { dtype: "float32", shape: [...shape], strides: rowMajorStrides(shape), offset: 0 });
}

/** @throws FormatError FILE_UNWRITABLE */
export function writePtCheckpoint(path: string, checkpoint: RawCheckpoint): void {
  const { config, state, model, modelAvg, optimizer, generator, tokenizer } = checkpoint;
  const bytes = (data: Uint8Array): PtTensor => memoryTensor("uint8", [data.length], data);
  const own = ptDict({ version: BigInt(ptLayoutVersion), config: JSON.stringify(config), tokenizer: bytes(tokenizer) });
  const value = ptDict({ model: pyTensors(model) });
  if (state) {
    const { optimizer: numbers, scheduler, ...rest } = state;
    value.set("optimizer", pyOptimizer(optimizer, numbers, state.options.baseLr));
    value.set("scheduler", ptDict({ epoch: BigInt(scheduler.epoch), batch: BigInt(scheduler.batch) }));
    value.set("grad_scaler", pyScaler(state.scaler)).set("sampler", null);
    own.set("state", JSON.stringify(rest));
  }
  if (modelAvg) {
    value.set("model_avg", stateDict(Array.from(modelAvg, ([key, tensor]) => [key, toSingle(tensor)] as const)));
    own.set("model_avg", pyTensors(modelAvg));
  }
  if (generator) own.set("generator", bytes(generator));
  for (const [name, item] of pyParams(checkpoint)) if (!value.has(name)) value.set(name, item);
  value.set("serac", own);
  writePt(path, value);
}
