import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import {
  ColumnSource,
  type CutTransform,
  createSampler,
  cutConcatenateTransform,
  cutMixTransform,
  type LoadedEpoch,
  Loader,
  type LoaderOptions,
  type LoaderState,
  memorySource,
  mixCut,
  padTransform,
  parseLhotseCut,
  perturbSpeedTransform,
  perturbVolumeTransform,
  playedOf,
  readFeatures,
  renderFeatures,
  reverbTransform,
  type SourceCut,
  type SpeechBatch,
  truncateTransform,
} from "../../../src/data/index.ts";
import { SeracError } from "../../../src/util/errors.ts";
import { cutOf, newFolder, rate, wave } from "./corpus.ts";

const folder = newFolder();
afterAll(() => rmSync(folder, { recursive: true }));

const cuts: SourceCut[] = [];
for (let i = 0; i < 23; i++) cuts.push(await cutOf(folder, `u${i}`, wave(2000 + ((i * 7919) % 9000), i), i % 5 === 0 ? { sampleRate: 8000 } : {}));
const noises = [await cutOf(folder, "n1", wave(3001, 1, 0.7)), await cutOf(folder, "n2", wave(20_000, 2, 0.05))];
const rir = await cutOf(folder, "rir", wave(300, 3, 0.5));
const gone: SourceCut = { ...(cuts[0] as SourceCut), id: "gone", origin: "gone", audioPath: `${folder}/gone.wav` };
const short = { ...(await cutOf(folder, "short", wave(9000))), id: "short", origin: "short" };
truncateSync(short.audioPath, 2000);
const wrong: SourceCut = { ...(cuts[1] as SourceCut), id: "wrong", origin: "wrong", duration: 1.9 };
const beyond: SourceCut = {
  ...(cuts[2] as SourceCut),
  id: "beyond",
  origin: "beyond",
  supervisions: [{ ...(cuts[2]?.supervisions[0] as SourceCut["supervisions"][0]), duration: 10 }],
};

const everything: LoaderOptions = {
  cutTransforms: [
    perturbSpeedTransform(),
    cutConcatenateTransform({ gap: 0.1 }),
    cutMixTransform(noises, { p: 0.7, randomMixOffset: true }),
    perturbVolumeTransform({ p: 0.5 }),
    reverbTransform([rir], { p: 0.3 }),
    reverbTransform(undefined, { p: 0.2 }),
    truncateTransform({ duration: 0.6 }),
    padTransform({ duration: 0.3, direction: "random" }),
  ],
  specAugment: { timeWarpFactor: 5, featuresMaskSize: 10, framesMaskSize: 10 },
  seed: 3,
};
const samplerOf = (list: readonly SourceCut[]) => createSampler(memorySource(list), { kind: "dynamic", maxDuration: 2, shuffle: true, seed: 5, tooLong: "alone" });

/** What a batch holds, as a short text. */
function digest({ step, epoch, cuts: rows, inputs, frames, bins, inputLens, supervisions }: SpeechBatch): string {
  const { sequenceIdx, startFrame, numFrames, text } = supervisions;
  const values = [frames, bins, inputLens, Array.from(sequenceIdx), Array.from(startFrame), Array.from(numFrames), text, rows.map(({ id, duration }) => [id, duration])];
  return `${epoch}/${step} ${createHash("sha256").update(inputs).update(JSON.stringify(values)).digest("hex")}`;
}

async function digests(epoch: LoadedEpoch, most = Number.POSITIVE_INFINITY): Promise<string[]> {
  const all: string[] = [];
  while (all.length < most) {
    const batch = await epoch.next();
    if (!batch) break;
    all.push(digest(batch));
  }
  return all;
}

async function using<T>(options: LoaderOptions, list: readonly SourceCut[], work: (loader: Loader) => Promise<T>): Promise<T> {
  const loader = new Loader(await samplerOf(list), options);
  try {
    return await work(loader);
  } finally {
    await loader.close();
  }
}

const reference = await using({ ...everything, workers: 0, prefetch: 1 }, cuts, async (loader) => [await digests(await loader.epoch(0)), await digests(await loader.epoch(1))]);
const how = fc.record({ workers: fc.integer({ min: 0, max: 3 }), prefetch: fc.integer({ min: 1, max: 9 }) });

test("batches do not depend on the number of threads, nor on how many are prepared ahead", async () => {
  expect(reference[0]?.length).toBeGreaterThan(4);
  await fc.assert(
    fc.asyncProperty(how, fc.integer({ min: 0, max: 1 }), async (options, epoch) => {
      expect(await using({ ...everything, ...options }, cuts, async (loader) => digests(await loader.epoch(epoch)))).toEqual(reference[epoch]);
    }),
    { numRuns: 8, examples: [[{ workers: 3, prefetch: 9 }, 0]] },
  );
});

test("a restored loader gives exactly the batches that were not given yet", async () => {
  await fc.assert(
    fc.asyncProperty(how, how, fc.integer({ min: 0, max: reference[1]?.length ?? 0 }), async (before, after, taken) => {
      const [first, state] = await using({ ...everything, ...before }, cuts, async (loader) => {
        const epoch = await loader.epoch(1);
        return [await digests(epoch, taken), JSON.stringify(epoch.state())] as const;
      });
      // Saved and restored once more after another batch, while the loader is ahead of it.
      const [next, again] = await using({ ...everything, ...after }, cuts, async (loader) => {
        const epoch = await loader.resume(JSON.parse(state) as LoaderState);
        return [await digests(epoch, 1), JSON.stringify(epoch.state())] as const;
      });
      const rest = await using({ ...everything, ...before }, cuts, async (loader) => digests(await loader.resume(JSON.parse(again) as LoaderState)));
      expect([...first, ...next, ...rest]).toEqual(reference[1]);
    }),
    { numRuns: 8 },
  );
});

test("a state is not gone on from with other settings", async () => {
  const state = await using({ ...everything, workers: 0 }, cuts, async (loader) => (await loader.epoch(0)).state());
  for (const [options, name] of [
    [{ seed: 4 }, "seed"],
    [{ specAugment: undefined }, "specAugment"],
    [{ cutTransforms: [] }, "cutTransforms"],
    [{ numMelBins: 40 }, "numMelBins"],
  ] as const)
    await using({ ...everything, ...options, workers: 0 }, cuts, async (loader) => {
      await expect(loader.resume(state)).rejects.toMatchObject({ code: "SAMPLER_BAD_STATE", message: expect.stringContaining(name) });
    });
});

test("an utterance sounds the same in whichever batch it is", async () => {
  const alone: LoaderOptions = { ...everything, cutTransforms: [perturbSpeedTransform(), perturbVolumeTransform({ p: 0.5 })], specAugment: undefined, workers: 0 };
  const rowsOf = async (maxDuration: number): Promise<Map<string, string>> => {
    const loader = new Loader(await createSampler(memorySource(cuts), { kind: "simple", maxDuration }), alone);
    const rows = new Map<string, string>();
    for await (const { cuts: row, inputs, frames, bins, inputLens } of await loader.epoch(2))
      row.forEach(({ id }, i) =>
        rows.set(
          id,
          createHash("sha256")
            .update(inputs.subarray(i * frames * bins, (i * frames + (inputLens[i] as number)) * bins))
            .digest("hex"),
        ),
      );
    await loader.close();
    return rows;
  };
  const one = await rowsOf(1.2);
  expect(one.size).toBe(cuts.length);
  expect(Array.from(await rowsOf(3)).sort()).toEqual(Array.from(one).sort());
});

test("bad utterances: the first is thrown with its name; or all are left out, counted by reason", async () => {
  const bad = [gone, short, wrong, beyond];
  await fc.assert(
    fc.asyncProperty(fc.subarray(bad), fc.integer({ min: 0, max: 2 }), fc.boolean(), async (chosen, workers, warn) => {
      const list = [...cuts.slice(0, 6), ...chosen];
      const said: string[] = [];
      const options: LoaderOptions = { workers, onBad: warn ? "warn" : "skip", onWarning: (message) => said.push(message) };
      await using(options, list, async (loader) => {
        const epoch = await loader.epoch(0);
        const ids: string[] = [];
        for await (const batch of epoch) ids.push(...batch.cuts.map(({ id }) => id));
        expect(ids.sort()).toEqual(
          cuts
            .slice(0, 6)
            .map(({ id }) => id)
            .sort(),
        );
        const codes = { gone: "AUDIO_MISSING", short: "AUDIO_TRUNCATED", wrong: "AUDIO_LENGTH", beyond: "CUT_BAD" };
        expect(Object.fromEntries(Array.from(epoch.leftOut.counts, ([reason, { count }]) => [reason, count]))).toEqual(
          Object.fromEntries(chosen.map(({ id }) => [`for ${codes[id as keyof typeof codes]}`, 1])),
        );
        // One line at the end, and under "warn" one for each.
        expect(said).toHaveLength(chosen.length === 0 ? 0 : 1 + (warn ? chosen.length : 0));
        if (chosen.length > 0) expect(said.at(-1)).toContain(`epoch 0: ${chosen.length} utterances were left out`);
      });
      if (chosen.length === 0) return;
      await using({ workers, onWarning: () => undefined }, list, async (loader) => {
        const error = await digests(await loader.epoch(0)).then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
        expect(error).toBeInstanceOf(SeracError);
        expect(chosen.some(({ id }) => (error as SeracError).at?.includes(id))).toBe(true);
      });
      await using({ workers, onWarning: () => undefined }, list, async (loader) => {
        // The state stays before the batch that failed, and the epoch does not go on behind it.
        const epoch = await loader.epoch(0);
        let given = 0;
        const failure = await (async () => {
          for (;;) {
            await epoch.next();
            given++;
          }
        })().catch((thrown: unknown) => thrown);
        expect(epoch.state().sampler.step + epoch.state().sampler.skip).toBe(given);
        await expect(epoch.next()).rejects.toBe(failure);
      });
    }),
    { numRuns: 8, examples: [[bad, 1, true]] },
  );
});

test("counts of what was left out go on after a restart", async () => {
  const list = [...cuts.slice(0, 6), gone, wrong];
  const options: LoaderOptions = { workers: 0, onBad: "skip", onWarning: () => undefined };
  const all = await using(options, list, async (loader) => {
    const epoch = await loader.epoch(0);
    await digests(epoch);
    return epoch.leftOut.lines();
  });
  const state = await using(options, list, async (loader) => {
    const epoch = await loader.epoch(0);
    await digests(epoch, 2);
    return epoch.state();
  });
  const resumed = await using(options, list, async (loader) => {
    const epoch = await loader.resume(state);
    await digests(epoch);
    return epoch.leftOut.lines();
  });
  expect(resumed.sort()).toEqual(all.sort());
});

test.each([1, 2])("a thread that dies is an error that names the utterance, with %d threads", async (workers) => {
  const long = await cutOf(folder, `long${workers}`, wave(rate * 60));
  await using({ workers, prefetch: 4, cutTransforms: [perturbSpeedTransform({ p: 1 })] }, [long], async (loader) => {
    const epoch = await loader.epoch(0);
    const next = epoch.next();
    const failure = expect(next).rejects.toMatchObject({ code: "LOADER_THREAD_DIED", message: expect.stringContaining(`long${workers}`) });
    while (!loader.pool.isBusy) await new Promise(setImmediate);
    await loader.pool.workers[0]?.terminate(); // the one that was given the batch
    await failure;
    // And it stays an error.
    await expect((await loader.epoch(0)).next()).rejects.toMatchObject({ code: "LOADER_THREAD_DIED" });
    await epoch.close();
  });
});

test("stored features are read, and mixed as features", async () => {
  const stored = JSON.parse(readFileSync(new URL("../../golden/features.json", import.meta.url), "utf8")) as {
    files: Record<string, string>;
    cuts: { line: Record<string, unknown> }[];
  };
  for (const [name, bytes] of Object.entries(stored.files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), Buffer.from(bytes, "base64"));
  }
  const list = stored.cuts.map(({ line }, i) => {
    const features = line["features"] as Record<string, unknown>;
    const cut = parseLhotseCut(
      { ...line, features: { ...features, storage_path: join(folder, String(features["storage_path"])) } },
      `cuts.jsonl:${i + 1}`,
      join(folder, "cuts.jsonl"),
    );
    return { ...cut, id: `${cut.id}-${i}`, audioPath: "" }; // there is no audio to fall back on
  });
  const bins = list[0]?.features?.manifest.numFeatures ?? 80;
  const noise = list[1] as SourceCut;
  const mixed = (cut: SourceCut) => mixCut(cut, [{ cut: noise, offset: 0, snr: 10 }]);
  const withNoise: CutTransform = { name: "noise", apply: (rows) => rows.map(mixed) };
  for (const cutTransforms of [[], [withNoise]]) {
    const loader = new Loader(await createSampler(memorySource(list), { kind: "simple", maxDuration: 1000 }), { workers: 1, numMelBins: bins, cutTransforms });
    let rows = 0;
    for await (const { cuts: row, inputs, frames, inputLens } of await loader.epoch(0))
      for (const [i, cut] of row.entries()) {
        const source = list.find(({ id }) => id === cut.id) as SourceCut;
        const expected = await readFeatures(source.features as NonNullable<SourceCut["features"]>);
        const whole = cutTransforms.length === 0 ? expected : await renderFeatures(playedOf(mixed(source)), { sampleRate: rate, numMelBins: bins });
        expect(inputLens[i]).toBe(expected.frames);
        const found = inputs.subarray(i * frames * bins, (i * frames + expected.frames) * bins);
        expect(Buffer.from(found.slice().buffer).equals(Buffer.from(whole.data.slice().buffer))).toBe(true);
        if (cutTransforms.length > 0) expect(found.some((x, k) => x !== expected.data[k])).toBe(true);
        rows++;
      }
    expect(rows).toBe(list.length);
    await loader.close();
  }
});

test("no more batches are drawn than may wait", async () => {
  let loaded = 0;
  const memory = memorySource(cuts);
  const source = new ColumnSource<SourceCut>({
    name: "counted",
    durations: Float64Array.from(cuts, ({ duration }) => duration),
    load: (rows) => {
      loaded++;
      return memory.load(rows);
    },
    where: String,
    fingerprint: () => "counted",
  });
  const loader = new Loader(await createSampler(source, { kind: "simple", maxCuts: 1 }), { workers: 0, prefetch: 3 });
  const epoch = await loader.epoch(0);
  for (let given = 1; given <= 5; given++) {
    await epoch.next();
    for (let i = 0; i < 50; i++) await new Promise(setImmediate);
    expect(loaded).toBeLessThanOrEqual(given + 3);
  }
  await epoch.close();
  await loader.close();
});

test("memory, files and threads are where they were after a thousand utterances", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const loader = new Loader(await createSampler(memorySource(cuts), { kind: "dynamic", maxDuration: 2, shuffle: true }), { ...everything, workers: 2 });
  const buffers: number[] = [];
  const resources: number[] = [];
  for (let round = 0; round < 45; round++) {
    for await (const batch of await loader.epoch(round)) expect(batch.frames).toBeGreaterThan(0);
    if (round % 15 !== 14) continue;
    for (let i = 0; i < 3; i++) {
      collect();
      await new Promise(setImmediate);
    }
    buffers.push(process.memoryUsage().arrayBuffers);
    resources.push(process.getActiveResourcesInfo().length);
  }
  await loader.close();
  expect(resources[2]).toBe(resources[0]);
  // A batch has 60 kB; 345 utterances lie between two measurements.
  expect(Math.abs((buffers[2] as number) - (buffers[0] as number))).toBeLessThan(200_000);
  expect(loader.pool.isBusy).toBe(false);
});
