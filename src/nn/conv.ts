/** Convolutions over time, and over time and frequency. */
import { conv1d, conv2d, ops, type Tensor } from "../torch/index.ts";
import { type Init, weightAndBias } from "./init.ts";
import { Module, type Parameter } from "./module.ts";

/** Options of Conv1d. */
export interface Conv1dOptions extends Init {
  inChannels: number;
  outChannels: number;
  kernelSize: number;
  padding?: number;
  groups?: number;
  bias?: boolean;
}

/** Convolution over the last dimension of (N, C, T). */
export class Conv1d extends Module {
  readonly weight: Parameter; // (out, in / groups, kernel)
  readonly bias: Parameter | null; // (out)
  readonly groups: number;
  readonly padding: number;

  constructor({ inChannels, outChannels, kernelSize, padding = 0, groups = 1, bias = true, generator }: Conv1dOptions) {
    super();
    this.groups = groups;
    this.padding = padding;
    const init = weightAndBias([outChannels, inChannels / groups, kernelSize], { generator });
    this.weight = this.parameter("weight", init.weight);
    this.bias = bias ? this.parameter("bias", init.bias) : null;
  }

  /** @param x (N, in, T) @returns (N, out, T + 2 padding - kernel + 1) */
  forward(x: Tensor): Tensor {
    return conv1d(x, this.weight, this.bias, 1, this.padding, 1, this.groups);
  }
}

/** Options of Conv2d; pairs are (time, frequency). */
export interface Conv2dOptions extends Init {
  inChannels: number;
  outChannels: number;
  kernelSize: readonly [number, number];
  stride?: readonly [number, number];
  padding?: readonly [number, number];
  groups?: number;
  initialScale?: number;
}

/** Convolution over the last two dimensions of (N, C, T, F). */
export class Conv2d extends Module {
  readonly weight: Parameter; // (out, in / groups, kernel time, kernel frequency)
  readonly bias: Parameter; // (out)
  private readonly stride: readonly [number, number];
  private readonly padding: readonly [number, number];
  private readonly groups: number;

  constructor({ inChannels, outChannels, kernelSize, stride = [1, 1], padding = [0, 0], groups = 1, initialScale, generator }: Conv2dOptions) {
    super();
    this.stride = stride;
    this.padding = padding;
    this.groups = groups;
    const init = weightAndBias([outChannels, inChannels / groups, ...kernelSize], { generator, initialScale });
    this.weight = this.parameter("weight", init.weight);
    this.bias = this.parameter("bias", init.bias);
  }

  /** @param x (N, in, T, F), best with the channels last in memory, as the result has them @returns (N, out, T', F') */
  forward(x: Tensor): Tensor {
    if (this.groups === 1) return ops.conv2d(x, this.weight, this.bias, this.stride, this.padding);
    return conv2d(x, this.weight, this.bias, this.stride, this.padding, 1, this.groups);
  }
}
