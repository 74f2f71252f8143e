/** Learning-rate schedules. */
import { ConfigError } from "../util/errors.ts";

/** What a schedule needs of an optimiser. */
export interface HasLearningRate {
  lr: number;
}

/** Options of {@link Eden}. */
export interface EdenOptions {
  /** The rate that the factors multiply; the optimiser's lr unless given. */
  baseLr?: number;
  /** Batches after which the rate has clearly begun to fall; icefall trains with 7500. */
  lrBatches: number;
  /** The same in epochs; icefall trains with 3.5. */
  lrEpochs: number;
  /** Batches over which the rate rises linearly. 500 unless given. */
  warmupBatches?: number;
  /** Share of the rate that the rise begins with. 0.5 unless given. */
  warmupStart?: number;
}

/** What a checkpoint holds under "scheduler". */
export interface EdenState {
  epoch: number;
  batch: number;
}

/**
 * lr = base * ((b^2 + B^2) / B^2)^-0.25 * ((e^2 + E^2) / E^2)^-0.25 * warmup, b batches and e epochs begun before this one.
 * Every change sets the optimiser's `lr`.
 * Source: icefall zipformer/optim.py.
 */
export class Eden {
  private readonly optimizer: HasLearningRate;
  private readonly options: Required<EdenOptions>;
  private epoch = 0;
  private batch = 0;

  /** @throws ConfigError CONFIG_BAD_VALUE when an option is out of its range */
  constructor(optimizer: HasLearningRate, { baseLr = optimizer.lr, lrBatches, lrEpochs, warmupBatches = 500, warmupStart = 0.5 }: EdenOptions) {
    this.optimizer = optimizer;
    this.options = { baseLr, lrBatches, lrEpochs, warmupBatches, warmupStart };
    for (const [name, value] of Object.entries({ lrBatches, lrEpochs })) {
      if (!(value > 0)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "Eden", message: `${name} is ${value}; it must be above 0` });
    }
    if (!(warmupStart >= 0 && warmupStart <= 1)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "Eden", message: `warmupStart is ${warmupStart}; it must be between 0 and 1` });
    this.apply();
  }

  /** The rate at the current batch and epoch. */
  get lr(): number {
    const { baseLr, lrBatches, lrEpochs, warmupBatches, warmupStart } = this.options;
    const b = ((this.batch ** 2 + lrBatches ** 2) / lrBatches ** 2) ** -0.25;
    const e = ((this.epoch ** 2 + lrEpochs ** 2) / lrEpochs ** 2) ** -0.25;
    const warmup = this.batch >= warmupBatches ? 1 : warmupStart + (1 - warmupStart) * (this.batch / warmupBatches);
    return baseLr * b * e * warmup;
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

  private apply(): void {
    this.optimizer.lr = this.lr;
  }
}
