/** `--print-diagnostics`: what the outputs, gradients and parameters of every module are like, over a few batches. Source: icefall/diagnostics.py. */
import { Balancer, type Module } from "../nn/index.ts";
import type { Tensor } from "../torch/index.ts";
import { OutputWatch, type WatchedOutput } from "./outputWatch.ts";
import { TensorStats } from "./tensorStats.ts";

/** bfloat16 is left out, as icefall does. */
const isCounted = ({ dtype }: Tensor): boolean => dtype === "float32" || dtype === "float16" || dtype === "float64";

/** A module's class as icefall prints it. */
function className(module: Module): string {
  const { name } = module.constructor;
  if (!(module instanceof Balancer)) return name;
  const { minPositive, maxPositive, minAbs, maxAbs } = module.limits();
  return `${name}[${[minPositive, maxPositive, minAbs, maxAbs].join(",")}]`;
}

/** Collects statistics of a model in training. */
export class Diagnostics {
  private readonly model: Module;
  private readonly watch: OutputWatch;
  private readonly stats = new Map<string, { stats: TensorStats; type: string | undefined }>();

  constructor(model: Module) {
    this.model = model;
    this.watch = new OutputWatch(model, (output) => this.take(output));
  }

  private take({ name, module, part, tensor }: WatchedOutput): void {
    if (isCounted(tensor)) this.add(`${name}.${part}`, tensor, className(module));
  }

  private add(name: string, tensor: Tensor, type?: string): void {
    const entry = this.stats.get(name) ?? { stats: new TensorStats(), type };
    this.stats.set(name, entry);
    entry.stats.add(tensor);
  }

  /** To be called after every backward pass, before the parameters change. */
  afterBackward(): void {
    this.watch.afterBackward((gradient) => this.take(gradient));
    for (const [name, parameter] of this.model.namedParameters()) {
      if (!parameter.grad) continue;
      this.add(`${name}.param_value`, parameter);
      this.add(`${name}.param_grad`, parameter.grad);
    }
  }

  /** All lines, sorted by name. */
  lines(): string[] {
    const names = [...this.stats.keys()].sort();
    return names.flatMap((name) => {
      const { stats, type } = this.stats.get(name) as { stats: TensorStats; type: string | undefined };
      return stats.lines(`module=${name},${type === undefined ? "" : ` type=${type},`}`);
    });
  }

  close(): void {
    this.watch.close();
  }
}
