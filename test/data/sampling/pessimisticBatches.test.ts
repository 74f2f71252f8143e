import { expect, test } from "vitest";
import { createSampler, pessimisticBatches } from "../../../src/data/sampling/index.ts";
import { corpus, drain, source } from "./corpus.ts";

test("finds the batches that no other batch exceeds", async () => {
  const sampler = await createSampler(source(corpus(1000)), { maxDuration: 100, maxCuts: 30, numBuckets: 8, shuffle: true });
  const all = (await drain(await sampler.epoch(0))).map(({ durations }) => durations);
  const found = await pessimisticBatches(await sampler.epoch(0));
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
