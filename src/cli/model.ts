/** Which model a command recognises with: the options, and what they load. Shared by decode and transcribe. */
import { basename, extname } from "node:path";
import { Recognizer, StreamingRecognizer } from "../decode/index.ts";
import { type AverageOptions, averagedCheckpoint, type ModelOptions, modelOptions, type OpenCheckpointOptions, savedEpochs } from "../models/index.ts";
import { setThreads } from "../torch/index.ts";
import { CheckpointError, ConfigError } from "../util/errors.ts";
import { boolean, choice, flagOf, integer, type Options, path, type Schema, unset } from "../util/options.ts";

const group = "Model";

/** Which checkpoints of an experiment are taken, and what they may not tell. */
export const checkpointOptions = {
  expDir: path({ default: "zipformer/exp", group, help: "folder of checkpoints" }),
  epoch: integer({ default: 0, min: 0, group, help: "epoch to take; 0 is the last" }),
  iter: integer({ default: 0, min: 0, group, help: "take checkpoint-B files up to this many updates instead of epochs" }),
  avg: integer({ default: 1, min: 1, group, help: "epochs, or checkpoint-B files, to average" }),
  bpeModel: path({ group, help: "SentencePiece model of a checkpoint that has none, as icefall's" }),
  sampleRate: integer({ min: 1, group, unit: "Hz", help: "of the audio that an icefall model was trained on; 16000 where not given" }),
  ...unset(modelOptions, { group: "Shape of the model, where the checkpoint does not tell it" }),
} satisfies Schema;

export const recognizerOptions = {
  ...checkpointOptions,
  useAveragedModel: boolean({ default: true, group, help: "where --avg is given, average over all updates of these epochs, not over the epochs' ends" }),
  checkpoint: path({ group, help: "one checkpoint file instead of --exp-dir, --epoch and --avg" }),
  decodingMethod: choice(["greedy_search", "ctc-greedy-search"], { group, help: "search; the transducer's where there is one" }),
  maxSymPerFrame: integer({ default: 1, min: 1, group, help: "symbols that greedy_search takes from a frame at most" }),
  threads: integer({ default: 0, min: 0, group, help: "threads of operators; 0 leaves libtorch's choice" }),
} satisfies Schema;

/** What flags tell about a checkpoint. */
export function openOptions(options: Options<typeof checkpointOptions>): OpenCheckpointOptions {
  const names = Object.keys(modelOptions) as (keyof ModelOptions)[];
  return { bpeModel: options.bpeModel, sampleRate: options.sampleRate, given: Object.fromEntries(names.map((name) => [name, options[name]])) };
}

/**
 * Which checkpoints are averaged, and how result files name them, as icefall's scripts do.
 * @throws CheckpointError CHECKPOINT_MISSING; ConfigError CONFIG_BAD_VALUE where both --epoch and --iter are given
 */
export function chooseAverage(
  { expDir, epoch, iter, avg }: Pick<Options<typeof checkpointOptions>, "expDir" | "epoch" | "iter" | "avg">,
  useAveragedModel: boolean,
): { average: AverageOptions; name: string } {
  if (iter > 0) {
    if (epoch > 0) throw new ConfigError("CONFIG_BAD_VALUE", { message: `--epoch ${epoch} and --iter ${iter} were given`, fix: "give one of them" });
    return { average: { epoch: 0, iter, avg, useAveragedModel }, name: `iter-${iter}` };
  }
  const last = epoch || savedEpochs(expDir)[0];
  if (last === undefined) throw new CheckpointError("CHECKPOINT_MISSING", { at: expDir, message: "no epoch-N.pt file", fix: "train first (serac train), or give --checkpoint" });
  return { average: { epoch: last, avg, useAveragedModel }, name: `epoch-${last}` };
}

/**
 * Loads the model that the options name; `suffix` tells it in names of result files, as icefall's scripts do.
 * @param given names of the options that were given: --avg 1 is the average over the last epoch, as in icefall; without it, and without --use-averaged-model, the
 * epoch's end is taken
 * @throws CheckpointError, ConfigError
 */
export function loadRecognizer(options: Options<typeof recognizerOptions>, given: ReadonlySet<string>): { recognizer: Recognizer; suffix: string } {
  const { chunkSize, leftContextFrames, checkpoint, decodingMethod, maxSymPerFrame, threads, avg } = options;
  // as icefall's scripts, which take one value of each, for causal models
  const chunks = ({ model }: Recognizer): string =>
    model.encoder.causal && chunkSize?.length === 1 && leftContextFrames?.length === 1 ? `_chunk-${chunkSize[0]}_left-context-${leftContextFrames[0]}` : "";
  if (threads > 0) setThreads(threads);
  const search = { ...(decodingMethod ? { method: decodingMethod } : {}), maxSymPerFrame };
  const symbols = ({ method }: Recognizer): string => (method === "greedy_search" && maxSymPerFrame > 1 ? `_max-sym-per-frame-${maxSymPerFrame}` : "");
  const open = openOptions(options);
  if (checkpoint) {
    const choosing = (["epoch", "iter", "avg", "useAveragedModel"] as const).filter((name) => given.has(name));
    if (choosing.length > 0)
      throw new ConfigError("CONFIG_BAD_VALUE", {
        message: `--checkpoint ${checkpoint} was given, which is one file, and ${choosing.map(flagOf).join(" and ")}, which choose among those of an --exp-dir`,
        fix: "give one or the other; serac average writes an average as one file",
      });
    const recognizer = Recognizer.load(checkpoint, { ...search, ...open });
    return { recognizer, suffix: basename(checkpoint, extname(checkpoint)) + chunks(recognizer) + symbols(recognizer) };
  }
  const averaged = options.useAveragedModel && (given.has("avg") || given.has("useAveragedModel"));
  const { average, name } = chooseAverage(options, averaged);
  const recognizer = Recognizer.fromCheckpoint(averagedCheckpoint(options.expDir, average, open), search);
  return { recognizer, suffix: `${name}_avg-${avg}${chunks(recognizer)}${symbols(recognizer)}${averaged ? "_use-averaged-model" : ""}` };
}

/** Options of commands that can recognise in streams. */
export const streamingOptions = {
  streaming: boolean({ default: false, group, help: "recognise a causal model's audio chunk by chunk, in chunks of one --chunk-size with one --left-context-frames" }),
} satisfies Schema;

/**
 * The recogniser of streams for a model that was loaded.
 * @throws ConfigError CONFIG_BAD_VALUE unless one chunk size and one left context are given, and for models that cannot stream; the model is freed then
 */
export function streamingRecognizer(
  recognizer: Recognizer,
  { chunkSize, leftContextFrames }: Pick<Options<typeof recognizerOptions>, "chunkSize" | "leftContextFrames">,
): StreamingRecognizer {
  const only = (flag: string, values: readonly number[] | undefined): number => {
    if (values?.length === 1) return values[0] as number;
    throw new ConfigError("CONFIG_BAD_VALUE", { at: flag, message: "--streaming needs one value of it", fix: "give one of those that the model was trained with" });
  };
  try {
    if (recognizer.method !== "greedy_search")
      throw new ConfigError("CONFIG_BAD_VALUE", {
        message: `--streaming has no ${recognizer.method}`,
        fix: recognizer.model.transducer ? "use greedy_search" : "leave it out: one --chunk-size and --left-context-frames then limit what whole recordings are encoded by",
      });
    return new StreamingRecognizer(recognizer, { chunkSize: only("--chunk-size", chunkSize), leftContextFrames: only("--left-context-frames", leftContextFrames) });
  } catch (error) {
    recognizer.dispose();
    throw error;
  }
}
