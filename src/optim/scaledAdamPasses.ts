/** ScaledAdam's passes over the memory of all parameters: by our own operators on CPUs, which read everything once, or composed of libtorch's. */
import { cat, ops, scope, stack, type Tensor } from "../torch/index.ts";
import type { BatchState, ParameterBatch } from "./parameterBatch.ts";

/** What one step does to the P parameters of all batches. */
export interface StepConstants {
  /** (P) what a gradient as large as the root of its mean square changes an element by. */
  rates: Tensor;
  /** (P) by which part of itself a parameter grows. */
  growths: Tensor;
  /** (P) elements stay within plus and minus this. */
  limits: Tensor;
  betas: readonly [number, number];
  eps: number;
  /** What the running mean of squares is divided by, since it began at 0. */
  correction: number;
  /** Factor on the gradients. */
  gradScale: number;
}

/** True where our own operators can do it. */
export function canFuse(batches: readonly ParameterBatch[]): boolean {
  const dtype = batches[0]?.values.dtype;
  return (dtype === "float32" || dtype === "float64") && batches.every(({ values }) => values.device === "cpu" && values.dtype === dtype);
}

/**
 * @param gradients of each batch's parameters
 * @param stacked the same, one tensor a batch, to compose the pass of libtorch's operators; null for our own
 * @returns (3, P) float64: of every parameter v and its gradient g the sums of g * g, v * g and v * v
 */
export function gradientSums(batches: readonly ParameterBatch[], gradients: readonly (readonly Tensor[])[], stacked: readonly Tensor[] | null): Tensor {
  const values = batches.map((batch) => batch.values);
  if (!stacked) return ops.scaledAdamSums(values, gradients.flat());
  const dot = (a: Tensor, b: Tensor): Tensor =>
    scope(() =>
      a
        .mul(b)
        .view([a.size(0), -1])
        .sum([1]),
    ); // prettier-ignore
  return cat(
    values.map((v, i) => {
      const g = stacked[i] as Tensor;
      return stack([dot(g, g), dot(v, g), dot(v, v)]).to({ dtype: "float64" });
    }),
    1,
  );
}

/** Changes the values of all parameters, and `expAvgSq` and `delta` of all batches, by the gradients. */
export function updateBatches(batches: readonly ParameterBatch[], gradients: readonly (readonly Tensor[])[], constants: StepConstants, stacked: readonly Tensor[] | null): void {
  const { rates, growths, limits, betas, eps, correction, gradScale } = constants;
  const [beta1, beta2] = betas;
  const states = batches.map((batch) => batch.state as BatchState);
  if (!stacked) {
    const values = batches.map((batch) => batch.values);
    const [squares, deltas] = [states.map(({ expAvgSq }) => expAvgSq), states.map(({ delta }) => delta)];
    ops.scaledAdamUpdate_(values, gradients.flat(), squares, deltas, rates, growths, limits, beta1, beta2, eps, correction, gradScale);
    return;
  }
  let first = 0;
  batches.forEach((batch, i) => {
    const n = batch.parameters.length;
    const of = (perParameter: Tensor): Tensor => batch.perItem(perParameter.narrow(0, first, n).to({ dtype: batch.values.dtype }));
    // What a batch needs is freed before the next one, as the reference does: else all of it is new memory.
    scope(() => updateComposed(batch, states[i] as BatchState, stacked[i] as Tensor, { ...constants, rates: of(rates), growths: of(growths), limits: of(limits) }));
    first += n;
  });
}

/** One batch by libtorch's operators; `rates`, `growths` and `limits` are those of its parameters (n, 1, ...). */
function updateComposed(batch: ParameterBatch, { expAvgSq, delta }: BatchState, g: Tensor, { rates, growths, limits, betas, eps, correction, gradScale }: StepConstants): void {
  const [beta1, beta2] = betas;
  expAvgSq.mul_(beta2).addcmul_(g, g, { value: (1 - beta2) * gradScale * gradScale });
  const root = correction === 1 ? expAvgSq.sqrt() : expAvgSq.div(correction).sqrt_();
  const denominator = root.add_(eps).div_(rates);
  const values = batch.values.clone(); // the reference stacks parameters in every step, and copies them back
  delta.mul_(beta1).addcdiv_(g, denominator, { value: -1 }).addcmul_(values, growths);
  values.add_(delta);
  batch.values.copy_(values);
  if (batch.isScalar) batch.values.copy_(batch.values.minimum(limits).maximum(limits.neg()));
}
