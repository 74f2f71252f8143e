/** Options that shape the model: icefall's flags and defaults (zipformer/train.py), which checkpoints carry. */

import { ConfigError } from "../util/errors.ts";
import { boolean, integer, integers, type Options, type Schema } from "../util/options.ts";
import type { AsrModelOptions } from "./asrModel.ts";

const group = "Model";

export const modelOptions = {
  numEncoderLayers: integers({ default: [2, 2, 3, 4, 3, 2], min: 1, group, help: "layers of each encoder stack" }),
  downsamplingFactor: integers({ default: [1, 2, 4, 8, 4, 2], min: 1, group, help: "how much each stack is downsampled" }),
  feedforwardDim: integers({ default: [512, 768, 1024, 1536, 1024, 768], min: 4, group, help: "hidden dimension of the feed-forward modules of each stack" }),
  numHeads: integers({ default: [4, 4, 4, 8, 4, 4], min: 1, group, help: "attention heads of each stack" }),
  encoderDim: integers({ default: [192, 256, 384, 512, 384, 256], min: 4, group, help: "channels of each stack" }),
  queryHeadDim: integers({ default: [32], min: 1, group, help: "query and key dimension of a head" }),
  valueHeadDim: integers({ default: [12], min: 1, group, help: "value dimension of a head" }),
  posHeadDim: integers({ default: [4], min: 1, group, help: "positional dimension of a head" }),
  posDim: integer({ default: 48, min: 2, group, help: "dimension of the positional encoding" }),
  encoderUnmaskedDim: integers({ default: [192, 192, 256, 256, 256, 192], min: 1, group, help: "channels of each stack that feature masks leave alone" }),
  cnnModuleKernel: integers({ default: [31, 31, 15, 15, 15, 31], min: 1, group, help: "kernel of the convolution modules of each stack, odd" }),
  frontEndChannels: integers({ default: [8, 32, 128], min: 1, group, help: "channels of the three convolutions of the front end" }),
  decoderDim: integer({ default: 512, min: 4, group, help: "dimension of the transducer's decoder" }),
  joinerDim: integer({ default: 512, min: 1, group, help: "dimension of the transducer's joiner" }),
  contextSize: integer({ default: 2, min: 1, group, help: "tokens that the decoder sees" }),
  attentionDecoderDim: integer({ default: 512, min: 1, group, help: "dimension of the attention decoder" }),
  attentionDecoderNumLayers: integer({ default: 6, min: 1, group, help: "layers of the attention decoder" }),
  attentionDecoderAttentionDim: integer({ default: 512, min: 1, group, help: "attention dimension of the attention decoder" }),
  attentionDecoderNumHeads: integer({ default: 8, min: 1, group, help: "heads of the attention decoder" }),
  attentionDecoderFeedforwardDim: integer({ default: 2048, min: 1, group, help: "feed-forward dimension of the attention decoder" }),
  causal: boolean({ default: false, group, help: "train for streaming: no frame sees beyond its chunk" }),
  chunkSize: integers({ default: [16, 32, 64, -1], group, help: "chunk sizes at 50 frames a second, one drawn per batch; -1 is the whole utterance" }),
  leftContextFrames: integers({ default: [64, 128, 256, -1], group, help: "left contexts at 50 frames a second, one drawn per batch; -1 is all" }),
  useTransducer: boolean({ default: true, group, help: "train a transducer" }),
  useCtc: boolean({ default: false, group, help: "train a CTC head" }),
  useAttentionDecoder: boolean({ default: false, group, help: "train an attention decoder" }),
  featureDim: integer({ default: 80, min: 7, group, help: "mel bins of the features" }),
} satisfies Schema;

/** Checked model options. */
export type ModelOptions = Options<typeof modelOptions>;

/** What a checkpoint must say for its model to be built again. */
export interface ModelConfig extends ModelOptions {
  vocabSize: number;
  blankId: number;
  /** Samples a second of the audio that features are made of. */
  sampleRate: number;
}

/** What AsrModel takes, of a configuration. @throws ConfigError when the front end has not three widths */
export function asrModelOptions(config: ModelOptions & { vocabSize: number }): AsrModelOptions {
  const [a, b, c, ...more] = config.frontEndChannels;
  if (a === undefined || b === undefined || c === undefined || more.length > 0)
    throw new ConfigError("CONFIG_BAD_VALUE", { message: `--front-end-channels has ${config.frontEndChannels.length} values, expected 3` });
  return { ...config, frontEndChannels: [a, b, c] };
}
