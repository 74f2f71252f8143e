/** Reads checkpoints that serac wrote as safetensors. */
import { openSafetensors } from "../../formats/index.ts";
import { fromSafetensor, type Tensor } from "../../torch/index.ts";
import { CheckpointError } from "../../util/errors.ts";
import { type ParameterShapes, resolveArchitecture } from "./architecture.ts";
import { checkAverage, checkGivenRate, checkNumbers, checkState } from "./check.ts";
import type { CheckpointFile, CheckpointState, OpenCheckpointOptions } from "./checkpoint.ts";
import { prefixes, safetensorsVersion } from "./safetensorsWrite.ts";
import { chooseTokenizer } from "./tokenizer.ts";

/** @throws CheckpointError CHECKPOINT_BAD, CHECKPOINT_MISMATCH; FormatError where the file is damaged */
export function openSafetensorsCheckpoint(path: string, options: OpenCheckpointOptions = {}): CheckpointFile {
  const file = openSafetensors(path);
  try {
    return checkpointIn(file, path, options);
  } catch (error) {
    file.close();
    throw error;
  }
}

function checkpointIn(file: ReturnType<typeof openSafetensors>, path: string, { bpeModel, given = {}, sampleRate: givenRate }: OpenCheckpointOptions): CheckpointFile {
  const bad = (message: string): CheckpointError => new CheckpointError("CHECKPOINT_BAD", { at: path, message, fix: "give a file that serac train wrote" });
  let header: { version: number; config: Record<string, unknown>; state?: CheckpointState } | null;
  try {
    header = JSON.parse(file.metadata.serac ?? "null");
  } catch {
    throw bad("its description is not JSON");
  }
  if (!header || typeof header !== "object" || !header.config) throw bad("a safetensors file, but no checkpoint of serac's");
  if (header.version > safetensorsVersion) throw bad(`it is of format ${header.version}, this serac reads up to ${safetensorsVersion}`);
  const { vocabSize, blankId, sampleRate, ...rest } = header.config;
  if (typeof vocabSize !== "number" || typeof sampleRate !== "number") throw bad("its description lacks the vocabulary size or the sampling rate");
  const bytes = (name: string): Uint8Array | undefined => file.tensors.find((tensor) => tensor.name === name)?.bytes();
  const part = (prefix: string): Map<string, Tensor> =>
    new Map(file.tensors.filter(({ name }) => name.startsWith(prefix)).map((tensor) => [tensor.name.slice(prefix.length), fromSafetensor(tensor)]));
  const shapesOf = (prefix: string): ParameterShapes =>
    new Map(file.tensors.filter(({ name }) => name.startsWith(prefix)).map(({ name, shape }) => [name.slice(prefix.length), shape]));
  const own = bytes("tokenizer");
  if (!own) throw bad("it has no tokenizer");
  const shapes = shapesOf(prefixes.model);
  const { options, vocabSize: rows } = resolveArchitecture(shapes, { stated: rest, given, at: path });
  if (rows !== vocabSize) throw new CheckpointError("CHECKPOINT_MISMATCH", { at: path, message: `it says a vocabulary of ${vocabSize}, but its parameters are of ${rows}` });
  checkGivenRate(givenRate, sampleRate, path);
  checkAverage(shapes, shapesOf(prefixes.modelAvg), path);
  return {
    at: path,
    config: { ...options, vocabSize, ...checkNumbers({ vocabSize, blankId: blankId ?? 0, sampleRate }, path) },
    state: header.state === undefined ? undefined : checkState(header.state, path),
    tokenizer: chooseTokenizer(own, { bpeModel }, path),
    model: () => part(prefixes.model),
    modelAvg() {
      const average = part(prefixes.modelAvg);
      return average.size > 0 ? average : undefined;
    },
    optimizer: () => part(prefixes.optimizer),
    generator: () => bytes("generator"),
    close: () => file.close(),
  };
}
