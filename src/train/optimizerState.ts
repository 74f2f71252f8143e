/** The optimiser's state as tensors by name and plain numbers, which is how checkpoints hold it. */
import type { OptimizerState, StateEntry } from "../optim/index.ts";
import type { Tensor } from "../torch/index.ts";

export interface FlatState {
  /** "INDEX.NAME": the tensors. */
  tensors: Map<string, Tensor>;
  /** The rest, as JSON. */
  numbers: Record<string, unknown>;
}

const isTensor = (value: Tensor | number): value is Tensor => typeof value !== "number";

export function flattenState({ state, param_groups }: OptimizerState): FlatState {
  const tensors = new Map<string, Tensor>();
  const scalars: Record<string, Record<string, number>> = {};
  for (const [index, entry] of state) {
    const numbers: Record<string, number> = {};
    for (const [name, value] of Object.entries(entry)) {
      if (isTensor(value)) tensors.set(`${index}.${name}`, value);
      else numbers[name] = value;
    }
    scalars[index] = numbers;
  }
  return { tensors, numbers: { state: scalars, param_groups } };
}

export function unflattenState({ tensors, numbers }: FlatState): OptimizerState {
  const entries = new Map<number, Record<string, Tensor | number>>();
  for (const [index, values] of Object.entries((numbers.state ?? {}) as Record<string, Record<string, number>>)) entries.set(Number(index), { ...values });
  for (const [key, tensor] of tensors) {
    const dot = key.indexOf(".");
    const index = Number(key.slice(0, dot));
    const entry = entries.get(index) ?? {};
    entry[key.slice(dot + 1)] = tensor;
    entries.set(index, entry);
  }
  return { state: entries as ReadonlyMap<number, StateEntry>, param_groups: (numbers.param_groups ?? []) as OptimizerState["param_groups"] };
}
