import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { createSampler, Loader, loaderOptionsOf, openNoise, openSources, type SourceCut } from "../../../src/data/index.ts";
import { Random } from "../../../src/util/random.ts";
import { cutOf, newFolder, rate, wave } from "./corpus.ts";

const folder = newFolder();
afterAll(() => rmSync(folder, { recursive: true }));
const lines = (name: string, values: readonly unknown[]): string => {
  writeFileSync(join(folder, name), values.map((value) => `${JSON.stringify(value)}\n`).join(""));
  return join(folder, name);
};

const cuts: SourceCut[] = [];
for (let i = 0; i < 12; i++) cuts.push(await cutOf(folder, `u${i}`, wave((0.3 + 0.1 * i) * rate, i)));
const manifest = lines(
  "train.jsonl",
  cuts.map(({ audioPath, duration, text }) => ({ audio_filepath: audioPath, duration, text })),
);
mkdirSync(join(folder, "noise", "music"), { recursive: true });
const noise = [await cutOf(join(folder, "noise"), "n1", wave(3001, 1, 0.7)), await cutOf(join(folder, "noise/music"), "n2", wave(20_000, 2, 0.05), { sampleRate: 8000 })];
const recordings = noise.map(({ id, audioPath }, i) => ({
  id,
  sources: [{ type: "file", channels: [0], source: audioPath }],
  sampling_rate: i === 0 ? 16000 : 8000,
  num_samples: i === 0 ? 3001 : 20_000,
  duration: i === 0 ? 3001 / 16_000 : 2.5,
  channel_ids: [0],
}));

test("noise is found in a folder, in manifests of recordings, of cuts and of NeMo's, and by the keys of a source", async () => {
  const asCuts = recordings.map((recording) => ({ id: recording.id, start: 0, duration: recording.duration, channel: 0, supervisions: [], recording, type: "MonoCut" }));
  const nemo = lines(
    "noise.jsonl",
    recordings.map(({ duration, sources }) => ({ audio_filepath: sources[0]?.source, duration })),
  );
  for (const spec of [
    join(folder, "noise"),
    lines("recordings.jsonl", recordings),
    lines("cuts.jsonl", asCuts),
    nemo,
    { manifest_filepath: nemo },
    { cuts_path: join(folder, "cuts.jsonl") },
  ]) {
    const found = await openNoise(spec);
    expect(found.map(({ audioPath }) => audioPath).sort()).toEqual(noise.map(({ audioPath }) => audioPath).sort());
    expect(found.map(({ duration }) => duration).sort()).toEqual([3001 / 16_000, 2.5]);
  }
});

test("noise that is not there is said", async () => {
  mkdirSync(join(folder, "empty"));
  await expect(openNoise(join(folder, "empty"))).rejects.toMatchObject({ code: "SOURCE_EMPTY" });
  await expect(openNoise(join(folder, "nowhere"))).rejects.toMatchObject({ code: "FILE_MISSING" });
});

const load = async (keys: Record<string, unknown>) => {
  const { source, config } = await openSources({ manifest_filepath: manifest, num_workers: 0, ...keys });
  const loader = new Loader(await createSampler(source, { kind: "simple", maxDuration: 4 }), await loaderOptionsOf(config));
  const batches = [];
  for await (const batch of await loader.epoch(0)) batches.push(batch);
  await loader.close();
  return batches;
};

test("truncate_duration and pad_min_duration: batches are sampled by the durations that are loaded", async () => {
  const batches = await load({ truncate_duration: 1, truncate_offset_type: "end", pad_min_duration: 0.5, pad_direction: "left" });
  const durations = batches.flatMap((batch) => batch.cuts.map(({ duration }) => duration));
  expect(durations.sort()).toEqual(cuts.map(({ duration }) => Math.max(0.5, Math.min(1, duration))).sort());
  for (const { cuts: row, frames } of batches) {
    expect((row.length * frames) / 100).toBeLessThanOrEqual(4);
    expect(frames).toBe(Math.round(Math.max(...row.map(({ duration }) => duration)) * 100));
  }
});

test("noise_path, rir_enabled and concatenate_samples change what is loaded, with nothing drawn anew in a second run", async () => {
  const plain = await load({});
  const keys = {
    noise_path: join(folder, "noise"),
    noise_snr: [0, 5],
    noise_mix_prob: 1,
    rir_enabled: true,
    rir_prob: 1,
    concatenate_samples: true,
    concatenate_duration_factor: 2,
    seed: 7,
  };
  const changed = await load(keys);
  expect(await load(keys)).toEqual(changed);
  expect(changed[0]?.inputs).not.toEqual(plain[0]?.inputs);
  const texts = (batches: typeof plain): string[] => batches.flatMap(({ supervisions }) => supervisions.text);
  // Rows are fewer, each with one supervision; what was said is the same.
  expect(texts(changed).length).toBeLessThan(texts(plain).length);
  expect(texts(changed).join(" ").split(" text ").length).toBe(texts(plain).join(" ").split(" text ").length);
  expect(changed.every(({ supervisions, cuts: rows }) => supervisions.text.length === rows.length)).toBe(true);
});

test("lowpass_enabled, clipping_enabled and db_norm change what is heard, as often as they are asked for", async () => {
  const random = new Random(3);
  const hiss = await cutOf(
    folder,
    "hiss",
    Float32Array.from({ length: 16_000 }, () => 0.1 * random.normal()),
  );
  const noisy = lines("hiss.jsonl", [{ audio_filepath: hiss.audioPath, duration: hiss.duration, text: "" }]);
  const plain = await load({ manifest_filepath: noisy });
  const energy = (batches: typeof plain): number => batches.reduce((sum, { inputs }) => sum + inputs.reduce((all, x) => all + Math.exp(x), 0), 0);
  const high = (batches: typeof plain): number => batches.reduce((sum, { inputs, bins }) => sum + inputs.reduce((all, x, i) => all + (i % bins >= 70 ? Math.exp(x) : 0), 0), 0);
  const narrow = await load({ manifest_filepath: noisy, lowpass_enabled: true, lowpass_prob: 1, lowpass_frequencies_interval: [1000, 2000] });
  expect(high(narrow)).toBeLessThan(0.01 * high(plain));
  expect(await load({ manifest_filepath: noisy, lowpass_enabled: true, lowpass_prob: 0 })).toEqual(plain);
  const tones = await load({});
  const clipped = await load({ clipping_enabled: true, clipping_prob: 1, clipping_prob_hard: 1, clipping_gain_db: [20, 24] });
  expect(high(clipped)).toBeGreaterThan(2 * high(tones)); // harmonics
  expect(await load({ clipping_enabled: true, clipping_prob: 0 })).toEqual(tones);
  const joined = { concatenate_samples: true, concatenate_duration_factor: 2 };
  const [quiet, loud, asIs] = [await load({ ...joined, db_norm: -40 }), await load({ ...joined, db_norm: -10 }), await load({ ...joined, db_norm: null })];
  expect(energy(loud) / energy(quiet)).toBeCloseTo(1000, -1);
  expect(energy(asIs)).not.toBeCloseTo(energy(quiet), 0);
  expect(await load({ ...joined, db_norm: -25 })).toEqual(await load(joined));
  await expect(load({ lowpass_enabled: true, sample_rate: 8000 })).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE" });
});

test("compression_enabled sends utterances through codecs and back", async () => {
  const plain = await load({});
  const distance = (batches: typeof plain): number =>
    batches.reduce((sum, { inputs }, k) => sum + inputs.reduce((all, x, i) => all + Math.abs(x - (plain[k]?.inputs[i] as number)), 0) / inputs.length, 0) / batches.length;
  const keys = { compression_enabled: true, compression_prob: 1 };
  const results = new Map<string, number>();
  for (const codec of ["opus", "mp3", "vorbis"])
    for (const level of [
      [0, 0.01],
      [0.98, 0.99],
    ]) {
      const batches = await load({ ...keys, compression_codecs: [codec], compression_level_interval: level });
      expect(batches.map(({ frames, cuts: row }) => [frames, row.length])).toEqual(plain.map(({ frames, cuts: row }) => [frames, row.length]));
      results.set(`${codec} ${level[0] === 0 ? "good" : "bad"}`, distance(batches));
    }
  for (const codec of ["opus", "mp3", "vorbis"]) {
    expect(results.get(`${codec} good`)).toBeGreaterThan(0);
    expect(results.get(`${codec} bad`)).toBeGreaterThan(results.get(`${codec} good`) as number);
  }
  expect(await load({ ...keys, compression_prob: 0 })).toEqual(plain);
  expect(await load({ ...keys, compression_codecs: ["opus", "mp3"], compression_codec_weights: [1, 1e-9] })).toEqual(
    await load({ ...keys, compression_codecs: ["opus", "mp3"], compression_codec_weights: [5, 1e-9] }),
  );
  await expect(load({ ...keys, compression_codecs: ["gsm"] })).rejects.toThrow(/compression_codecs is .*expected a list of opus, mp3 and vorbis/);
  await expect(load({ ...keys, compression_codec_weights: [1, 2] })).rejects.toThrow(/1 codecs and 2 weights/);
});

test("sample_rate and num_workers are the loader's", async () => {
  const { config } = await openSources({ manifest_filepath: manifest, num_workers: 3, sample_rate: 8000 });
  expect(await loaderOptionsOf(config)).toMatchObject({ workers: 3, sampleRate: 8000, cutTransforms: [] });
});

test("perturb_speed and windows: every copy is loaded at the length that it was sampled by, with supervisions within it", async () => {
  for (const keys of [{ perturb_speed: true }, { perturb_speed: true, cut_into_windows_duration: 0.5, keep_excessive_supervisions: false }]) {
    const batches = await load(keys);
    const rows = batches.flatMap((batch) => batch.cuts.map(({ duration }, i) => [duration, batch.inputLens[i] as number] as const));
    expect(rows.length).toBeGreaterThan(30);
    for (const [duration, frames] of rows) expect(Math.abs(frames - duration * 100)).toBeLessThanOrEqual(0.51);
  }
});
