/** ScaledAdam: Adam whose steps are proportional to the size of each parameter, and that learns the size as well. */
import { keep, noGrad, scope, type Tensor, zerosLike } from "../torch/index.ts";
import { ConfigError } from "../util/errors.ts";
import { GradientClipping, scientific } from "./clipping.ts";
import { batchParameters, type ParameterBatch } from "./parameterBatch.ts";
import { ParameterSizes } from "./parameterSizes.ts";
import { canFuse, gradientSums, updateBatches } from "./scaledAdamPasses.ts";
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
  private readonly sizes: ParameterSizes;
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
    this.sizes = new ParameterSizes(this.batches, this.settings);
    this.fused = fused && canFuse(this.batches);
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
        const sums = gradientSums(this.batches, gradients, this.fused);
        const factor = this.clippingFactor(sums);
        if (this.steps === 0) this.startState(sums);
        this.update(factor === 0 ? gradients.map((list) => list.map((g) => zerosLike(g))) : gradients, sums, factor);
        this.steps++;
      }),
    );
  }

  /** One factor for all gradients, 0 for those that are not finite: a gradient that is not stays so however it is scaled. */
  private clippingFactor(sums: Tensor): number {
    if (!this.clipping) return 1;
    const squares = sums.select(0, 0);
    if (this.steps === 0) return Number.isFinite(squares.sum().item()) ? 1 : 0; // the sizes are not known yet
    const scaled = squares.mul(this.sizes.normScales().square());
    const total = scaled.sum().item();
    const factor = this.clipping.scale(Math.fround(Math.sqrt(total)), this.steps);
    if (factor < 0.5 && this.log) this.log(this.describeClipped(Array.from(scaled.toArray()), total, factor));
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

  /** @param factor on the gradients; 0 for gradients that were not finite, which are 0 by now */
  private update(gradients: readonly (readonly Tensor[])[], sums: Tensor, factor: number): void {
    const { betas, eps } = this.settings;
    const growths = this.sizes.step(sums, { step: this.steps, factor, lr: this.lr }).mul(1 - betas[0]);
    const rates = this.sizes.rates().mul((1 - betas[0]) * factor * this.lr);
    const correction = 1 - betas[1] ** (this.steps + 1);
    const constants = { betas, eps, correction: correction < 0.99 ? correction : 1, gradScale: factor };
    updateBatches(this.batches, gradients, { ...constants, rates, growths, limits: this.sizes.limits }, this.fused);
  }

  private startState(sums: Tensor): void {
    this.sizes.initialize(sums);
    for (const batch of this.batches) batch.state = { expAvgSq: keep(zerosLike(batch.values)), delta: keep(zerosLike(batch.values)) };
  }

  /**
   * The state in the layout of icefall's checkpoints: of every batch under the index of its first parameter. The tensors are the optimiser's own, not copies.
   */
  stateDict(): OptimizerState {
    return exportState({
      lr: this.lr,
      settings: this.settings,
      parameterCount: this.parameters.length,
      steps: this.steps,
      batches: this.batches,
      sizes: this.sizes,
      clipping: this.clipping,
    });
  }

  /**
   * Goes on from a saved state, icefall's or ours. The values are copied; the settings stay as they were given, only `lr` is taken over.
   * @throws CheckpointError CHECKPOINT_MISMATCH when the state is of other parameters; nothing is changed then
   */
  loadStateDict(state: OptimizerState): void {
    const { lr, steps } = importState(state, { names: this.names, batches: this.batches, sizes: this.sizes, clipping: this.clipping, settings: this.settings });
    this.steps = steps;
    if (lr !== undefined) this.lr = lr;
  }

  /** Frees the state; the parameters stay. */
  dispose(): void {
    for (const batch of this.batches) batch.dispose();
    this.sizes.dispose();
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
