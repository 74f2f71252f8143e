/** Learning-rate schedules. */
import { ConfigError } from "../util/errors.ts";

/** What a schedule needs of an optimiser. */
export interface HasLearningRate {
  lr: number;
}

/** How the rate rises at the beginning, and what it is a part of. */
export interface WarmupOptions {
  /** The rate that the factors multiply; the optimiser's lr unless given. */
  baseLr?: number;
  /** Batches after which the rate has clearly begun to fall; icefall trains with 7500. */
  lrBatches: number;
  /** Batches over which the rate rises linearly. 500 unless given. */
  warmupBatches?: number;
  /** Share of the rate that the rise begins with. 0.5 unless given. */
  warmupStart?: number;
}

/** Options of {@link Eden}. */
export interface EdenOptions extends WarmupOptions {
  /** The same in epochs; icefall trains with 3.5. */
  lrEpochs: number;
}

/** What a checkpoint holds under "scheduler". */
export interface EdenState {
  epoch: number;
  batch: number;
}

/** Where training stands, and the linear rise at its beginning. Every change sets the optimiser's `lr`. */
abstract class Schedule {
  private readonly optimizer: HasLearningRate;
  private readonly baseLr: number;
  private readonly warmupBatches: number;
  private readonly warmupStart: number;
  protected readonly lrBatches: number;
  protected epoch = 0;
  protected batch = 0;

  constructor(optimizer: HasLearningRate, { baseLr = optimizer.lr, lrBatches, warmupBatches = 500, warmupStart = 0.5 }: WarmupOptions) {
    this.optimizer = optimizer;
    this.baseLr = baseLr;
    this.lrBatches = lrBatches;
    this.warmupBatches = warmupBatches;
    this.warmupStart = warmupStart;
    this.positive({ lrBatches });
    if (!(warmupStart >= 0 && warmupStart <= 1))
      throw new ConfigError("CONFIG_BAD_VALUE", { at: this.constructor.name, message: `warmupStart is ${warmupStart}; it must be between 0 and 1` });
  }

  protected positive(values: Record<string, number>): void {
    for (const [name, value] of Object.entries(values)) {
      if (!(value > 0)) throw new ConfigError("CONFIG_BAD_VALUE", { at: this.constructor.name, message: `${name} is ${value}; it must be above 0` });
    }
  }

  /** What the base rate is multiplied by, but for the warm-up. */
  protected abstract get factor(): number;

  /** The rate at the current batch and epoch. */
  get lr(): number {
    const warmup = this.batch >= this.warmupBatches ? 1 : this.warmupStart + (1 - this.warmupStart) * (this.batch / this.warmupBatches);
    return this.baseLr * this.factor * warmup;
  }

  /** To be called before every step of the optimiser. @param batch trained before, over all epochs; the next one unless given */
  stepBatch(batch: number = this.batch + 1): void {
    this.batch = batch;
    this.apply();
  }

  /** To be called at the beginning of an epoch. @param epoch from 0; the next one unless given */
  stepEpoch(epoch: number = this.epoch + 1): void {
    this.epoch = epoch;
    this.apply();
  }

  stateDict(): EdenState {
    return { epoch: this.epoch, batch: this.batch };
  }

  loadStateDict({ epoch, batch }: EdenState): void {
    this.epoch = epoch;
    this.batch = batch;
    this.apply();
  }

  protected apply(): void {
    this.optimizer.lr = this.lr;
  }
}

/** ((x^2 + X^2) / X^2)^power: 1 at first, a power of x after X. */
const decay = (x: number, scale: number, power: number): number => ((x ** 2 + scale ** 2) / scale ** 2) ** power;

/**
 * lr = base * ((b^2 + B^2) / B^2)^-0.25 * ((e^2 + E^2) / E^2)^-0.25 * warmup, b batches and e epochs begun before this one.
 * Source: icefall zipformer/optim.py.
 */
export class Eden extends Schedule {
  private readonly lrEpochs: number;

  /** @throws ConfigError CONFIG_BAD_VALUE when an option is out of its range */
  constructor(optimizer: HasLearningRate, { lrEpochs, ...options }: EdenOptions) {
    super(optimizer, options);
    this.lrEpochs = lrEpochs;
    this.positive({ lrEpochs });
    this.apply();
  }

  protected get factor(): number {
    return decay(this.batch, this.lrBatches, -0.25) * decay(this.epoch, this.lrEpochs, -0.25);
  }
}

/**
 * lr = base * ((b^2 + B^2) / B^2)^-0.5 * warmup: Eden for data without epochs.
 * Source: icefall zipformer/optim.py.
 */
export class Eden2 extends Schedule {
  /** @throws ConfigError CONFIG_BAD_VALUE when an option is out of its range */
  constructor(optimizer: HasLearningRate, options: WarmupOptions) {
    super(optimizer, options);
    this.apply();
  }

  protected get factor(): number {
    return decay(this.batch, this.lrBatches, -0.5);
  }
}
