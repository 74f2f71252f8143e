/** ScaledAdam: Adam whose steps are proportional to the size of each parameter, and that learns the size as well. */
import { cat, full, keep, noGrad, scope, type Tensor, zeros, zerosLike } from "../torch/index.ts";
import { ConfigError } from "../util/errors.ts";
import { GradientClipping, scientific } from "./clipping.ts";
import { type BatchState, batchParameters, type ParameterBatch, type ScaleState } from "./parameterBatch.ts";
import { canFuse, gradientSums, updateBatch } from "./scaledAdamPasses.ts";
import { exportState, importState, type OptimizerState } from "./scaledAdamState.ts";

/** Options of {@link ScaledAdam}, with icefall's defaults. */
export interface ScaledAdamOptions {
  /** Learning rate until a scheduler sets it. 0.03 unless given. */
  lr?: number;
  /** Gradients are clipped at this many times the median norm; null for no clipping. 2 unless given. */
  clippingScale?: number | null;
  /** Decay of the mean updates and of the mean squared gradients. (0.9, 0.98) unless given. */
  betas?: readonly [number, number];
  /** Learning rate of scalars and of parameter sizes, as a multiple of lr. 0.1 unless given. */
  scalarLrScale?: number;
  /** 1e-8 unless given. */
  eps?: number;
  /** Least size, root mean square, that steps are proportional to. 1e-5 unless given. */
  paramMinRms?: number;
  /** Size above which parameters do not grow as a whole. 3 unless given. */
  paramMaxRms?: number;
  /** Scalars stay within plus and minus this. 10 unless given. */
  scalarMax?: number;
  /** Steps between updates of the sizes. 4 unless given. */
  sizeUpdatePeriod?: number;
  /** Steps that the clipping's median is taken over. 100 unless given. */
  clippingUpdatePeriod?: number;
  /** By our own operators, where there are such (CPU); false composes libtorch's, as icefall does. true unless given. */
  fused?: boolean;
  /** Gets the clipping's statistics, and which parameter dominated a gradient that was clipped to less than half. */
  log?: (line: string) => void;
}

/** The options with nothing left out. */
export type ScaledAdamSettings = Required<Omit<ScaledAdamOptions, "log" | "lr" | "fused">>;

const defaults: ScaledAdamSettings = {
  clippingScale: 2,
  betas: [0.9, 0.98],
  scalarLrScale: 0.1,
  eps: 1e-8,
  paramMinRms: 1e-5,
  paramMaxRms: 3,
  scalarMax: 10,
  sizeUpdatePeriod: 4,
  clippingUpdatePeriod: 100,
};

/**
 * ScaledAdam. Parameters of one shape are updated together: the optimiser moves their values into one tensor that they become views of,
 * so move a model to its device before making the optimiser.
 * A parameter without a gradient is updated with a gradient of 0.
 * Source: Zipformer (arXiv 2310.11230), section 3.6; icefall zipformer/optim.py.
 */
export class ScaledAdam {
  /** Learning rate of the next step. */
  lr: number;
  readonly settings: ScaledAdamSettings;
  readonly names: readonly string[];
  readonly parameters: readonly Tensor[];
  private readonly batches: readonly ParameterBatch[];
  private readonly fused: boolean;
  private readonly clipping: GradientClipping | undefined;
  private readonly log: ((line: string) => void) | undefined;
  private steps = 0;

  /**
   * @param named parameters with their names, in the order of the checkpoint
   * @throws ConfigError CONFIG_BAD_VALUE when there are no parameters, or an option is out of its range
   */
  constructor(named: Iterable<readonly [name: string, parameter: Tensor]>, { lr = 0.03, fused = true, log, ...options }: ScaledAdamOptions = {}) {
    const given = Object.entries(options).filter(([, value]) => value !== undefined);
    this.settings = { ...defaults, ...Object.fromEntries(given) };
    const list = Array.from(named);
    check(lr, this.settings, list.length);
    this.lr = lr;
    this.log = log;
    this.names = list.map(([name]) => name);
    this.parameters = list.map(([, parameter]) => parameter);
    this.batches = batchParameters(this.parameters);
    this.fused = fused;
    const { clippingScale, clippingUpdatePeriod: updatePeriod } = this.settings;
    this.clipping = clippingScale === null ? undefined : new GradientClipping({ clippingScale, updatePeriod, log });
  }

  /** Steps taken. */
  get stepCount(): number {
    return this.steps;
  }

  /** Forgets the gradients. */
  zeroGrad(): void {
    for (const parameter of this.parameters) parameter.grad = null;
  }

  /**
   * Updates the parameters by their gradients. Waits for the device once, for the norm.
   * @throws TrainError TRAIN_GRADIENTS_NOT_FINITE when the gradients of half of the last steps were not finite; nothing is updated then
   */
  step(): void {
    noGrad(() =>
      scope(() => {
        const gradients = this.batches.map((batch) => batch.gradients());
        const sums = this.batches.map((batch, i) => gradientSums(batch, gradients[i] as Tensor[], this.isFused(batch)));
        const factor = this.clippingFactor(sums);
        this.batches.forEach((batch, i) => {
          if (this.steps === 0) batch.state ??= this.initialState(batch, sums[i] as Tensor);
          this.update(batch, { gradients: gradients[i] as Tensor[], sums: sums[i] as Tensor, factor });
        });
        this.steps++;
      }),
    );
  }

  private isFused(batch: ParameterBatch): boolean {
    return this.fused && canFuse(batch);
  }

  /** One factor for all gradients, 0 for those that are not finite. */
  private clippingFactor(sums: readonly Tensor[]): number {
    if (!this.clipping) return 1;
    const { scalarLrScale } = this.settings;
    const squares = cat(
      this.batches.map((batch, i) => {
        const sum = (sums[i] as Tensor).select(0, 0);
        if (batch.isScalar) return sum.mul(scalarLrScale ** 2);
        const scale = batch.state?.scale;
        return scale ? sum.mul(scale.paramRms.view([-1]).square()) : sum;
      }),
    ).toArray();
    const total = squares.reduce((a, b) => a + b, 0);
    if (this.steps === 0) return Number.isFinite(total) ? 1 : 0; // the sizes are not known yet
    const factor = this.clipping.scale(Math.fround(Math.sqrt(total)), this.steps);
    if (factor < 0.5 && this.log) this.log(this.describeClipped(squares, total, factor));
    return factor;
  }

  private describeClipped(squares: readonly number[], total: number, factor: number): string {
    const order = this.batches.flatMap((batch) => batch.indices);
    const rank = (square: number): number => (Number.isNaN(square) ? Number.POSITIVE_INFINITY : square);
    const ranked = squares
      .map((square, i) => ({ square, name: this.names[order[i] as number] }))
      .sort((a, b) => (rank(a.square) === rank(b.square) ? 0 : rank(b.square) - rank(a.square)));
    const shares = ranked.slice(0, 10).map(({ name, square }) => `${name} ${Number.isFinite(total) ? (square / total).toFixed(3) : scientific(square)}`);
    return `Scaling gradients by ${scientific(factor)}; the largest shares of their squared norm ${scientific(total)}: ${shares.join(", ")}`;
  }

  /** @param factor on the gradients; 0 for gradients that are not finite, which count as 0 */
  private update(batch: ParameterBatch, { gradients, sums, factor }: { gradients: readonly Tensor[]; sums: Tensor; factor: number }): void {
    const { betas, eps, scalarLrScale, scalarMax, paramMinRms, sizeUpdatePeriod } = this.settings;
    const [beta1, beta2] = betas;
    const scale = batch.state?.scale;
    const k = this.steps;
    const rate = (1 - beta1) * factor * this.lr;

    scope(() => {
      const correction = 1 - beta2 ** (k + 1);
      const constants = { betas, eps, correction: correction < 0.99 ? correction : 1, gradScale: factor, limit: batch.isScalar ? scalarMax : Number.POSITIVE_INFINITY };
      const finite = factor === 0 ? gradients.map((g) => zerosLike(g)) : gradients;
      if (!scale) {
        updateBatch(batch, finite, { ...constants, rates: full([finite.length], rate * scalarLrScale, { device: sums.device }), growths: null }, this.isFused(batch));
        return;
      }
      const phase = k % sizeUpdatePeriod;
      const scaleGrad = scale.scaleGrads.select(0, phase);
      if (factor === 0) scaleGrad.zero_();
      else scaleGrad.copy_(batch.perItem(sums.select(0, 1))).mul_(factor);
      const updateSize = phase === sizeUpdatePeriod - 1;
      if (updateSize) scale.paramRms.copy_(this.rms(batch, sums));
      const rates = scale.paramRms.clampMin(paramMinRms).mul(rate).view([-1]);
      const growths = updateSize
        ? this.sizeStep(scale)
            .mul(1 - beta1)
            .view([-1])
        : null;
      updateBatch(batch, finite, { ...constants, rates, growths }, this.isFused(batch));
    });
  }

  /** (n, 1, ...) root mean square of every parameter, of the sums of its squares. */
  private rms(batch: ParameterBatch, sums: Tensor): Tensor {
    return batch.perItem(sums.select(0, 2).div(batch.itemSize).sqrt());
  }

  /** (n, 1, ...) by which part of themselves the parameters should grow. */
  private sizeStep({ paramRms, scaleGrads, scaleExpAvgSq }: ScaleState): Tensor {
    const { betas, eps, scalarLrScale, paramMinRms, paramMaxRms, sizeUpdatePeriod } = this.settings;
    const beta2 = betas[1] ** sizeUpdatePeriod;
    scaleExpAvgSq.mul_(beta2).add_(scaleGrads.square().mean([0]), { alpha: 1 - beta2 });
    const updates = Math.floor((this.steps + 1) / sizeUpdatePeriod);
    const rate = this.lr * scalarLrScale * Math.sqrt(1 - beta2 ** updates);
    const step = scaleGrads.sum([0]).div_(scaleExpAvgSq.sqrt().add_(eps)).mul_(-rate);
    step.maskedFill_(paramRms.lt(paramMinRms), 0).clamp_(-0.1, 0.1);
    return step.minimum(paramRms.rsub(paramMaxRms).div_(paramRms));
  }

  private initialState(batch: ParameterBatch, sums: Tensor): BatchState {
    const { sizeUpdatePeriod } = this.settings;
    const { values, isScalar } = batch;
    const rms = isScalar ? undefined : keep(this.rms(batch, sums).to({ dtype: values.dtype }));
    return {
      expAvgSq: keep(zerosLike(values)),
      delta: keep(zerosLike(values)),
      scale: rms && {
        paramRms: rms,
        scaleGrads: keep(zeros([sizeUpdatePeriod, ...rms.shape], { dtype: rms.dtype, device: rms.device })),
        scaleExpAvgSq: keep(zerosLike(rms)),
      },
    };
  }

  /**
   * The state in the layout of icefall's checkpoints: of every batch under the index of its first parameter. The tensors are the optimiser's own, not copies.
   */
  stateDict(): OptimizerState {
    return exportState({ lr: this.lr, settings: this.settings, parameterCount: this.parameters.length, steps: this.steps, batches: this.batches, clipping: this.clipping });
  }

  /**
   * Goes on from a saved state, icefall's or ours. The values are copied; the settings stay as they were given, only `lr` is taken over.
   * @throws CheckpointError CHECKPOINT_MISMATCH when the state is of other parameters; nothing is changed then
   */
  loadStateDict(state: OptimizerState): void {
    const { lr, steps } = importState(state, { names: this.names, batches: this.batches, clipping: this.clipping, settings: this.settings });
    this.steps = steps;
    if (lr !== undefined) this.lr = lr;
  }

  /** Frees the state; the parameters stay. */
  dispose(): void {
    for (const batch of this.batches) batch.dispose();
  }
}

function check(lr: number, { betas, clippingScale, sizeUpdatePeriod, clippingUpdatePeriod }: ScaledAdamSettings, count: number): void {
  const refuse = (message: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", { at: "ScaledAdam", message });
  };
  if (count === 0) refuse("there are no parameters");
  if (!(lr >= 0 && Number.isFinite(lr))) refuse(`lr is ${lr}; it must be 0 or more`);
  if (!betas.every((beta) => beta >= 0 && beta < 1)) refuse(`betas are ${betas.join(", ")}; they must be at least 0 and below 1`);
  if (clippingScale !== null && !(clippingScale > 0)) refuse(`clippingScale is ${clippingScale}; it must be above 0, or null`);
  for (const [name, period] of Object.entries({ sizeUpdatePeriod, clippingUpdatePeriod })) {
    if (!Number.isInteger(period) || period < 1) refuse(`${name} is ${period}; it must be an integer of at least 1`);
  }
}
