/** The sizes of parameters as a whole, which ScaledAdam learns beside their elements: a few numbers a parameter, kept in flat tensors over all of them. */
import { full, keep, noGrad, scope, type Tensor, tensor, zeros } from "../torch/index.ts";
import type { ParameterBatch, ScaleState } from "./parameterBatch.ts";
import type { ScaledAdamSettings } from "./scaledAdam.ts";

/** The sizes of all P parameters, in the order of the batches. Scalars take part in the arithmetic, but have no size of their own. */
export class ParameterSizes {
  /** (P) root mean squares, as of the last update of sizes. */
  readonly paramRms: Tensor;
  /** (P) the furthest that elements may get from 0. */
  readonly limits: Tensor;
  /** (period, P) gradients with respect to a factor on the parameter, of the last steps. */
  private readonly scaleGrads: Tensor;
  /** (P) running mean of their squares. */
  private readonly scaleExpAvgSq: Tensor;
  /** (P) elements of each parameter. */
  private readonly counts: Tensor;
  /** (P) true for scalars. */
  private readonly isScalar: Tensor;
  private readonly settings: ScaledAdamSettings;

  constructor(batches: readonly ParameterBatch[], settings: ScaledAdamSettings) {
    this.settings = settings;
    const { dtype, device } = (batches.find(({ values }) => values.dtype === "float64") ?? (batches[0] as ParameterBatch)).values;
    const options = { dtype: dtype === "float64" ? dtype : ("float32" as const), device };
    const perParameter = (of: (batch: ParameterBatch) => number): number[] => batches.flatMap((batch) => batch.parameters.map(() => of(batch)));
    const sizes = perParameter(({ itemSize }) => Math.max(1, itemSize));
    const scalars = perParameter(({ isScalar }) => Number(isScalar));
    const kept = noGrad(() =>
      scope(() => ({
        paramRms: keep(zeros([sizes.length], options)),
        scaleGrads: keep(zeros([settings.sizeUpdatePeriod, sizes.length], options)),
        scaleExpAvgSq: keep(zeros([sizes.length], options)),
        counts: keep(tensor(sizes, { dtype: "float64", device })),
        isScalar: keep(tensor(scalars, { dtype: "bool", device })),
        limits: keep(
          tensor(
            perParameter(({ isScalar }) => (isScalar ? settings.scalarMax : Number.POSITIVE_INFINITY)),
            { dtype: "float64", device },
          ),
        ),
      })),
    );
    this.paramRms = kept.paramRms;
    this.scaleGrads = kept.scaleGrads;
    this.scaleExpAvgSq = kept.scaleExpAvgSq;
    this.counts = kept.counts;
    this.isScalar = kept.isScalar;
    this.limits = kept.limits;
  }

  /** A batch's part, in the shapes of a checkpoint: views. @param first position of its first parameter */
  of(batch: ParameterBatch, first: number): ScaleState {
    const n = batch.parameters.length;
    const item = batch.values.shape.map((_, i) => (i === 0 ? n : 1));
    return {
      paramRms: this.paramRms.narrow(0, first, n).view(item),
      scaleGrads: this.scaleGrads.narrow(1, first, n).view([this.settings.sizeUpdatePeriod, ...item]),
      scaleExpAvgSq: this.scaleExpAvgSq.narrow(0, first, n).view(item),
    };
  }

  /** Takes the sizes that parameters have. @param sums (3, P) of g * g, v * g and v * v */
  measure(sums: Tensor): void {
    this.paramRms.copy_(sums.select(0, 2).div(this.counts).sqrt());
  }

  /** Begins anew. @param sums of the first step */
  initialize(sums: Tensor): void {
    this.measure(sums);
    this.scaleGrads.zero_();
    this.scaleExpAvgSq.zero_();
  }

  /** (P) float64: the factor between the norm of a gradient and that of what the optimiser sees of it. */
  normScales(): Tensor {
    return this.ratesOf(this.paramRms);
  }

  /** (P) float64: what the learning rate of each parameter's elements is proportional to. */
  rates(): Tensor {
    return this.ratesOf(this.paramRms.clampMin(this.settings.paramMinRms));
  }

  private ratesOf(rms: Tensor): Tensor {
    return rms.to({ dtype: "float64" }).maskedFill(this.isScalar, this.settings.scalarLrScale);
  }

  /**
   * Remembers a step's gradients with respect to the sizes; in every sizeUpdatePeriod-th step the sizes follow them.
   * @param step from 0
   * @param factor on the gradients; 0 for gradients that are not finite
   * @returns (P) by which part of itself each parameter grows, before momentum
   */
  step(sums: Tensor, { step, factor, lr }: { step: number; factor: number; lr: number }): Tensor {
    const { betas, eps, scalarLrScale, paramMinRms, paramMaxRms, sizeUpdatePeriod } = this.settings;
    const phase = step % sizeUpdatePeriod;
    const now = this.scaleGrads.select(0, phase);
    if (factor === 0) now.zero_();
    else now.copy_(sums.select(0, 1)).mul_(factor);
    if (phase < sizeUpdatePeriod - 1) return full([this.paramRms.numel], 0, { device: this.paramRms.device });
    this.measure(sums);
    const beta2 = betas[1] ** sizeUpdatePeriod;
    this.scaleExpAvgSq.mul_(beta2).add_(this.scaleGrads.square().mean([0]), { alpha: 1 - beta2 });
    const rate = lr * scalarLrScale * Math.sqrt(1 - beta2 ** Math.floor((step + 1) / sizeUpdatePeriod));
    const growth = this.scaleGrads.sum([0]).div_(this.scaleExpAvgSq.sqrt().add_(eps)).mul_(-rate);
    growth.maskedFill_(this.paramRms.lt(paramMinRms), 0).clamp_(-0.1, 0.1);
    return growth.minimum(this.paramRms.rsub(paramMaxRms).div_(this.paramRms)).maskedFill(this.isScalar, 0);
  }

  dispose(): void {
    for (const t of [this.paramRms, this.scaleGrads, this.scaleExpAvgSq, this.counts, this.isScalar, this.limits]) t.dispose();
  }
}
