/** ScaledAdam: Adam whose steps are proportional to the size of each parameter, and that learns the size as well. */
import type { Tensor } from "../torch/index.ts";
import { CheckpointError, ConfigError } from "../util/errors.ts";
import { ScaledAdamGroup } from "./scaledAdamGroup.ts";
import type { OptimizerState } from "./scaledAdamState.ts";

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

/** Parameters with a learning rate of their own. */
export interface ParameterGroup {
  named: Iterable<readonly [name: string, parameter: Tensor]>;
  /** The options' unless given. */
  lr?: number;
}

const isGroups = (given: Iterable<readonly [string, Tensor]> | readonly ParameterGroup[]): given is readonly ParameterGroup[] =>
  Array.isArray(given) && given.length > 0 && !Array.isArray(given[0]);

/**
 * ScaledAdam. Parameters of one shape are updated together: the optimiser moves their values into one tensor that they become views of,
 * so move a model to its device before making the optimiser.
 * A parameter without a gradient is updated with a gradient of 0. Groups are clipped each by itself.
 * Source: Zipformer (arXiv 2310.11230), section 3.6; icefall zipformer/optim.py.
 */
export class ScaledAdam {
  readonly settings: ScaledAdamSettings;
  readonly names: readonly string[];
  readonly parameters: readonly Tensor[];
  private readonly groups: readonly ScaledAdamGroup[];
  /** Learning rates of the groups over that of the first. */
  private readonly ratios: readonly number[];

  /**
   * @param given parameters with their names, in the order of the checkpoint; or groups of them
   * @throws ConfigError CONFIG_BAD_VALUE when there are no parameters, or an option is out of its range
   */
  constructor(given: Iterable<readonly [name: string, parameter: Tensor]> | readonly ParameterGroup[], { lr = 0.03, fused = true, log, ...options }: ScaledAdamOptions = {}) {
    const stated = Object.entries(options).filter(([, value]) => value !== undefined);
    this.settings = { ...defaults, ...Object.fromEntries(stated) };
    const groups = (isGroups(given) ? given : [{ named: given }]).map((group) => ({ named: Array.from(group.named), lr: group.lr ?? lr }));
    for (const group of groups) check(group.lr, this.settings, group.named.length);
    let first = 0;
    this.groups = groups.map(({ named, lr }) => {
      const group = new ScaledAdamGroup(named, first, { ...this.settings, lr, fused, log });
      first += named.length;
      return group;
    });
    const [base] = groups as [(typeof groups)[number]];
    this.ratios = groups.map((group) => (group === base ? 1 : group.lr / base.lr));
    this.names = groups.flatMap(({ named }) => named.map(([name]) => name));
    this.parameters = groups.flatMap(({ named }) => named.map(([, parameter]) => parameter));
  }

  /** Learning rate of the next step, of the first group; when it is set the others keep their ratio to it. */
  get lr(): number {
    return (this.groups[0] as ScaledAdamGroup).lr;
  }

  set lr(value: number) {
    this.groups.forEach((group, i) => {
      group.lr = value * (this.ratios[i] as number);
    });
  }

  /** Learning rates of the groups. */
  get groupRates(): readonly number[] {
    return this.groups.map(({ lr }) => lr);
  }

  /** Steps taken. */
  get stepCount(): number {
    return (this.groups[0] as ScaledAdamGroup).stepCount;
  }

  /** False where gradients of the last step were infinite or not a number: the step of their group was made without them. */
  get gradientsWereFinite(): boolean {
    return this.groups.every(({ wereFinite }) => wereFinite);
  }

  /** Forgets the gradients. */
  zeroGrad(): void {
    for (const parameter of this.parameters) parameter.grad = null;
  }

  /**
   * Updates the parameters by their gradients. Waits for the device once a group, for the norm.
   * @throws TrainError TRAIN_GRADIENTS_NOT_FINITE when the gradients of half of the last steps were not finite; nothing of that group is updated then
   */
  step(): void {
    for (const group of this.groups) group.step();
  }

  /**
   * The state in the layout of icefall's checkpoints: of every batch under the index of its first parameter. The tensors are the optimiser's own, not copies.
   */
  stateDict(): OptimizerState {
    const states = this.groups.map((group) => group.stateDict());
    return { state: new Map(states.flatMap(({ state }) => [...state])), param_groups: states.flatMap(({ param_groups }) => param_groups) };
  }

  /**
   * Goes on from a saved state, icefall's or ours. The values are copied; the settings stay as they were given, only `lr` is taken over.
   * @throws CheckpointError CHECKPOINT_MISMATCH when the state is of other parameters; nothing is changed then where there is one group
   */
  loadStateDict({ state, param_groups: saved }: OptimizerState): void {
    if (saved.length > 0 && saved.length !== this.groups.length)
      throw new CheckpointError("CHECKPOINT_MISMATCH", {
        message: `the optimiser's state has ${saved.length} groups of parameters, this one has ${this.groups.length}`,
        fix: "give the options that the checkpoint was trained with, or leave the optimiser's state out to start it anew",
      });
    let first = 0;
    this.groups.forEach((group, i) => {
      const end = first + group.parameters.length;
      const own = this.groups.length === 1 ? state : new Map([...state].filter(([index]) => index >= first && index < end));
      const listed = saved[i];
      group.loadStateDict({ state: own, param_groups: listed ? [listed] : [] });
      first = end;
    });
  }

  /** Frees the state; the parameters stay. */
  dispose(): void {
    for (const group of this.groups) group.dispose();
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
