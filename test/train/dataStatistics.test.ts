import { expect, test } from "vitest";
import { memorySource } from "../../src/data/index.ts";
import { dataStatistics, describeData, describeTokens } from "../../src/train/dataStatistics.ts";

const items = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => ({ duration: (from + i + 1) / 10, tokens: from + i + 1 }));
const source = (from: number, to: number) => memorySource(items(from, to), { tokens: ({ tokens }) => tokens });

test("durations and tokens of all sources, with their spread", async () => {
  const statistics = await dataStatistics([source(60, 100), source(0, 60)]);
  expect(Array.from(statistics.tokens)).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
  expect(describeData({ ...statistics, sources: 2, infinite: false })).toBe("100 utterances of 2 sources, 0.14 h, 0.1 to 10 s (median 5.1, 95 % below 9.6)");
  expect(describeTokens(statistics)).toBe("1 to 100 tokens an utterance (median 51, 95 % below 96), 10 to 10 a second (median 10, 95 % below 10)");
});

test("of very many utterances tokens are taken of some, evenly over all sources; sources without counts have none", async () => {
  const statistics = await dataStatistics([source(0, 60), source(60, 100)], 10);
  expect(statistics.durations).toHaveLength(100);
  expect(Array.from(statistics.tokens)).toEqual([1, 11, 21, 31, 41, 51, 61, 71, 81, 91]);
  expect(describeTokens(await dataStatistics([memorySource(items(0, 3))]))).toBeUndefined();
});
