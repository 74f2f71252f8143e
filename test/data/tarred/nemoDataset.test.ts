import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { concatDraws, temperatureProbabilities } from "../../../src/data/tarred/concat.ts";
import { bucketBatchSizes, bucketOrder, type NemoDatasetOptions, nemoDataset, readNemoConfig, type TarredUtterance } from "../../../src/data/tarred/index.ts";
import { levelOf, simpleShards, tone, writeDataset } from "./corpus.ts";

let root: string;
let made = 0;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "serac-nemo-"));
});
afterAll(() => rmSync(root, { recursive: true }));
const fresh = (): string => join(root, `d${made++}`);
const silent: NemoDatasetOptions = { onWarning: () => {} };

const textsOf = (batches: readonly (readonly TarredUtterance[])[]): string[][] => batches.map((batch) => batch.map(({ cut }) => cut.text));
async function batchesOf(config: Record<string, unknown>, options: NemoDatasetOptions = {}, epoch = 0): Promise<TarredUtterance[][]> {
  const batches: TarredUtterance[][] = [];
  const dataset = await nemoDataset(config, { ...silent, ...options });
  for await (const batch of dataset.batches(epoch)) batches.push(batch);
  expect(batches.length).toBe(dataset.steps);
  expect(batches.flat().length).toBe(dataset.length);
  return batches;
}

/** Buckets of so many utterances each, in lists as train_ds has them; texts are "b0u0", "b0u1", ... */
function buckets(counts: readonly (readonly number[])[]): { manifest_filepath: string[][]; tarred_audio_filepaths: string[][]; is_tarred: true } {
  const written = counts.map((shards, bucket) => {
    const specs = simpleShards(shards).map(({ members, lines }) => ({ members, lines: lines.map((line) => ({ ...line, text: `b${bucket}${String(line["text"])}` })) }));
    return writeDataset(fresh(), specs);
  });
  return { manifest_filepath: written.map(({ manifests }) => [manifests]), tarred_audio_filepaths: written.map(({ tars }) => [tars]), is_tarred: true };
}

describe("keys of train_ds", () => {
  test("batch_size, drop_last, durations and max_utts; the forms of one dataset", async () => {
    const { manifests, tars, manifest } = writeDataset(fresh(), simpleShards([3, 4]));
    const one = { manifest_filepath: manifests, tarred_audio_filepaths: tars, is_tarred: true, batch_size: 3, shuffle: false, shuffle_n: null };
    expect(textsOf(await batchesOf(one))).toEqual([["u0", "u1", "u2"], ["u3", "u4", "u5"], ["u6"]]);
    expect(await batchesOf({ ...one, drop_last: true })).toHaveLength(2);
    expect(textsOf(await batchesOf({ ...one, max_utts: 2 }))).toEqual([["u0", "u1"]]);
    expect(textsOf(await batchesOf({ ...one, manifest_filepath: [manifest], tarred_audio_filepaths: [tars] }))).toHaveLength(3);
    await expect(batchesOf({ ...one, min_duration: 1 })).rejects.toMatchObject({ code: "SHARDS_EMPTY" });
    const shuffled = textsOf(await batchesOf({ ...one, shuffle: true })).flat();
    expect(shuffled).not.toEqual(["u0", "u1", "u2", "u3", "u4", "u5", "u6"]);
    expect([...shuffled].sort()).toEqual(["u0", "u1", "u2", "u3", "u4", "u5", "u6"]);
  });

  test("is_tarred false reads files; sample_rate and channel_selector are applied", async () => {
    const folder = fresh();
    mkdirSync(folder);
    for (const i of [0, 1, 2]) writeFileSync(join(folder, `${i}.wav`), tone(i));
    const manifest = join(folder, "m.json");
    writeFileSync(manifest, [0, 1, 2].map((i) => `${JSON.stringify({ audio_filepath: `${i}.wav`, duration: 0.1, text: `t${i}` })}\n`).join(""));
    const [batch] = await batchesOf({ manifest_filepath: manifest, is_tarred: false, batch_size: 3 });
    expect(batch?.map(({ cut, audio }) => [cut.text, levelOf(audio?.channels[0])])).toEqual([
      ["t0", 0],
      ["t1", 1],
      ["t2", 2],
    ]);
    const [resampled] = await batchesOf({ manifest_filepath: manifest, batch_size: 3, sample_rate: 16000, channel_selector: "average" });
    expect(resampled?.[0]?.audio).toMatchObject({ sampleRate: 16000 });
    expect(resampled?.[0]?.audio?.channels[0]).toHaveLength(1600);
    await expect(batchesOf({ manifest_filepath: manifest, batch_size: 3, channel_selector: 1 })).rejects.toThrow(/channel 1 of 1/);
    const shuffled = textsOf(await batchesOf({ manifest_filepath: manifest, batch_size: 1, shuffle: true }, { worldSize: 3, rank: 1 }));
    expect(shuffled).toHaveLength(1);
  });

  test("tarred_shard_strategy: scatter refuses what would hang, even and repeat never do", async () => {
    const { manifests, tars } = writeDataset(fresh(), simpleShards([5, 1]));
    const config = { manifest_filepath: manifests, tarred_audio_filepaths: tars, is_tarred: true, batch_size: 2, shard_manifests: true };
    await expect(batchesOf({ ...config, tarred_shard_strategy: "scatter" }, { worldSize: 2 })).rejects.toMatchObject({
      code: "SHARDS_UNEVEN",
      message: expect.stringContaining("3, 1 steps"),
    });
    expect(await batchesOf({ ...config, tarred_shard_strategy: "replicate" }, { worldSize: 2, rank: 1 })).toHaveLength(3);
    for (const tarred_shard_strategy of ["even", "repeat"])
      expect(new Set(await Promise.all([0, 1].map(async (rank) => (await batchesOf({ ...config, tarred_shard_strategy }, { worldSize: 2, rank })).length))).size).toBe(1);
  });

  test("keys that make no sense here are named, those that would change what is read are refused, unknown ones suggested", () => {
    const said: string[] = [];
    const read = (extra: Record<string, unknown>) => readNemoConfig({ manifest_filepath: "m.json", ...extra }, (message) => said.push(message));
    read({
      use_dali: true,
      normalize_transcripts: true,
      parser: "de",
      labels: ["a"],
      pin_memory: true,
      use_start_end_token: false,
      trim_silence: false,
      augmentor: null,
      is_code_switched: false,
      code_switched: null,
    });
    expect(said.map((line) => line.split(":")[0])).toEqual(["use_dali", "normalize_transcripts", "parser", "labels", "pin_memory"]);
    said.length = 0;
    read({ parser: "en", use_dali: false, use_start_end_token: true, defer_setup: null });
    expect(said).toEqual([]);
    for (const key of ["augmentor", "trim_silence", "is_code_switched", "hf_data_cfg"])
      expect(() => read({ [key]: key === "augmentor" ? { speed: {} } : true })).toThrow(new RegExp(`${key} is .*which serac does not have`));
    expect(() => read({ batch_sise: 3 })).toThrow(/CONFIG_UNKNOWN_OPTION.*batch_size/);
    expect(() => readNemoConfig({ manifest_filepath: null }, () => {})).toThrow(/manifest_filepath is not set: NeMo would train on nothing/);
    expect(() => read({ is_tarred: true })).toThrow(/tarred_audio_filepaths is not set/);
    expect(() => read({ manifest_filepath: [["a"], ["b"]], tarred_audio_filepaths: [["a"]] })).toThrow(/2 datasets, tarred_audio_filepaths 1/);
    expect(() => read({ bucketing_batch_size: 4, batch_size: 2 })).toThrow(/batch_size is 2, expected 1/);
    expect(() => read({ manifest_filepath: [["a"], ["b"]], bucketing_batch_size: [1] })).toThrow(/1 numbers for 2 datasets/);
    expect(() => read({ bucketing_weights: [0] })).toThrow(/bucketing_weights is \[0\]/);
    expect(() => read({ bucketing_strategy: "ordered" })).toThrow(/bucketing_strategy is "ordered", expected one of fixed_order/);
  });
});

describe("buckets", () => {
  test("batch sizes: a number is multiplied, the first bucket most; a list is as it is", () => {
    expect(bucketBatchSizes(4, 3)).toEqual([12, 8, 4]);
    expect(bucketBatchSizes([5, 6], 2)).toEqual([5, 6]);
  });

  test("orders: fixed, NumPy's for synced, another on each rank for fully randomized", () => {
    expect(bucketOrder("fixed_order", 3, 5, 0, 0)).toEqual([0, 1, 2]);
    expect([0, 1].map((epoch) => bucketOrder("synced_randomized", 8, epoch, 9, 3))).toEqual([
      [6, 2, 1, 7, 3, 0, 5, 4],
      [1, 6, 3, 7, 0, 4, 2, 5],
    ]);
    const orders = [0, 1, 2, 3].map((rank) => bucketOrder("fully_randomized", 8, 0, 1, rank).join());
    expect(new Set(orders).size).toBeGreaterThan(1);
  });

  test("each bucket is read whole, one after another, with its own batch size; the last batch of each is smaller", async () => {
    const config = { ...buckets([[3, 2], [4], [2]]), batch_size: 1, bucketing_batch_size: 1, bucketing_strategy: "fixed_order" };
    expect(textsOf(await batchesOf(config))).toEqual([["b0u0", "b0u1", "b0u2"], ["b0u3", "b0u4"], ["b1u0", "b1u1"], ["b1u2", "b1u3"], ["b2u0"], ["b2u1"]]);
    expect((await batchesOf({ ...config, bucketing_batch_size: [4, 3, 2] })).map((batch) => batch.length)).toEqual([4, 1, 3, 1, 2]);
    const synced = textsOf(await batchesOf({ ...config, bucketing_strategy: "synced_randomized" }, {}, 1));
    expect(synced.map(([first]) => first?.slice(0, 2)).filter((bucket, i, all) => bucket !== all[i - 1])).toHaveLength(3);
  });

  test("without bucketing_batch_size batches straddle the borders; weights repeat a bucket", async () => {
    const config = { ...buckets([[2], [3]]), batch_size: 2, bucketing_strategy: "fixed_order" };
    expect(textsOf(await batchesOf(config))).toEqual([["b0u0", "b0u1"], ["b1u0", "b1u1"], ["b1u2"]]);
    expect(textsOf(await batchesOf({ ...config, bucketing_weights: [2, 1] })).flat()).toEqual(["b0u0", "b0u1", "b0u0", "b0u1", "b1u0", "b1u1", "b1u2"]);
  });

  test("over ranks and workers: as many steps on every rank under even and repeat, whatever the buckets hold", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 6, max: 12 }), { minLength: 1, maxLength: 3 }),
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 1, max: 2 }),
        fc.record({ batch: fc.integer({ min: 1, max: 4 }), bucketing: fc.boolean(), drop: fc.boolean(), strategy: fc.constantFrom("even", "repeat") }),
        async (counts, worldSize, workers, { batch, bucketing, drop, strategy }) => {
          const config = {
            ...buckets(counts.map((count) => [Math.floor(count / 2), Math.ceil(count / 2)])),
            ...(bucketing && counts.length > 1 ? { batch_size: 1, bucketing_batch_size: batch } : { batch_size: batch, drop_last: drop }),
            num_workers: workers,
            tarred_shard_strategy: strategy,
          };
          const steps: number[] = [];
          const found: string[] = [];
          for (let rank = 0; rank < worldSize; rank++) {
            let mine = 0;
            for (let worker = 0; worker < workers; worker++) {
              const batches = await batchesOf(config, { worldSize, rank, worker, decode: false }, 1);
              mine += batches.length;
              found.push(...batches.flat().flatMap(({ cut, repeated }) => (repeated ? [] : [cut.text])));
            }
            steps.push(mine);
          }
          expect(new Set(steps).size).toBe(1);
          expect(new Set(found).size).toBe(found.length);
          if (!("drop_last" in config) || !drop) expect(found).toHaveLength(counts.reduce((a, b) => a + b, 0));
        },
      ),
      { numRuns: 20 },
    );
  });
});

describe("concatenation and semi-sorted batches", () => {
  test("temperature: probabilities are (share)^(1/T), and draws are those of NumPy's seed", () => {
    const p = temperatureProbabilities([900, 100], 5);
    expect(p[0]).toBeCloseTo(0.9 ** 0.2 / (0.9 ** 0.2 + 0.1 ** 0.2), 12);
    expect(temperatureProbabilities([3, 1], 1)).toEqual([0.75, 0.25]);
    const draws = concatDraws([900, 100], { concatSamplingTechnique: "temperature", concatSamplingTemperature: 5, concatSamplingProbabilities: undefined }, 1);
    // Made by NumPy 2.4.6: RandomState(1).choice(2, p=...)
    expect(Array.from({ length: 16 }, () => draws.next().value)).toEqual([0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1]);
  });

  test("round-robin, random and temperature draw the length of the datasets together; one that ends begins again, marked as repeated", async () => {
    const config = { ...buckets([[4], [2]]), batch_size: 2, is_concat: true, concat_shuffle: false, concat_sampling_technique: "round-robin" };
    const batches = await batchesOf(config);
    expect(textsOf(batches)).toEqual([
      ["b0u0", "b1u0"],
      ["b0u1", "b1u1"],
      ["b0u2", "b1u0"],
    ]);
    expect(batches.flat().map(({ repeated }) => repeated)).toEqual([false, false, false, false, false, true]);
    const random = await batchesOf({ ...config, concat_sampling_technique: "random", concat_sampling_probabilities: [0, 1], concat_sampling_seed: 3 });
    expect(
      textsOf(random)
        .flat()
        .every((text) => text.startsWith("b1")),
    ).toBe(true);
    const alike = await batchesOf({ ...config, concat_sampling_technique: "random", concat_sampling_seed: 3, concat_sampling_scale: 20 });
    const ofFirst = textsOf(alike)
      .flat()
      .filter((text) => text.startsWith("b0")).length;
    expect(ofFirst).toBeGreaterThan(40); // of 120, where no probabilities are given
    expect(ofFirst).toBeLessThan(80);
    expect(await batchesOf({ ...config, concat_sampling_technique: "temperature", concat_sampling_scale: 2 })).toHaveLength(6);
    await expect(batchesOf({ ...config, concat_sampling_technique: "random", concat_sampling_probabilities: [1] })).rejects.toThrow(/expected 2 numbers/);
    const ranks = await Promise.all([0, 1].map((rank) => batchesOf({ ...config, tarred_shard_strategy: "even" }, { worldSize: 2, rank })));
    expect(ranks.map((one) => one.length)).toEqual([2, 2]);
  });

  test("semi-sorted batches are of like length, from tars and over ranks", async () => {
    const shards = simpleShards([6, 6]);
    const lines = shards.flatMap((shard) => shard.lines);
    lines.forEach((line, i) => Object.assign(line, { duration: ((i * 5) % 12) + 1 }));
    const { manifests, tars } = writeDataset(fresh(), shards);
    const config = {
      manifest_filepath: manifests,
      tarred_audio_filepaths: tars,
      is_tarred: true,
      batch_size: 3,
      shuffle: true,
      use_semi_sorted_batching: true,
      randomization_factor: 0,
    };
    const batches = await batchesOf(config);
    const spans = batches.map((batch) => Math.max(...batch.map(({ cut }) => cut.duration)) - Math.min(...batch.map(({ cut }) => cut.duration)));
    expect(spans).toEqual([2, 2, 2, 2]);
    const ranks = await Promise.all([0, 1, 2].map((rank) => batchesOf(config, { worldSize: 3, rank })));
    expect(new Set(ranks.map((one) => one.length)).size).toBe(1);
    expect(new Set(ranks.flat(2).map(({ cut }) => cut.text)).size).toBe(12);
    expect(ranks.flat(2).filter(({ repeated }) => repeated)).toHaveLength(6);
  });
});
