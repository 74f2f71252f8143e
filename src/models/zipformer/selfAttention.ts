import { expectChannels, type Init, Linear, Module, Whiten, whiteningLimit } from "../../nn/index.ts";
import { cat, ops, type Tensor } from "../../torch/index.ts";

/** Values and output of self-attention; the weights are given. Source: icefall zipformer/zipformer.py (SelfAttention). */
export class SelfAttention extends Module {
  private readonly inProj: Linear;
  private readonly outProj: Linear;
  private readonly whiten: Whiten;
  private readonly channels: number;

  constructor({ channels, heads, valueHeadDim, generator }: Init & { channels: number; heads: number; valueHeadDim: number }) {
    super();
    this.channels = channels;
    this.inProj = this.child("in_proj", new Linear({ inFeatures: channels, outFeatures: heads * valueHeadDim, generator }));
    this.outProj = this.child("out_proj", new Linear({ inFeatures: heads * valueHeadDim, outFeatures: channels, initialScale: 0.05, generator }));
    this.whiten = this.child("whiten", new Whiten({ groups: 1, limit: whiteningLimit(7.5, 3), gradScale: 0.01 }));
  }

  /** @param x (T, N, C) @param weights (h N, T, T) @returns (T, N, C) */
  forward(x: Tensor, weights: Tensor): Tensor {
    expectChannels("SelfAttention", x, this.channels);
    return this.whiten.forward(this.outProj.forward(ops.attend(weights, this.inProj.forward(x))));
  }

  /**
   * Attention of a chunk over itself and the frames before it. Only in evaluation.
   * @param x (T, N, C)
   * @param weights (h N, T, L + T)
   * @param cachedValues (L, N, h d)
   * @returns y (T, N, C), and the values of the last L frames
   */
  streamingForward(x: Tensor, weights: Tensor, cachedValues: Tensor): { y: Tensor; values: Tensor } {
    expectChannels("SelfAttention", x, this.channels);
    const values = cat([cachedValues, this.inProj.forward(x)], 0); // (L + T, N, h d)
    return { y: this.outProj.forward(ops.attend(weights, values)), values: values.slice(0, x.size(0)) };
  }
}
