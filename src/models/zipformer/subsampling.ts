import { Balancer, BiasNorm, Conv2d, expectShape, type Init, Linear, Module, ModuleList, type Schedule, ScheduledFloat, SharedDropout, SwooshR, Whiten } from "../../nn/index.ts";
import { isComposed, ops, scope, type Tensor } from "../../torch/index.ts";
import { ShapeError } from "../../util/errors.ts";
import { ConvNeXt } from "./convNeXt.ts";

/** Options of Conv2dSubsampling. */
export interface SubsamplingOptions extends Init {
  featureDim: number;
  outChannels: number;
  /** Channels of the three convolutions. */
  channels?: readonly [number, number, number];
  dropout?: Schedule;
}

/** Frames that remain of `frames` feature frames. */
export const subsampledLength = (frames: number): number => Math.floor((frames - 7) / 2);

/** Feature frames after a part that its embedding sees: 7 by the convolutions, 2 times 3 by the ConvNeXt layer. */
export const lookAheadFrames = 13;

/** Feature frames that an utterance must at least have. */
export const minimumFrames = 9;

/**
 * The front end: from features at 100 Hz to embeddings at 50 Hz, by 3x3 convolutions and a ConvNeXt layer.
 * Padding is not masked, as in the reference: the last frames of an utterance see the padding after it.
 * Source: icefall zipformer/subsampling.py (Conv2dSubsampling).
 */
export class Conv2dSubsampling extends Module {
  private readonly convs: readonly [Conv2d, Conv2d, Conv2d];
  private readonly balancers: readonly [Balancer, Balancer, Balancer];
  private readonly swoosh: SwooshR;
  readonly convnext: ConvNeXt;
  readonly out: Linear;
  private readonly outWhiten: Whiten;
  readonly outNorm: BiasNorm;
  private readonly dropout: SharedDropout;
  readonly featureDim: number;

  constructor({
    featureDim,
    outChannels,
    channels: [c1, c2, c3] = [8, 32, 128],
    dropout = new ScheduledFloat([
      [0, 0.3],
      [20000, 0.1],
    ]), // prettier-ignore
    generator,
  }: SubsamplingOptions) {
    super();
    this.featureDim = featureDim;
    const balancer = (maxAbs: number): Balancer => new Balancer({ channelDim: 1, maxAbs });
    this.convs = [
      new Conv2d({ inChannels: 1, outChannels: c1, kernelSize: [3, 3], padding: [0, 1], generator }),
      new Conv2d({ inChannels: c1, outChannels: c2, kernelSize: [3, 3], stride: [2, 2], generator }),
      new Conv2d({ inChannels: c2, outChannels: c3, kernelSize: [3, 3], stride: [1, 2], generator }),
    ];
    this.balancers = [balancer(1), balancer(4), balancer(4)];
    this.swoosh = new SwooshR();
    // The numbers are those of the reference's sequence, whose other entries have no parameters.
    this.child(
      "conv",
      new ModuleList(
        new Map<number, Module>([
          [0, this.convs[0]],
          [2, this.balancers[0]],
          [3, this.swoosh],
          [4, this.convs[1]],
          [5, this.balancers[1]],
          [7, this.convs[2]],
          [8, this.balancers[2]],
        ]),
      ),
    ); // prettier-ignore
    this.convnext = this.child("convnext", new ConvNeXt({ channels: c3, generator }));
    const bins = Math.floor((Math.floor((featureDim - 1) / 2) - 1) / 2);
    this.out = this.child("out", new Linear({ inFeatures: c3 * bins, outFeatures: outChannels, generator }));
    this.outWhiten = this.child(
      "out_whiten",
      new Whiten({
        groups: 1,
        limit: new ScheduledFloat(
          [
            [0, 4],
            [20000, 8],
          ],
          { fallback: 4 },
        ),
        gradScale: 0.02,
      }),
    ); // prettier-ignore
    this.outNorm = this.child("out_norm", new BiasNorm({ channels: outChannels, generator }));
    this.dropout = this.child("dropout", new SharedDropout({ p: dropout, sharedDim: 1 }));
  }

  /**
   * @param x (N, T, F) features
   * @param lengths frames of each utterance
   * @returns x (N, floor((T - 7) / 2), C) and the lengths that remain
   * @throws ShapeError for other shapes, and when an utterance has fewer than 9 frames
   */
  forward(x: Tensor, lengths: readonly number[]): { x: Tensor; lengths: number[] } {
    expectShape("Conv2dSubsampling", x, ["N", "T", this.featureDim]);
    const [batch, frames] = x.shape as [number, number];
    checkLengths(lengths, batch, frames);
    return {
      x: scope(() => {
        const y = this.convnext.forward(scope(() => this.convolve(x.unsqueeze(1)))); // (N, C, T', F')
        const z = this.outNorm.forward(this.outWhiten.forward(this.project(y))); // (N, T', C)
        return this.dropout.forward(z);
      }),
      lengths: lengths.map(subsampledLength),
    };
  }

  /** The output layer over channels and bins: (N, C, T, F) -> (N, T, D). Its weights, fewer than the values, are brought into the order that those have in memory. */
  private project(y: Tensor): Tensor {
    if (isComposed()) return this.out.forward(y.transpose(1, 2).flatten(2));
    const [channels, bins] = [y.size(1), y.size(3)];
    const weight = this.out.weight.view([-1, channels, bins]).transpose(1, 2).flatten(1); // (D, F C)
    return ops.linear(y.permute([0, 2, 3, 1]).flatten(2), weight, this.out.bias);
  }

  /** Shape of the frames that `streamingForward` remembers: those before the ones that come, at the ConvNeXt layer. */
  streamingStateShape(batch: number): number[] {
    return [batch, this.convnext.channels, 3, this.out.inFeatures / this.convnext.channels];
  }

  /**
   * Embeds features that come in parts. Only in evaluation.
   * @param x (N, T, F), of which the next part has the last 13 frames again: they are looked ahead at
   * @param cached of `streamingStateShape`; zeros at the start
   * @returns y (N, (T - 13) // 2, C) and the frames to remember
   */
  streamingForward(x: Tensor, cached: Tensor): { y: Tensor; last: Tensor } {
    return scope(() => {
      const { y, last } = this.convnext.streamingForward(this.convolve(x.unsqueeze(1)), cached); // (N, C, T', F')
      return { y: this.outNorm.forward(this.project(y)), last };
    });
  }

  private convolve(x: Tensor): Tensor {
    const [c0, c1, c2] = this.convs;
    const [b0, b1, b2] = this.balancers;
    const { swoosh } = this;
    let y = c0.forward(x);
    if (this.training) y = ops.scaleGrad(y, 0.2); // the first convolution learns more slowly
    y = swoosh.forward(b0.forward(y));
    y = swoosh.forward(b1.forward(c1.forward(y)));
    return swoosh.forward(b2.forward(c2.forward(y)));
  }
}

function checkLengths(lengths: readonly number[], batch: number, frames: number): void {
  const at = "Conv2dSubsampling";
  if (lengths.length !== batch) throw new ShapeError("SHAPE_MISMATCH", { at, message: `got ${lengths.length} lengths for a batch of ${batch}` });
  for (const [i, length] of lengths.entries()) {
    if (!(length <= frames)) throw new ShapeError("SHAPE_MISMATCH", { at, message: `utterance ${i} has a length of ${length}, the batch has ${frames} frames` });
    if (!(length >= minimumFrames))
      throw new ShapeError("SHAPE_MISMATCH", {
        at,
        message: `utterance ${i} has ${length} frames, at least ${minimumFrames} are needed`,
        fix: "leave out such short utterances, or pad them",
      });
  }
}
