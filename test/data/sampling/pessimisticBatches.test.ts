import { expect, test } from "vitest";
import { createSampler, pessimisticBatches } from "../../../src/data/sampling/index.ts";
import { corpus, drain, source } from "./corpus.ts";

test("finds the batches that no other batch exceeds", async () => {
  const sampler = await createSampler(source(corpus(1000)), { maxDuration: 100, maxCuts: 30, numBuckets: 8, shuffle: true });
  const all = (await drain(await sampler.epoch(0))).map(({ durations }) => durations);
  const { found, batches, cuts } = await pessimisticBatches(await sampler.epoch(0));
  expect([batches, cuts]).toEqual([all.length, 1000]);
  const most = (measure: (durations: readonly number[]) => number): number => Math.max(...all.map(measure));
  const sum = (durations: readonly number[]): number => durations.reduce((total, one) => total + one, 0);
  expect(found.singleLongestCut?.value).toBe(most((durations) => Math.max(...durations)));
  expect(found.largestBatchCutsDuration?.value).toBe(most(sum));
  const mostCuts = most((durations) => durations.length);
  expect(found.maxNumCuts?.value).toBe(mostCuts);
  expect(found.largestPaddedBatch?.value).toBe(most((durations) => durations.length * Math.max(...durations)));
  expect(found.maxNumCuts?.batch.step).toBe(all.findIndex(({ length }) => length === mostCuts));
  expect((await found.singleLongestCut?.batch.load())?.length).toBe(found.singleLongestCut?.batch.refs.length);
});

test("looks at no more than it is told to, and releases all batches but those that it gives", async () => {
  const held = new Set<number>();
  const items = source(corpus(500));
  const watched = Object.assign(Object.create(items) as typeof items, { release: (refs: ArrayLike<number>) => Array.from(refs, (ref) => held.delete(ref)) });
  const sampler = await createSampler(watched, { maxDuration: 100, numBuckets: 8, shuffle: true });
  const all = await drain(await sampler.epoch(0));
  for (const { refs } of all) for (const ref of refs) held.add(ref);
  const whole = await pessimisticBatches(await sampler.epoch(0));
  expect([...held].sort()).toEqual([...new Set(Object.values(whole.found).flatMap(({ batch }) => batch.refs))].sort());
  expect(await pessimisticBatches(await sampler.epoch(0), { batches: 3 })).toMatchObject({ batches: 3 });
  const some = await pessimisticBatches(await sampler.epoch(0), { cuts: 100 });
  expect(some.cuts).toBeGreaterThanOrEqual(100);
  expect(some.cuts - 100).toBeLessThan(Math.max(...all.map(({ refs }) => refs.length)));
  expect(await pessimisticBatches(await sampler.epoch(0), { batches: 0 })).toEqual({ found: {}, batches: 0, cuts: 0 });
});
