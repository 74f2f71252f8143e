/** The Zipformer encoder. */
export { AttentionWeights } from "./attentionWeights.ts";
export { ConvolutionModule } from "./convolution.ts";
export { EncoderLayer } from "./encoderLayer.ts";
export { Feedforward } from "./feedforward.ts";
export { NonlinAttention } from "./nonlinAttention.ts";
export { CompactRelPositionalEncoding, relPositionTable } from "./relPositionalEncoding.ts";
export { Downsample } from "./resample.ts";
export { SelfAttention } from "./selfAttention.ts";
export { type StreamingStates, stackStates, unstackStates } from "./streamingStates.ts";
export { Conv2dSubsampling, lookAheadFrames, minimumFrames, subsampledLength } from "./subsampling.ts";
export { type ChunkChoice, type PerStack, Zipformer2, type ZipformerOptions } from "./zipformer2.ts";
