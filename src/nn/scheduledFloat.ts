/**
 * Numbers that change as training goes on: rates, limits, probabilities.
 * Source: icefall zipformer/scaling.py (PiecewiseLinear, ScheduledFloat).
 */
import { internal } from "../util/errors.ts";
import type { RunState } from "./module.ts";

/** A number, or one that follows the batch count. */
export type Schedule = number | ScheduledFloat;

type Point = readonly [batch: number, value: number];

/** A piecewise linear function of the batch count; constant before its first and after its last point. */
export class ScheduledFloat {
  private readonly points: readonly Point[];
  /** The value while the batch count is unknown, and outside of training. */
  readonly fallback: number;

  /** @param points with increasing batch counts, at least one */
  constructor(points: readonly Point[], { fallback = 0 }: { fallback?: number } = {}) {
    if (points.length === 0) internal("a schedule without points");
    for (let i = 1; i < points.length; i++) if ((points[i] as Point)[0] <= (points[i - 1] as Point)[0]) internal("the points of a schedule are not in order");
    this.points = points;
    this.fallback = fallback;
  }

  /** The value at a batch count. */
  at(batch: number): number {
    const { points } = this;
    const [firstX, firstY] = points[0] as Point;
    if (batch <= firstX) return firstY;
    for (let i = 1; i < points.length; i++) {
      const [x1, y1] = points[i] as Point;
      if (batch > x1) continue;
      const [x0, y0] = points[i - 1] as Point;
      return y0 + ((y1 - y0) * (batch - x0)) / (x1 - x0);
    }
    return (points[points.length - 1] as Point)[1];
  }

  /** The value for a forward pass: `fallback` until training has set a batch count, and in evaluation. */
  value({ training, batchCount }: Pick<RunState, "training" | "batchCount">): number {
    return training && batchCount !== undefined ? this.at(batchCount) : this.fallback;
  }

  /** The sum; fallbacks are added as well. */
  plus(other: Schedule): ScheduledFloat {
    return this.combine(other, (a, b) => a + b, false);
  }
  /** The product with a number. */
  times(factor: number): ScheduledFloat {
    return this.combine(factor, (a, b) => a * b, false);
  }
  /** The larger of both, everywhere. */
  max(other: Schedule): ScheduledFloat {
    return this.combine(other, Math.max, true);
  }
  /** The smaller of both, everywhere. */
  min(other: Schedule): ScheduledFloat {
    return this.combine(other, Math.min, true);
  }

  /** `f` of both at the points of both, and where they cross when `f` has a kink there. */
  private combine(other: Schedule, f: (a: number, b: number) => number, kinks: boolean): ScheduledFloat {
    const right = typeof other === "number" ? new ScheduledFloat([[(this.points[0] as Point)[0], other]], { fallback: other }) : other;
    const xs = [...new Set([...this.points, ...right.points].map(([x]) => x))].sort((a, b) => a - b);
    if (kinks) {
      const difference = (x: number): number => this.at(x) - right.at(x);
      for (let i = xs.length - 1; i > 0; i--) {
        const [x0, x1] = [xs[i - 1] as number, xs[i] as number];
        const [d0, d1] = [difference(x0), difference(x1)];
        if (d0 * d1 < 0) xs.splice(i, 0, x0 + ((x1 - x0) * d0) / (d0 - d1));
      }
    }
    return new ScheduledFloat(
      xs.map((x) => [x, f(this.at(x), right.at(x))] as const),
      { fallback: f(this.fallback, right.fallback) },
    );
  }
}

/** The value of a schedule, or the number itself. */
export const scheduled = (schedule: Schedule, run: Pick<RunState, "training" | "batchCount">): number => (typeof schedule === "number" ? schedule : schedule.value(run));
