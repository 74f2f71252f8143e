import { describe, expect, test } from "vitest";
import { createSampler, nemoSampling } from "../../../src/data/sampling/index.ts";
import { batchesOf, corpus, drain, source } from "./corpus.ts";

describe("NeMo's keys", () => {
  test("batch_duration limits a batch, min_duration and max_duration an utterance", async () => {
    const { sampler, bounds } = nemoSampling({
      batch_duration: 120,
      quadratic_duration: 20,
      use_bucketing: true,
      num_buckets: 5,
      min_duration: 1,
      max_duration: 20,
      shuffle: true,
    });
    const list = corpus(1000);
    const made = await createSampler(source(list), { ...sampler, bounds });
    expect(made.bins).toEqual([4.8, 8.6, 12.4, 16.2].map((bin) => expect.closeTo(bin, 9)));
    for (const { durations } of await drain(await made.epoch(0))) {
      const longest = Math.max(...durations);
      expect(longest).toBeLessThanOrEqual(20);
      expect(Math.min(...durations)).toBeGreaterThanOrEqual(1);
      expect(durations.length * (longest + longest ** 2 / 20)).toBeLessThanOrEqual(120);
    }
  });

  test("batch_size alone gives batches of so many, from a shuffle buffer", async () => {
    const { sampler } = nemoSampling({ batch_size: 16, shuffle: true, seed: 4 });
    expect(sampler).toMatchObject({ kind: "dynamic", maxCuts: 16, bufferSize: 10_000, seed: 4 });
    expect((await batchesOf(corpus(100), sampler)).map(({ length }) => length)).toEqual([16, 16, 16, 16, 16, 16, 4]);
  });

  test("bins or batch sizes turn bucketing on; the two buffers become one", () => {
    expect(nemoSampling({ batch_duration: 100, bucket_duration_bins: [3, 6] }).sampler).toMatchObject({ kind: "bucketing", durationBins: [3, 6], bufferSize: 20_000 });
    expect(nemoSampling({ bucket_duration_bins: [[3, 10], [6, 20]], bucket_batch_size: [4, 2], bucketing_2d_strict_mode: false, max_tps: [5, 4] }).sampler).toMatchObject({ strict2d: false, maxTps: [5, 4] }); // biome-ignore format: a table
  });

  test("what does not go together says why, and that max_duration has two meanings", () => {
    expect(() => nemoSampling({ max_duration: 100 }, "train_ds")).toThrow(
      /train_ds: nothing says how large a batch is .* Give batch_duration: here max_duration is the longest utterance/,
    );
    expect(() => nemoSampling({})).toThrow(/give batch_duration \(seconds\), batch_size/i);
    expect(() => nemoSampling({ bucket_batch_size: [1, 2] })).toThrow(/bucket_batch_size is given without bucket_duration_bins/);
    expect(() => nemoSampling({ batch_duration: 10, bucket_duration_bins: [[3, 10]] })).toThrow(/2-D bucket_duration_bins need bucket_batch_size/);
  });
});
