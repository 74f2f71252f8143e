import { Conv1d, depthwiseConv1d, type Init, Module, type Parameter } from "../../nn/index.ts";
import { cat, pad, type Tensor, zeros } from "../../torch/index.ts";

/**
 * A depthwise convolution for streaming: one part looks at the past only, the other at the frames of the same chunk only, scaled by
 * how near a frame is to its chunk's edges. Source: icefall zipformer/scaling.py (ChunkCausalDepthwiseConv1d).
 */
export class ChunkCausalDepthwiseConv1d extends Module {
  private readonly edgeScale: Parameter; // (2, C, kernel): for the left and the right edge
  private readonly causal: Conv1d;
  private readonly chunkwise: Conv1d;
  private readonly kernelSize: number;

  constructor({ channels, kernelSize, generator }: Init & { channels: number; kernelSize: number }) {
    super();
    this.kernelSize = kernelSize;
    const options = { inChannels: channels, outChannels: channels, groups: channels, generator };
    this.edgeScale = this.parameter("chunkwise_conv_scale", zeros([2, channels, kernelSize], { device: generator.device }));
    this.causal = this.child("causal_conv", new Conv1d({ ...options, kernelSize: (kernelSize + 1) / 2 }));
    this.chunkwise = this.child("chunkwise_conv", new Conv1d({ ...options, kernelSize, padding: (kernelSize - 1) / 2 }));
  }

  /** @param x (N, C, T) @param chunkSize frames; negative for one chunk of all @returns (N, C, T) */
  forward(x: Tensor, chunkSize: number): Tensor {
    const [batch, channels, frames] = x.shape as [number, number, number];
    const half = (this.kernelSize - 1) / 2;
    const chunk = chunkSize < 0 || chunkSize > frames ? frames : chunkSize;
    const missing = (chunk - (frames % chunk)) % chunk;
    const padded = missing > 0 ? pad(x, [0, missing]) : x;
    const past = depthwiseConv1d(x, this.causal.weight, this.causal.bias, [half, 0]); // (N, C, T)
    const chunks = (frames + missing) / chunk;
    const inChunks = padded
      .unflatten(2, [chunks, chunk])
      .transpose(1, 2)
      .reshape([batch * chunks, channels, chunk]);
    const within = depthwiseConv1d(inChunks, this.chunkwise.weight, this.chunkwise.bias, [half, half])
      .mul(this.scale(chunk))
      .view([batch, chunks, channels, chunk])
      .transpose(1, 2)
      .reshape([batch, channels, frames + missing]);
    return past.add(missing > 0 ? within.slice(2, 0, frames) : within);
  }

  /**
   * The same for one chunk and the frames before it.
   * @param x (N, C, T), a whole chunk
   * @param cached (N, C, kernel // 2), the frames before
   * @returns y (N, C, T), and the last kernel // 2 frames
   */
  streamingForward(x: Tensor, cached: Tensor): { y: Tensor; last: Tensor } {
    const half = (this.kernelSize - 1) / 2;
    const frames = x.size(2);
    const extended = cat([cached, x], 2);
    const past = depthwiseConv1d(extended, this.causal.weight, this.causal.bias, [0, 0]); // (N, C, T)
    const within = depthwiseConv1d(x, this.chunkwise.weight, this.chunkwise.bias, [half, half]).mul(this.scale(frames));
    return { y: past.add(within), last: extended.slice(2, frames) };
  }

  /** 1 + what the parameters add near the edges of a chunk: (C, chunk). */
  private scale(chunk: number): Tensor {
    const { kernelSize } = this;
    const left = this.edgeScale.select(0, 0);
    const right = this.edgeScale.select(0, 1);
    if (chunk < kernelSize)
      return left
        .slice(1, 0, chunk)
        .add(right.slice(1, kernelSize - chunk, kernelSize))
        .add(1);
    const gap = zeros([left.size(0), chunk - kernelSize], { dtype: left.dtype, device: left.device });
    return cat([left, gap], 1)
      .add(cat([gap, right], 1))
      .add(1);
  }
}
