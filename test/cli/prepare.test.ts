import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fbank, readAudio, speed, writeAudio } from "../../src/audio/index.ts";
import { main } from "../../src/cli/main.ts";
import { parseLhotseCut, readFeatures } from "../../src/data/sources/index.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-prepare-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (...names: string[]): string => join(folder, ...names);

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const streams = { stdout: { write: (text: string) => Boolean((stdout += text)) }, stderr: { write: (text: string) => Boolean((stderr += text)) } };
  const code = await main(args, streams as unknown as NonNullable<Parameters<typeof main>[1]>);
  return { code, stdout, stderr };
}

const lines = (path: string): Record<string, unknown>[] =>
  gunzipSync(readFileSync(path))
    .toString()
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

async function sound(path: string, samples: number): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  await writeAudio(path, { sampleRate: 16000, channels: [Float32Array.from({ length: samples }, (_, i) => 0.3 * Math.sin(i / (20 + (samples % 7))))] });
}

beforeAll(async () => {
  for (const [part, chapter, sizes] of [
    ["train-clean-100", "103/1240", [16000, 20001]],
    ["train-clean-360", "14/208", [9000]],
    ["train-other-500", "20/205", [9003]],
    ["dev-clean", "84/121123", [8000]],
  ] as const) {
    const base = chapter.replace("/", "-");
    for (const [i, samples] of sizes.entries()) await sound(at("LibriSpeech", part, chapter, `${base}-000${i}.flac`), samples);
    writeFileSync(at("LibriSpeech", part, chapter, `${base}.trans.txt`), `${sizes.map((_, i) => `${base}-000${i} WORDS OF ${i}`).join("\n")}\n`);
  }
  await sound(at("musan", "music", "fma", "music-fma-0000.wav"), 16000 * 12 + 5);
  await sound(at("musan", "noise", "free-sound", "noise-free-sound-0000.wav"), 16000 * 6);
  await sound(at("musan", "speech", "us-gov", "speech-us-gov-0000.wav"), 16000 * 3);
  writeFileSync(at("musan", "music", "fma", "ANNOTATIONS"), "music-fma-0000 classical,baroque N Some_One\n");
});

describe("serac prepare librispeech", () => {
  test("gives recordings, supervisions and cuts with lhotse's lines, ids and speed copies, and features that are fbank's", async () => {
    const out = at("data");
    const { code, stdout, stderr } = await run("prepare", "librispeech", folder, "--out-dir", out, "--json", "--num-jobs", "2");
    expect(stderr).not.toContain("serac:");
    expect(code).toBe(0);
    const told = JSON.parse(stdout) as { parts: Record<string, unknown>[]; shuffled: { cuts: number } };
    expect(told.parts.map(({ part, recordings, cuts, written }) => [part, recordings, cuts, written])).toEqual([
      ["dev-clean", 1, 1, true],
      ["train-clean-100", 2, 6, true],
      ["train-clean-360", 1, 3, true],
      ["train-other-500", 1, 3, true],
    ]);
    expect(told.shuffled.cuts).toBe(12);
    expect(readdirSync(join(out, "manifests")).sort().slice(0, 2)).toEqual(["librispeech_recordings_dev-clean.jsonl.gz", "librispeech_recordings_train-clean-100.jsonl.gz"]);
    const path = join(folder, "LibriSpeech", "train-clean-100", "103", "1240", "103-1240-0001.flac");
    expect(lines(join(out, "manifests", "librispeech_recordings_train-clean-100.jsonl.gz"))[1]).toEqual({
      id: "103-1240-0001",
      sources: [{ type: "file", channels: [0], source: path }],
      sampling_rate: 16000,
      num_samples: 20001,
      duration: 1.2500625,
      channel_ids: [0],
    });
    expect(lines(join(out, "manifests", "librispeech_supervisions_train-clean-100.jsonl.gz"))[1]).toEqual({
      id: "103-1240-0001",
      recording_id: "103-1240-0001",
      start: 0,
      duration: 1.2500625,
      channel: 0,
      text: "WORDS OF 1",
      language: "English",
      speaker: "103",
    });
    const cuts = lines(join(out, "fbank", "librispeech_cuts_train-clean-100.jsonl.gz"));
    expect(cuts.map(({ id }) => id)).toEqual([
      "103-1240-0000-0",
      "103-1240-0001-1",
      "103-1240-0000-0_sp0.9",
      "103-1240-0001-1_sp0.9",
      "103-1240-0000-0_sp1.1",
      "103-1240-0001-1_sp1.1",
    ]);
    // As lhotse writes the same cut, but for the key of its features.
    expect(cuts[3]).toMatchObject({
      start: 0,
      duration: 1.3889375,
      supervisions: [{ id: "103-1240-0001_sp0.9", recording_id: "103-1240-0001_sp0.9", duration: 1.3889375 }],
      features: {
        type: "kaldi-fbank",
        num_frames: 139,
        num_features: 80,
        frame_shift: 0.01,
        sampling_rate: 16000,
        start: 0,
        duration: 1.3889375,
        storage_type: "lilcom_chunky",
        channels: 0,
      },
      recording: { id: "103-1240-0001_sp0.9", num_samples: 22223, duration: 1.3889375, transforms: [{ name: "Speed", kwargs: { factor: 0.9 } }] },
      type: "MonoCut",
    });
    for (const [i, factor] of [
      [1, 1],
      [3, 0.9],
      [5, 1.1],
    ] as const) {
      const stored = parseLhotseCut(cuts[i] as Record<string, unknown>, "cut").features;
      const found = await readFeatures(stored as NonNullable<typeof stored>);
      const audio = (await readAudio(path)).channels[0] as Float32Array;
      const expected = await fbank(factor === 1 ? audio : await speed(audio, factor, 16000), { sampleRate: 16000 });
      expect(found.frames).toBe(stored?.manifest.numFrames);
      found.data.subarray(0, 80 * 100).forEach((value, k) => expect(Math.abs(value - (expected.data[k] as number))).toBeLessThanOrEqual(2 ** -6 + 1e-4));
    }
    const shuffled = lines(join(out, "fbank", "librispeech_cuts_train-all-shuf.jsonl.gz"));
    expect(new Set(shuffled.map(({ id }) => id)).size).toBe(12);
  });

  test("a second run leaves what is there; a stopped one goes on with the pieces that are finished", async () => {
    const out = at("again");
    const args = ["prepare", "librispeech", folder, "--out-dir", out, "--parts", "train-clean-100", "--json"];
    await run(...args);
    const cuts = join(out, "fbank", "librispeech_cuts_train-clean-100.jsonl.gz");
    const archive = join(out, "fbank", "librispeech_feats_train-clean-100", "feats-0.lca");
    const { mtimeMs } = statSync(archive);
    const first = lines(cuts);
    const { stdout } = await run(...args);
    expect(JSON.parse(stdout)).toMatchObject({ parts: [{ written: false }] });
    // As if it had been killed between the archive and the manifest: the archive is taken as it is.
    rmSync(cuts);
    writeFileSync(join(dirname(archive), "cuts-0.jsonl"), `${first.map((line) => JSON.stringify(line).replaceAll('":', '": ').replaceAll(',"', ', "')).join("\n")}\n`);
    writeFileSync(join(dirname(archive), "feats-1.lca.tmp-1-1"), "half");
    expect(JSON.parse((await run(...args)).stdout)).toMatchObject({ parts: [{ written: true }] });
    expect(lines(cuts)).toEqual(first);
    expect(statSync(archive).mtimeMs).toBe(mtimeMs);
    expect(readdirSync(dirname(archive))).toEqual(["feats-0.lca"]);
  });

  test("features on the fly, without speed copies", async () => {
    const out = at("plain");
    await run("prepare", "librispeech", at("LibriSpeech"), "--out-dir", out, "--features", "on-the-fly", "--no-perturb-speed", "--parts", "train-clean-100");
    const cuts = lines(join(out, "fbank", "librispeech_cuts_train-clean-100.jsonl.gz"));
    expect(cuts).toHaveLength(2);
    expect(cuts[0]).not.toHaveProperty("features");
    expect(existsSync(join(out, "fbank", "librispeech_feats_train-clean-100"))).toBe(false);
  });

  test("what is no corpus, and files that are missing or damaged, are named", async () => {
    expect((await run("prepare", "librispeech", at("musan"))).stderr).toMatch(/no part of LibriSpeech: expected folders as dev-clean.*CORPUS_BAD/);
    expect((await run("prepare", "librispeech", at("nowhere"))).stderr).toMatch(/nowhere: no such file/);
    expect((await run("prepare", "librispeech", folder, "--parts", "test-clean", "--out-dir", at("x"))).stderr).toMatch(/test-clean: there is no such part/);
    const broken = at("broken", "dev-clean", "1", "2");
    mkdirSync(broken, { recursive: true });
    await sound(join(broken, "1-2-0000.flac"), 8000);
    writeFileSync(join(broken, "1-2-0001.flac"), "no audio");
    writeFileSync(join(broken, "1-2.trans.txt"), "1-2-0000 GOOD\n1-2-0001 BAD\n1-2-0002 MISSING\n1-2-0003\n");
    const { stdout, stderr } = await run("prepare", "librispeech", at("broken"), "--out-dir", at("broken-data"));
    expect(stdout).toContain("1 recordings");
    expect(stderr).toMatch(/left out 2 audio files that cannot be read \(first: .*1-2-0001\.flac/);
    expect(stderr).toMatch(/left out 1 lines of transcripts without a text \(first: .*1-2\.trans\.txt:4\)/);
  });
});

describe("serac prepare musan", () => {
  test("gives windows of 10 s with lhotse's ids, longer than 5 s, and features of each", async () => {
    const out = at("musan-data");
    const { code, stdout } = await run("prepare", "musan", folder, "--out-dir", out, "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ parts: [{ part: "musan", recordings: 3, cuts: 2 }] });
    const cuts = lines(join(out, "fbank", "musan_cuts.jsonl.gz"));
    expect(cuts.map(({ id, start, duration }) => [id, start, duration])).toEqual([
      ["music-fma-0000-0-0", 0, 10],
      ["noise-free-sound-0000-2-0", 0, 6],
    ]);
    expect(cuts[0]).toMatchObject({ supervisions: [], features: { num_frames: 1000, start: 0, duration: 10 }, recording: { num_samples: 192005 } });
    const stored = parseLhotseCut(cuts[0] as Record<string, unknown>, "cut").features;
    expect((await readFeatures(stored as NonNullable<typeof stored>)).frames).toBe(1000);
    expect(lines(join(out, "manifests", "musan_supervisions_music.jsonl.gz"))[0]).toMatchObject({
      speaker: "Some_One",
      custom: { genres: ["classical", "baroque"], vocals: false },
    });
    expect((await run("prepare", "musan", at("LibriSpeech"))).stderr).toMatch(/no part of MUSAN/);
  });
});
