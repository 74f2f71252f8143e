/** `--inf-check`: says where values or gradients stop being finite. Source: icefall/hooks.py, register_inf_check_hooks. */
import type { Module } from "../nn/index.ts";
import { noGrad, scope, type Tensor } from "../torch/index.ts";
import { OutputWatch } from "./outputWatch.ts";

const hasFiniteSum = (tensor: Tensor): boolean => noGrad(() => scope(() => Number.isFinite(tensor.detach().to({ dtype: "float32" }).sum().item())));

/** Checks every output, its gradient and every parameter's gradient; speaks of those that are not finite, and changes nothing. */
export class InfCheck {
  private readonly model: Module;
  private readonly watch: OutputWatch;
  private readonly say: (line: string) => void;

  constructor(model: Module, say: (line: string) => void) {
    this.model = model;
    this.say = say;
    this.watch = new OutputWatch(model, ({ name, part, tensor }) => this.check(`${name}.${part}`, tensor));
  }

  private check(what: string, tensor: Tensor): void {
    if (!hasFiniteSum(tensor)) this.say(`The sum of ${what} is not finite`);
  }

  /** To be called after every backward pass, before the gradients are forgotten. */
  afterBackward(): void {
    this.watch.afterBackward(({ name, part, tensor }) => this.check(`${name}.${part}`, tensor));
    for (const [name, parameter] of this.model.namedParameters()) if (parameter.grad) this.check(`${name}.param_grad`, parameter.grad);
  }

  close(): void {
    this.watch.close();
  }
}
