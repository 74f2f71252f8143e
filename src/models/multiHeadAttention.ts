import { type Init, Linear, Module } from "../nn/index.ts";
import { ops, type Tensor } from "../torch/index.ts";

/** Scaled dot-product attention between two sequences. Source: icefall zipformer/attention_decoder.py (MultiHeadAttention). */
export class MultiHeadAttention extends Module {
  private readonly linearQ: Linear;
  private readonly linearK: Linear;
  private readonly linearV: Linear;
  private readonly outProj: Linear;
  private readonly heads: number;

  constructor({ dim, attentionDim, heads, memoryDim, generator }: Init & { dim: number; attentionDim: number; heads: number; memoryDim: number }) {
    super();
    this.heads = heads;
    this.linearQ = this.child("linear_q", new Linear({ inFeatures: dim, outFeatures: attentionDim, generator }));
    this.linearK = this.child("linear_k", new Linear({ inFeatures: memoryDim, outFeatures: attentionDim, generator }));
    this.linearV = this.child("linear_v", new Linear({ inFeatures: memoryDim, outFeatures: attentionDim, generator }));
    this.outProj = this.child("out_proj", new Linear({ inFeatures: attentionDim, outFeatures: dim, generator }));
  }

  /**
   * @param query (N, S, D)
   * @param memory (N, T, M)
   * @param mask bool, broadcasts to (N, h, S, T), true = not attended to; null for none. Every row must leave something.
   * @returns (N, S, D)
   */
  forward(query: Tensor, memory: Tensor, mask: Tensor | null): Tensor {
    const { heads } = this;
    const split = (x: Tensor): Tensor => x.unflatten(-1, [heads, -1]).transpose(1, 2); // (N, h, S or T, d)
    const q = split(this.linearQ.forward(query));
    const k = split(this.linearK.forward(memory));
    const v = split(this.linearV.forward(memory));
    let scores = q.matmul(k.transpose(2, 3)).mul(1 / Math.sqrt(q.size(-1)));
    if (this.training) scores = ops.penalizeAbsValuesGt(scores, 50, 1e-4);
    if (mask) scores = scores.maskedFill(mask, -Infinity);
    return this.outProj.forward(scores.softmax(-1).matmul(v).transpose(1, 2).flatten(2));
  }
}
