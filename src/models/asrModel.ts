import { Dropout, type Init, Linear, Module, ModuleList, type Schedule } from "../nn/index.ts";
import { scope, type Tensor } from "../torch/index.ts";
import { ConfigError } from "../util/errors.ts";
import { AttentionDecoder } from "./attentionDecoder.ts";
import { Decoder } from "./decoder.ts";
import { Joiner } from "./joiner.ts";
import { StreamingEncoder } from "./streamingEncoder.ts";
import { type ChunkChoice, Conv2dSubsampling, Zipformer2, type ZipformerOptions } from "./zipformer/index.ts";

/** The shape of a model; names and defaults are those of icefall's flags. */
export interface AsrModelOptions extends ZipformerOptions {
  /** V: tokens, including blank (0), sos and eos (1), and unk (2). */
  vocabSize: number;
  featureDim?: number;
  /** Channels of the front end's three convolutions. */
  frontEndChannels?: readonly [number, number, number];
  decoderDim?: number;
  joinerDim?: number;
  contextSize?: number;
  useTransducer?: boolean;
  useCtc?: boolean;
  useAttentionDecoder?: boolean;
  attentionDecoderDim?: number;
  attentionDecoderNumLayers?: number;
  attentionDecoderAttentionDim?: number;
  attentionDecoderNumHeads?: number;
  attentionDecoderFeedforwardDim?: number;
  /** Of the front end and the feed-forward layers; the default falls from 0.3 to 0.1 over 20000 batches. */
  dropout?: Schedule;
}

/** What the encoder gives: one vector every 40 ms. */
export interface EncoderOutput {
  /** (N, T, C) at 25 Hz, C the widest stack's channels */
  encoderOut: Tensor;
  /** Frames of each utterance, ((frames - 7) // 2 + 1) // 2. */
  encoderOutLens: number[];
}

/** The transducer's part of a model. */
export interface TransducerHead {
  decoder: Decoder;
  joiner: Joiner;
  /** (..., C) to (..., V): acoustic part of the simple loss */
  simpleAmProj: Linear;
  /** (..., D) to (..., V): token part of the simple loss */
  simpleLmProj: Linear;
}

/**
 * Zipformer with a transducer, CTC or attention decoder on top, or several of them. Parameters have icefall's names, shapes and order.
 * Source: icefall zipformer/model.py (AsrModel).
 */
export class AsrModel extends Module {
  readonly options: Readonly<AsrModelOptions>;
  readonly encoderEmbed: Conv2dSubsampling;
  readonly encoder: Zipformer2;
  /** Null for a model without transducer. */
  readonly transducer: TransducerHead | null;
  /** Null for a model without attention decoder. */
  readonly attentionDecoder: AttentionDecoder | null;
  readonly vocabSize: number;
  readonly blankId = 0;
  readonly sosId = 1;
  readonly eosId = 1;
  private readonly ctcDropout: Dropout | null = null;
  private readonly ctcLinear: Linear | null = null;

  /** @throws ConfigError for options that contradict each other */
  constructor(options: AsrModelOptions & Init) {
    super();
    const { generator, ...shape } = options;
    const { vocabSize, featureDim = 80, frontEndChannels, decoderDim = 512, joinerDim = 512, contextSize = 2 } = options;
    const { useTransducer = true, useCtc = false, useAttentionDecoder = false, dropout } = options;
    if (!useTransducer && !useCtc)
      throw new ConfigError("CONFIG_BAD_VALUE", { at: "useTransducer", message: "the model has neither transducer nor CTC", fix: "turn one of them on" });
    this.options = shape;
    this.vocabSize = vocabSize;
    const encoder = new Zipformer2(options);
    const encoderDim = encoder.outChannels;
    this.encoderEmbed = this.child("encoder_embed", new Conv2dSubsampling({ featureDim, outChannels: encoder.inChannels, channels: frontEndChannels, dropout, generator }));
    this.encoder = this.child("encoder", encoder);
    this.transducer = useTransducer
      ? {
          decoder: this.child("decoder", new Decoder({ vocabSize, dim: decoderDim, contextSize, generator })),
          joiner: this.child("joiner", new Joiner({ encoderDim, decoderDim, joinerDim, vocabSize, generator })),
          simpleAmProj: this.child("simple_am_proj", new Linear({ inFeatures: encoderDim, outFeatures: vocabSize, initialScale: 0.25, generator })),
          simpleLmProj: this.child("simple_lm_proj", new Linear({ inFeatures: decoderDim, outFeatures: vocabSize, initialScale: 0.25, generator })),
        }
      : null;
    if (useCtc) {
      this.ctcDropout = new Dropout({ p: 0.1 });
      this.ctcLinear = new Linear({ inFeatures: encoderDim, outFeatures: vocabSize, generator });
      this.child("ctc_output", new ModuleList<Module>([this.ctcDropout, this.ctcLinear]));
    }
    this.attentionDecoder = useAttentionDecoder
      ? this.child(
          "attention_decoder",
          new AttentionDecoder({
            vocabSize,
            memoryDim: encoderDim,
            dim: options.attentionDecoderDim,
            numLayers: options.attentionDecoderNumLayers,
            attentionDim: options.attentionDecoderAttentionDim,
            numHeads: options.attentionDecoderNumHeads,
            feedforwardDim: options.attentionDecoderFeedforwardDim,
            generator,
          }),
        )
      : null;
  }

  /** True when the model has a CTC output. */
  get hasCtc(): boolean {
    return this.ctcLinear !== null;
  }

  /** C: channels of `encoderOut`. */
  get encoderOutDim(): number {
    return this.encoder.outChannels;
  }

  /**
   * @param x (N, T, F) features, padded
   * @param xLens (N) feature frames of each utterance, at least 9 each
   * @param chunks of a causal model, for this pass only; see Zipformer2
   * @throws ShapeError for other shapes
   */
  forwardEncoder(x: Tensor, xLens: readonly number[] | Tensor, chunks?: ChunkChoice): EncoderOutput {
    const lengths = Array.isArray(xLens) ? (xLens as readonly number[]) : (xLens as Tensor).toArray();
    return scope(() => {
      const embedded = this.encoderEmbed.forward(x, lengths);
      const encoded = this.encoder.forward(embedded.x.transpose(0, 1), embedded.lengths, chunks);
      return { encoderOut: encoded.x.transpose(0, 1), encoderOutLens: encoded.lengths };
    });
  }

  /**
   * The encoder chunk by chunk, of a causal model in evaluation; see {@link StreamingEncoder}.
   * @throws ConfigError for a model that is not causal, and for chunks that it cannot have
   */
  streaming(chunks: ChunkChoice): StreamingEncoder {
    return new StreamingEncoder(this.encoderEmbed, this.encoder, chunks);
  }

  /**
   * @param encoderOut (N, T, C)
   * @returns log-probabilities (N, T, V), in single precision under autocast too: in bfloat16 they would not sum to 1, and the loss could be below 0
   * @throws ConfigError when the model has no CTC output
   */
  ctcLogProbs(encoderOut: Tensor): Tensor {
    const { ctcDropout, ctcLinear } = this;
    if (!ctcDropout || !ctcLinear)
      throw new ConfigError("CONFIG_BAD_VALUE", { at: "useCtc", message: "the model has no CTC output", fix: "build it with useCtc, or decode by its transducer" });
    return scope(() => {
      const logits = ctcLinear.forward(ctcDropout.forward(encoderOut));
      return (logits.dtype === "float64" ? logits : logits.to({ dtype: "float32" })).logSoftmax(-1);
    });
  }
}
