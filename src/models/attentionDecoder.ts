import { Dropout, Embedding, expectShape, type Init, LayerNorm, Linear, Module, ModuleList, paddingMask } from "../nn/index.ts";
import { arange, noGrad, ones, scope, stack, type Tensor } from "../torch/index.ts";
import { MultiHeadAttention } from "./multiHeadAttention.ts";

/** Options of AttentionDecoder. */
export interface AttentionDecoderOptions extends Init {
  vocabSize: number;
  /** Channels of the encoder's output. */
  memoryDim: number;
  dim?: number;
  numLayers?: number;
  attentionDim?: number;
  numHeads?: number;
  feedforwardDim?: number;
  dropout?: number;
}

interface LayerOptions extends Init {
  dim: number;
  attentionDim: number;
  heads: number;
  feedforwardDim: number;
  memoryDim: number;
  dropout: number;
}

/** Self-attention, attention to the encoder and a feed-forward, each after a norm and around a residual. */
class AttentionDecoderLayer extends Module {
  private readonly normSelf: LayerNorm;
  private readonly selfAttention: MultiHeadAttention;
  private readonly normSource: LayerNorm;
  private readonly sourceAttention: MultiHeadAttention;
  private readonly normFeedforward: LayerNorm;
  private readonly feedforwardIn: Linear;
  private readonly feedforwardOut: Linear;
  private readonly dropout: Dropout;

  constructor({ dim, attentionDim, heads, feedforwardDim, memoryDim, dropout, generator }: LayerOptions) {
    super();
    const norm = (): LayerNorm => new LayerNorm({ channels: dim, device: generator.device });
    this.normSelf = this.child("norm_self_attn", norm());
    this.selfAttention = this.child("self_attn", new MultiHeadAttention({ dim, attentionDim, heads, memoryDim: dim, generator }));
    this.normSource = this.child("norm_src_attn", norm());
    this.sourceAttention = this.child("src_attn", new MultiHeadAttention({ dim, attentionDim, heads, memoryDim, generator }));
    this.normFeedforward = this.child("norm_ff", norm());
    this.feedforwardIn = new Linear({ inFeatures: dim, outFeatures: feedforwardDim, generator });
    this.feedforwardOut = new Linear({ inFeatures: feedforwardDim, outFeatures: dim, generator });
    this.child(
      "feed_forward",
      new ModuleList(
        new Map([
          [0, this.feedforwardIn],
          [3, this.feedforwardOut],
        ]),
      ),
    ); // prettier-ignore
    this.dropout = this.child("dropout", new Dropout({ p: dropout }));
  }

  /** @param x (N, S, D) @param memory (N, T, M) @param future (S, S) @param padding (N, 1, 1, T) or null */
  forward(x: Tensor, memory: Tensor, future: Tensor, padding: Tensor | null): Tensor {
    return scope(() => {
      const { dropout } = this;
      const own = this.normSelf.forward(x);
      let y = x.add(dropout.forward(this.selfAttention.forward(own, own, future)));
      y = y.add(dropout.forward(this.sourceAttention.forward(this.normSource.forward(y), memory, padding)));
      const hidden = dropout.forward(this.feedforwardIn.forward(this.normFeedforward.forward(y)).silu());
      return y.add(dropout.forward(this.feedforwardOut.forward(hidden)));
    });
  }
}

/** Sines in even, cosines in odd columns, at wavelengths up to 10000 * 2 pi (arXiv 1706.03762, section 3.5): (length, D). */
function sinusoids(length: number, dim: number, device: string): Tensor {
  const position = arange(0, length, { dtype: "float32", device }).unsqueeze(1);
  const frequency = arange(0, dim, { step: 2, dtype: "float32", device })
    .mul(-Math.log(10000) / dim)
    .exp();
  const phase = position.mul(frequency);
  return stack([phase.sin(), phase.cos()], 2).flatten(1);
}

/** A Transformer decoder. Its parts are in a module of their own because checkpoints have "attention_decoder.decoder.". */
class TransformerDecoder extends Module {
  private readonly embed: Embedding;
  private readonly dropout: Dropout;
  private readonly layers: ModuleList<AttentionDecoderLayer>;
  private readonly outputLayer: Linear;
  private readonly dim: number;
  private positions: Tensor | undefined;

  constructor({ vocabSize, memoryDim, dim = 512, numLayers = 6, attentionDim = 512, numHeads = 8, feedforwardDim = 2048, dropout = 0.1, generator }: AttentionDecoderOptions) {
    super();
    this.dim = dim;
    this.embed = this.child("embed", new Embedding({ vocabSize, dim, generator }));
    this.dropout = this.child("dropout", new Dropout({ p: dropout }));
    const layer = (): AttentionDecoderLayer => new AttentionDecoderLayer({ dim, attentionDim, heads: numHeads, feedforwardDim, memoryDim, dropout, generator });
    this.layers = this.child("layers", new ModuleList(Array.from({ length: numLayers }, layer)));
    this.outputLayer = this.child("output_layer", new Linear({ inFeatures: dim, outFeatures: vocabSize, generator }));
  }

  forward(ids: Tensor, memory: Tensor, memoryLengths: readonly number[]): Tensor {
    const [, length] = ids.shape as [number, number];
    const { device } = memory;
    if (!this.positions || this.positions.size(0) < length || this.positions.device !== device) {
      this.positions = this.hold(
        "positions",
        noGrad(() => scope(() => sinusoids(Math.max(512, length), this.dim, device))),
      );
    }
    const padding = paddingMask(memoryLengths, memory.size(1), device)?.unsqueeze(1).unsqueeze(1) ?? null;
    const future = ones([length, length], { dtype: "bool", device }).triu(1);
    let x = this.embed
      .forward(ids)
      .mul(Math.sqrt(this.dim))
      .add(this.positions.slice(0, 0, length));
    x = this.dropout.forward(x);
    for (const layer of this.layers.items) x = layer.forward(x, memory, future, padding);
    return this.outputLayer.forward(x);
  }
}

/**
 * The attention decoder: predicts each token from those before it and from the encoder's output. There is no norm after the last layer.
 * Source: icefall zipformer/attention_decoder.py (AttentionDecoderModel).
 */
export class AttentionDecoder extends Module {
  private readonly decoder: TransformerDecoder;

  constructor(options: AttentionDecoderOptions) {
    super();
    this.decoder = this.child("decoder", new TransformerDecoder(options));
  }

  /**
   * @param ids (N, S) int64, beginning with sos; what pads shorter rows does not matter, since a token sees none after it
   * @param memory (N, T, M), the encoder's output
   * @param memoryLengths frames of each utterance
   * @returns logits (N, S, V)
   */
  forward(ids: Tensor, memory: Tensor, memoryLengths: readonly number[]): Tensor {
    expectShape("AttentionDecoder", ids, ["N", "S"]);
    expectShape("AttentionDecoder", memory, [ids.size(0), "T", "M"]);
    return scope(() => this.decoder.forward(ids, memory, memoryLengths));
  }
}
