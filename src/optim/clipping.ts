/** Gradient clipping at a multiple of the median norm of the last steps. */
import { TrainError } from "../util/errors.ts";
import { pythonFloat } from "../util/printf.ts";

/** How {@link GradientClipping} clips. */
export interface ClippingOptions {
  /** Gradients are scaled down to this many times the median norm. */
  clippingScale: number;
  /** Steps that the median is taken over, and between its updates. */
  updatePeriod: number;
  /** Gets a line at every update of the threshold. */
  log?: (line: string) => void;
}

const early = [10, 20, 40]; // steps at which a first, laxer threshold is taken

/**
 * The clipping of ScaledAdam: remembers the norms of the last steps and from time to time takes a threshold from their median.
 * Source: icefall zipformer/optim.py.
 */
export class GradientClipping {
  private readonly options: ClippingOptions;
  /** Norm of step k at k % updatePeriod; absent before the first. */
  norms: Float32Array | undefined;
  /** Absent until step 10, or the update period where that is shorter. */
  threshold: number | undefined;
  /** Steps that were clipped since the last update of the threshold; absent before the first update. */
  clipped: number | undefined;

  constructor(options: ClippingOptions) {
    this.options = options;
  }

  /**
   * The factor for the gradients of a step, at most 1; 0 when their norm is infinite or not a number.
   * @param step from 1: the first step is not clipped
   * @throws TrainError TRAIN_GRADIENTS_NOT_FINITE when the median of the last norms is not finite
   */
  scale(norm: number, step: number): number {
    const { updatePeriod } = this.options;
    this.norms ??= new Float32Array(updatePeriod);
    this.norms[step % updatePeriod] = norm;
    const first = early.includes(step) && step < updatePeriod;
    if (first || step % updatePeriod === 0) this.updateThreshold(first ? step : updatePeriod, first);
    if (!Number.isFinite(norm)) {
      this.count();
      return 0;
    }
    if (this.threshold === undefined) return 1;
    const scale = Math.min(1, this.threshold / (norm + 1e-20));
    if (scale < 1) this.count();
    return scale;
  }

  private count(): void {
    if (this.clipped !== undefined) this.clipped++;
  }

  private updateThreshold(count: number, first: boolean): void {
    const { clippingScale, log } = this.options;
    const sorted = Array.from(this.norms as Float32Array).sort((a, b) => (Number.isNaN(a) ? 1 : Number.isNaN(b) ? -1 : a < b ? -1 : a > b ? 1 : 0));
    const last = sorted.slice(-count); // in the early updates the rest is 0
    const quartiles = [0, 1, 2, 3, 4].map((q) => last[Math.min(count - 1, Math.floor(count / 4) * q)] as number);
    const median = quartiles[2] as number;
    if (!Number.isFinite(median)) {
      throw new TrainError("TRAIN_GRADIENTS_NOT_FINITE", {
        message: `the gradients of at least half of the last ${count} steps were infinite or not a number`,
        fix: "lower the learning rate, look for utterances with more tokens than frames, or train in bf16 rather than fp16",
      });
    }
    this.threshold = clippingScale * median * (first ? 2 : 1);
    const percent = ((this.clipped ?? 0) * 100) / count;
    this.clipped = 0;
    log?.(
      `Clipping_scale=${pythonFloat(clippingScale)}, grad-norm quartiles ${quartiles.map(scientific).join(" ")}, threshold=${scientific(this.threshold)}, percent-clipped=${percent.toFixed(1)}`,
    );
  }
}

/** 1.234e-05, as C prints %.3e. */
export function scientific(x: number): string {
  return x.toExponential(3).replace(/e([+-])(\d)$/, "e$10$2");
}
