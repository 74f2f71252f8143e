import { ops, type Tensor } from "../torch/index.ts";
import type { Random } from "../util/random.ts";

/**
 * Now and then turns gradients around that would lead a parameter further out of its range; the values themselves stay.
 * Source: icefall zipformer/scaling.py (limit_param_value, probability 0.6).
 */
export function limitParamValue(x: Tensor, { min, max }: { min: number; max: number }, random: Random): Tensor {
  return random.uniform() < 0.6 ? ops.limitParamValue(x, min, max) : x;
}
