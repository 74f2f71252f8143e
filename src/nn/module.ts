/**
 * What layers are made of: named parameters and sub-modules, whose order is that of PyTorch's state_dict.
 */
import { type DType, type Generator, keep, noGrad, type Tensor } from "../torch/index.ts";
import { CheckpointError, internal } from "../util/errors.ts";
import type { Random } from "../util/random.ts";

/** A tensor that is trained. */
export type Parameter = Tensor;

/**
 * What a forward pass depends on besides its input and the parameters. One object is shared by all modules of a model, so that
 * one assignment reaches every layer.
 */
export interface RunState {
  /** False in evaluation: no randomness, no regularisers. */
  training: boolean;
  /** Adjusted number of batches seen, for scheduled values; undefined until training sets it. */
  batchCount: number | undefined;
  /** Draws of single numbers: layers to skip, chunk sizes. Present while training. */
  random: Random | undefined;
  /** Draws of tensors: masks. Present while training. */
  generator: Generator | undefined;
}

/** Base of all layers and models. */
export abstract class Module {
  private readonly ownParameters = new Map<string, Parameter>();
  private readonly ownModules = new Map<string, Module>();
  private readonly ownTensors = new Map<string, Tensor>();
  /** Factor on the learning rate of the parameters in it and below; see `parameterGroups`. */
  lrScale: number | undefined;
  /** Shared by the whole model once `train()` or `eval()` was called on its root. */
  run: RunState = { training: false, batchCount: undefined, random: undefined, generator: undefined };

  /** Registers a parameter under the key that checkpoints use. It is kept out of scopes and gets gradients. */
  protected parameter(name: string, value: Tensor): Parameter {
    if (this.ownParameters.has(name) || this.ownModules.has(name)) internal(`a second '${name}' in ${this.constructor.name}`);
    const parameter = keep(value.detach().requiresGrad_(true));
    this.ownParameters.set(name, parameter);
    return parameter;
  }

  /** Registers a sub-module under the key that checkpoints use. */
  protected child<M extends Module>(name: string, module: M): M {
    if (this.ownParameters.has(name) || this.ownModules.has(name)) internal(`a second '${name}' in ${this.constructor.name}`);
    this.ownModules.set(name, module);
    return module;
  }

  /** Keeps a tensor that is no parameter, such as a table, until another takes its name or the module is disposed of. */
  protected hold(name: string, value: Tensor): Tensor {
    this.ownTensors.get(name)?.dispose();
    this.ownTensors.set(name, keep(value));
    return value;
  }

  /** True between `train()` and `eval()`. */
  get training(): boolean {
    return this.run.training;
  }

  /** The stream of single random numbers of a training forward pass. */
  protected get random(): Random {
    return this.run.random ?? internal("a random number was asked for outside of training");
  }

  /** The generator of random tensors of a training forward pass. */
  protected get generator(): Generator {
    return this.run.generator ?? internal("a random tensor was asked for outside of training");
  }

  /** Parameters with their keys, a module's own before those of its sub-modules. */
  *namedParameters(prefix = ""): Generator_<[string, Parameter]> {
    for (const [name, parameter] of this.ownParameters) yield [prefix + name, parameter];
    for (const [name, module] of this.ownModules) yield* module.namedParameters(`${prefix}${name}.`);
  }

  parameters(): Parameter[] {
    return Array.from(this.namedParameters(), ([, parameter]) => parameter);
  }

  /** This module and all below it, with their paths; its own is "". */
  *namedModules(prefix = ""): Generator_<[string, Module]> {
    yield [prefix, this];
    for (const [name, module] of this.ownModules) yield* module.namedModules(prefix ? `${prefix}.${name}` : name);
  }

  /** Number of trained numbers. */
  get parameterCount(): number {
    return this.parameters().reduce((sum, p) => sum + p.numel, 0);
  }

  /** Starts training: random draws come from these streams from now on, in this module and all below. */
  train({ random, generator }: { random: Random; generator: Generator }): this {
    this.share({ training: true, batchCount: this.run.batchCount, random, generator });
    return this;
  }

  /** Ends training: forward passes are deterministic. */
  eval(): this {
    this.share({ training: false, batchCount: this.run.batchCount, random: undefined, generator: undefined });
    return this;
  }

  /** Sets the number of batches that scheduled values depend on, in this module and all that share its state. */
  setBatchCount(count: number): void {
    this.run.batchCount = count;
  }

  /** What the module remembers from one training step to the next besides its parameters; checkpoints keep it. Most remember nothing. */
  trainingState(): number | undefined {
    return undefined;
  }

  /** Puts back what `trainingState()` gave; undefined is a module that has not trained yet. */
  restoreTrainingState(_state: number | undefined): void {}

  private share(run: RunState): void {
    for (const [, module] of this.namedModules()) module.run = run;
  }

  /** The parameters by key: the tensors themselves, not copies. */
  stateDict(): Map<string, Parameter> {
    return new Map(this.namedParameters());
  }

  /**
   * Copies values into the parameters. Keys may carry DDP's prefix "module.".
   * @throws CheckpointError CHECKPOINT_MISMATCH naming the first keys and shapes that differ; nothing is changed then
   */
  loadStateDict(state: ReadonlyMap<string, Tensor>): void {
    const given = new Map(Array.from(state, ([key, value]) => [key.replace(/^module\./, ""), value]));
    const own = this.stateDict();
    const problems: string[] = [];
    for (const [key, parameter] of own) {
      const value = given.get(key);
      if (!value) problems.push(`${key} is missing`);
      else if (value.shape.join() !== parameter.shape.join()) problems.push(`${key} is (${value.shape.join(", ")}), the model's is (${parameter.shape.join(", ")})`);
    }
    for (const key of given.keys()) if (!own.has(key)) problems.push(`${key} is not in the model`);
    if (problems.length > 0) {
      const more = problems.length > 5 ? `; and ${problems.length - 5} more` : "";
      throw new CheckpointError("CHECKPOINT_MISMATCH", {
        message: `the parameters are of another architecture: ${problems.slice(0, 5).join("; ")}${more}`,
        fix: "give the options that the checkpoint was trained with",
      });
    }
    noGrad(() => {
      for (const [key, parameter] of own) parameter.copy_(given.get(key) as Tensor);
    });
  }

  /** Moves the parameters to another device or dtype, in place. Call before an optimiser is made. */
  to({ device, dtype }: { device?: string; dtype?: DType }): this {
    for (const [name, parameter] of this.ownParameters) {
      const moved = parameter.detach().to({ device, dtype });
      if (moved === parameter) continue;
      this.replace(name, parameter, keep(moved.requiresGrad_(true)));
    }
    for (const module of this.ownModules.values()) module.to({ device, dtype });
    return this;
  }

  private replace(name: string, before: Parameter, after: Parameter): void {
    this.ownParameters.set(name, after);
    const fields = this as unknown as Record<string, unknown>;
    for (const [field, value] of Object.entries(fields)) if (value === before) fields[field] = after;
  }

  /** Frees the parameters and tables, of this module and all below. */
  dispose(): void {
    for (const parameter of this.ownParameters.values()) {
      parameter.grad = null;
      parameter.dispose();
    }
    for (const tensor of this.ownTensors.values()) tensor.dispose();
    for (const module of this.ownModules.values()) module.dispose();
  }
}

/** JavaScript's generators, beside libtorch's of the same name. */
type Generator_<T> = Iterable<T> & Iterator<T, void>;
