import { fromTypedArray, type Tensor } from "../torch/index.ts";
import type { Random } from "../util/random.ts";

/**
 * Which utterances of a batch keep something: each loses it with probability `rate`. Drawn on the host, so that a batch that loses
 * nothing costs nothing.
 * @returns an array of 0 and 1, or null when all keep it
 */
export function drawUtterances(random: Random, batch: number, rate: number): Float32Array | null {
  if (rate <= 0) return null;
  const kept = new Float32Array(batch);
  let all = true;
  for (let i = 0; i < batch; i++) {
    const keep = random.uniform() > rate;
    kept[i] = keep ? 1 : 0;
    all &&= keep;
  }
  return all ? null : kept;
}

/** The draw as a tensor of the dtype and device of `like`. @param shape one that holds N elements */
export function utteranceMask(random: Random, batch: number, rate: number, shape: readonly number[], like: Tensor): Tensor | null {
  const kept = drawUtterances(random, batch, rate);
  return kept && fromTypedArray(kept, shape).to({ dtype: like.dtype, device: like.device });
}
