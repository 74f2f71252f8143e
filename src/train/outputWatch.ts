/** Sees what every module of a model puts out, and the gradients of it: for diagnostics and for finding where numbers stop being finite. */
import type { Module } from "../nn/index.ts";
import { keep, scope, Tensor, zerosLike } from "../torch/index.ts";

/** What a module put out. */
export interface WatchedOutput {
  /** Path of the module; "<top-level>" for the model itself. */
  name: string;
  module: Module;
  /** "output", or "output[i]" for the i-th of several tensors; "grad" and "grad[i]" for their gradients. */
  part: string;
  tensor: Tensor;
}

type Forward = (...inputs: unknown[]) => unknown;
type Watchable = Module & { forward?: Forward };

/** Replaces the tensors of an output: of one alone, or of a list or an object of several. */
function mapTensors(output: unknown, change: (tensor: Tensor, part: string) => Tensor): unknown {
  if (output instanceof Tensor) return change(output, "");
  if (typeof output !== "object" || output === null) return output;
  const entries = Object.entries(output).map(([key, item], i) => [key, item instanceof Tensor ? change(item, `[${i}]`) : item] as const);
  return Array.isArray(output) ? entries.map(([, item]) => item) : Object.fromEntries(entries);
}

/** Watches a model until it is closed. */
export class OutputWatch {
  private readonly watched: { module: Watchable; own: Forward | undefined }[] = [];
  /** Zeros that were added to outputs: their gradients are those of the outputs. */
  private probes: (WatchedOutput & { probe: Tensor })[] = [];

  /** @param onOutput is called in every forward pass, in the order of computation; the tensor is not its own */
  constructor(model: Module, onOutput: (output: WatchedOutput) => void) {
    for (const [path, found] of model.namedModules()) {
      const module = found as Watchable;
      const forward = module.forward;
      if (typeof forward !== "function") continue;
      const name = path === "" ? "<top-level>" : path;
      this.watched.push({ module, own: Object.hasOwn(module, "forward") ? forward : undefined });
      module.forward = (...inputs: unknown[]) =>
        scope(() =>
          mapTensors(forward.apply(module, inputs), (tensor, index) => {
            const watched: WatchedOutput = { name, module, part: `output${index}`, tensor };
            onOutput(watched);
            if (!tensor.requiresGrad || !tensor.isFloatingPoint) return tensor;
            const probe = keep(zerosLike(tensor.detach()).requiresGrad_(true));
            this.probes.push({ ...watched, part: `grad${index}`, probe });
            return tensor.add(probe);
          }),
        );
    }
  }

  /** To be called after every backward pass. @param onGradient gets the gradients of the outputs, the last one first */
  afterBackward(onGradient: (gradient: WatchedOutput) => void): void {
    for (const { probe, ...watched } of this.probes.reverse()) {
      const { grad } = probe;
      if (grad) onGradient({ ...watched, tensor: grad });
      probe.grad = null;
      probe.dispose();
    }
    this.probes = [];
  }

  /** Gives the model its own methods back. Of several watches the last one made is closed first. */
  close(): void {
    for (const { module, own } of this.watched) {
      if (own) module.forward = own;
      else delete module.forward;
    }
    this.afterBackward(() => {});
  }
}
