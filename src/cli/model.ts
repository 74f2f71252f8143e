/** Which model a command recognises with: the options, and what they load. Shared by decode and transcribe. */
import { readdirSync } from "node:fs";
import { basename } from "node:path";
import { Recognizer } from "../decode/index.ts";
import { averagedCheckpoint, loadCheckpoint } from "../models/index.ts";
import { setThreads } from "../torch/index.ts";
import { CheckpointError, isErrnoException } from "../util/errors.ts";
import { boolean, choice, integer, type Options, path, type Schema } from "../util/options.ts";

const group = "Model";

export const recognizerOptions = {
  expDir: path({ default: "zipformer/exp", group, help: "folder of checkpoints" }),
  epoch: integer({ default: 0, min: 0, group, help: "epoch to recognise with; 0 is the last" }),
  avg: integer({ default: 1, min: 1, group, help: "epochs to average" }),
  useAveragedModel: boolean({ default: true, group, help: "with --avg above 1, average over all updates of these epochs, not over the epochs' ends" }),
  checkpoint: path({ group, help: "one checkpoint file instead of --exp-dir, --epoch and --avg" }),
  decodingMethod: choice(["greedy_search", "ctc-greedy-search"], { group, help: "search; the transducer's where there is one" }),
  threads: integer({ default: 0, min: 0, group, help: "threads of operators; 0 leaves libtorch's choice" }),
} satisfies Schema;

/** The newest epoch of an experiment. @throws CheckpointError CHECKPOINT_MISSING */
function lastEpoch(expDir: string): number {
  let names: string[] = [];
  try {
    names = readdirSync(expDir);
  } catch (error) {
    if (!isErrnoException(error)) throw error;
  }
  const last = Math.max(0, ...names.map((name) => Number(/^epoch-(\d+)\.safetensors$/.exec(name)?.[1] ?? 0)));
  if (last === 0) throw new CheckpointError("CHECKPOINT_MISSING", { at: expDir, message: "no epoch-N.safetensors file", fix: "train first (serac train), or give --checkpoint" });
  return last;
}

/** Loads the model that the options name; `suffix` tells it in names of result files, as icefall's scripts do. @throws CheckpointError, ConfigError */
export function loadRecognizer({ expDir, epoch: wanted, avg, useAveragedModel, checkpoint, decodingMethod, threads }: Options<typeof recognizerOptions>): {
  recognizer: Recognizer;
  suffix: string;
} {
  if (threads > 0) setThreads(threads);
  const method = decodingMethod ? { method: decodingMethod } : {};
  if (checkpoint) return { recognizer: Recognizer.fromCheckpoint(loadCheckpoint(checkpoint), method), suffix: basename(checkpoint, ".safetensors") };
  const epoch = wanted || lastEpoch(expDir);
  const averaged = useAveragedModel && avg > 1;
  const recognizer = Recognizer.fromCheckpoint(averagedCheckpoint(expDir, { epoch, avg, useAveragedModel: averaged }), method);
  return { recognizer, suffix: `epoch-${epoch}_avg-${avg}${averaged ? "_use-averaged-model" : ""}` };
}
