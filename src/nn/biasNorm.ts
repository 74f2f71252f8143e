import { full, ops, randn, type Tensor } from "../torch/index.ts";
import type { Init } from "./init.ts";
import { limitParamValue } from "./limitParamValue.ts";
import { Module, type Parameter } from "./module.ts";
import { expectChannels } from "./shapes.ts";

/**
 * BiasNorm: brings every frame to a learned level without removing its mean.
 * Source: Zipformer (arXiv 2310.11230), section 3.3; icefall zipformer/scaling.py.
 */
export class BiasNorm extends Module {
  readonly logScale: Parameter; // ()
  readonly bias: Parameter; // (C)
  private readonly channels: number;

  constructor({ channels, logScale = 1.0, generator }: Init & { channels: number; logScale?: number }) {
    super();
    this.channels = channels;
    this.logScale = this.parameter("log_scale", full([], logScale, { device: generator.device }));
    this.bias = this.parameter("bias", randn([channels], { generator, device: generator.device }).mul_(1e-4));
  }

  /**
   * y = x * exp(logScale) / rms(x - bias), rms over the channels.
   * @param x (..., C)
   * @returns the shape and dtype of x
   * @throws ShapeError when the last dimension is not C
   */
  forward(x: Tensor): Tensor {
    expectChannels("BiasNorm", x, this.channels);
    const logScale = this.training ? limitParamValue(this.logScale, { min: -1.5, max: 1.5 }, this.random) : this.logScale;
    return ops.biasNorm(x, this.bias, logScale, -1);
  }
}
