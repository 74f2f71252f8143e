import { full, ops, type Tensor } from "../torch/index.ts";
import type { Init } from "./init.ts";
import { limitParamValue } from "./limitParamValue.ts";
import { Module, type Parameter } from "./module.ts";
import { type Schedule, ScheduledFloat, scheduled } from "./scheduledFloat.ts";
import { utteranceMask } from "./utteranceMask.ts";

/** A learned mix, per channel, of what came into some layers and what came out. Source: icefall zipformer/zipformer.py (BypassModule). */
export class Bypass extends Module {
  readonly scale: Parameter; // (C): 0 is all input, 1 all output
  skipRate: Schedule;
  private readonly minScale: Schedule;

  constructor({
    channels,
    skipRate = 0,
    minScale = new ScheduledFloat([
      [0, 0.9],
      [20000, 0.2],
    ]), // prettier-ignore
    generator,
  }: Init & { channels: number; skipRate?: Schedule; minScale?: Schedule }) {
    super();
    this.skipRate = skipRate;
    this.minScale = minScale;
    this.scale = this.parameter("bypass_scale", full([channels], 0.5, { device: generator.device }));
  }

  /**
   * input + (output - input) * scale. While training, an utterance takes its input with probability `skipRate`.
   * @param input (T, N, C), what came into the layers
   * @param output (ceil(T / repeat), N, C), what came out
   * @param repeat frames of `input` that one of `output` stands for; 1 unless given
   */
  forward(input: Tensor, output: Tensor, { repeat = 1 }: { repeat?: number } = {}): Tensor {
    const scale = this.training ? this.trainingScale(output) : this.scale;
    return ops.bypass(input, output, scale, repeat);
  }

  private trainingScale(output: Tensor): Tensor {
    const scale = limitParamValue(this.scale, { min: scheduled(this.minScale, this.run), max: 1 }, this.random);
    const batch = output.size(1);
    const mask = utteranceMask(this.random, batch, scheduled(this.skipRate, this.run), [batch, 1], scale);
    return mask ? scale.mul(mask) : scale; // (N, C) or (C)
  }
}
