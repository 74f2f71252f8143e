import { type Init, Module, type Parameter } from "../../nn/index.ts";
import { ops, type Tensor, zeros } from "../../torch/index.ts";

/** A learned weighted mean of every `factor` frames. Source: icefall zipformer/zipformer.py (SimpleDownsample). */
export class Downsample extends Module {
  readonly factor: number;
  private readonly bias: Parameter; // (factor): the logarithms of the weights, up to a constant

  constructor({ factor, generator }: Init & { factor: number }) {
    super();
    this.factor = factor;
    this.bias = this.parameter("bias", zeros([factor], { device: generator.device }));
  }

  /** @param x (T, N, C) @returns (ceil(T / factor), N, C); the last frame is repeated to fill the last group */
  forward(x: Tensor): Tensor {
    return ops.downsample(x, this.bias.softmax(0));
  }
}
