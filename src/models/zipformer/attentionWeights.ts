import { Balancer, expectChannels, type Init, Linear, Module, type Schedule, ScheduledFloat, scheduled, Whiten, whiteningLimit } from "../../nn/index.ts";
import { ops, type Tensor } from "../../torch/index.ts";

/** Options of AttentionWeights. */
export interface AttentionWeightsOptions extends Init {
  channels: number;
  posDim: number;
  heads: number;
  queryHeadDim: number;
  posHeadDim: number;
}

/**
 * Multi-head attention weights with relative positions; the layers that share them bring the values.
 * score[i, j] = query_i . key_j + position_i . W encoding(j - i), without a division by the square root of the dimension.
 * Source: icefall zipformer/zipformer.py (RelPositionMultiheadAttentionWeights).
 */
export class AttentionWeights extends Module {
  private readonly inProj: Linear;
  private readonly linearPos: Linear;
  private readonly balanceKeys: Balancer;
  private readonly whitenKeys: Whiten;
  private readonly channels: number;
  private readonly heads: number;
  private readonly queryHeadDim: number;
  private readonly posHeadDim: number;
  posSkipRate: Schedule = new ScheduledFloat([
    [0, 0.5],
    [4000, 0],
  ]); // prettier-ignore

  constructor({ channels, posDim, heads, queryHeadDim, posHeadDim, generator }: AttentionWeightsOptions) {
    super();
    this.channels = channels;
    this.heads = heads;
    this.queryHeadDim = queryHeadDim;
    this.posHeadDim = posHeadDim;
    this.inProj = this.child("in_proj", new Linear({ inFeatures: channels, outFeatures: heads * (2 * queryHeadDim + posHeadDim), initialScale: queryHeadDim ** -0.25, generator }));
    this.whitenKeys = this.child("whiten_keys", new Whiten({ groups: heads, limit: whiteningLimit(3), gradScale: 0.025 }));
    this.balanceKeys = this.child("balance_keys", new Balancer({ channelDim: -1, minPositive: 0.4, maxPositive: 0.6, minAbs: 0, maxAbs: 100, prob: 0.025 }));
    this.linearPos = this.child("linear_pos", new Linear({ inFeatures: posDim, outFeatures: heads * posHeadDim, bias: false, initialScale: 0.05, generator }));
  }

  /**
   * @param x (T, N, C)
   * @param posEmb (1, 2 T - 1, D), encodings of the offsets source - target from -(T - 1) on
   * @param mask bool, broadcasts to (N h, T target, T source), true = not attended to; null for none
   * @returns (N h, T, T), rows sum to 1
   */
  forward(x: Tensor, posEmb: Tensor, mask: Tensor | null): Tensor {
    expectChannels("AttentionWeights", x, this.channels);
    const { heads, queryHeadDim, posHeadDim } = this;
    const [frames, batch] = x.shape as [number, number];
    const usePositions = !(this.training && this.random.uniform() < scheduled(this.posSkipRate, this.run));
    const sizes = [heads * queryHeadDim, heads * queryHeadDim, heads * posHeadDim];
    const [query, projectedKey, position] = this.inProj.forwardParts(x, usePositions ? sizes : sizes.slice(0, 2)) as [Tensor, Tensor, Tensor | undefined];
    const key = this.training ? this.whitenKeys.forward(this.balanceKeys.forward(projectedKey)) : projectedKey;
    const q = query.reshape([frames, batch * heads, queryHeadDim]).transpose(0, 1); // (N h, T, d)
    const k = key.reshape([frames, batch * heads, queryHeadDim]).permute([1, 2, 0]); // (N h, d, T)
    let scores = ops.bmm(q, k, position && this.positionScores(position, posEmb));
    if (this.training && this.random.uniform() < 0.1) scores = ops.penalizeAbsValuesGt(scores, 25, 1e-4);
    // -1000 in place of minus infinity: a row without any source must not become NaN
    if (mask) scores = scores.maskedFill_(mask, -1000);
    return ops.softmax(scores, -1);
  }

  /** @param position (T, N, h p) @returns (N, h, T, T), a view: element (i, j) is that of the offset j - i */
  private positionScores(position: Tensor, posEmb: Tensor): Tensor {
    const { heads, posHeadDim } = this;
    const [frames, batch] = position.shape as [number, number];
    const offsets = 2 * frames - 1;
    const encoding = this.linearPos.forward(posEmb).view([offsets, heads, posHeadDim]).permute([1, 2, 0]); // (h, p, 2 T - 1)
    const p = position.reshape([frames * batch, heads, posHeadDim]).transpose(0, 1); // (h, T N, p)
    const byOffset = ops.bmm(p, encoding); // (h, T N, 2 T - 1)
    // Row (i, n) starts at offset -i, which is column T - 1 - i: one target frame later starts one column earlier.
    return byOffset.asStrided([batch, heads, frames, frames], [offsets, frames * batch * offsets, batch * offsets - 1, 1], frames - 1);
  }
}
