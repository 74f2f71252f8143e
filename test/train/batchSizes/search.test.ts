import fc from "fast-check";
import { expect, test } from "vitest";
import { type BatchBucket, findBatchSizes, mergeBuckets, SizeSearch } from "../../../src/train/batchSizes/search.ts";

/** NeMo's search as it is written, with the probe after its end whose outcome is not looked at. */
function reference(start: number, threshold: number, fits: (size: number) => boolean): { result: number; tried: number[] } {
  const pythonRound = (x: number): number => {
    const low = Math.floor(x);
    return x - low < 0.5 ? low : x - low > 0.5 ? low + 1 : low % 2 === 0 ? low : low + 1;
  };
  let current = start;
  let ok: number | undefined;
  let error: number | undefined;
  const tried: number[] = [];
  for (;;) {
    tried.push(current);
    const fitted = fits(current);
    if (ok !== undefined && error !== undefined && ((error - ok) / error <= threshold || error - ok <= 1)) return { result: ok, tried };
    if (fitted) ok = current;
    else error = current;
    current = ok === undefined ? pythonRound(current / 2) : error === undefined ? current * 2 : pythonRound((ok + error) / 2);
  }
}

test("finds what NeMo's search finds, by the same tries but the last, which tells nothing", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 200 }), fc.constantFrom(0, 0.01, 0.05, 0.2), fc.integer({ min: 1, max: 5000 }), (start, threshold, most) => {
      const fits = (size: number): boolean => size <= most;
      const search = new SizeSearch({ startBatchSize: start, threshold });
      const tried: number[] = [];
      let result: number | undefined;
      while (result === undefined) {
        tried.push(search.size);
        result = search.record(fits(search.size));
      }
      const theirs = reference(start, threshold, fits);
      expect(result).toBe(theirs.result);
      expect(tried).toEqual(theirs.tried.slice(0, -1));
      expect(result).toBeLessThanOrEqual(most);
      expect(result).toBeGreaterThanOrEqual(Math.min(most, Math.floor((most + 1) * (1 - threshold)) - 1));
    }),
  );
});

test("buckets are searched from the longest on, each starting from twice the result before", async () => {
  const tried: [BatchBucket, number][] = [];
  const sizes = await findBatchSizes([5, 10, 20], { startBatchSize: 32, threshold: 0.05 }, (bucket, size) => {
    tried.push([bucket, size]);
    return (bucket as number) * size <= 400;
  });
  expect(sizes).toEqual([
    { bucket: 5, batchSize: 80 },
    { bucket: 10, batchSize: 40 },
    { bucket: 20, batchSize: 20 },
  ]);
  const firsts = tried.filter(([bucket], i) => tried[i - 1]?.[0] !== bucket);
  expect(firsts).toEqual([
    [20, 32],
    [10, 40],
    [5, 80],
  ]);
});

test("where not even one utterance fits, the bucket is named, with what to do; NeMo goes on with batches of none", async () => {
  await expect(findBatchSizes([5, 10], { startBatchSize: 32, threshold: 0.05 }, (bucket) => bucket === 5)).rejects.toMatchObject({
    code: "BATCH_SIZE_NONE",
    at: "bucket 10 s",
    fix: expect.stringContaining("max_duration"),
  });
});

test("2-D buckets are tried as pairs and never merged; 1-D neighbours of one size are, up to the longer bound", async () => {
  const pairs = [
    [5, 20],
    [5, 40],
    [10, 40],
  ] as const;
  const sizes = await findBatchSizes(pairs, { startBatchSize: 4, threshold: 0 }, (bucket, size) => (bucket as readonly number[])[0]! * size <= 40);
  expect(sizes.map(({ batchSize }) => batchSize)).toEqual([8, 8, 4]);
  expect(mergeBuckets(sizes)).toEqual(sizes);
  expect(
    mergeBuckets([
      { bucket: 5, batchSize: 8 },
      { bucket: 10, batchSize: 8 },
      { bucket: 15, batchSize: 4 },
    ]),
  ).toEqual([
    { bucket: 10, batchSize: 8 },
    { bucket: 15, batchSize: 4 },
  ]);
});

test("bad buckets and settings are refused; an error that is no lack of memory ends the search", async () => {
  const never = (): boolean => true;
  const options = { startBatchSize: 1, threshold: 0.05 };
  for (const buckets of [
    [],
    [5, 5],
    [10, 5],
    [0],
    [Number.NaN],
    [5, [10, 3]],
    [
      [5, 20],
      [5, 10],
    ],
  ] as unknown as BatchBucket[][])
    await expect(findBatchSizes(buckets, options, never)).rejects.toMatchObject({ code: "SAMPLER_BINS" });
  await expect(findBatchSizes([5], { startBatchSize: 0, threshold: 0.05 }, never)).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE" });
  await expect(
    findBatchSizes([5], options, () => {
      throw new Error("a fault");
    }),
  ).rejects.toThrow("a fault");
});
