import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { batchSizesFor, describePlan, planShards, type ShardPlan, shardStrategies } from "../../../src/data/tarred/plan.ts";

const shardsOf = (...sizes: number[]) => sizes.map((utterances, i) => ({ path: `audio_${i}.tar`, utterances }));
const sizes = fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 20 });
const world = fc.record({ worldSize: fc.integer({ min: 1, max: 6 }), numWorkers: fc.integer({ min: 1, max: 4 }), batchSize: fc.integer({ min: 1, max: 9 }) });

/** Every utterance that is read, as shard:place, how often. */
function readsOf(plan: ShardPlan): Map<string, number> {
  const reads = new Map<string, number>();
  for (const { parts } of plan.shares) for (const { shard, from, to } of parts) for (let i = from; i < to; i++) reads.set(`${shard}:${i}`, (reads.get(`${shard}:${i}`) ?? 0) + 1);
  return reads;
}

describe("planShards", () => {
  test("even: every utterance exactly once, and no rank or worker ever runs out first", () => {
    fc.assert(
      fc.property(sizes, world, (counts, who) => {
        const total = counts.reduce((a, b) => a + b, 0);
        fc.pre(total >= who.worldSize * who.numWorkers);
        const plan = planShards(shardsOf(...counts), { strategy: "even", ...who });
        const reads = readsOf(plan);
        expect(reads.size).toBe(total);
        expect([...reads.values()].every((n) => n === 1)).toBe(true);
        expect(new Set(plan.shares.map(({ steps }) => steps)).size).toBe(1);
        expect(plan.equalSteps).toBe(true);
        const each = plan.shares.map(({ utterances }) => utterances);
        expect(Math.max(...each) - Math.min(...each)).toBeLessThanOrEqual(1);
        for (const { utterances, steps } of plan.shares) {
          const batches = batchSizesFor(utterances, who.batchSize, steps);
          expect(batches.reduce((a, b) => a + b, 0)).toBe(utterances);
          expect(Math.min(...batches)).toBeGreaterThan(0);
          expect(Math.max(...batches)).toBeLessThanOrEqual(Math.max(who.batchSize, 2)); // batches of one cannot always be equal in number
        }
      }),
    );
  });

  test("repeat: whole shards, all readers have the same number, and what is repeated is counted", () => {
    fc.assert(
      fc.property(sizes, world, (counts, who) => {
        const total = counts.reduce((a, b) => a + b, 0);
        fc.pre(total > 0);
        const plan = planShards(shardsOf(...counts), { strategy: "repeat", ...who });
        const reads = readsOf(plan);
        expect(reads.size).toBe(total);
        expect([...reads.values()].reduce((a, b) => a + b, 0)).toBe(total + plan.repeated);
        expect(new Set(plan.shares.map(({ utterances }) => utterances)).size).toBe(1);
        expect(new Set(plan.shares.map(({ steps }) => steps)).size).toBe(1);
        expect(plan.warnings.some((warning) => warning.startsWith(`${plan.repeated} utterances`))).toBe(plan.repeated > 0);
      }),
    );
  });

  test("scatter and replicate are NeMo's, with every warning of its page", () => {
    const plan = planShards(shardsOf(10, 10, 10, 9, 10), { strategy: "scatter", worldSize: 2, numWorkers: 3, batchSize: 4 });
    expect(plan.shares.map(({ rank, worker, parts }) => [rank, worker, parts.map(({ shard }) => shard)])).toEqual([
      [0, 0, [0]],
      [0, 1, [1]],
      [0, 2, []],
      [1, 0, [2]],
      [1, 1, [3]],
      [1, 2, []],
    ]);
    expect(plan).toMatchObject({ dividesByRanks: false, dividesByWorkers: false, equalUtterances: false, equalSteps: true, unused: { shards: [4], utterances: 10 } });
    expect(plan.warnings).toEqual([
      expect.stringMatching(/^5 shards do not divide by 2 ranks: 1 shards with 10 utterances are never read \(first: audio_4\.tar\)/),
      expect.stringMatching(/^2 of 6 workers have nothing to read/),
      "ranks have 19 to 20 utterances in the same 6 steps: their last batches differ in size",
      "shards have 9 to 10 utterances after filtering; NeMo expects the same number in each",
    ]);
    const uneven = planShards(shardsOf(8, 4), { strategy: "scatter", worldSize: 2, batchSize: 4 });
    expect(uneven.equalSteps).toBe(false);
    expect(uneven.warnings[0]).toMatch(/^rank 1 runs out after 1 steps, rank 0 has 2: training that waits for all ranks would hang/);
    expect(planShards(shardsOf(5, 5), { strategy: "scatter", batchSize: 4, dropLast: true }).ranks[0]?.steps).toBe(2);
    const replicate = planShards(shardsOf(5, 5), { strategy: "replicate", worldSize: 2 });
    expect(replicate.ranks.map(({ utterances }) => utterances)).toEqual([10, 10]);
    expect(replicate.warnings).toEqual(["every utterance is read by each of the 2 ranks: an epoch has 20 instead of 10"]);
  });

  test("what divides has no warnings, under any strategy but replicate", () => {
    for (const strategy of shardStrategies.filter((one) => one !== "replicate"))
      expect(planShards(shardsOf(8, 8, 8, 8), { strategy, worldSize: 2, numWorkers: 2, batchSize: 4 }).warnings, strategy).toEqual([]);
  });

  test("the plan in words", () => {
    expect(describePlan(planShards(shardsOf(3, 2), { strategy: "even", worldSize: 2, batchSize: 2 }))).toEqual([
      "2 shards, 5 utterances; 2 ranks x 1 workers, batches of 2, strategy even",
      "shards divide by 2 ranks and divide by 2 workers; ranks have different numbers of utterances and the same number of steps",
      "rank 0: 1 shards, 2 utterances, 2 steps",
      "rank 1: 2 shards, 3 utterances, 2 steps",
      "never read: 0; read again: 0",
    ]);
  });

  test("what cannot be is refused: too few utterances, no ranks, unknown strategies", () => {
    expect(() => planShards(shardsOf(1), { worldSize: 2 })).toThrow(/SHARDS_TOO_FEW/);
    expect(() => planShards(shardsOf(0), { strategy: "repeat" })).toThrow(/SHARDS_TOO_FEW/);
    expect(() => planShards(shardsOf(1), { worldSize: 0 })).toThrow(/worldSize is 0.*CONFIG_BAD_VALUE/);
    expect(() => planShards(shardsOf(1), { strategy: "block" as "even" })).toThrow(/CONFIG_BAD_VALUE/);
    expect(planShards([], { strategy: "scatter" }).ranks).toEqual([{ rank: 0, shards: 0, utterances: 0, repeated: 0, steps: 0 }]);
  });
});
