import { Balancer, expectChannels, type Init, Linear, Module, type Schedule, ScheduledFloat, scheduled, Whiten, whiteningLimit } from "../../nn/index.ts";
import { cat, ops, type Tensor } from "../../torch/index.ts";

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
   * @param mask bool, broadcasts to (N, T target, T source), true = not attended to; null for none
   * @returns weights (h N, T, T), rows sum to 1, and those of the first head (N, T, T)
   */
  forward(x: Tensor, posEmb: Tensor, mask: Tensor | null): { weights: Tensor; first: Tensor } {
    expectChannels("AttentionWeights", x, this.channels);
    const { heads, queryHeadDim, posHeadDim, training } = this;
    const usePositions = !(training && this.random.uniform() < scheduled(this.posSkipRate, this.run));
    const [query, projectedKey, position] = this.inProj.forward(x).split([heads * queryHeadDim, heads * queryHeadDim, heads * posHeadDim], -1) as [Tensor, Tensor, Tensor];
    const key = training ? this.whitenKeys.forward(this.balanceKeys.forward(projectedKey)) : projectedKey;
    const encoding = usePositions ? this.linearPos.forward(posEmb).squeeze(0) : null; // (2 T - 1, h p)
    const limit = training && this.random.uniform() < 0.1 ? 25 : 0;
    const [weights, first] = ops.attentionWeights(query, key, usePositions ? position : null, encoding, mask, heads, limit, 1e-4);
    return { weights, first };
  }

  /**
   * The weights of a chunk over itself and the frames before it. Only in evaluation.
   * @param x (T, N, C)
   * @param posEmb (1, L + 2 T - 1, D), encodings of the offsets from -(L + T - 1) on
   * @param cachedKey (L, N, h d), keys of the frames before
   * @param mask (N, L + T) bool, true = not attended to
   * @returns weights (h N, T, L + T), those of the first head (N, T, L + T), and the keys of the last L frames
   */
  streamingForward(x: Tensor, posEmb: Tensor, cachedKey: Tensor, mask: Tensor): { weights: Tensor; first: Tensor; key: Tensor } {
    expectChannels("AttentionWeights", x, this.channels);
    const { heads, queryHeadDim, posHeadDim } = this;
    const [frames, batch] = x.shape as [number, number];
    const [query, ownKey, position] = this.inProj.forward(x).split([heads * queryHeadDim, heads * queryHeadDim, heads * posHeadDim], -1) as [Tensor, Tensor, Tensor];
    const key = cat([cachedKey, ownKey], 0); // (L + T, N, h d)
    const sources = key.size(0);
    const offsets = sources + frames - 1;
    const byHead = (y: Tensor): Tensor => y.unflatten(2, [heads, -1]).permute([2, 1, 0, 3]); // (h, N, T, d)
    const encoding = this.linearPos.forward(posEmb).view([offsets, heads, posHeadDim]).permute([1, 2, 0]); // (h, p, offsets)
    const byOffset = ops.bmm(byHead(position).reshape([heads, batch * frames, posHeadDim]), encoding); // (h, N T, offsets)
    // Target i sees source j at the offset j - L - i, which is column j + T - 1 - i: one target frame later starts one column earlier.
    const positionScores = byOffset.asStrided([heads * batch, frames, sources], [frames * offsets, offsets - 1, 1], frames - 1);
    const scores = ops.bmm(byHead(query).flatten(0, 1), byHead(key).flatten(0, 1).transpose(1, 2)).add(positionScores); // (h N, T, L + T)
    scores.unflatten(0, [heads, batch]).maskedFill_(mask.unsqueeze(1), -1000);
    const weights = ops.softmax(scores, -1);
    return { weights, first: weights.slice(0, 0, batch), key: key.slice(0, frames) };
  }
}
