/** One group of ScaledAdam's parameters. */
import { isComposed, keep, noGrad, scope, stack, type Tensor, zerosLike } from "../torch/index.ts";
import { GradientClipping, scientific } from "./clipping.ts";
import { batchParameters, type ParameterBatch } from "./parameterBatch.ts";
import { ParameterSizes } from "./parameterSizes.ts";
import type { ScaledAdamSettings } from "./scaledAdam.ts";
import { canFuse, gradientSums, updateBatches } from "./scaledAdamPasses.ts";
import { exportState, importState, type OptimizerState } from "./scaledAdamState.ts";

interface GroupOptions extends ScaledAdamSettings {
  lr: number;
  fused: boolean;
  log: ((line: string) => void) | undefined;
}

/** Parameters with one learning rate and one clipping; what {@link ScaledAdam} is made of. */
export class ScaledAdamGroup {
  /** Learning rate of the next step. */
  lr: number;
  readonly settings: ScaledAdamSettings;
  readonly names: readonly string[];
  readonly parameters: readonly Tensor[];
  private readonly first: number;
  private readonly batches: readonly ParameterBatch[];
  private readonly sizes: ParameterSizes;
  private readonly canFuse: boolean;
  private readonly clipping: GradientClipping | undefined;
  /** False where the gradients of the last step were infinite or not a number, and it was made without them. */
  wereFinite = true;
  private readonly log: ((line: string) => void) | undefined;
  private steps = 0;

  /** @param first the position of the group's first parameter in the checkpoint */
  constructor(named: readonly (readonly [name: string, parameter: Tensor])[], first: number, { lr, fused, log, ...settings }: GroupOptions) {
    this.settings = settings;
    this.lr = lr;
    this.log = log;
    this.first = first;
    this.names = named.map(([name]) => name);
    this.parameters = named.map(([, parameter]) => parameter);
    this.batches = batchParameters(this.parameters);
    this.sizes = new ParameterSizes(this.batches, this.settings);
    this.canFuse = fused && canFuse(this.batches);
    const { clippingScale, clippingUpdatePeriod: updatePeriod } = this.settings;
    this.clipping = clippingScale === null ? undefined : new GradientClipping({ clippingScale, updatePeriod, log });
  }

  private get fused(): boolean {
    return this.canFuse && !isComposed();
  }

  /** @throws TrainError TRAIN_GRADIENTS_NOT_FINITE */
  step(): void {
    noGrad(() =>
      scope(() => {
        const gradients = this.batches.map((batch) => batch.gradients());
        const stacked = this.fused ? null : gradients.map((list) => stack(list));
        const sums = gradientSums(this.batches, gradients, stacked);
        const factor = this.clippingFactor(sums);
        if (this.steps === 0) this.startState(sums);
        const zero = factor === 0;
        this.wereFinite = !zero;
        this.update(zero ? gradients.map((list) => list.map((g) => zerosLike(g))) : gradients, zero ? (stacked?.map((g) => zerosLike(g)) ?? null) : stacked, sums, factor);
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
  private update(gradients: readonly (readonly Tensor[])[], stacked: readonly Tensor[] | null, sums: Tensor, factor: number): void {
    const { betas, eps } = this.settings;
    const growths = this.sizes.step(sums, { step: this.steps, factor, lr: this.lr }).mul(1 - betas[0]);
    const rates = this.sizes.rates().mul((1 - betas[0]) * factor * this.lr);
    const correction = 1 - betas[1] ** (this.steps + 1);
    const constants = { betas, eps, correction: correction < 0.99 ? correction : 1, gradScale: factor };
    updateBatches(this.batches, gradients, { ...constants, rates, growths, limits: this.sizes.limits }, stacked);
  }

  private startState(sums: Tensor): void {
    this.sizes.initialize(sums);
    for (const batch of this.batches) batch.state = { expAvgSq: keep(zerosLike(batch.values)), delta: keep(zerosLike(batch.values)) };
  }

  /** Steps taken. */
  get stepCount(): number {
    return this.steps;
  }

  stateDict(): OptimizerState {
    return exportState({
      lr: this.lr,
      first: this.first,
      settings: this.settings,
      parameterCount: this.parameters.length,
      steps: this.steps,
      batches: this.batches,
      sizes: this.sizes,
      clipping: this.clipping,
    });
  }

  /** @param state of this group alone, by the positions of the checkpoint. @throws CheckpointError CHECKPOINT_MISMATCH */
  loadStateDict(state: OptimizerState): void {
    const { first, names, batches, sizes, clipping, settings } = this;
    const { lr, steps } = importState(state, { first, names, batches, sizes, clipping, settings });
    this.steps = steps;
    if (lr !== undefined) this.lr = lr;
  }

  /** Frees the state; the parameters stay. */
  dispose(): void {
    for (const batch of this.batches) batch.dispose();
    this.sizes.dispose();
  }
}
