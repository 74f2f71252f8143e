/** What training reads, whichever way it is named, and what the flags of data do to it. Threads run compiled code: `npm run build:js` before. */
import { createHash } from "node:crypto";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { PlayedCut, SpeechBatch } from "../../src/data/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { batchesOf, linesOf, noiseFolder, preparedTones, trainBatches, withData } from "./corpora.ts";
import { toneCorpus } from "./tones.ts";

let folder: string;
/** Options of a tiny model, and its data. */
let options: TrainOptionsInput;
/** The same without anything that says what to read or how to make batches. */
let model: TrainOptionsInput;
let manifestDir: string;
const at = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-train-data-"));
  options = { ...(await toneCorpus(folder)), numWorkers: 0 };
  const { trainManifest: _, validManifest: __, maxDuration: ___, numBuckets: ____, minUtterance: _____, dropLast: ______, ...rest } = options;
  model = rest;
  manifestDir = await preparedTones(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const texts = (batches: readonly SpeechBatch[]): string[] => batches.flatMap(({ cuts }) => cuts.map(({ text }) => text)).sort();
/** Each batch's features as a short text. */
const inputs = (batches: readonly SpeechBatch[]): string[] => batches.map((batch) => createHash("sha256").update(batch.inputs).digest("hex"));

describe("manifests", () => {
  test("every utterance comes once an epoch, in another order in the next, within the seconds of a batch", async () => {
    const first = await trainBatches(options);
    const second = await trainBatches(options, 2);
    expect(texts(first)).toEqual(
      linesOf(at("train.jsonl"))
        .map(({ text }) => text)
        .sort(),
    );
    expect(texts(second)).toEqual(texts(first));
    expect(second.map(({ cuts }) => cuts.map(({ id }) => id))).not.toEqual(first.map(({ cuts }) => cuts.map(({ id }) => id)));
    for (const { cuts } of first) expect(cuts.length * Math.max(...cuts.map(({ duration }) => duration))).toBeLessThanOrEqual(8);
  });

  test("batches do not depend on the number of workers, with speed, noise, rooms and SpecAugment on", async () => {
    const all = { ...options, speedPerturb: true, noisePath: noiseFolder(folder), rirEnabled: true, enableSpecAug: true, concatenateCuts: true, gap: 0.1, durationFactor: 2 };
    const [none, two] = await Promise.all([trainBatches({ ...all, numWorkers: 0 }), trainBatches({ ...all, numWorkers: 2 })]);
    expect(inputs(two)).toEqual(inputs(none));
    expect(two.map(({ supervisions }) => supervisions)).toEqual(none.map(({ supervisions }) => supervisions));
    expect(none.length).toBeGreaterThan(8);
  });

  test("numBuckets: with more buckets, batches hold utterances that are more alike; bucketingSampler 0 mixes them", async () => {
    const spread = async (given: TrainOptionsInput): Promise<number> => {
      const batches = await trainBatches({ ...options, maxDuration: 12, ...given });
      return Math.max(...batches.map(({ cuts }) => Math.max(...cuts.map(({ duration }) => duration)) - Math.min(...cuts.map(({ duration }) => duration))));
    };
    expect(await spread({ numBuckets: 8 })).toBeLessThan(await spread({ numBuckets: 1 }));
    expect(await spread({ bucketingSampler: false })).toBeGreaterThan(0.7);
  });

  test("shuffle and dropLast: the same order each epoch; batches that are not full are left out, which is said", async () => {
    const still = { ...options, shuffle: false };
    expect((await trainBatches(still, 2)).map(({ cuts }) => cuts.map(({ id }) => id))).toEqual((await trainBatches(still)).map(({ cuts }) => cuts.map(({ id }) => id)));
    await withData({ ...options, dropLast: true }, async (data, said) => {
      const kept = texts(await batchesOf(await data.epoch(1, undefined, undefined))).length;
      expect(kept).toBeLessThan(96);
      expect(said).toContain(`left out of each epoch: ${96 - kept} utterances in batches that are not full (--drop-last 0 trains on them)`);
    });
    await expect(train({ ...options, dropLast: true, maxDuration: 1000, expDir: at("none-full") })).rejects.toMatchObject({
      code: "TRAIN_NO_DATA",
      fix: expect.stringContaining("--drop-last 0"),
    });
  });

  test("limitTrainBatches ends an epoch early", async () => {
    await withData({ ...options, limitTrainBatches: 3 }, async (data) => {
      const first = await data.epoch(1, undefined, undefined);
      expect([first.total, (await batchesOf(first)).length]).toEqual([3, 3]);
      expect((await batchesOf(await data.epoch(2, first, undefined))).length).toBe(3);
    });
  });
});

describe("augmentation", () => {
  test("speedPerturb draws a speed for each utterance and epoch, and batches stay within their limit", async () => {
    const fast = { ...options, speedPerturb: true };
    const batches = await trainBatches(fast);
    const speeds = batches.flatMap(({ cuts }) => cuts.map(({ id }) => Number(/_sp(.+)$/.exec(id)?.[1] ?? 1)));
    for (const speed of [0.9, 1, 1.1]) expect(speeds.filter((one) => one === speed).length).toBeGreaterThan(15);
    expect(texts(batches)).toHaveLength(96);
    for (const { cuts } of batches) expect(cuts.length * Math.max(...cuts.map(({ duration }) => duration))).toBeLessThanOrEqual(8);
    const ids = (list: readonly SpeechBatch[]): string[] => list.flatMap(({ cuts }) => cuts.map(({ id }) => id)).sort();
    expect(ids(await trainBatches(fast))).toEqual(ids(batches));
    expect(ids(await trainBatches(fast, 2))).not.toEqual(ids(batches));
  });

  test("noise, rooms and masks change features where they are on, and nothing else", async () => {
    const plain = await trainBatches(options);
    const musan = noiseFolder(folder);
    for (const [given, changes] of [
      [{ noisePath: musan, noiseMixProb: 1, noiseSnr: [0, 5] }, true],
      [{ noisePath: musan, noiseMixProb: 1, noiseSnr: [0, 5], enableMusan: false }, false],
      [{ noisePath: musan, noiseMixProb: 0 }, false],
      [{ rirEnabled: true, rirProb: 1 }, true],
      [{ rirEnabled: true, rirPath: musan, rirProb: 1 }, true],
      [{ rirEnabled: true, rirProb: 0 }, false],
      [{ enableSpecAug: true, specAugP: 1, specAugTimeWarpFactor: 4 }, true],
      [{ enableSpecAug: true, specAugP: 0 }, false],
      [{ enableSpecAug: true, specAugP: 1, specAugTimeWarpFactor: 0, specAugNumFeatureMasks: 0, specAugNumFrameMasks: 0 }, false],
    ] as [TrainOptionsInput, boolean][]) {
      const batches = await trainBatches({ ...options, ...given });
      expect(texts(batches), JSON.stringify(given)).toEqual(texts(plain));
      if (changes) expect(inputs(batches), JSON.stringify(given)).not.toEqual(inputs(plain));
      else expect(inputs(batches), JSON.stringify(given)).toEqual(inputs(plain));
    }
  });

  test("concatenateCuts joins short utterances of a batch to long ones, each of them once", async () => {
    const joined = await trainBatches({ ...options, numBuckets: 1, concatenateCuts: true, gap: 0.2, durationFactor: 2 });
    expect(
      texts(joined)
        .flatMap((text) => text.split(" "))
        .sort(),
    ).toEqual(
      linesOf(at("train.jsonl"))
        .flatMap(({ text }) => text.split(" "))
        .sort(),
    );
    expect(joined.reduce((sum, { cuts }) => sum + cuts.length, 0)).toBeLessThan(70);
  });
});

describe("--manifest-dir", () => {
  test("finds the cuts that serac prepare made, their features and MUSAN's", async () => {
    await withData({ ...options, trainManifest: undefined, validManifest: undefined, manifestDir, noiseMixProb: 1 } as TrainOptionsInput, async (data, said) => {
      expect(said.find((line) => line.startsWith("training data"))).toMatch(/^training data: 108 utterances/);
      expect(said.find((line) => line.startsWith("validation data"))).toMatch(/^validation data: 12 utterances/);
      expect(said).toContainEqual(expect.stringMatching(/librispeech_cuts_dev-other\.jsonl\.gz is missing: validation goes without dev-other/));
      const batches = await batchesOf(await data.epoch(1, undefined, undefined));
      expect(texts(batches)).toHaveLength(108);
      expect(batches.every(({ cuts }) => cuts.every((cut) => (cut as PlayedCut).sound?.kind === "tracks"))).toBe(true);
    });
  });

  test("stored features are those of the audio; fullLibri 0 is train-clean-100; onTheFlyFeats computes them", async () => {
    const { trainManifest: _, validManifest: __, ...rest } = options;
    const one = { ...rest, manifestDir, fullLibri: false, enableMusan: false, maxDuration: 2, shuffle: false };
    const stored = await trainBatches(one);
    expect(texts(stored)).toHaveLength(36);
    for (const given of [{ onTheFlyFeats: true }, { inputStrategy: "OnTheFlyFeatures" }] as TrainOptionsInput[]) {
      const computed = await trainBatches({ ...one, ...given });
      expect(computed.map(({ frames }) => frames)).toEqual(stored.map(({ frames }) => frames));
      expect(inputs(computed)).not.toEqual(inputs(stored)); // lilcom rounds
      for (const [i, { inputs: values }] of computed.entries()) {
        const other = (stored[i] as SpeechBatch).inputs;
        const mean = values.reduce((sum, x, k) => sum + Math.abs(x - (other[k] as number)), 0) / values.length;
        expect(mean).toBeLessThan(0.1);
      }
    }
    await expect(train({ ...one, featureDim: 40, expDir: at("bins") })).rejects.toThrow(/the stored features have 24 bins, and --feature-dim is 40/);
  });

  test("what is missing is named, with what is there", async () => {
    const { trainManifest: _, validManifest: __, ...rest } = options;
    await expect(trainBatches(rest)).rejects.toMatchObject({ code: "FILE_MISSING", message: expect.stringContaining("data/fbank/librispeech_cuts_train-all-shuf.jsonl.gz") });
    await expect(trainBatches({ ...rest, manifestDir, miniLibri: true })).rejects.toThrow(/of LibriSpeech there is dev-clean, train-all-shuf, train-clean-100/);
    const musan = join(manifestDir, "musan_cuts.jsonl.gz");
    renameSync(musan, `${musan}.away`);
    try {
      await expect(trainBatches({ ...rest, manifestDir })).rejects.toThrow(/musan_cuts\.jsonl\.gz: no such file.*--enable-musan 0/s);
      expect(texts(await trainBatches({ ...rest, manifestDir, enableMusan: false }))).toHaveLength(108);
    } finally {
      renameSync(`${musan}.away`, musan);
    }
  });
});

describe("NeMo's blocks", () => {
  const yaml = (name: string, text: string): string => {
    writeFileSync(at(name), text);
    return at(name);
  };

  test("a config with train_ds and validation_ds, and overrides of both", async () => {
    const file = yaml(
      "nemo.yaml",
      `model:
  sample_rate: 8000
  train_ds:
    manifest_filepath: ???
    batch_duration: 3
    max_duration: 1.6
    shuffle: true
    sample_rate: \${model.sample_rate}
    use_lhotse: true
  validation_ds: {manifest_filepath: ${at("test.jsonl")}, batch_size: 4}
`,
    );
    const given = { ...model, trainDs: file, validationDs: file, overrides: [`model.train_ds.manifest_filepath=${at("train.jsonl")}`, "train_ds.batch_duration=4"] };
    await withData(given, async (data, said) => {
      const kept = linesOf(at("train.jsonl")).filter(({ duration }) => duration <= 1.6);
      expect(kept.length).toBeLessThan(96);
      expect(said).toContainEqual(expect.stringMatching(/^left out: \d+ longer than max_duration, 1\.6 s/));
      expect(data.train.data.batchSeconds).toBe(4);
      expect(texts(await batchesOf(await data.epoch(1, undefined, undefined)))).toEqual(kept.map(({ text }) => text).sort());
      const valid = await batchesOf((await data.validation()) as NonNullable<Awaited<ReturnType<typeof data.validation>>>);
      expect(valid.map(({ cuts }) => cuts.length)).toEqual([4, 4, 4, 4]);
    });
  });

  test("overrides alone name data, in whatever spelling of the block, also in several", async () => {
    for (const block of ["train_ds", "training_ds", "model.train_ds", "++model.train_ds"])
      await withData({ ...model, overrides: [`${block}.manifest_filepath=${at("train.jsonl")}`, "train_ds.batch_duration=4"] }, async (data) => {
        expect(data.train.data.batchSeconds).toBe(4);
      });
  });

  test("an input_cfg without end goes on from epoch to epoch, and resumes where it was; its keys augment", async () => {
    const file = yaml("mix.yaml", `- {type: nemo, manifest_filepath: ${at("train.jsonl")}, weight: 0.7}\n- {type: nemo, manifest_filepath: ${at("test.jsonl")}, weight: 0.3}\n`);
    const overrides = ["train_ds.batch_duration=4", "train_ds.shuffle=true", `train_ds.noise_path=${noiseFolder(folder)}`, "train_ds.noise_mix_prob=0.5"];
    const given = { ...model, trainDs: file, overrides, speedPerturb: true };
    await expect(withData(given, async () => {})).rejects.toThrow(/has no end: .*--limit-train-batches N/s);
    const ids = (batches: readonly SpeechBatch[]): string[][] => batches.map(({ cuts }) => cuts.map(({ id }) => id));
    await withData({ ...given, limitTrainBatches: 5 }, async (data, said) => {
      expect(said).toContainEqual(expect.stringMatching(/^training data: 112 utterances of 2 sources, .* h, without end/));
      const first = await data.epoch(1, undefined, undefined);
      const one = await batchesOf(first);
      const second = await data.epoch(2, first, undefined);
      const start = await batchesOf(second, 2);
      const state = { state: JSON.parse(JSON.stringify(second.state())), batchesDone: 2 };
      const rest = await batchesOf(second);
      expect([one.length, start.length, rest.length]).toEqual([5, 2, 3]);
      expect(ids([...start, ...rest])).not.toEqual(ids(one));
      await withData({ ...given, limitTrainBatches: 5, numWorkers: 2 }, async (again) => {
        const resumed = await batchesOf(await again.epoch(2, undefined, state));
        expect(ids(resumed)).toEqual(ids(rest));
        expect(inputs(resumed)).toEqual(inputs(rest));
      });
    });
  });

  test("validation data are taken whole: the bounds of flags and blocks are for training", async () => {
    const durations = linesOf(at("test.jsonl")).map(({ duration }) => duration as number);
    expect(Math.min(...durations)).toBeLessThan(1); // --min-utterance of training
    const trainDs = { manifest_filepath: at("train.jsonl"), batch_duration: 8, shuffle: true, min_duration: 1.2 };
    const overrides = Object.entries(trainDs).map(([key, value]) => `train_ds.${key}=${value}`);
    for (const named of [{ trainDs }, { overrides }])
      await withData({ ...model, ...named, validManifest: [at("test.jsonl")] }, async (data) => {
        expect(Array.from(data.valid?.data.durations ?? []).sort()).toEqual(durations.sort());
        expect(Math.min(...data.train.data.durations)).toBeGreaterThan(1.2);
      });
    await withData({ ...model, trainManifest: [at("train.jsonl")], validManifest: [at("test.jsonl")], maxDuration: 8 }, async (data) => {
      expect(Array.from(data.valid?.data.durations ?? []).sort()).toEqual(durations.sort());
      expect(Math.min(...data.train.data.durations)).toBeGreaterThan(1);
    });
  });

  test("the two meanings of max_duration, and other flags beside a block, are explained", async () => {
    const trainDs = { manifest_filepath: at("train.jsonl"), batch_duration: 4, shuffle: true };
    const failing = async (given: TrainOptionsInput): Promise<string> => withData(given, async () => "nothing").catch((error: Error) => error.message);
    expect(await failing({ ...model, trainDs, maxDuration: 200 })).toMatch(
      /--max-duration is given beside a train_ds block\. There max_duration is the longest utterance, as in NeMo; on the command line it is the seconds of a batch.*Give train_ds\.batch_duration/s,
    );
    expect(await failing({ ...model, trainDs, minUtterance: 1 })).toMatch(
      /--min-utterance is given beside a train_ds block.*train_ds\.min_duration=\.\.\. instead; a validation_ds has its own, a --valid-manifest is taken whole/s,
    );
    expect(await failing({ ...model, trainDs: { manifest_filepath: at("train.jsonl"), max_duration: 20 } })).toMatch(
      /nothing says how large a batch is.*here max_duration is the longest utterance, not the seconds of a batch/s,
    );
    expect(await failing({ ...model, trainDs: { ...trainDs, sample_rate: 16000 } })).toMatch(/train_ds.*sample_rate|sample_rate is 16000.*--sample-rate 8000/s);
    expect(await failing({ ...model, trainDs: { ...trainDs, batch_duration: 1 } })).toMatch(/train\.jsonl:\d+: .*\[SAMPLER_TOO_LONG\]/s);
    expect(await failing({ ...model, trainDs: { ...trainDs, batch_dur: 1 } })).toMatch(/unknown key batch_dur.*did you mean/is);
    expect(await failing({ ...model, trainDs, trainManifest: options.trainManifest })).toMatch(/named by --train-manifest and by --train-ds/);
    expect(await failing({ ...options, manifestDir })).toMatch(/named by --train-manifest and by --manifest-dir/);
    expect(await failing({ ...model, trainDs, overrides: ["test_ds.batch_size=1"] })).toMatch(/test_ds\.batch_size=1 is neither a flag nor an override/);
    expect(await failing({ ...options, inputStrategy: "AudioSamples" })).toMatch(/the model takes features/);
  });

  test("2-D bins: tokens are counted with the tokenizer; the schedule goes by the largest batch", async () => {
    const trainDs = {
      manifest_filepath: at("train.jsonl"),
      bucket_duration_bins: [
        [1.2, 40],
        [1.8, 80],
      ],
      bucket_batch_size: [6, 3],
      shuffle: true,
    };
    await withData({ ...model, trainDs }, async (data) => {
      expect(data.train.data.batchSeconds).toBeCloseTo(7.2);
      const batches = await batchesOf(await data.epoch(1, undefined, undefined));
      for (const { cuts } of batches) expect(cuts.length).toBeLessThanOrEqual((cuts[0]?.duration as number) <= 1.2 ? 6 : 3);
      expect(texts(batches)).toHaveLength(96);
    });
  });
});

test("onBad: throw ends at the first utterance, warn says each; both count", async () => {
  writeFileSync(at("broken.wav"), "no audio");
  const [first] = linesOf(at("train.jsonl"));
  writeFileSync(at("bad.jsonl"), [first, { audio_filepath: "broken.wav", duration: 1, text: "low" }].map((line) => `${JSON.stringify(line)}\n`).join(""));
  const bad = { ...options, trainManifest: [at("bad.jsonl")], validManifest: undefined } as TrainOptionsInput;
  await expect(trainBatches({ ...bad, onBad: "throw" })).rejects.toThrow(/bad\.jsonl:2/);
  await withData({ ...bad, onBad: "warn" }, async (data, said) => {
    expect(texts(await batchesOf(await data.epoch(1, undefined, undefined)))).toHaveLength(1);
    expect(said).toContainEqual(expect.stringMatching(/bad\.jsonl:2 .*broken\.wav/));
    expect(said).toContainEqual(expect.stringMatching(/^epoch 1: 1 utterances were left out: 1 for AUDIO_\w+ \(first: .*bad\.jsonl:2/));
    expect(data.train.leftOut.total).toBe(1);
  });
  writeFileSync(at("line.jsonl"), `${JSON.stringify(first)}\n{oops\n`);
  await expect(trainBatches({ ...bad, trainManifest: [at("line.jsonl")], onBad: "throw" })).rejects.toThrow(/line\.jsonl:2/);
});
