/** Models, of layers. */
export { AsrModel, type AsrModelOptions, type EncoderOutput, type TransducerHead } from "./asrModel.ts";
export { AttentionDecoder, type AttentionDecoderOptions } from "./attentionDecoder.ts";
export * from "./checkpoint/index.ts";
export { Decoder, type DecoderOptions } from "./decoder.ts";
export { type InitialWeights, type InitReport, initializeModel, tokenRowsOf } from "./initialWeights.ts";
export { Joiner, type JoinerOptions } from "./joiner.ts";
export { asrModelOptions, type ModelConfig, type ModelOptions, modelOptions } from "./options.ts";
export { featurePadding, StreamingEncoder, type StreamingOutput } from "./streamingEncoder.ts";
export * from "./zipformer/index.ts";
