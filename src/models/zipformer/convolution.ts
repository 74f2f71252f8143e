import { ActivationDropoutAndLinear, Balancer, Conv1d, expectChannels, type Init, Linear, Module, ScheduledFloat, Whiten, whiteningLimit } from "../../nn/index.ts";
import { ops, type Tensor } from "../../torch/index.ts";
import { internal } from "../../util/errors.ts";
import { ChunkCausalDepthwiseConv1d } from "./chunkCausalDepthwiseConv1d.ts";

/** Gated projection, depthwise convolution over time, SwooshR, projection. Source: icefall zipformer/zipformer.py (ConvolutionModule). */
export class ConvolutionModule extends Module {
  private readonly inProj: Linear;
  private readonly balancer1: Balancer;
  private readonly depthwise: Conv1d | ChunkCausalDepthwiseConv1d;
  private readonly balancer2: Balancer;
  private readonly whiten: Whiten;
  private readonly outProj: ActivationDropoutAndLinear;
  private readonly channels: number;

  constructor({ channels, kernelSize, causal, generator }: Init & { channels: number; kernelSize: number; causal: boolean }) {
    super();
    this.channels = channels;
    this.inProj = this.child("in_proj", new Linear({ inFeatures: channels, outFeatures: 2 * channels, generator }));
    this.balancer1 = this.child(
      "balancer1",
      new Balancer({
        channelDim: -1,
        minPositive: new ScheduledFloat([
          [0, 0.05],
          [8000, 0.025],
        ]), // prettier-ignore
        maxPositive: 1,
        minAbs: 1.5,
        maxAbs: new ScheduledFloat(
          [
            [0, 5],
            [8000, 10],
          ],
          { fallback: 1 },
        ), // prettier-ignore
      }),
    );
    this.depthwise = this.child(
      "depthwise_conv",
      causal
        ? new ChunkCausalDepthwiseConv1d({ channels, kernelSize, generator })
        : new Conv1d({ inChannels: channels, outChannels: channels, groups: channels, kernelSize, padding: (kernelSize - 1) / 2, generator }),
    );
    this.balancer2 = this.child(
      "balancer2",
      new Balancer({
        channelDim: -1,
        minPositive: new ScheduledFloat([
          [0, 0.1],
          [8000, 0.05],
        ]), // prettier-ignore
        maxPositive: 1,
        minAbs: new ScheduledFloat([
          [0, 0.2],
          [20000, 0.5],
        ]), // prettier-ignore
        maxAbs: 10,
      }),
    );
    this.whiten = this.child("whiten", new Whiten({ groups: 1, limit: whiteningLimit(7.5), gradScale: 0.01 }));
    this.outProj = this.child("out_proj", new ActivationDropoutAndLinear({ inFeatures: channels, outFeatures: channels, activation: "SwooshR", initialScale: 0.05, generator }));
  }

  /**
   * @param x (T, N, C)
   * @param padding (N, T) bool, true = padded; null for none
   * @param chunkSize frames of a chunk when the module is causal; negative for one chunk of all
   * @returns (T, N, C)
   */
  forward(x: Tensor, { padding = null, chunkSize = -1 }: { padding?: Tensor | null; chunkSize?: number } = {}): Tensor {
    expectChannels("ConvolutionModule", x, this.channels);
    const { depthwise } = this;
    const projected = this.inProj.forward(x);
    const balance = this.balancer1.draw();
    const y =
      depthwise instanceof Conv1d
        ? ops.gatedConv1d(projected, padding, balance, depthwise.weight, depthwise.bias)
        : depthwise.forward(ops.glu(projected, padding, balance).permute([1, 2, 0]), chunkSize).permute([2, 0, 1]);
    return this.outProj.forward(this.whiten.forward(this.balancer2.forward(y)));
  }

  /**
   * The same for one chunk and the frames before it. Only of a causal module, in evaluation.
   * @param x (T, N, C), a whole chunk
   * @param cached (N, C, kernel // 2), gated values of the frames before
   * @returns y (T, N, C), and the gated values of the last kernel // 2 frames
   */
  streamingForward(x: Tensor, cached: Tensor): { y: Tensor; last: Tensor } {
    expectChannels("ConvolutionModule", x, this.channels);
    if (!(this.depthwise instanceof ChunkCausalDepthwiseConv1d)) internal("a convolution that looks ahead was asked to stream");
    const gated = ops.glu(this.inProj.forward(x), null, []).permute([1, 2, 0]); // (N, C, T)
    const { y, last } = this.depthwise.streamingForward(gated, cached);
    return { y: this.outProj.forward(y.permute([2, 0, 1])), last };
  }
}
