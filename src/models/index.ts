/** Models, of layers. */
export { AsrModel, type AsrModelOptions, type EncoderOutput, type TransducerHead } from "./asrModel.ts";
export { AttentionDecoder, type AttentionDecoderOptions } from "./attentionDecoder.ts";
export { type AverageOptions, averagedCheckpoint, startAverage, toFloat32, updateAverage } from "./averaging.ts";
export {
  batchPath,
  type Checkpoint,
  type CheckpointState,
  disposeCheckpoint,
  epochPath,
  loadCheckpoint,
  readTokenizer,
  removeOldCheckpoints,
  saveCheckpoint,
} from "./checkpoint.ts";
export { Decoder, type DecoderOptions } from "./decoder.ts";
export { Joiner, type JoinerOptions } from "./joiner.ts";
export { asrModelOptions, type ModelConfig, type ModelOptions, modelOptions } from "./options.ts";
export * from "./zipformer/index.ts";
