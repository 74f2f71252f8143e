/** Which utterance goes to which shard: NeMo's order and borders, shuffled as Python shuffles. */
import { PythonRandom } from "../../../util/pythonRandom.ts";
import type { ConversionPlan } from "./plan.ts";

/**
 * @param seed undefined leaves the manifest's order
 * @returns the plan's rows in the order in which shards take them
 */
export function orderRows(plan: Pick<ConversionPlan, "count" | "groups">, seed: number | undefined): Uint32Array {
  const order = new Uint32Array(plan.count);
  for (let i = 0; i < order.length; i++) order[i] = i;
  if (seed === undefined) return order;
  const random = new PythonRandom(seed);
  if (plan.groups === undefined) return random.shuffle(order);
  const starts = new Uint32Array(plan.groups.reduce((most, group) => Math.max(most, group + 1), 0));
  const sizes = new Uint32Array(starts.length);
  for (const group of plan.groups) sizes[group] = (sizes[group] as number) + 1;
  const files = random.shuffle(Uint32Array.from({ length: starts.length }, (_, i) => i));
  let at = 0;
  for (const file of files) {
    starts[file] = at;
    at += sizes[file] as number;
  }
  for (let i = 0; i < plan.groups.length; i++) {
    const group = plan.groups[i] as number;
    order[starts[group] as number] = i;
    starts[group] = (starts[group] as number) + 1;
  }
  return order;
}

/** How utterances divide over shards. */
export interface Division {
  /** Utterances of each shard. */
  sizes: number[];
  /** Utterances at the end that no shard gets. */
  dropped: number;
}

/**
 * NeMo's shards have floor(count / shards) utterances each, and what is left over is dropped; with `keepRemainder` the first shards take one more.
 * Where there are fewer utterances than shards, there is a shard for each.
 */
export function divide(count: number, shards: number, keepRemainder: boolean): Division {
  const n = Math.min(shards, count);
  if (n === 0) return { sizes: [], dropped: 0 };
  const each = Math.floor(count / n);
  const rest = count % n;
  return { sizes: Array.from({ length: n }, (_, i) => each + (keepRemainder && i < rest ? 1 : 0)), dropped: keepRemainder ? 0 : rest };
}

/** Whole shards of `each` utterances, as concatenation makes them; with `keepRemainder` what is left over is spread over them, or is a shard of its own. */
export function divideByShardSize(count: number, each: number, keepRemainder: boolean): Division {
  const n = Math.floor(count / each);
  if (keepRemainder && count > 0) return divide(count, Math.max(1, n), true);
  return { sizes: Array.from({ length: n }, () => each), dropped: count - n * each };
}

/** Sorts rows by duration in place; those of equal duration keep their order. */
export function sortByDuration(rows: Uint32Array, durations: Float64Array): void {
  rows.set(Array.from(rows).sort((a, b) => (durations[a] as number) - (durations[b] as number)));
}
