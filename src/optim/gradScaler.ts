/** Scaling of the loss, so that gradients in half precision do not vanish. */
import { callOperator, full, noGrad, scope, stack, type Tensor, zeros } from "../torch/index.ts";
import { ConfigError } from "../util/errors.ts";

/** Options of {@link GradScaler}; the defaults are torch's. */
export interface GradScalerOptions {
  /** False makes it do nothing. True unless given. */
  enabled?: boolean;
  /** 65536 unless given; icefall begins with 1. */
  initScale?: number;
  /** 2 unless given. */
  growthFactor?: number;
  /** 0.5 unless given. */
  backoffFactor?: number;
  /** Steps without infinite gradients after which the scale grows. 2000 unless given. */
  growthInterval?: number;
}

/** What a checkpoint holds under "grad_scaler"; empty when disabled. */
export interface GradScalerState {
  scale?: number;
  growth_factor?: number;
  backoff_factor?: number;
  growth_interval?: number;
  _growth_tracker?: number;
}

/** What is scaled and stepped. */
export interface ScalableOptimizer {
  readonly parameters: readonly Tensor[];
  step(): void;
}

/**
 * Multiplies the loss by a factor before the backward pass and divides the gradients by it before the step. Where a gradient is not finite the step is left out
 * and the factor falls; after many good steps it grows.
 * Source: torch.cuda.amp.GradScaler.
 */
export class GradScaler {
  readonly enabled: boolean;
  private readonly growthFactor: number;
  private readonly backoffFactor: number;
  private readonly growthInterval: number;
  private current: number;
  private goodSteps = 0;
  private found = false;

  /** @throws ConfigError CONFIG_BAD_VALUE when an option is out of its range */
  constructor({ enabled = true, initScale = 65536, growthFactor = 2, backoffFactor = 0.5, growthInterval = 2000 }: GradScalerOptions = {}) {
    const good = initScale > 0 && growthFactor > 1 && backoffFactor > 0 && backoffFactor < 1 && Number.isInteger(growthInterval) && growthInterval > 0;
    if (!good) {
      throw new ConfigError("CONFIG_BAD_VALUE", {
        at: "GradScaler",
        message: `initScale ${initScale} must be above 0, growthFactor ${growthFactor} above 1, backoffFactor ${backoffFactor} between 0 and 1, growthInterval ${growthInterval} an integer of at least 1`,
      });
    }
    this.enabled = enabled;
    this.current = initScale;
    this.growthFactor = growthFactor;
    this.backoffFactor = backoffFactor;
    this.growthInterval = growthInterval;
  }

  /** The factor; 1 when disabled. */
  get factor(): number {
    return this.enabled ? this.current : 1;
  }

  /** The loss times the factor. */
  scale(loss: Tensor): Tensor {
    return this.enabled ? loss.mul(this.current) : loss;
  }

  /**
   * Divides the gradients by the factor and steps, unless a gradient is not finite. Waits for the device once.
   * @returns whether the optimiser stepped
   */
  step(optimizer: ScalableOptimizer): boolean {
    if (this.enabled) this.found = noGrad(() => scope(() => this.unscale(optimizer.parameters)));
    if (this.found) return false;
    optimizer.step();
    return true;
  }

  /** Adjusts the factor after a step. @param scale takes this one instead */
  update(scale?: number): void {
    if (!this.enabled) return;
    if (scale !== undefined) {
      this.current = scale;
    } else if (this.found) {
      this.current *= this.backoffFactor;
      this.goodSteps = 0;
    } else if (++this.goodSteps === this.growthInterval) {
      this.current *= this.growthFactor;
      this.goodSteps = 0;
    }
    this.found = false;
  }

  /** @returns whether a gradient is not finite */
  private unscale(parameters: readonly Tensor[]): boolean {
    const grads = parameters.map((p) => p.grad).filter((g) => g !== null);
    const first = grads[0];
    if (!first) return false;
    const inverse = 1 / this.current;
    if (first.device.startsWith("cuda")) {
      const found = zeros([1], { device: first.device });
      callOperator("aten::_amp_foreach_non_finite_check_and_unscale_", [grads, found, full([1], inverse, { device: first.device })]);
      return found.item() !== 0;
    }
    for (const g of grads) g.mul_(inverse);
    return (
      stack(grads.map((g) => g.isfinite().all()))
        .all()
        .item() === 0
    );
  }

  stateDict(): GradScalerState {
    if (!this.enabled) return {};
    return { scale: this.current, growth_factor: this.growthFactor, backoff_factor: this.backoffFactor, growth_interval: this.growthInterval, _growth_tracker: this.goodSteps };
  }

  /** Takes the factor and the count of good steps over; the options stay as given. An empty state, of a run without scaling, changes nothing. */
  loadStateDict({ scale, _growth_tracker: goodSteps }: GradScalerState): void {
    if (scale !== undefined) this.current = scale;
    if (goodSteps !== undefined) this.goodSteps = goodSteps;
  }
}
