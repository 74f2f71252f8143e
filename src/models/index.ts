/** Models, of layers. */
export { AsrModel, type AsrModelOptions, type EncoderOutput, type TransducerHead } from "./asrModel.ts";
export { AttentionDecoder, type AttentionDecoderOptions } from "./attentionDecoder.ts";
export { Decoder, type DecoderOptions } from "./decoder.ts";
export { Joiner, type JoinerOptions } from "./joiner.ts";
export * from "./zipformer/index.ts";
export { type AverageOptions, averagedCheckpoint, startAverage, toFloat32, updateAverage } from "./averaging.ts";
export { type Checkpoint, type CheckpointState, batchPath, disposeCheckpoint, epochPath, loadCheckpoint, readTokenizer, removeOldCheckpoints, saveCheckpoint } from "./checkpoint.ts";
export { type ModelConfig, type ModelOptions, asrModelOptions, modelOptions } from "./options.ts";
