import { Balancer, Conv2d, depthwiseConv2d, type Init, Module, type Schedule, ScheduledFloat, scheduled, utteranceMask, Whiten } from "../../nn/index.ts";
import { cat, isComposed, ops, type Tensor } from "../../torch/index.ts";

/** Frames on either side that an output of the layer sees. */
const lookAround = 3;

/**
 * A ConvNeXt layer without its norm: depthwise 7x7, then a feed-forward over channels, around a residual.
 * Source: icefall zipformer/subsampling.py, after arXiv 2201.03545.
 */
export class ConvNeXt extends Module {
  readonly channels: number;
  private readonly depthwise: Conv2d;
  private readonly pointwise1: Conv2d;
  private readonly pointwise2: Conv2d;
  private readonly hiddenBalancer: Balancer;
  private readonly outBalancer: Balancer;
  private readonly outWhiten: Whiten;
  layerDropRate: Schedule = new ScheduledFloat([
    [0, 0.2],
    [20000, 0.015],
  ]); // prettier-ignore

  constructor({ channels, generator }: Init & { channels: number }) {
    super();
    this.channels = channels;
    const hidden = 3 * channels;
    this.depthwise = this.child("depthwise_conv", new Conv2d({ inChannels: channels, outChannels: channels, groups: channels, kernelSize: [7, 7], padding: [3, 3], generator }));
    this.pointwise1 = this.child("pointwise_conv1", new Conv2d({ inChannels: channels, outChannels: hidden, kernelSize: [1, 1], generator }));
    this.hiddenBalancer = this.child("hidden_balancer", new Balancer({ channelDim: 1, minPositive: 0.3, maxPositive: 1, minAbs: 0.75, maxAbs: 5 }));
    this.pointwise2 = this.child("pointwise_conv2", new Conv2d({ inChannels: hidden, outChannels: channels, kernelSize: [1, 1], initialScale: 0.01, generator }));
    this.outBalancer = this.child("out_balancer", new Balancer({ channelDim: 1, minPositive: 0.4, maxPositive: 0.6, minAbs: 1, maxAbs: 6 }));
    this.outWhiten = this.child("out_whiten", new Whiten({ groups: 1, limit: 5, gradScale: 0.01 }));
  }

  /** @param x (N, C, T, F) @returns the same shape */
  forward(x: Tensor): Tensor {
    const y = depthwiseConv2d(x, this.depthwise.weight, this.depthwise.bias, [3, 3]);
    const { pointwise1, pointwise2, training } = this;
    const branch = ops.pointwiseFeedforward(
      y,
      pointwise1.weight,
      pointwise1.bias,
      pointwise2.weight,
      pointwise2.bias,
      training ? this.hiddenBalancer.draw() : [],
      training ? this.generator : null,
    );
    if (!this.training) return x.add(branch);
    const batch = x.size(0);
    const mask = utteranceMask(this.random, batch, scheduled(this.layerDropRate, this.run), [batch, 1, 1, 1], branch);
    const sum = this.outBalancer.forward(mask ? (isComposed() ? x.add(branch.mul(mask)) : x.addcmul(branch, mask)) : x.add(branch));
    return this.outWhiten.forward(sum.permute([0, 2, 3, 1])).permute([0, 3, 1, 2]); // Whiten wants the channels last, where they lie in memory
  }

  /**
   * The same for a part of the frames, of which the last 3 are those that the others see after them. Only in evaluation.
   * @param x (N, C, T + 3, F)
   * @param cached (N, C, 3, F), the frames before
   * @returns y (N, C, T, F), and the 3 frames before what comes after y
   */
  streamingForward(x: Tensor, cached: Tensor): { y: Tensor; last: Tensor } {
    const frames = x.size(2) - lookAround;
    const extended = cat([cached, x], 2); // (N, C, T + 6, F)
    const y = depthwiseConv2d(extended, this.depthwise.weight, this.depthwise.bias, [3, 3]).slice(2, lookAround, lookAround + frames);
    const { pointwise1, pointwise2 } = this;
    const branch = ops.pointwiseFeedforward(y, pointwise1.weight, pointwise1.bias, pointwise2.weight, pointwise2.bias, [], null);
    return { y: x.slice(2, 0, frames).add(branch), last: extended.slice(2, frames, frames + lookAround) };
  }
}
