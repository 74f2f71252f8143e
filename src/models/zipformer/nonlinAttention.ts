import { Balancer, expectChannels, type Init, Linear, Module, ScheduledFloat, Whiten, whiteningLimit } from "../../nn/index.ts";
import { cat, ops, type Tensor } from "../../torch/index.ts";

/**
 * Attention of gated values: (weights @ (x * tanh(s))) * y, the three from one projection.
 * Source: icefall zipformer/zipformer.py (NonlinAttention).
 */
export class NonlinAttention extends Module {
  private readonly inProj: Linear;
  private readonly outProj: Linear;
  private readonly balancer: Balancer;
  private readonly whiten1: Whiten;
  private readonly whiten2: Whiten;
  private readonly channels: number;
  private readonly hidden: number;

  constructor({ channels, hidden, generator }: Init & { channels: number; hidden: number }) {
    super();
    this.channels = channels;
    this.hidden = hidden;
    this.inProj = this.child("in_proj", new Linear({ inFeatures: channels, outFeatures: 3 * hidden, generator }));
    const minPositive = new ScheduledFloat([
      [0, 0.25],
      [20000, 0.05],
    ]); // prettier-ignore
    const maxPositive = new ScheduledFloat([
      [0, 0.75],
      [20000, 0.95],
    ]); // prettier-ignore
    this.balancer = this.child("balancer", new Balancer({ channelDim: -1, minPositive, maxPositive, minAbs: 0.5, maxAbs: 5 }));
    this.outProj = this.child("out_proj", new Linear({ inFeatures: hidden, outFeatures: channels, initialScale: 0.05, generator }));
    this.whiten1 = this.child("whiten1", new Whiten({ groups: 1, limit: whiteningLimit(5), gradScale: 0.01 }));
    this.whiten2 = this.child("whiten2", new Whiten({ groups: 1, limit: whiteningLimit(5, 3), gradScale: 0.01 }));
  }

  /** @param x (T, N, C) @param weights (N, T, T), of one head @returns (T, N, C) */
  forward(x: Tensor, weights: Tensor): Tensor {
    expectChannels("NonlinAttention", x, this.channels);
    const { hidden } = this;
    const [s, values, y] = this.inProj.forward(x).split([hidden, hidden, hidden], -1) as [Tensor, Tensor, Tensor];
    return this.whiten2.forward(this.outProj.forward(ops.gatedAttend(weights, this.balancer.forward(s), this.whiten1.forward(values), y)));
  }

  /**
   * The same for a chunk and the frames before it. Only in evaluation.
   * @param x (T, N, C)
   * @param weights (N, T, L + T), of one head
   * @param cached (1, N, L, H), gated values of the frames before
   * @returns y (T, N, C), and the gated values of the last L frames
   */
  streamingForward(x: Tensor, weights: Tensor, cached: Tensor): { y: Tensor; values: Tensor } {
    expectChannels("NonlinAttention", x, this.channels);
    const { hidden } = this;
    const [s, values, y] = this.inProj.forward(x).split([hidden, hidden, hidden], -1) as [Tensor, Tensor, Tensor];
    const gated = cat([cached.squeeze(0).transpose(0, 1), values.mul(s.tanh())], 0); // (L + T, N, H)
    const attended = ops.attend(weights, gated); // (T, N, H)
    return { y: this.outProj.forward(y.mul(attended)), values: gated.slice(0, x.size(0)).transpose(0, 1).unsqueeze(0) };
  }
}
