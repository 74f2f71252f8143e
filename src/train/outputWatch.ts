/** Sees what every module of a model puts out, and the gradients of it: for diagnostics and for finding where numbers stop being finite. */
import type { Module } from "../nn/index.ts";
import { keep, Tensor } from "../torch/index.ts";

/** What a module put out. */
export interface WatchedOutput {
  /** Path of the module; "<top-level>" for the model itself. */
  name: string;
  module: Module;
  /** "output", or "output[i]" for the i-th of several tensors. */
  part: string;
  tensor: Tensor;
}

/** The tensors of an output, by the names of icefall's hooks. */
function tensorsOf(output: unknown): [string, Tensor][] {
  if (output instanceof Tensor) return [["output", output]];
  const several = Array.isArray(output) ? output : typeof output === "object" && output !== null ? Object.values(output) : [];
  return several.flatMap((item, i): [string, Tensor][] => (item instanceof Tensor ? [[`output[${i}]`, item]] : []));
}

type Forward = (...inputs: unknown[]) => unknown;

/** Watches a model until it is closed. One object a model at a time. */
export class OutputWatch {
  private readonly watched: (Module & { forward?: Forward })[] = [];
  private kept: WatchedOutput[] = [];

  /** @param onOutput is called in every forward pass, in the order of computation */
  constructor(model: Module, onOutput: (output: WatchedOutput) => void) {
    for (const [path, found] of model.namedModules()) {
      const module = found as Module & { forward?: Forward };
      const forward = module.forward;
      if (typeof forward !== "function") continue;
      const name = path === "" ? "<top-level>" : path;
      this.watched.push(module);
      module.forward = (...inputs: unknown[]) => {
        const output = forward.apply(module, inputs);
        for (const [part, tensor] of tensorsOf(output)) {
          const watched: WatchedOutput = { name, module, part, tensor };
          onOutput(watched);
          if (!tensor.requiresGrad || !tensor.isFloatingPoint) continue;
          tensor.retainGrad();
          this.kept.push({ ...watched, tensor: keep(tensor) });
        }
        return output;
      };
    }
  }

  /** To be called after every backward pass. @param onGradient gets the gradients of the outputs, the last one first */
  afterBackward(onGradient: (gradient: WatchedOutput) => void): void {
    const seen = new Set<Tensor>();
    for (const { tensor, part, ...rest } of this.kept.reverse()) {
      const { grad } = tensor;
      if (grad) onGradient({ ...rest, part: part.replace("output", "grad"), tensor: grad });
      seen.add(tensor);
    }
    for (const tensor of seen) tensor.dispose();
    this.kept = [];
  }

  /** Gives the model its own methods back. */
  close(): void {
    for (const module of this.watched) delete module.forward;
    this.afterBackward(() => {});
  }
}
