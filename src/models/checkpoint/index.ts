/** Checkpoints: files that training goes on from and that recognition takes its model from. */
export { type Architecture, architectureOf, type ParameterShapes, resolveArchitecture } from "./architecture.ts";
export { type AverageOptions, averagedCheckpoint, startAverage, updateAverage } from "./averaging.ts";
export {
  type Checkpoint,
  type CheckpointFile,
  type CheckpointState,
  disposeCheckpoint,
  loadCheckpoint,
  type OpenCheckpointOptions,
  openCheckpoint,
  saveCheckpoint,
} from "./checkpoint.ts";
export { batchPath, epochPath, removeOldCheckpoints, savedBatches, savedEpochs } from "./files.ts";
export { CheckpointSaver } from "./saver.ts";
export { readTokenizer } from "./tokenizer.ts";
