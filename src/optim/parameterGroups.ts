/** Groups of parameters by learning rate. */
import type { Module, Parameter } from "../nn/index.ts";
import type { ParameterGroup } from "./scaledAdam.ts";

/**
 * The parameters of a model by their learning rate: `lr` times the `lrScale` of every module that a parameter lies in. A model without such is one group.
 * Source: icefall/utils.py, get_parameter_groups_with_lrs.
 * @param lr of parameters in modules without `lrScale`
 * @param freeze names of modules at the top whose parameters are left out
 */
export function parameterGroups(model: Module, { lr, freeze = [] }: { lr: number; freeze?: readonly string[] }): (ParameterGroup & { lr: number })[] {
  const scales = new Map(Array.from(model.namedModules(), ([path, module]) => [path, module.lrScale]));
  const groups = new Map<number, [string, Parameter][]>();
  for (const [name, parameter] of model.namedParameters()) {
    const parts = name.split(".");
    if (freeze.includes(parts[0] as string)) continue;
    let rate = lr;
    for (let depth = 0; depth < parts.length; depth++) rate *= scales.get(parts.slice(0, depth).join(".")) ?? 1;
    const group = groups.get(rate) ?? [];
    groups.set(rate, group);
    group.push([name, parameter]);
  }
  return Array.from(groups, ([rate, named]) => ({ lr: rate, named }));
}
