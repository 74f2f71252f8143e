import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, describe as group, test } from "vitest";
import { type Features, fbank, resampleSinc, SpecAugment } from "../../../src/audio/index.ts";
import {
  appendCuts,
  clipCut,
  createSampler,
  cutConcatenateTransform,
  cutIntoWindows,
  energyOf,
  Loader,
  lowpassCut,
  memorySource,
  mixCut,
  mixFeatures,
  normalizeCutLoudness,
  openSources,
  type PlayedCut,
  padCut,
  perturbCutSpeed,
  perturbCutVolume,
  playedOf,
  renderSamples,
  reverbCut,
  type SourceCut,
  sourceSamples,
  truncateCut,
  windowCount,
  writeSharFolder,
} from "../../../src/data/index.ts";
import { Random } from "../../../src/util/random.ts";
import { cutOf, describe, newFolder, rate, wave } from "./corpus.ts";

/** Every 97th sample, how many there are, and the sum of their squares. */
interface Picked {
  n: number;
  values: number[];
  energy: number;
}
type Sups = [number, number, string][];
interface Golden {
  [name: `pad_${string}`]: Picked & { duration: number; sups: [number, number][] };
  [name: `reverb_${string}`]: Picked;
  [name: `speed${string}`]: Picked & { duration: number; sup: [number, number] };
  [name: `windows_${string}`]: { id: string; start: number; duration: number; sups: Sups }[];
  volume: Picked;
  mix: Picked & { duration: number };
  mix_longer: Picked & { duration: number };
  mix_asis: Picked;
  append: Picked & { duration: number; sups: Sups };
  truncate: Picked & { duration: number; sups: Sups };
  truncate_strict: { sups: Sups };
  num_windows: [number, number, number, number][];
  resample: Record<string, Picked>;
  concatenate: {
    durations: number[];
    cases: { gap: number; duration_factor?: number; max_duration?: number; rows: string[][]; durations: number[]; starts: number[][] }[];
  };
  batch: {
    shape: number[];
    values: number[];
    sequence_idx: number[];
    start_frame: number[];
    num_frames: number[];
    text: string[];
    cut: string[];
    word: string[][];
    word_start: number[][];
    word_end: number[][];
  };
  loudness: Record<string, Picked>;
  lowpass: Record<string, Picked>;
  clip: Record<string, Picked>;
  mixed_cuts: Record<string, Picked & { line: string; duration: number; sups: Sups }>;
  mix_features: { shape: number[]; values: number[] };
  specAugment: Record<string, { T: number; F: number; segments: [number, number][]; coins: number[]; warps: number[]; widths: number[]; starts: number[]; values: number[] }>;
}
/** Made by lhotse 1.33.0: bash scripts/interop/loading.sh --record */
const golden = JSON.parse(readFileSync(new URL("../../golden/loading.json", import.meta.url), "utf8")) as Golden;

const folder = newFolder();
afterAll(() => rmSync(folder, { recursive: true }));

const a = await cutOf(folder, "a", wave(12345, 0.1, 0.3));
const b = await cutOf(folder, "b", wave(7001, 0.5, 0.2));
const n1 = await cutOf(folder, "n1", wave(5003, 1, 0.7));
const n2 = await cutOf(folder, "n2", wave(9001, 2, 0.05));
const spoken = await cutOf(folder, "w", wave(2.35 * rate, 0.3, 0.4), {
  spans: [
    [0, 0.6, "one"],
    [0.65, 0.5, "two"],
    [1.2, 1.1, "three"],
  ],
});
const response = Float32Array.from({ length: 800 }, (_, i) => (i === 7 ? 1 : Math.exp(-i / 120) * Math.sin(0.9 * i + 0.4)));
const rir = await cutOf(folder, "rir", response);

async function expectSound(cut: PlayedCut, { n, values, energy }: Picked, tolerance = { rtol: 1e-4, atol: 2e-6 }): Promise<void> {
  const samples = await renderSamples(playedOf(cut), rate);
  expect(samples.length).toBe(n);
  expect(samples.filter((_, i) => i % 97 === 0)).toBeAllClose(values, tolerance);
  expect(samples.reduce((sum, x) => sum + x * x, 0)).toBeAllClose([energy], { rtol: 1e-4 });
}
const times = (sups: Sups): number[][] => sups.map(([start, duration]) => [start, duration]);
const supsOf = (cut: PlayedCut): Sups => cut.supervisions.map(({ start, duration, text }) => [start, duration, text ?? ""]);

group("as lhotse does it, on the same draws", () => {
  test.each([0.9, 1.1])("speed %d", async (factor) => {
    const g = golden[`speed${factor}`] as Golden["speed1"];
    const cut = perturbCutSpeed(a, factor, rate);
    expect(cut.id).toBe(`a_sp${factor}`);
    expect([cut.duration, cut.supervisions[0]?.start, cut.supervisions[0]?.duration]).toBeAllClose([g?.duration, ...(g?.sup ?? [])], { rtol: 1e-6 });
    await expectSound(cut, g as Picked);
  });

  test("volume", () => expectSound(perturbCutVolume(a, 0.37), golden.volume));

  test("loudness, of short cuts and with silence that does not count", async () => {
    for (const [name, cut] of Object.entries({ a, b, n1 })) await expectSound(normalizeCutLoudness(cut, -25), golden.loudness[name] as Picked);
    const parts = [wave(30_000, 0.3, 0.02), new Float32Array(8000), wave(40_000, 0.9, 0.5)];
    const loud = await cutOf(folder, "loud", Float32Array.from(parts.flatMap((part) => [...part])));
    await expectSound(normalizeCutLoudness(loud, -20), golden.loudness["gated"] as Picked);
  });

  test.each(Object.entries(golden.lowpass))("low-pass at %s Hz", (hz, sound) => expectSound(lowpassCut(a, Number(hz)), sound, { rtol: 1e-3, atol: 3e-5 }));

  test.each(Object.entries(golden.clip))("clipping: hard, gain, normalize, oversampling: %s", (name, sound) => {
    const [hard, gainDb, normalize, oversampling] = name.split(" ");
    return expectSound(clipCut(a, { hard: hard === "True", gainDb: Number(gainDb), normalize: normalize === "True", oversampling: Math.max(1, Number(oversampling)) }), sound);
  });

  test("reverberation: with loudness kept, without, and with early reflections alone", async () => {
    const recording = { kind: "recording", cut: rir } as const;
    await expectSound(reverbCut(a, recording), golden["reverb_True"] as Picked);
    await expectSound(reverbCut(a, recording, { normalize: false }), golden["reverb_False"] as Picked, { rtol: 1e-3, atol: 1e-9 });
    await expectSound(reverbCut(a, { kind: "recording", cut: truncateCut(rir, { duration: 0.05 }) }), golden["reverb_early"] as Picked);
  });

  test("noises one after another at one ratio, cut off at the end; longer than the cut; as loud as they are", async () => {
    const both = (snr: number) => [
      { cut: n1, offset: 0, snr },
      { cut: n2, offset: n1.duration, snr },
    ];
    await expectSound(mixCut(a, both(12.5)), golden.mix);
    const longer = mixCut(b, both(5), 0.7);
    expect(longer.duration).toBe(golden.mix_longer.duration);
    await expectSound(longer, golden.mix_longer);
    await expectSound(mixCut(a, [{ cut: n1, offset: 0, snr: undefined }]), golden.mix_asis);
  });

  test("cuts in a row with a gap", async () => {
    const row = appendCuts([a, b], 0.25);
    expect(row.duration).toBeAllClose([golden.append.duration], { rtol: 1e-6 });
    expect(row.text).toBe("text a text b");
    for (const [i, [start, duration, text]] of supsOf(row).entries()) {
      const g = golden.append.sups[i] as Sups[0];
      expect([start, duration]).toBeAllClose([g[0], g[1]], { rtol: 1e-6 });
      expect(text).toBe(g[2]);
    }
    await expectSound(row, golden.append);
  });

  test.each(["left", "right", "both"] as const)("padding on the side %s", async (direction) => {
    const g = golden[`pad_${direction}`] as Golden["pad_left"];
    const padded = padCut(b, 0.61, direction);
    expect([padded.duration, padded.supervisions[0]?.start]).toBeAllClose([g?.duration, g?.sups[0]?.[0]], { rtol: 1e-5 });
    await expectSound(padded, g as Picked);
  });

  test("truncation, with supervisions that overlap and with those that lie within", async () => {
    const part = truncateCut(spoken, { offset: 0.5, duration: 1 });
    expect(part.duration).toBe(golden.truncate.duration);
    expect(part.text).toBe("one two three");
    for (const [i, sup] of supsOf(part).entries()) expect(sup.slice(0, 2)).toBeAllClose((golden.truncate.sups[i] as Sups[0]).slice(0, 2), { rtol: 1e-6 });
    expect(part.supervisions).toHaveLength(golden.truncate.sups.length);
    await expectSound(part, golden.truncate);
    const strict = truncateCut(spoken, { offset: 0.5, duration: 1, keepExcessive: false });
    expect(strict.text).toBe(golden.truncate_strict.sups.map(([, , text]) => text).join(" "));
  });

  test("windows", () => {
    for (const [duration, window, hop, count] of golden.num_windows) expect(windowCount(duration, window, hop)).toBe(count);
    for (const [window, hop] of [
      [1, undefined],
      [1, 0.5],
      [0.5, 0.8],
    ] as const) {
      const name = `windows_${window.toFixed(1)}_${hop ?? "None"}` as const;
      const windows = cutIntoWindows(spoken, { window, ...(hop === undefined ? {} : { hop }) });
      expect(windows.map(({ id }) => id)).toEqual(golden[name]?.map(({ id }) => id));
      windows.forEach((cut, i) => {
        const g = golden[name]?.[i];
        expect([cut.offset ?? 0, cut.duration]).toBeAllClose([g?.start, g?.duration], { rtol: 1e-6 });
        expect(times(supsOf(cut))).toBeAllClose(times(g?.sups ?? []), { rtol: 1e-5 });
      });
    }
  });

  test.each(Object.entries(golden.resample))("resampling %s", async (rates, { n, values }) => {
    const [from, to] = rates.split("-").map(Number) as [number, number];
    const samples = await resampleSinc(wave(4321, 0.2, 0.5), from, to);
    expect(samples.length).toBe(n);
    expect(samples.filter((_, i) => i % 97 === 0)).toBeAllClose(values, { rtol: 1e-4, atol: 2e-6 });
  });

  test("which cuts are put in one row", () => {
    const cuts = golden.concatenate.durations.map((duration, i) => describe(`c${i}`, "", duration, [[0, duration, `c${i}`]]));
    for (const { gap, duration_factor, max_duration, rows, durations, starts } of golden.concatenate.cases) {
      const transform = cutConcatenateTransform({ gap, ...(duration_factor === undefined ? {} : { durationFactor: duration_factor }), maxDuration: max_duration });
      const joined = transform.apply(cuts, { sampleRate: rate, random: () => new Random(0) });
      expect(joined.map(({ supervisions }) => supervisions.map(({ text }) => text))).toEqual(rows);
      expect(joined.map(({ duration }) => duration)).toBeAllClose(durations, { rtol: 1e-6 });
      expect(joined.map(({ supervisions }) => supervisions.map(({ start }) => start))).toBeAllClose(starts, { rtol: 1e-6 });
    }
  });

  test.each(Object.entries(golden.mixed_cuts))("a line of a manifest of cuts: %s", async (name, { line, duration, sups, ...sound }) => {
    const path = join(folder, `${name}.jsonl`);
    writeFileSync(path, `${line.replaceAll("FOLDER", folder)}\n`);
    const { source } = await openSources({ cuts_path: path });
    const [cut] = await source.load([0]);
    expect(cut).toMatchObject({ id: name, text: sups.map(([, , text]) => text).join(" ") });
    expect([cut?.duration]).toBeAllClose([duration], { rtol: 1e-6 });
    expect(times(supsOf(cut as SourceCut))).toBeAllClose(times(sups), { rtol: 1e-6, atol: 1e-6 });
    await expectSound(cut as SourceCut, sound);
    // Written to a Shar folder it is one recording, and sounds as before.
    await writeSharFolder(join(folder, `${name}.shar`), [cut as SourceCut], { recording: "wav" });
    const again = await openSources({ shar_path: join(folder, `${name}.shar`), force_finite: true });
    const [stored] = await again.source.load([0]);
    expect(times(supsOf(stored as SourceCut))).toBeAllClose(times(sups), { rtol: 1e-6, atol: 1e-6 });
    expect(await sourceSamples(stored as SourceCut, rate)).toBeAllClose(await sourceSamples(cut as SourceCut, rate), { rtol: 0, atol: 2 ** -15 });
  });

  test("features mixed by their energies", async () => {
    const options = { sampleRate: rate, numMelBins: 80 };
    const [signal, first, second] = (await Promise.all([wave(16000, 0.1, 0.3), wave(6400, 1, 0.7), wave(8000, 2, 0.05)].map((x) => fbank(x, options)))) as [
      Features,
      Features,
      Features,
    ];
    const mixed = mixFeatures(
      [
        { features: signal, start: 0, snr: undefined },
        { features: first, start: 0, snr: 11 },
        { features: second, start: 40, snr: 11 },
      ],
      signal.frames,
      energyOf(signal),
    );
    expect([mixed.frames, mixed.bins]).toEqual(golden.mix_features.shape);
    expect(mixed.data.filter((_, i) => i % 101 === 0)).toBeAllClose(golden.mix_features.values, { rtol: 1e-3, atol: 2e-3 });
  });

  test.each(Object.entries(golden.specAugment))("SpecAugment on scripted draws: %s", (_, { T, F, segments, coins, warps, widths, starts, values }) => {
    const augment = new SpecAugment({ timeWarpFactor: 10, numFeatureMasks: 2, featuresMaskSize: 9, numFrameMasks: 3, framesMaskSize: 12, maxFramesMaskFraction: 0.3, p: 0.9 });
    const data = Float32Array.from({ length: T * F }, (_, k) => 3 * Math.sin(0.07 * (k + 1)) + Math.cos(0.00013 * (k + 1) * (k + 1)));
    augment.applyToSegments(
      { frames: T, bins: F, data },
      segments.map(([startFrame, numFrames]) => ({ startFrame, numFrames })),
      new Script([...coins, ...starts], [...warps, ...widths]),
    );
    expect(data.filter((_, i) => i % 11 === 0)).toBeAllClose(values, { rtol: 1e-4, atol: 1e-4 });
  });

  test("the batch of K2SpeechRecognitionDataset", async () => {
    const g = golden.batch;
    const cuts = [
      await cutOf(folder, "x1", wave(1.27 * rate, 0.1), { spans: [[0, 1.27, "first"]] }),
      await cutOf(folder, "x2", wave(2.035 * rate, 0.2), {
        spans: [
          [0.1, 0.9, "second"],
          [1.1, 0.93, "third"],
        ],
      }),
      await cutOf(folder, "x3", wave(0.5 * rate, 0.3), { spans: [[0, 0.5, "fourth"]] }),
    ].map(
      (cut): SourceCut => ({
        ...cut,
        supervisions: cut.supervisions.map((one) => ({ ...one, alignment: { word: [[one.text, Math.round((one.start + 0.05) * 1e8) / 1e8, 0.2, null]] } })),
      }),
    );
    const loader = new Loader(await createSampler(memorySource(cuts), { kind: "simple", maxCuts: 3, maxDuration: 1000 }), { workers: 0 });
    const batch = await (await loader.epoch(0)).next();
    expect([batch?.cuts.length, batch?.frames, batch?.bins]).toEqual(g.shape);
    expect(batch?.inputs.filter((_, i) => i % 997 === 0)).toBeAllClose(g.values, { rtol: 1e-3, atol: 2e-3 });
    const { sequenceIdx, startFrame, numFrames, text, cut, words } = batch?.supervisions ?? {};
    expect(Array.from(sequenceIdx ?? [])).toEqual(g.sequence_idx);
    expect(Array.from(startFrame ?? [])).toEqual(g.start_frame);
    expect(Array.from(numFrames ?? [])).toEqual(g.num_frames);
    expect(text).toEqual(g.text);
    expect(cut?.map(({ id }) => id)).toEqual(g.cut);
    expect([words?.word, words?.wordStart, words?.wordEnd]).toEqual([g.word, g.word_start, g.word_end]);
    await loader.close();
  });
});

/** Numbers that were written down: those from 0 to 1, and whole ones. */
class Script extends Random {
  private readonly uniforms: number[];
  private readonly integers: number[];

  constructor(uniforms: readonly number[], integers: readonly number[]) {
    super(0);
    this.uniforms = [...uniforms];
    this.integers = [...integers];
  }

  override uniform(): number {
    return this.uniforms.shift() as number;
  }

  override integer(): number {
    return this.integers.shift() as number;
  }
}
