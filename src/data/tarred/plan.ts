/**
 * Which shards, and which parts of them, each rank and worker reads in an epoch, with the numbers that tell beforehand whether training can
 * hang. `scatter` and `replicate` are NeMo's; under `even` and `repeat` every rank takes the same number of steps, always.
 */
import { ConfigError } from "../../util/errors.ts";

/** How shards go to ranks. */
export type ShardStrategy = "scatter" | "replicate" | "even" | "repeat";
export const shardStrategies: readonly ShardStrategy[] = ["scatter", "replicate", "even", "repeat"];

/** A shard, by what can be read of it. */
export interface ShardSize {
  path: string;
  /** Utterances after filtering. */
  utterances: number;
}

/** Who shares the shards. */
export interface PlanOptions {
  /** `scatter`: a block of floor(shards / worldSize) a rank, the rest is not read. `replicate`: all to each. `even`: every utterance once, shards are split where needed. `repeat`: whole shards, the shorter ranks repeat some. */
  strategy?: ShardStrategy;
  worldSize?: number;
  /** Loaders of each rank. */
  numWorkers?: number;
  /** Utterances of a step. */
  batchSize?: number;
  /** Leaves out the last batch where it is not full; only under scatter and replicate. */
  dropLast?: boolean;
}

/** Utterances `from` (counted in the shard, after filtering) up to but without `to`. */
export interface ShardPart {
  /** Its place in the list of shards. */
  shard: number;
  from: number;
  to: number;
  /** Read a second time, so that all ranks have as much. */
  repeated: boolean;
}

/** What one worker of one rank reads. */
export interface ReaderShare {
  rank: number;
  worker: number;
  parts: ShardPart[];
  /** Repeated ones included. */
  utterances: number;
  repeated: number;
  /** Batches of it. */
  steps: number;
}

/** The same over the workers of a rank. */
export interface RankShare {
  rank: number;
  /** Shards of which it reads something. */
  shards: number;
  utterances: number;
  repeated: number;
  steps: number;
}

/** Who reads what, and what that means. */
export interface ShardPlan {
  strategy: ShardStrategy;
  worldSize: number;
  numWorkers: number;
  batchSize: number;
  shards: number;
  /** Of all shards. */
  utterances: number;
  shares: ReaderShare[];
  ranks: RankShare[];
  /** True where the shards divide by the ranks, and by ranks times workers. */
  dividesByRanks: boolean;
  dividesByWorkers: boolean;
  equalUtterances: boolean;
  equalSteps: boolean;
  /** What is never read: shards by place, and their utterances. */
  unused: { shards: number[]; utterances: number };
  /** Utterances that are read again to fill up. */
  repeated: number;
  /** What NeMo's page warns about, with numbers, and what to do. Empty where all is well. */
  warnings: string[];
}

/** The parts of a stretch of all utterances, by the first utterance of each shard. */
function partsOf(shards: readonly ShardSize[], from: number, to: number): ShardPart[] {
  const parts: ShardPart[] = [];
  let start = 0;
  shards.forEach(({ utterances }, shard) => {
    const first = Math.max(from, start) - start;
    const end = Math.min(to, start + utterances) - start;
    if (first < end) parts.push({ shard, from: first, to: end, repeated: false });
    start += utterances;
  });
  return parts;
}

const whole = (shards: readonly ShardSize[], shard: number): ShardPart => ({ shard, from: 0, to: (shards[shard] as ShardSize).utterances, repeated: false });
const countOf = (parts: readonly ShardPart[]): number => parts.reduce((sum, { from, to }) => sum + to - from, 0);

/** Whole shards, the largest first to whom has least, each list in the shards' order. */
function balance(shards: readonly ShardSize[], readers: number): ShardPart[][] {
  const lists = Array.from({ length: readers }, () => ({ parts: [] as ShardPart[], count: 0 }));
  const order = shards.map((_, i) => i).sort((a, b) => (shards[b] as ShardSize).utterances - (shards[a] as ShardSize).utterances || a - b);
  for (const shard of order) {
    const least = lists.reduce((best, list) => (list.count < best.count ? list : best));
    least.parts.push(whole(shards, shard));
    least.count += (shards[shard] as ShardSize).utterances;
  }
  return lists.map(({ parts }) => parts.filter(({ from, to }) => to > from).sort((a, b) => a.shard - b.shard));
}

/** Repeats parts from their beginning until there are `wanted` utterances more. */
function repeatParts(parts: readonly ShardPart[], wanted: number): ShardPart[] {
  const result: ShardPart[] = [];
  for (let left = wanted; left > 0; )
    for (const { shard, from, to } of parts) {
      if (left === 0) break;
      const count = Math.min(left, to - from);
      result.push({ shard, from, to: from + count, repeated: true });
      left -= count;
    }
  return result;
}

/** Sizes of `steps` batches of `count` utterances that differ by one at most. */
export function batchSizes(count: number, steps: number): number[] {
  return Array.from({ length: steps }, (_, i) => Math.floor(((i + 1) * count) / steps) - Math.floor((i * count) / steps));
}

/** Sizes of the batches of `count` utterances where there must be `steps`: `batchSize` and a rest where that gives as many, else all about the same. */
export function batchSizesFor(count: number, batchSize: number, steps: number): number[] {
  if (Math.ceil(count / batchSize) !== steps) return batchSizes(count, steps);
  return Array.from({ length: steps }, (_, i) => Math.min(batchSize, count - i * batchSize));
}

/**
 * Plans an epoch. Nothing is read; all ranks that call it with the same sizes get the same plan.
 * @throws ConfigError CONFIG_BAD_VALUE; SHARDS_TOO_FEW where some rank or worker could have nothing under `even` or `repeat`
 */
export function planShards(shards: readonly ShardSize[], { strategy = "even", worldSize = 1, numWorkers = 1, batchSize = 1, dropLast = false }: PlanOptions = {}): ShardPlan {
  for (const [name, value] of Object.entries({ worldSize, numWorkers, batchSize }))
    if (!Number.isInteger(value) || value < 1) throw new ConfigError("CONFIG_BAD_VALUE", { message: `${name} is ${value}, expected a whole number of 1 or more` });
  if (!shardStrategies.includes(strategy))
    throw new ConfigError("CONFIG_BAD_VALUE", { message: `the shard strategy is ${JSON.stringify(strategy)}, expected one of ${shardStrategies.join(", ")}` });
  const total = shards.reduce((sum, { utterances }) => sum + utterances, 0);
  const readers = worldSize * numWorkers;
  const lists = assign();
  const shares: ReaderShare[] = lists.map((parts, i) => {
    const utterances = countOf(parts);
    return { rank: Math.floor(i / numWorkers), worker: i % numWorkers, parts, utterances, repeated: countOf(parts.filter((part) => part.repeated)), steps: stepsOf(utterances) };
  });
  const ranks = Array.from({ length: worldSize }, (_, rank): RankShare => {
    const mine = shares.filter((share) => share.rank === rank);
    const sum = (key: "utterances" | "repeated" | "steps"): number => mine.reduce((all, share) => all + share[key], 0);
    return {
      rank,
      shards: new Set(mine.flatMap(({ parts }) => parts.map(({ shard }) => shard))).size,
      utterances: sum("utterances"),
      repeated: sum("repeated"),
      steps: sum("steps"),
    };
  });
  const read = new Set(shares.flatMap(({ parts }) => parts.map(({ shard }) => shard)));
  const unusedShards = shards.map((_, i) => i).filter((i) => !read.has(i) && (strategy === "scatter" || (shards[i] as ShardSize).utterances > 0));
  const plan: ShardPlan = {
    strategy,
    worldSize,
    numWorkers,
    batchSize,
    shards: shards.length,
    utterances: total,
    shares,
    ranks,
    dividesByRanks: shards.length % worldSize === 0,
    dividesByWorkers: shards.length % readers === 0,
    equalUtterances: ranks.every(({ utterances }) => utterances === ranks[0]?.utterances),
    equalSteps: ranks.every(({ steps }) => steps === ranks[0]?.steps),
    unused: { shards: unusedShards, utterances: unusedShards.reduce((sum, i) => sum + (shards[i] as ShardSize).utterances, 0) },
    repeated: ranks.reduce((sum, { repeated }) => sum + repeated, 0),
    warnings: [],
  };
  return { ...plan, warnings: warningsOf(plan, shards) };

  function assign(): ShardPart[][] {
    if ((strategy === "even" && total < readers) || (strategy === "repeat" && total === 0))
      throw new ConfigError("SHARDS_TOO_FEW", {
        message: `${total} utterances for ${worldSize} ranks with ${numWorkers} workers each`,
        fix: strategy === "even" ? "use fewer ranks or workers, or the strategy repeat" : "check the filters and the manifests",
      });
    if (strategy === "even") return Array.from({ length: readers }, (_, i) => partsOf(shards, Math.floor((i * total) / readers), Math.floor(((i + 1) * total) / readers)));
    if (strategy === "repeat") {
      const own = balance(shards, readers);
      const most = Math.max(...own.map(countOf));
      const full = own.filter((parts) => parts.length > 0);
      return own.map((parts, i) => [...parts, ...repeatParts(parts.length > 0 ? parts : (full[i % full.length] as ShardPart[]), most - countOf(parts))]);
    }
    const block = Math.floor(shards.length / worldSize);
    return Array.from({ length: readers }, (_, i) => {
      const rank = Math.floor(i / numWorkers);
      const first = strategy === "scatter" ? rank * block : 0;
      const end = strategy === "scatter" ? first + block : shards.length;
      const parts: ShardPart[] = [];
      for (let shard = first + (i % numWorkers); shard < end; shard += numWorkers) parts.push(whole(shards, shard));
      return parts;
    });
  }

  /** Under `even` the shares differ by one utterance: the steps are the same, and their batches are one smaller or larger. */
  function stepsOf(utterances: number): number {
    if (strategy === "even") return Math.min(Math.ceil(Math.ceil(total / readers) / batchSize), Math.floor(total / readers));
    return strategy !== "repeat" && dropLast ? Math.floor(utterances / batchSize) : Math.ceil(utterances / batchSize);
  }
}

function warningsOf(plan: ShardPlan, shards: readonly ShardSize[]): string[] {
  const { strategy, worldSize, numWorkers, ranks, shares, unused, repeated, utterances } = plan;
  const warnings: string[] = [];
  if (unused.shards.length > 0)
    warnings.push(
      `${shards.length} shards do not divide by ${worldSize} ranks: ${unused.shards.length} shards with ${unused.utterances} utterances are never read (first: ${shards[unused.shards[0] as number]?.path}). The strategy even reads all of them`,
    );
  const idle = shares.filter((share) => share.utterances === 0);
  if (idle.length > 0)
    warnings.push(`${idle.length} of ${shares.length} workers have nothing to read: there are ${shards.length} shards. Use fewer workers, more shards, or the strategy even`);
  const most = (key: "utterances" | "steps"): RankShare => ranks.reduce((best, rank) => (rank[key] > best[key] ? rank : best));
  const least = (key: "utterances" | "steps"): RankShare => ranks.reduce((best, rank) => (rank[key] < best[key] ? rank : best));
  if (!plan.equalSteps)
    warnings.push(
      `rank ${least("steps").rank} runs out after ${least("steps").steps} steps, rank ${most("steps").rank} has ${most("steps").steps}: training that waits for all ranks would hang. The strategies even and repeat give all ranks the same number`,
    );
  else if (!plan.equalUtterances && strategy !== "even")
    warnings.push(
      `ranks have ${least("utterances").utterances} to ${most("utterances").utterances} utterances in the same ${most("steps").steps} steps: their last batches differ in size`,
    );
  const sizes = shards.map((shard) => shard.utterances);
  if (worldSize * numWorkers > 1 && new Set(sizes).size > 1 && (strategy === "scatter" || strategy === "replicate"))
    warnings.push(`shards have ${Math.min(...sizes)} to ${Math.max(...sizes)} utterances after filtering; NeMo expects the same number in each`);
  if (strategy === "replicate" && worldSize > 1)
    warnings.push(`every utterance is read by each of the ${worldSize} ranks: an epoch has ${utterances * worldSize} instead of ${utterances}`);
  if (repeated > 0)
    warnings.push(`${repeated} utterances (${((100 * repeated) / utterances).toFixed(1)} %) are read again, so that all ranks have as many. The strategy even repeats none`);
  return warnings;
}

/** The plan as a person reads it: a line a rank, then the warnings. */
export function describePlan(plan: ShardPlan): string[] {
  const { strategy, worldSize, numWorkers, batchSize, shards, utterances, ranks, unused, repeated } = plan;
  return [
    `${shards} shards, ${utterances} utterances; ${worldSize} ranks x ${numWorkers} workers, batches of ${batchSize}, strategy ${strategy}`,
    `shards ${plan.dividesByRanks ? "divide" : "do not divide"} by ${worldSize} ranks and ${plan.dividesByWorkers ? "divide" : "do not divide"} by ${worldSize * numWorkers} workers; ranks have ${plan.equalUtterances ? "the same" : "different"} numbers of utterances and ${plan.equalSteps ? "the same number" : "different numbers"} of steps`,
    ...ranks.map(
      (rank) => `rank ${rank.rank}: ${rank.shards} shards, ${rank.utterances} utterances${rank.repeated > 0 ? ` (${rank.repeated} repeated)` : ""}, ${rank.steps} steps`,
    ),
    `never read: ${unused.utterances}; read again: ${repeated}`,
    ...plan.warnings.map((warning) => `warning: ${warning}`),
  ];
}
