/** ScaledAdam's state in the layout of icefall's checkpoints, which is that of torch's optimisers. */
import { fromTypedArray, keep, noGrad, scope, type Tensor } from "../torch/index.ts";
import { CheckpointError } from "../util/errors.ts";
import type { GradientClipping } from "./clipping.ts";
import type { BatchState, ParameterBatch, ScaleState } from "./parameterBatch.ts";
import type { ParameterSizes } from "./parameterSizes.ts";
import type { ScaledAdamSettings } from "./scaledAdam.ts";

/** State of one batch: `step`, `exp_avg_sq`, `delta`, ... by the names of the checkpoint. */
export type StateEntry = Readonly<Record<string, Tensor | number>>;

/** What a checkpoint holds under "optimizer". */
export interface OptimizerState {
  /** By the index of a batch's first parameter. */
  state: ReadonlyMap<number, StateEntry>;
  param_groups: readonly Readonly<Record<string, unknown>>[];
}

interface Exported {
  lr: number;
  /** The position of the group's first parameter in the checkpoint. */
  first: number;
  settings: ScaledAdamSettings;
  parameterCount: number;
  steps: number;
  batches: readonly ParameterBatch[];
  sizes: ParameterSizes;
  clipping: GradientClipping | undefined;
}

/** Writes the state in the checkpoint's layout. */
export function exportState({ lr, first: offset, settings: s, parameterCount, steps, batches, sizes, clipping }: Exported): OptimizerState {
  const state = new Map<number, StateEntry>();
  let first = 0;
  batches.forEach((batch, i) => {
    if (!batch.state) return;
    const { expAvgSq, delta } = batch.state;
    const scale = batch.isScalar ? undefined : sizes.of(batch, first);
    first += batch.parameters.length;
    state.set(offset + (batch.indices[0] as number), {
      step: steps,
      exp_avg_sq: expAvgSq,
      ...(scale && { param_rms: scale.paramRms, scale_grads: scale.scaleGrads, scale_exp_avg_sq: scale.scaleExpAvgSq }),
      delta,
      ...(i === 0 && clipping ? exportClipping(clipping) : {}),
    });
  });
  const group = {
    lr,
    clipping_scale: s.clippingScale,
    betas: s.betas,
    scalar_lr_scale: s.scalarLrScale,
    eps: s.eps,
    param_min_rms: s.paramMinRms,
    param_max_rms: s.paramMaxRms,
    scalar_max: s.scalarMax,
    size_update_period: s.sizeUpdatePeriod,
    clipping_update_period: s.clippingUpdatePeriod,
    params: Array.from({ length: parameterCount }, (_, i) => offset + i),
  };
  return { state, param_groups: [group] };
}

function exportClipping({ norms, threshold, clipped }: GradientClipping): Record<string, Tensor | number> {
  return {
    ...(norms && { model_norms: fromTypedArray(norms, [norms.length]) }),
    ...(threshold !== undefined && { model_norm_threshold: threshold }),
    ...(clipped !== undefined && { num_clipped: clipped }),
  };
}

interface Target {
  first: number;
  names: readonly string[];
  batches: readonly ParameterBatch[];
  sizes: ParameterSizes;
  clipping: GradientClipping | undefined;
  settings: ScaledAdamSettings;
}

/**
 * Copies a checkpoint's state into the batches and the clipping.
 * @returns the steps taken, and the learning rate if the checkpoint has one
 * @throws CheckpointError CHECKPOINT_MISMATCH; nothing is changed then
 */
export function importState({ state, param_groups: groups }: OptimizerState, target: Target): { steps: number; lr: number | undefined } {
  const { names, batches, clipping } = target;
  const listed = groups.flatMap((group) => (Array.isArray(group.params) ? group.params : []));
  if (groups.length > 0 && listed.length !== names.length) throw mismatch(`it is of ${listed.length} parameters, the model has ${names.length}`);
  const lr = typeof groups[0]?.lr === "number" ? groups[0].lr : undefined;
  if (state.size === 0) {
    for (const batch of batches) batch.state = undefined;
    return { steps: 0, lr };
  }
  if (state.size !== batches.length) throw mismatch(`it is of ${state.size} shapes of parameters, the model has ${batches.length}`);

  const loaded = noGrad(() => scope(() => batches.map((batch) => readEntry(state, batch, target))));
  const steps = loaded[0]?.step as number;
  const uneven = loaded.findIndex(({ step }) => step !== steps);
  if (uneven >= 0) throw mismatch(`its entries have taken ${steps} and ${loaded[uneven]?.step} steps`);
  let first = 0;
  batches.forEach((batch, i) => {
    const { exp_avg_sq, delta, ...scale } = (loaded[i] as (typeof loaded)[number]).tensors;
    batch.state = { expAvgSq: exp_avg_sq, delta } as BatchState;
    if (!batch.isScalar) scope(() => loadSizes(target.sizes.of(batch, first), scale));
    first += batch.parameters.length;
  });
  if (clipping) scope(() => importClipping(clipping, state.get(target.first + (batches[0]?.indices[0] as number)) as StateEntry, target.settings));
  return { steps, lr };
}

function loadSizes({ paramRms, scaleGrads, scaleExpAvgSq }: ScaleState, saved: Record<string, Tensor>): void {
  const pairs = [
    [paramRms, saved.param_rms],
    [scaleGrads, saved.scale_grads],
    [scaleExpAvgSq, saved.scale_exp_avg_sq],
  ] as [Tensor, Tensor][];
  for (const [to, from] of pairs) {
    noGrad(() => to.copy_(from));
    from.dispose();
  }
}

function readEntry(state: ReadonlyMap<number, StateEntry>, batch: ParameterBatch, { first, names, settings }: Target): { step: number; tensors: Record<string, Tensor> } {
  const index = batch.indices[0] as number;
  const at = `${names[index]} and ${batch.indices.length - 1} others of its shape`;
  const entry = state.get(first + index);
  if (!entry) throw mismatch(`it has nothing for ${at}`);
  if (typeof entry.step !== "number") throw mismatch(`it has no step for ${at}`);
  const full = batch.values.shape;
  const item = full.map((size, i) => (i === 0 ? size : 1));
  const wanted: Record<string, readonly number[]> = { exp_avg_sq: full, delta: full };
  if (!batch.isScalar) Object.assign(wanted, { param_rms: item, scale_grads: [settings.sizeUpdatePeriod, ...item], scale_exp_avg_sq: item });
  const tensors: Record<string, Tensor> = {};
  for (const [name, shape] of Object.entries(wanted)) {
    const value = entry[name];
    if (value === undefined || typeof value === "number") throw mismatch(`it has no ${name} for ${at}`);
    if (value.shape.join() !== shape.join()) throw mismatch(`its ${name} for ${at} is (${value.shape.join(", ")}), not (${shape.join(", ")})`);
    tensors[name] = keep(value.detach().to({ dtype: batch.values.dtype, device: batch.values.device, copy: true }));
  }
  return { step: entry.step, tensors };
}

function importClipping(clipping: GradientClipping, { model_norms: norms, model_norm_threshold: threshold, num_clipped: clipped }: StateEntry, settings: ScaledAdamSettings): void {
  // With another update period than the saved one the ring has another length: it begins anew, the threshold stays.
  const fits = norms !== undefined && typeof norms !== "number" && norms.numel === settings.clippingUpdatePeriod;
  clipping.norms = fits ? norms.detach().to({ device: "cpu" }).toFloat32Array().slice() : undefined;
  clipping.threshold = toNumber(threshold);
  clipping.clipped = toNumber(clipped);
}

const toNumber = (value: Tensor | number | undefined): number | undefined => (value === undefined || typeof value === "number" ? value : value.item());

function mismatch(what: string): CheckpointError {
  return new CheckpointError("CHECKPOINT_MISMATCH", {
    message: `the optimiser's state is of another model: ${what}`,
    fix: "give the options that the checkpoint was trained with, or leave the optimiser's state out to start it anew",
  });
}
