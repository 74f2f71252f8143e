import { Balancer, Conv1d, Embedding, expectShape, type Init, Module } from "../nn/index.ts";
import { conv1d, isComposed, pad, scope, type Tensor } from "../torch/index.ts";

/** Options of Decoder. */
export interface DecoderOptions extends Init {
  vocabSize: number;
  /** D; a multiple of 4 when there is more than one token of context. */
  dim: number;
  /** Tokens that an output depends on. */
  contextSize: number;
}

const groupWidth = 4; // channels of a group of the convolution

/** The stateless prediction network of the transducer: embeddings of the last tokens, mixed. Source: icefall zipformer/decoder.py; arXiv 2002.09886. */
export class Decoder extends Module {
  readonly dim: number;
  readonly contextSize: number;
  readonly vocabSize: number;
  private readonly embedding: Embedding;
  private readonly balancer: Balancer;
  private readonly conv: Conv1d | null;
  private readonly balancer2: Balancer;

  constructor({ vocabSize, dim, contextSize, generator }: DecoderOptions) {
    super();
    this.dim = dim;
    this.contextSize = contextSize;
    this.vocabSize = vocabSize;
    const balancer = (): Balancer => new Balancer({ channelDim: -1, minPositive: 0, maxPositive: 1, minAbs: 0.5, maxAbs: 1, prob: 0.05 });
    this.embedding = this.child("embedding", new Embedding({ vocabSize, dim, generator }));
    this.balancer = this.child("balancer", balancer());
    this.conv =
      contextSize > 1 ? this.child("conv", new Conv1d({ inChannels: dim, outChannels: dim, kernelSize: contextSize, groups: dim / groupWidth, bias: false, generator })) : null;
    this.balancer2 = this.child("balancer2", balancer());
  }

  /**
   * @param ids (N, U) int64; negative ones stand for no token, a vector of zeros
   * @param padLeft true: each output sees the tokens up to its own, zeros before the first; false: U includes the context and U - contextSize + 1 outputs come
   * @returns (N, U or U - contextSize + 1, D)
   */
  forward(ids: Tensor, { padLeft = true }: { padLeft?: boolean } = {}): Tensor {
    expectShape("Decoder", ids, ["N", "U"]);
    return scope(() => {
      const present = ids.ge(0).unsqueeze(2).to({ dtype: this.embedding.weight.dtype });
      const embedded = this.balancer.forward(this.embedding.forward(ids.clampMin(0)).mul(present)); // (N, U, D)
      if (!this.conv) return embedded;
      const padded = padLeft ? pad(embedded, [0, 0, this.contextSize - 1, 0]) : embedded;
      return this.balancer2.forward(this.mix(padded, this.conv).relu());
    });
  }

  /** The grouped convolution as one batched product: a group has too few channels for a convolution of its own to be fast. (N, U, D) -> (N, U', D) */
  private mix(x: Tensor, { weight, groups }: Conv1d): Tensor {
    if (isComposed()) return conv1d(x.transpose(1, 2), weight, null, 1, 0, 1, groups).transpose(1, 2);
    const { contextSize: context } = this;
    const [batch, length, dim] = x.shape as [number, number, number];
    const outputs = length - context + 1;
    const windows = x
      .unfold(1, context, 1)
      .reshape([batch * outputs, groups, groupWidth * context])
      .transpose(0, 1); // (g, N U', 4 context)
    const kernels = weight.view([groups, dim / groups, groupWidth * context]).transpose(1, 2); // (g, 4 context, D / g)
    return windows.bmm(kernels).transpose(0, 1).reshape([batch, outputs, dim]);
  }
}
