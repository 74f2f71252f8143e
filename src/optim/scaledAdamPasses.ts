/** ScaledAdam's passes over the memory of a batch of parameters: by our own operators on CPUs, which read everything once, or composed of libtorch's. */
import { ops, stack, type Tensor } from "../torch/index.ts";
import type { BatchState, ParameterBatch } from "./parameterBatch.ts";

/** What one step does to the n parameters of a batch. */
export interface StepConstants {
  /** (n) what a gradient as large as the root of its mean square changes an element by. */
  rates: Tensor;
  /** (n) by which part of itself a parameter grows; null in steps that do not change sizes. */
  growths: Tensor | null;
  betas: readonly [number, number];
  eps: number;
  /** What the running mean of squares is divided by, since it began at 0. */
  correction: number;
  /** Factor on the gradients. */
  gradScale: number;
  /** Elements stay within plus and minus this. */
  limit: number;
}

/** True where our own operators can do it. */
export function canFuse({ values }: ParameterBatch): boolean {
  return values.device === "cpu" && (values.dtype === "float32" || values.dtype === "float64");
}

/** @returns (3, n) float64: of every parameter v and its gradient g the sums of g * g, v * g and v * v */
export function gradientSums(batch: ParameterBatch, gradients: readonly Tensor[], fused: boolean): Tensor {
  if (fused) return ops.scaledAdamSums(batch.values, gradients);
  const n = gradients.length;
  const g = stack(gradients);
  const dot = (a: Tensor, b: Tensor): Tensor =>
    a
      .reshape([n, 1, -1])
      .bmm(b.reshape([n, -1, 1]))
      .view([n]);
  return stack([dot(g, g), dot(batch.values, g), dot(batch.values, batch.values)]).to({ dtype: "float64" });
}

/** Changes values, `expAvgSq` and `delta` of a batch by its gradients. */
export function updateBatch(batch: ParameterBatch, gradients: readonly Tensor[], constants: StepConstants, fused: boolean): void {
  const { expAvgSq, delta } = batch.state as BatchState;
  const { rates, growths, betas, eps, correction, gradScale, limit } = constants;
  const [beta1, beta2] = betas;
  if (fused) {
    ops.scaledAdamUpdate_(batch.values, gradients, expAvgSq, delta, rates, growths ?? rates.mul(0), beta1, beta2, eps, correction, gradScale, limit);
    return;
  }
  const dtype = batch.values.dtype;
  const g = stack(gradients);
  expAvgSq.mul_(beta2).addcmul_(g, g, { value: (1 - beta2) * gradScale * gradScale });
  const denominator = expAvgSq
    .div(correction)
    .sqrt_()
    .add_(eps)
    .div_(batch.perItem(rates.to({ dtype })));
  delta.mul_(beta1).addcdiv_(g, denominator, { value: -1 });
  if (growths) delta.addcmul_(batch.values, batch.perItem(growths.to({ dtype })));
  batch.values.add_(delta);
  if (Number.isFinite(limit)) batch.values.clamp_(-limit, limit);
}
