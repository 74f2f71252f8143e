import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createSampler, Filling, type ItemSource, type SamplerOptions } from "../../../src/data/sampling/index.ts";
import { batchesOf, corpus, drain, type Item, items, settings, source, throughJson } from "./corpus.ts";

const sorted = (refs: number[]): number[] => [...refs].sort((a, b) => a - b);
const everyItem = (list: readonly Item[]): number[] => list.map((_, i) => i);

function isWithin(batch: readonly number[], list: readonly Item[], options: SamplerOptions): boolean {
  const durations = batch.map((ref) => (list[ref] as Item).duration);
  const filling = new Filling(options);
  const longest = Math.max(...durations.map((d) => filling.cost(d)));
  return longest * batch.length <= (options.maxDuration ?? Number.POSITIVE_INFINITY) && batch.length <= (options.maxCuts ?? Number.POSITIVE_INFINITY);
}

describe("an epoch", () => {
  test("has every item once, in batches within their limits", () =>
    fc.assert(
      fc.asyncProperty(items(), settings, async (list, options) => {
        const batches = await batchesOf(list, options);
        expect(sorted(batches.flat())).toEqual(everyItem(list));
        for (const batch of batches) expect(isWithin(batch, list, options)).toBe(true);
      }),
    ));

  test("the quadratic duration counts too", () =>
    fc.assert(
      fc.asyncProperty(items(), settings, fc.integer({ min: 10, max: 40 }), async (list, options, quadraticDuration) => {
        const limits = { ...options, maxDuration: 200 + (options.maxDuration as number), quadraticDuration };
        const batches = await batchesOf(list, limits);
        expect(sorted(batches.flat())).toEqual(everyItem(list));
        for (const batch of batches) expect(isWithin(batch, list, limits)).toBe(true);
      }),
      { numRuns: 50 },
    ));

  test("depends on seed and epoch alone; another epoch or seed is another order", async () => {
    const list = corpus(2000);
    for (const kind of ["bucketing", "dynamic", "static", "simple"] as const) {
      const options = { kind, maxDuration: 120, shuffle: true, bufferSize: 500, numBuckets: 8, seed: 7 };
      const first = await batchesOf(list, options);
      expect(await batchesOf(list, options)).toEqual(first);
      expect(await batchesOf(list, options, 1)).not.toEqual(first);
      expect(await batchesOf(list, { ...options, seed: 8 })).not.toEqual(first);
    }
  });

  test("the order of buckets differs between epochs, even where nothing is shuffled", async () => {
    const sampler = await createSampler(source(corpus(3000)), { maxDuration: 100, numBuckets: 10, bufferSize: 1000 });
    const order = async (epoch: number) => (await drain(await sampler.epoch(epoch))).map(({ bucket }) => bucket);
    expect(await order(0)).not.toEqual(await order(1));
  });

  test("without shuffling, items of a bucket come in the order of the source", async () => {
    const list = corpus(1000);
    const sampler = await createSampler(source(list), { maxDuration: 100, numBuckets: 5, bufferSize: 300 });
    const seen = new Map<number, number>();
    for (const { bucket, refs } of await drain(await sampler.epoch(0)))
      for (const ref of refs) {
        expect(ref).toBeGreaterThan(seen.get(bucket) ?? -1);
        seen.set(bucket, ref);
      }
  });

  test("a cut that is too long for a batch begins the next one", async () => {
    const list = [1, 1, 1, 1, 20, 1].map((duration, i) => ({ id: `u${i}`, duration, tokens: 0 }));
    const batches = await batchesOf(list, { kind: "dynamic", maxDuration: 50 });
    expect(batches.map((batch) => batch.map((ref) => list[ref]?.duration))).toEqual([
      [1, 1, 1, 1],
      [20, 1],
    ]);
  });

  test("loads whole items in the order of a batch", async () => {
    const list = corpus(50);
    const sampler = await createSampler(source(list), { maxDuration: 100, numBuckets: 3, shuffle: true });
    for (const batch of await drain(await sampler.epoch(0))) {
      expect(await batch.load()).toEqual(batch.refs.map((ref) => list[ref]));
      expect(batch.durations).toEqual(batch.refs.map((ref) => list[ref]?.duration));
    }
  });

  test("dropLast leaves out only batches that are not full", async () => {
    const list = corpus(1000);
    for (const kind of ["bucketing", "dynamic", "static", "simple"] as const) {
      const options = { kind, maxCuts: 7, dropLast: true, numBuckets: 4, shuffle: true };
      const batches = await batchesOf(list, options);
      expect(batches.every((batch) => batch.length === 7)).toBe(true);
      expect(batches.flat().length).toBeGreaterThan(1000 - 7 * 4);
    }
  });
});

describe("buckets", () => {
  test("hold items within their bins", async () => {
    const list = corpus(2000);
    const sampler = await createSampler(source(list), { maxDuration: 100, numBuckets: 10, shuffle: true });
    const bins = sampler.bins as number[];
    for (const { bucket, durations } of await drain(await sampler.epoch(0)))
      for (const duration of durations) {
        expect(duration).toBeLessThanOrEqual(bins[bucket] ?? Number.POSITIVE_INFINITY);
        expect(duration).toBeGreaterThan(bins[bucket - 1] ?? 0);
      }
  });

  test("fixed batch sizes: each bucket has its own, bins are upper bounds, and what is longer is left out and counted", async () => {
    const list = corpus(2000);
    const sampler = await createSampler(source(list), { durationBins: [5, 10, 20], bucketBatchSize: [8, 4, 2], shuffle: true });
    const batches = await drain(await sampler.epoch(0));
    for (const { bucket, refs } of batches) expect(refs.length).toBeLessThanOrEqual([8, 4, 2][bucket] as number);
    const longer = list.filter(({ duration }) => duration > 20).length;
    expect(sampler.leftOut.total).toBe(longer);
    expect(batches.flatMap(({ refs }) => refs).length).toBe(2000 - longer);
  });

  test("2-D bins: strict ones leave out many tokens, lenient ones move them to longer buckets", async () => {
    const list = [
      { id: "a", duration: 4, tokens: 10 },
      { id: "b", duration: 4, tokens: 30 },
      { id: "c", duration: 4, tokens: 60 },
      { id: "d", duration: 5, tokens: 20 },
      { id: "e", duration: 9, tokens: 60 },
    ];
    const bins = [[5, 20], [5, 40], [10, 60]] as const; // biome-ignore format: a table
    const where = async (options: SamplerOptions) => {
      const sampler = await createSampler(source(list), { durationBins: bins, bucketBatchSize: [1, 1, 1], ...options });
      const places = (await drain(await sampler.epoch(0))).map(({ bucket, refs }) => `${list[refs[0] as number]?.id}${bucket}`);
      return [places.sort().join(" "), sampler.leftOut.total];
    };
    expect(await where({})).toEqual(["a0 b1 d0 e2", 1]);
    expect(await where({ strict2d: false })).toEqual(["a0 b1 c2 d0 e2", 0]);
    expect(await where({ maxTps: 5 })).toEqual(["a0 d0", 3]);
  });

  test("bins are estimated after what is left out", async () => {
    const list = [...corpus(500), ...Array.from({ length: 500 }, (_, i) => ({ id: `long-${i}`, duration: 100 + i, tokens: 0 }))];
    const sampler = await createSampler(source(list), { maxDuration: 100, numBuckets: 5, bounds: { maxDuration: 30 } });
    expect(Math.max(...(sampler.bins as number[]))).toBeLessThanOrEqual(30);
    expect(sampler.leftOut.total).toBe(500);
    expect((await drain(await sampler.epoch(0))).flatMap(({ refs }) => refs).length).toBe(500);
  });

  test("more buckets than utterances is no error, nor are durations that are all the same", async () => {
    expect((await batchesOf(corpus(3), { maxDuration: 40, numBuckets: 30 })).flat().length).toBe(3);
    const same = Array.from({ length: 100 }, (_, i) => ({ id: `u${i}`, duration: 2, tokens: 0 }));
    expect((await batchesOf(same, { maxDuration: 40, numBuckets: 30 })).map(({ length }) => length)).toEqual([20, 20, 20, 20, 20]);
  });
});

describe("ranks", () => {
  test("all take as many steps, and every item is in one batch of one rank", () =>
    fc.assert(
      fc.asyncProperty(items(), settings, fc.integer({ min: 2, max: 5 }), async (list, options, worldSize) => {
        fc.pre(list.length >= worldSize);
        const ranks = [];
        for (let rank = 0; rank < worldSize; rank++) {
          const sampler = await createSampler(source(list), { ...options, rank, worldSize });
          ranks.push(await drain(await sampler.epoch(0)));
        }
        for (const steps of ranks) expect(steps.length).toBe(ranks[0]?.length);
        const all = ranks.flat();
        const own = all.flatMap(({ refs, repeated }) => refs.slice(0, refs.length - repeated));
        expect(sorted(own)).toEqual(everyItem(list));
        for (const { refs } of all) {
          expect(refs.length).toBeGreaterThan(0);
          expect(isWithin([...refs], list, options)).toBe(true);
        }
        // An item is repeated only where there are fewer items than ranks have steps.
        const repeated = all.reduce((sum, one) => sum + one.repeated, 0);
        if (repeated > 0) expect(list.length).toBeLessThan(all.length);
      }),
    ));

  test("in a step all of them draw from one bucket, as long as it lasts", async () => {
    const list = corpus(4000);
    const steps = [];
    for (let rank = 0; rank < 2; rank++) steps.push(await drain(await (await createSampler(source(list), { maxDuration: 100, numBuckets: 8, rank, worldSize: 2 })).epoch(0)));
    const [a, b] = steps as [(typeof steps)[0], (typeof steps)[0]];
    const alike = a.filter(({ bucket }, i) => bucket === b[i]?.bucket).length;
    expect(alike / a.length).toBeGreaterThan(0.9);
  });

  test("dropLast: as many steps on each, and nothing twice", () =>
    fc.assert(
      fc.asyncProperty(items(10), settings, async (list, options) => {
        const ranks = [];
        for (let rank = 0; rank < 3; rank++) ranks.push(await drain(await (await createSampler(source(list), { ...options, dropLast: true, rank, worldSize: 3 })).epoch(0)));
        for (const steps of ranks) expect(steps.length).toBe(ranks[0]?.length);
        const refs = ranks.flat().flatMap((batch) => batch.refs);
        expect(new Set(refs).size).toBe(refs.length);
      }),
      { numRuns: 50 },
    ));
});

describe("a source without end", () => {
  /** Items by their number, over and over. */
  const endless = (divisible: boolean): ItemSource<number> => ({
    name: "endless",
    length: Number.POSITIVE_INFINITY,
    divisible,
    fingerprint: () => "endless",
    open: ({ share = { index: 0, count: 1 } }, position) => {
      let at = (position?.state as number | undefined) ?? 0;
      return {
        read: (most) => {
          const refs = Float64Array.from({ length: Math.min(most, 10) }, () => share.index + share.count * at++);
          return { count: refs.length, refs, durations: refs.map((ref) => 1 + (ref % 7)), tokens: undefined };
        },
        state: () => at,
        close: () => {},
      };
    },
    load: async (refs) => Array.from(refs),
    release: () => {},
    where: (ref) => `endless:${ref}`,
  });

  test("gives full batches as long as they are asked for, divided among the ranks where it can be", async () => {
    for (const divisible of [true, false]) {
      const seen = new Set<number>();
      for (let rank = 0; rank < 2; rank++) {
        const options = { maxDuration: 40, numBuckets: 3, bufferSize: 200, shuffle: true, rank, worldSize: 2 };
        const stream = await (await createSampler(endless(divisible), options)).epoch(0);
        for (let i = 0; i < 300; i++) {
          const batch = (await stream.next()) as NonNullable<Awaited<ReturnType<typeof stream.next>>>;
          for (const ref of batch.refs) {
            expect(seen.has(ref)).toBe(false);
            seen.add(ref);
            if (divisible) expect(ref % 2).toBe(rank);
          }
        }
        const resumed = await (await createSampler(endless(divisible), options)).resume(throughJson(stream.state()));
        for (let i = 0; i < 20; i++) expect((await resumed.next())?.refs).toEqual((await stream.next())?.refs);
      }
    }
  });
});

test("a source without end is refused where all of it would be looked at first", async () => {
  const { MuxSource } = await import("../../../src/data/sources/mux.ts");
  const mixture = new MuxSource([source(corpus(10))], { infinite: true });
  for (const kind of ["static", "simple"] as const)
    await expect(createSampler(mixture, { kind, maxDuration: 100 })).rejects.toThrow(/looks at all utterances first, and this source has no end/);
  await expect((await createSampler(mixture, { maxDuration: 100, numBuckets: 2 })).wholeEpoch(0)).rejects.toThrow(
    /all batches of an epoch are asked for, and this source has no end/,
  );
});

describe("going on after a restart", () => {
  const modes = fc.constantFrom("serac" as const, "lhotse" as const);

  test("gives exactly the batches that remain, from any step, on any rank", () =>
    fc.assert(
      fc.asyncProperty(items(13), settings, modes, fc.boolean(), fc.integer({ min: 1, max: 3 }), fc.nat(), async (list, options, mode, dropLast, worldSize, point) => {
        const all = { ...options, numBuckets: 2 + (options.numBuckets as number) / 2 > 6 ? 6 : 3, mode, dropLast, worldSize, rank: point % worldSize };
        const whole = await drain(await (await createSampler(source(list), all)).epoch(3));
        const stream = await (await createSampler(source(list), all)).epoch(3);
        const stop = point % (whole.length + 1);
        for (let i = 0; i < stop; i++) await stream.next();
        const state = throughJson(stream.state());
        const rest = await drain(await (await createSampler(source(list), all)).resume(state));
        expect(rest.map(({ step, refs, durations, bucket, repeated }) => ({ step, refs, durations, bucket, repeated }))).toEqual(
          whole.slice(stop).map(({ step, refs, durations, bucket, repeated }) => ({ step, refs, durations, bucket, repeated })),
        );
      }),
      { numRuns: 200 },
    ));

  test("a loader that has drawn ahead goes on behind the step that was trained on", async () => {
    const list = corpus(5000);
    const options = { maxDuration: 60, numBuckets: 6, shuffle: true, bufferSize: 1000 };
    const sampler = await createSampler(source(list), options);
    const whole = (await drain(await sampler.epoch(0))).map(({ refs }) => refs);
    for (const [drawn, trained] of [
      [5, 2],
      [200, 150],
      [129, 128],
      [128, 128],
      [64, 0],
    ] as const) {
      // biome-ignore format: a table
      const stream = await sampler.epoch(0);
      for (let i = 0; i < drawn; i++) await stream.next();
      const rest = await drain(await sampler.resume(throughJson(stream.stateAt(trained))));
      expect(rest.map(({ refs }) => refs)).toEqual(whole.slice(trained));
    }
  });

  test("a state that is asked for while a batch is being drawn has that batch before it, whenever that is", async () => {
    const list = corpus(400);
    for (const kind of ["dynamic", "bucketing", "simple", "static"] as const) {
      const sampler = await createSampler(source(list), { kind, maxDuration: 60, ...(kind === "simple" ? {} : { numBuckets: 4 }), shuffle: true } as SamplerOptions);
      const whole = (await drain(await sampler.epoch(0))).map(({ refs }) => refs);
      for (const done of [0, 1, 3])
        for (let turns = 0; turns < 40; turns++) {
          const stream = await sampler.epoch(0);
          for (let i = 0; i < done; i++) await stream.next();
          const drawing = stream.next();
          for (let turn = 0; turn < turns; turn++) await Promise.resolve();
          const state = throughJson(stream.state());
          const { step } = stream;
          await drawing;
          const rest = (await drain(await sampler.resume(state))).map(({ refs }) => refs);
          expect(rest, `${kind}, ${done} done, ${turns} turns`).toEqual(whole.slice(step));
        }
    }
  });

  test("the state of one rank serves another", async () => {
    const list = corpus(1000);
    const make = (rank: number) => createSampler(source(list), { maxDuration: 60, numBuckets: 6, shuffle: true, rank, worldSize: 2 });
    const stream = await (await make(0)).epoch(0);
    for (let i = 0; i < 9; i++) await stream.next();
    const rest = await drain(await (await make(1)).resume(throughJson(stream.state())));
    expect(rest.map(({ refs }) => refs)).toEqual((await drain(await (await make(1)).epoch(0))).slice(9).map(({ refs }) => refs));
  });
});

describe("what is wrong is said before training", () => {
  const make = (list: readonly Item[], options: SamplerOptions = {}) => createSampler(source(list), { maxDuration: 100, ...options });

  test("no utterances, or none within the bounds", async () => {
    await expect(make([])).rejects.toThrow(/corpus: there is no utterance \[SAMPLER_EMPTY\]/);
    await expect(make(corpus(5), { bounds: { minDuration: 1000 } })).rejects.toThrow(/no utterance is left: 5 shorter than 1000 s \(first: corpus:1\) \[SAMPLER_EMPTY\]/);
  });

  test("an utterance longer than a batch, with its place; it can be left out, or be a batch of its own", async () => {
    const list = [...corpus(5), { id: "long", duration: 200, tokens: 1 }];
    await expect(make(list)).rejects.toThrow(/corpus:6: the utterance has 200 s, more than a whole batch may have \[SAMPLER_TOO_LONG\]/);
    await expect(make(list, { quadraticDuration: 10, maxDuration: 1000 })).rejects.toThrow(/200 s, which counts 4200 s with its square/);
    const skipping = await make(list, { tooLong: "skip" });
    expect((await drain(await skipping.epoch(0))).flatMap(({ refs }) => refs).length).toBe(5);
    expect(skipping.leftOut.lines()).toEqual(["1 longer than a whole batch may be (first: corpus:6)"]);
    expect((await batchesOf(list, { maxDuration: 100, tooLong: "alone" })).filter((batch) => batch.includes(5))).toEqual([[5]]);
  });

  test("durations that are none", async () => {
    for (const duration of [Number.NaN, -1, 0, Number.POSITIVE_INFINITY])
      expect(() => source([...corpus(2), { id: "bad", duration, tokens: 0 }])).toThrow(/corpus:3: the duration is .* \[MANIFEST_BAD_DURATION\]/);
  });

  test("bins out of order, not above 0, of another length than batch sizes", async () => {
    await expect(make(corpus(5), { durationBins: [5, 3] })).rejects.toThrow(/bin 2 is 3 after 5, expected ascending order \[SAMPLER_BINS\]/);
    await expect(make(corpus(5), { durationBins: [0, 3] })).rejects.toThrow(/bin 1 is 0/);
    await expect(make(corpus(5), { durationBins: [3, 5], bucketBatchSize: [4, 2, 1] })).rejects.toThrow(
      /2 bins and 3 batch sizes, expected as many of each \[SAMPLER_BINS\]\. With batch sizes the bins are upper bounds: add the longest duration/,
    );
    await expect(make(corpus(5), { durationBins: [[5, 10], [5, 5]] })).rejects.toThrow(/bin 2 is \[5, 5\] after \[5, 10\]/); // biome-ignore format: a table
    await expect(make(corpus(5), { bucketBatchSize: [4, 2] })).rejects.toThrow(/batch sizes of buckets are given without bins/);
  });

  test("limits that limit nothing, counts that are none, ranks that do not exist, fewer utterances than ranks", async () => {
    await expect(createSampler(source(corpus(5)), {})).rejects.toThrow(/nothing limits a batch/);
    await expect(make(corpus(5), { maxDuration: Number.NaN })).rejects.toThrow(/expected more than 0/);
    await expect(make(corpus(5), { maxCuts: 0 })).rejects.toThrow(/expected a whole number of 1 or more/);
    await expect(make(corpus(5), { bufferSize: 0 })).rejects.toThrow(/bufferSize is 0/);
    await expect(make(corpus(5), { rank: 2, worldSize: 2 })).rejects.toThrow(/rank is 2, expected 0 to 1/);
    await expect(make(corpus(3), { worldSize: 4 })).rejects.toThrow(/3 utterances for 4 ranks \[SAMPLER_TOO_FEW\]/);
  });

  test("a buffer that is small for its buckets is told", async () => {
    expect((await make(corpus(500), { numBuckets: 20, bufferSize: 100 })).warnings).toEqual([
      expect.stringMatching(/100 utterances in \d+ buckets are about \d+ s in each, less than the 100 s of a batch/),
    ]);
    expect((await make(corpus(500))).warnings).toEqual([]);
  });

  test("states of other data, of other settings, or of nothing", async () => {
    const list = corpus(100);
    const stream = await (await make(list)).epoch(0);
    await stream.next();
    const state = throughJson(stream.state());
    const changed = list.map((item, i) => (i === 50 ? { ...item, duration: 1.25 } : item));
    await expect(
      (await make(changed, { durationBins: (await make(list)).bins })).resume({
        ...state,
        settings: (await make(changed, { durationBins: (await make(list)).bins })).description(),
      }),
    ).rejects.toThrow(/the data is not what it was when the state was saved, in step 1 of epoch 0 \[SAMPLER_SOURCE_CHANGED\]/);
    await expect((await make(list, { maxDuration: 90 })).resume(state)).rejects.toThrow(/maxDuration is 90, and was 100 when the state was saved \[SAMPLER_BAD_STATE\]/);
    await expect((await make(list)).resume({} as never)).rejects.toThrow(/SAMPLER_BAD_STATE/);
  });
});
