/** Where a run that stopped, or was killed, goes on: the newest of its checkpoints that can be read. */
import { batchPath, epochPath, openCheckpoint, savedBatches, savedEpochs } from "../models/index.ts";
import { SeracError } from "../util/errors.ts";

/** A checkpoint of a folder, and the flag that goes on from it. */
export interface GoOnPoint {
  path: string;
  /** "--start-epoch 3", "--start-batch 400" */
  flag: string;
  /** Batches trained on by then. */
  updates: number;
}

/** @returns updates of a checkpoint; undefined where it cannot be read, or is for recognition only */
function updatesOf(path: string): number | undefined {
  try {
    const file = openCheckpoint(path, { fallbackTokenizer: new Uint8Array() }); // icefall's have none
    file.close();
    return file.state?.batchIdxTrain;
  } catch (error) {
    if (error instanceof SeracError) return undefined;
    throw error;
  }
}

function firstGood(numbers: readonly number[], pathOf: (n: number) => string, flagOf: (n: number) => string): GoOnPoint | undefined {
  for (const n of numbers) {
    const path = pathOf(n);
    const updates = updatesOf(path);
    if (updates !== undefined) return { path, flag: flagOf(n), updates };
  }
  return undefined;
}

/** @returns the newest checkpoint to go on from; of an epoch's end and a checkpoint-B of the same update the epoch's end. undefined where there is none */
export function goOnPoint(expDir: string): GoOnPoint | undefined {
  const epoch = firstGood(
    savedEpochs(expDir),
    (n) => epochPath(expDir, n),
    (n) => `--start-epoch ${n + 1}`,
  );
  const batch = firstGood(
    savedBatches(expDir),
    (n) => batchPath(expDir, n),
    (n) => `--start-batch ${n}`,
  );
  if (!epoch || !batch) return epoch ?? batch;
  return batch.updates > epoch.updates ? batch : epoch;
}
