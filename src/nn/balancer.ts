import { ops, type Tensor } from "../torch/index.ts";
import { Module } from "./module.ts";
import { type Schedule, ScheduledFloat, scheduled } from "./scheduledFloat.ts";

/** Options of Balancer. The ranges are those of a channel's share of positive values and of its mean absolute value. */
export interface BalancerOptions {
  /** The dimension of the channels. */
  channelDim: number;
  minPositive?: Schedule;
  maxPositive?: Schedule;
  minAbs?: Schedule;
  maxAbs?: Schedule;
  /** Size of the correction, relative to the gradient. */
  gradScale?: number;
  /** Probability to be applied. */
  prob?: Schedule;
}

// Of a normal distribution: mean over standard deviation for a share p of positive values, about 0.8139535143 * atanh(2 p - 1).
function meanOf(positive: number): number {
  const z = 2 * positive - 1;
  return (0.8139535143 * (Math.log(1 + z + 1e-10) - Math.log(1 - z + 1e-10))) / 2;
}
const rmsOverAbs = 1.25331413732; // sqrt(pi / 2): rms over mean absolute value of a normal distribution

/**
 * Leaves values as they are; in the backward pass nudges the gradients so that each channel's statistics move into their ranges.
 * Source: icefall zipformer/scaling.py (Balancer). Unlike there, free GPU memory has no say in whether it is applied.
 */
export class Balancer extends Module {
  prob: Schedule;
  private readonly channelDim: number;
  private readonly minPositive: Schedule;
  private readonly maxPositive: Schedule;
  private readonly minAbs: Schedule;
  private readonly maxAbs: Schedule;
  private readonly gradScale: number;

  constructor({
    channelDim,
    minPositive = 0.05,
    maxPositive = 0.95,
    minAbs = 0.2,
    maxAbs = 100,
    gradScale = 0.04,
    prob = new ScheduledFloat(
      [
        [0, 0.5],
        [8000, 0.125],
      ],
      { fallback: 0.4 },
    ), // prettier-ignore
  }: BalancerOptions) {
    super();
    this.channelDim = channelDim;
    this.minPositive = minPositive;
    this.maxPositive = maxPositive;
    this.minAbs = minAbs;
    this.maxAbs = maxAbs;
    this.gradScale = gradScale;
    this.prob = prob;
  }

  /** The ranges as they are now. */
  limits(): { minPositive: number; maxPositive: number; minAbs: number; maxAbs: number } {
    const now = (schedule: Schedule): number => scheduled(schedule, this.run);
    return { minPositive: now(this.minPositive), maxPositive: now(this.maxPositive), minAbs: now(this.minAbs), maxAbs: now(this.maxAbs) };
  }

  /** Draws whether to be applied this time; never outside of training. */
  decide(): boolean {
    return this.training && this.random.uniform() < scheduled(this.prob, this.run);
  }

  /** @param x any shape with a dimension of channels @returns x, with other gradients when drawn */
  forward(x: Tensor): Tensor {
    return this.decide() ? this.apply(x) : x;
  }

  /** What `forward` does when drawn. */
  apply(x: Tensor): Tensor {
    const [minMean, maxMean, minRms, maxRms, gradScale] = this.range();
    return ops.balancer(x, minMean, maxMean, minRms, maxRms, gradScale, this.channelDim);
  }

  /** Draws; for operators that balance what they compute inside: the ranges of mean and rms and the scale, or nothing. */
  draw(): readonly number[] {
    return this.decide() ? this.range() : [];
  }

  private range(): readonly [minMean: number, maxMean: number, minRms: number, maxRms: number, gradScale: number] {
    const { run } = this;
    return [
      meanOf(scheduled(this.minPositive, run)),
      meanOf(scheduled(this.maxPositive, run)),
      rmsOverAbs * scheduled(this.minAbs, run),
      rmsOverAbs * scheduled(this.maxAbs, run),
      this.gradScale,
    ];
  }
}
