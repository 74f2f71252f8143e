import fc from "fast-check";
import { expect, test } from "vitest";
import { createSampler, FusedSampler, memorySource, type SamplerFusion, samplerFusions } from "../../../src/data/sampling/index.ts";
import { corpus, drain, throughJson } from "./corpus.ts";

type Named = { id: string; duration: number; block?: string };

const made = async (sizes: readonly number[], fusion: SamplerFusion, { rank = 0, worldSize = 1, seed = 5, weights = undefined as readonly number[] | undefined } = {}) =>
  new FusedSampler<Named>(
    await Promise.all(
      sizes.map(async (size, i) => ({
        name: `part${i}`,
        weight: weights?.[i],
        sampler: await createSampler<Named>(memorySource(corpus(size, i).map((item) => ({ ...item, id: `${i}/${item.id}` }))), {
          maxCuts: 3,
          kind: "dynamic",
          shuffle: true,
          bufferSize: 10,
          rank,
          worldSize,
        }),
      })),
    ),
    { fusion, seed, mark: (item, block) => ({ ...item, block }) },
  );
const ids = async (sampler: Awaited<ReturnType<typeof made>>, epoch = 0): Promise<string[][]> =>
  Promise.all((await drain(await sampler.epoch(epoch))).map(async (batch) => (await batch.load()).map(({ id }) => id)));

const fusions = fc.constantFrom(...samplerFusions);
const sizes = fc.array(fc.integer({ min: 6, max: 40 }), { minLength: 1, maxLength: 4 });

test("round robin gives every item once, in turns, and goes on without what has ended", async () => {
  const batches = await ids(await made([12, 30], "round_robin"));
  expect(batches.map(([first]) => first?.[0]).join("")).toBe("01010101111111"); // 4 batches of the first, 10 of the second
  expect(new Set(batches.flat()).size).toBe(42);
});

test("randomized batches come by weight, zipped ones together until one ends, and each item says where it is from", async () => {
  const random = await ids(await made([3000, 3000], "randomized_round_robin", { weights: [3, 1] }));
  const first = random.slice(0, 1000).filter(([id]) => id?.startsWith("0")).length;
  expect(first / 1000).toBeCloseTo(0.75, 1);
  expect(new Set(random.flat()).size).toBe(6000);
  const zipped = await drain(await (await made([9, 30], "zip")).epoch(0));
  expect(zipped.length).toBe(3);
  const items = await zipped[0]?.load();
  expect(items?.map(({ block }) => block)).toEqual(["part0", "part0", "part0", "part1", "part1", "part1"]);
});

test("goes on after a restart from any step, also behind what a loader drew ahead", () =>
  fc.assert(
    fc.asyncProperty(sizes, fusions, fc.nat(), fc.nat(), async (sizes, fusion, point, ahead) => {
      const whole = await ids(await made(sizes, fusion), 2);
      const stream = await (await made(sizes, fusion)).epoch(2);
      const stop = point % (whole.length + 1);
      for (let i = 0; i < stop + (ahead % 5); i++) await stream.next();
      const state = throughJson(stream.stateAt(stop));
      const resumed = await (await made(sizes, fusion)).resume(state);
      const rest = await Promise.all((await drain(resumed)).map(async (batch) => [batch.step, (await batch.load()).map(({ id }) => id)]));
      expect(rest).toEqual(whole.slice(stop).map((batch, i) => [stop + i, batch]));
      // A second restart is as good as the first.
      const again = await (await made(sizes, fusion)).resume(throughJson(resumed.stateAt(resumed.step)));
      expect(await again.next()).toBeUndefined();
    }),
    { numRuns: 100 },
  ));

test("all ranks take as many steps, and together every item once", () =>
  fc.assert(
    fc.asyncProperty(sizes, fc.constantFrom("round_robin" as const, "randomized_round_robin" as const), fc.integer({ min: 1, max: 3 }), async (sizes, fusion, worldSize) => {
      const ranks = await Promise.all(Array.from({ length: worldSize }, async (_, rank) => ids(await made(sizes, fusion, { rank, worldSize }))));
      expect(new Set(ranks.map((batches) => batches.length)).size).toBe(1);
      expect(new Set(ranks.flat(2)).size).toBe(sizes.reduce((a, b) => a + b, 0));
      // At each step all ranks draw from the same sampler.
      ranks[0]?.forEach((batch, step) => {
        for (const other of ranks) expect(other[step]?.[0]?.[0]).toBe(batch[0]?.[0]);
      });
    }),
    { numRuns: 60 },
  ));

test("states of others are refused", async () => {
  const state = (await (await made([9, 9], "zip")).epoch(0)).state();
  await expect((await made([9, 9], "round_robin")).resume(state)).rejects.toThrow(/SAMPLER_BAD_STATE/);
  await expect((await made([9, 9], "zip", { seed: 6 })).resume(state)).rejects.toThrow(/SAMPLER_BAD_STATE/);
  await expect((await made([9, 12], "zip")).resume(state)).rejects.toThrow(/SAMPLER_SOURCE_CHANGED/);
  await expect(made([9], "randomized_round_robin", { weights: [0] })).rejects.toThrow(/MIX_BAD_WEIGHT/);
});
