/** Items and samplers for the tests. */
import fc from "fast-check";
import { createSampler, memorySource, type SampledBatch, type SamplerOptions, type SamplerState } from "../../../src/data/sampling/index.ts";

export interface Item {
  id: string;
  duration: number;
  tokens: number;
}

/** Durations as of read speech, 0.5 to 30 s, to the millisecond; the same for the same count and seed. */
export function corpus(count: number, seed = 1): Item[] {
  let x = seed * 2654435761;
  const next = () => {
    x = (Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0;
    return ((x ^ (x >>> 13)) >>> 0) / 2 ** 32;
  };
  return Array.from({ length: count }, (_, i) => {
    const duration = Math.round((0.5 + 29.5 * next() ** 2) * 1000) / 1000;
    return { id: `utt-${i}`, duration, tokens: Math.round(duration * (1 + 5 * next())) };
  });
}

export const source = (items: readonly Item[]) => memorySource(items, { name: "corpus", tokens: (item) => item.tokens, where: (row) => `corpus:${row + 1}` });

/** All batches of an epoch, each as the refs of its items. */
export async function batchesOf(items: readonly Item[], options: SamplerOptions, epoch = 0): Promise<number[][]> {
  const sampler = await createSampler(source(items), options);
  return (await drain(await sampler.epoch(epoch))).map(({ refs }) => [...refs]);
}

export async function drain<T>(stream: AsyncIterable<SampledBatch<T>>): Promise<SampledBatch<T>[]> {
  const batches: SampledBatch<T>[] = [];
  for await (const batch of stream) batches.push(batch);
  return batches;
}

/** As a checkpoint keeps it. */
export const throughJson = (state: SamplerState): SamplerState => JSON.parse(JSON.stringify(state)) as SamplerState;

/** Lists of items, from one to some hundreds. */
export const items = (min = 1): fc.Arbitrary<Item[]> =>
  fc
    .array(fc.tuple(fc.integer({ min: 1, max: 30_000 }), fc.integer({ min: 0, max: 200 })), { minLength: min, maxLength: 300 })
    .map((list) => list.map(([milliseconds, tokens], i) => ({ id: `utt-${i}`, duration: milliseconds / 1000, tokens })));

const kinds = fc.constantFrom("bucketing" as const, "dynamic" as const, "static" as const, "simple" as const);

/** Settings under which every item of `items` has a batch. */
export const settings: fc.Arbitrary<SamplerOptions> = fc.record({
  kind: kinds,
  maxDuration: fc.integer({ min: 30, max: 300 }),
  maxCuts: fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
  numBuckets: fc.integer({ min: 1, max: 12 }),
  numCutsForBinsEstimate: fc.constantFrom(50, 10_000),
  bufferSize: fc.constantFrom(1, 7, 50, 20_000),
  shuffle: fc.boolean(),
  seed: fc.integer({ min: 0, max: 2 ** 40 }),
});
