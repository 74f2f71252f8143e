/** What a run works with besides its model: data, logs, and its folder to itself. */
import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { makeWritableFolder, removeTemporaries } from "../formats/atomic.ts";
import { RunLock } from "../formats/runLock.ts";
import { batchPath, epochPath, readTokenizer, savedBatches, savedEpochs } from "../models/index.ts";
import { CheckpointError, TrainError } from "../util/errors.ts";
import { goOnPoint } from "./goOn.ts";
import type { TrainOptions } from "./options.ts";
import { RunLog } from "./runLog.ts";
import { Tokens } from "./tokens.ts";
import { TrainData } from "./trainData.ts";

/** An open run; the caller closes it. */
export interface OpenRun {
  /** With the seconds of a batch that the data says. */
  options: TrainOptions;
  tokens: Tokens;
  data: TrainData;
  log: RunLog;
  close(): Promise<void>;
}

/** A run from the start would replace the checkpoints of an earlier one. @throws TrainError TRAIN_EXISTS */
function refuseToOverwrite(expDir: string): void {
  const epochs = savedEpochs(expDir).length;
  const batches = savedBatches(expDir).length;
  if (epochs + batches === 0) return;
  const newest = goOnPoint(expDir);
  const held = [...(epochs > 0 ? [`${epochs} epochs`] : []), ...(batches > 0 ? [`${batches} checkpoints within epochs`] : [])].join(" and ");
  throw new TrainError("TRAIN_EXISTS", {
    at: expDir,
    message: `it holds ${held} of an earlier run${newest ? `; the newest is ${basename(newest.path)}` : ", none of which can be read"}`,
    fix: newest ? `go on with ${newest.flag}, or give another --exp-dir` : "give another --exp-dir",
  });
}

/** @throws CheckpointError CHECKPOINT_MISSING where there is nothing to go on from */
function checkStart({ expDir, startBatch, startEpoch }: TrainOptions): void {
  const path = startBatch > 0 ? batchPath(expDir, startBatch) : epochPath(expDir, startEpoch - 1);
  if (existsSync(path)) return;
  const newest = goOnPoint(expDir);
  const fix = newest ? `give ${newest.flag}: the newest checkpoint is ${basename(newest.path)}` : "leave the flag out to train from the start, or give another --exp-dir";
  throw new CheckpointError("CHECKPOINT_MISSING", { at: path, message: "no such checkpoint", fix });
}

/**
 * Opens the data and takes the folder. Nothing is made where there is nothing to train on.
 * @param given names of the options that were given, not left to their defaults
 * @param report gets every line that the log gets
 * @throws what opening the data throws; FormatError FOLDER_BUSY where another process trains into the folder; TrainError TRAIN_EXISTS; CheckpointError
 * CHECKPOINT_MISSING where there is nothing to go on from
 */
export async function openRun(options: TrainOptions, given: ReadonlySet<string>, report: (line: string) => void): Promise<OpenRun> {
  const { expDir, startEpoch, startBatch } = options;
  const begins = startEpoch === 1 && startBatch === 0;
  if (!begins) checkStart(options);
  const tokens = new Tokens(readTokenizer(options.bpeModel), options.bpeModel);
  const early: string[] = []; // said before there is a log
  let log: RunLog | undefined;
  const say = (line: string): void => {
    if (log) log.say(line);
    else {
      report(line);
      early.push(line);
    }
  };
  const data = await TrainData.open({ options, given, tokenizer: tokens.model, tokenizerKey: tokens.key, say }, (text) => tokens.of(text));
  let lock: RunLock | undefined;
  const close = async (): Promise<void> => {
    await data.close();
    log?.close();
    lock?.release();
  };
  try {
    makeWritableFolder(expDir);
    lock = RunLock.take(join(expDir, ".lock"), { at: expDir, busy: "is training into this folder" });
    if (begins) refuseToOverwrite(expDir);
    removeTemporaries(expDir); // of a run that was killed
    log = new RunLog(expDir, { tensorboard: options.tensorboard && !options.printDiagnostics, say: report });
    log.note("Training started");
    for (const line of early) log.note(line);
    return { options: { ...options, maxDuration: data.train.data.batchSeconds }, tokens, data, log, close };
  } catch (error) {
    await close();
    throw error;
  }
}
