import { ones, ops, type Tensor } from "../torch/index.ts";
import { Module } from "./module.ts";
import { type Schedule, ScheduledFloat, scheduled } from "./scheduledFloat.ts";

/** Options of Whiten. */
export interface WhitenOptions {
  /** The channels divide into this many groups, each with a covariance of its own. */
  groups: number;
  /** Metrics below it are left alone; 1 is white. */
  limit: Schedule;
  /** Size of the correction, relative to the gradient. */
  gradScale: number;
  /** Probability to be looked at, after the metric was below the limit and after it was above. */
  prob?: readonly [min: number, max: number];
}

/** A limit of `x` that grows to `ratio` times it over 20000 batches. */
export const whiteningLimit = (x: number, ratio = 2): ScheduledFloat =>
  new ScheduledFloat(
    [
      [0, x],
      [20000, ratio * x],
    ],
    { fallback: x },
  ); // prettier-ignore

/**
 * Leaves values as they are; in the backward pass nudges the gradients so that the channels' covariance comes nearer to a multiple of
 * the identity. Source: icefall zipformer/scaling.py (Whiten).
 */
export class Whiten extends Module {
  limit: Schedule;
  prob: readonly [min: number, max: number];
  private readonly groups: number;
  private readonly gradScale: number;
  private current: number | undefined;
  /** One number that the backward pass writes: 1 when the metric was above the limit. */
  private active: Tensor | undefined;
  private pending = false;

  constructor({ groups, limit, gradScale, prob = [0.025, 0.25] }: WhitenOptions) {
    super();
    this.groups = groups;
    this.limit = limit;
    this.gradScale = gradScale;
    this.prob = prob;
  }

  /** @param x (..., C) @returns x, with other gradients when drawn */
  forward(x: Tensor): Tensor {
    if (!this.training) return x;
    this.settle();
    if (this.random.uniform() > (this.current ?? this.prob[1])) return x;
    if (this.active?.device !== x.device) this.active = this.hold("active", ones([], { device: x.device }));
    this.pending = true;
    return ops.whiten(x, this.groups, scheduled(this.limit, this.run), this.gradScale, this.active);
  }

  /** Takes over what the last backward pass found. */
  private settle(): void {
    if (!this.pending || !this.active) return;
    this.current = this.prob[this.active.item() > 0 ? 1 : 0];
    this.pending = false;
  }

  /** The probability of the next step. */
  override trainingState(): number | undefined {
    this.settle();
    return this.current;
  }

  override restoreTrainingState(state: number | undefined): void {
    this.current = state;
    this.pending = false;
  }
}
