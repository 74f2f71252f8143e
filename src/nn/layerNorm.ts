import { layerNorm, ones, type Tensor, zeros } from "../torch/index.ts";
import { Module, type Parameter } from "./module.ts";

/** Normalises every frame to mean 0 and variance 1, then scales and shifts each channel. */
export class LayerNorm extends Module {
  readonly weight: Parameter; // (C)
  readonly bias: Parameter; // (C)
  private readonly channels: number;

  constructor({ channels, device }: { channels: number; device?: string }) {
    super();
    this.channels = channels;
    this.weight = this.parameter("weight", ones([channels], { device }));
    this.bias = this.parameter("bias", zeros([channels], { device }));
  }

  /** @param x (..., C) */
  forward(x: Tensor): Tensor {
    return layerNorm(x, [this.channels], this.weight, this.bias);
  }
}
