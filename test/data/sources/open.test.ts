import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSampler, type ItemSource, type SamplerState } from "../../../src/data/sampling/index.ts";
import { type OpenSourcesOptions, openSources, parseConfig, readConfig, type SourceCut, samplerOptionsOf, sourceFeatures, sourceSamples } from "../../../src/data/sources/index.ts";
import { levelOf, rate, simpleShards, tone, writeDataset } from "../tarred/corpus.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-sources-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (...names: string[]): string => join(folder, ...names);

/** A manifest of `count` files whose samples are all level / 1000. */
function manifest(name: string, levels: readonly number[], extra: (i: number) => object = () => ({})): string {
  mkdirSync(at("audio"), { recursive: true });
  const lines = levels.map((level, i) => {
    writeFileSync(at("audio", `${name}-${i}.wav`), tone(level));
    return JSON.stringify({ audio_filepath: `audio/${name}-${i}.wav`, duration: 0.1, text: `text ${level}`, ...extra(i) });
  });
  writeFileSync(at(`${name}.jsonl`), `${lines.join("\n")}\n`);
  return at(`${name}.jsonl`);
}

let a = "";
let b = "";
beforeAll(() => {
  a = manifest("a", [1, 2, 3, 4]);
  b = manifest("b", [11, 12]);
});

const quiet: OpenSourcesOptions = { onWarning: () => {} };

/** All cuts of an epoch, or the first `most`. */
async function cutsOf(source: ItemSource<SourceCut>, { most = 1000, shuffle = false, epoch = 0 } = {}): Promise<SourceCut[]> {
  const stream = await source.open({ epoch, seed: 0, shuffle });
  const refs: number[] = [];
  while (refs.length < most) {
    const block = await stream.read(Math.min(7, most - refs.length));
    if (!block) break;
    refs.push(...block.refs.subarray(0, block.count));
  }
  return source.load(refs);
}
const texts = (cuts: readonly SourceCut[]): string[] => cuts.map(({ text }) => text).sort();
const open = (yaml: string, options: OpenSourcesOptions = quiet) => openSources(parseConfig(yaml, "train.yaml"), options);

describe("NeMo's manifests", () => {
  test("plain, gzip and several at once give every utterance once, with audio, place and custom values", async () => {
    writeFileSync(at("c.jsonl.gz"), gzipSync(readFileSync(manifest("c", [21, 22, 23], () => ({ score: 5 })))));
    const { source, leaves, infinite } = await open(`manifest_filepath: [${a}, ${at("c.jsonl.gz")}]`);
    expect(infinite).toBe(false);
    expect(leaves[0]).toMatchObject({ utterances: 7 });
    const cuts = await cutsOf(source, { shuffle: true });
    expect(texts(cuts)).toEqual(["text 1", "text 2", "text 21", "text 22", "text 23", "text 3", "text 4"]);
    for (const cut of cuts) expect(levelOf(await sourceSamples(cut, rate))).toBe(Number(cut.text.slice(5)));
    const last = cuts.find(({ text }) => text === "text 22");
    expect(last?.origin).toBe(`${at("c.jsonl.gz")}:2`);
    expect(last?.custom).toMatchObject({ score: 5, text: "text 22" });
  });

  test("many lines of a gzip file are found by number", async () => {
    const lines = Array.from({ length: 1000 }, (_, i) => JSON.stringify({ audio_filepath: "audio/a-0.wav", duration: 0.1 + i / 1000, text: `é ${i}` }));
    writeFileSync(at("many.jsonl.gz"), gzipSync(lines.join("\n")));
    writeFileSync(at("many.jsonl"), `\ufeff${lines.join("\r\n")}\r\n\r\n`);
    for (const file of ["many.jsonl.gz", "many.jsonl"]) {
      const { source } = await open(`manifest_filepath: ${at(file)}`);
      expect((await source.load([999, 0, 500])).map(({ text }) => text)).toEqual(["é 999", "é 0", "é 500"]);
      expect(source.where(63)).toBe(`${at(file)}:64`);
    }
  });

  test("filters, _skipme and validation_status leave out, counted with the first example", async () => {
    const filtered = manifest(
      "filtered",
      [1, 2, 3, 4, 5, 6],
      (i) => [{}, { duration: 0.05 }, { duration: 30 }, { _skipme: true }, { validation_status: "bad" }, { validation_status: "pass" }][i] as object,
    );
    const { source, leaves } = await open(`{manifest_filepath: ${filtered}, min_duration: 0.1, max_duration: 20}`);
    expect(texts(await cutsOf(source))).toEqual(["text 1", "text 6"]);
    expect(leaves[0]?.leftOut.lines()).toEqual([
      `1 marked _skipme (first: ${filtered}:4)`,
      `1 with a validation_status that is not pass (first: ${filtered}:5)`,
      `1 shorter than min_duration, 0.1 s (first: ${filtered}:2)`,
      `1 longer than max_duration, 20 s (first: ${filtered}:3)`,
    ]);
  });

  test("texts and languages come from the keys that are named; channels too", async () => {
    const named = manifest("named", [1, 2], (i) => ({ answer: `answer ${i}`, target_lang: "de", side: i }));
    const { source } = await open(`{manifest_filepath: ${named}, text_field: answer, lang_field: target_lang, channel_selector: side}`);
    const cuts = await cutsOf(source);
    expect(cuts.map(({ text, lang, channel }) => [text, lang, channel])).toEqual([
      ["answer 0", "de", 0],
      ["answer 1", "de", 1],
    ]);
    await expect(sourceSamples(cuts[1] as SourceCut, rate)).rejects.toThrow(/named\.jsonl:2: channel 1 of 1/);
    const missing = await open(`{manifest_filepath: ${a}, channel_selector: side}`);
    await expect(cutsOf(missing.source)).rejects.toThrow(/channel_selector names the key side, which is missing here/);
  });

  test("perturb_speed gives each utterance three times, in an epoch exactly once each", async () => {
    const { source, leaves } = await open(`{manifest_filepath: ${b}, perturb_speed: true}`);
    const cuts = await cutsOf(source, { shuffle: true });
    const speedOf = ({ id }: SourceCut): string => /_sp([\d.]+)$/.exec(id)?.[1] ?? "1";
    expect(cuts.map((cut) => `${cut.text} ${speedOf(cut)}`).sort()).toEqual(["text 11 0.9", "text 11 1", "text 11 1.1", "text 12 0.9", "text 12 1", "text 12 1.1"]);
    expect(leaves[0]).toMatchObject({ utterances: 2 });
    expect(leaves[0]?.seconds).toBeCloseTo(0.2 * (1 + 1 / 0.9 + 1 / 1.1), 3);
    const slow = cuts.find((cut) => speedOf(cut) === "0.9") as SourceCut;
    // Samples are counted at the config's rate, and supervisions are as long as their cut.
    expect(slow.duration).toBe(Math.round(1600 / 0.9) / 16_000);
    expect(slow.supervisions[0]?.duration).toBe(slow.duration);
    expect((await sourceSamples(slow, rate)).length).toBe(Math.round(800 / 0.9));
  });

  test("cut_into_windows gives every window of every speed, each with what is said in it", async () => {
    const long = manifest("long", [5], () => ({ duration: 2.35 }));
    const { source, leaves } = await open(`{manifest_filepath: ${long}, cut_into_windows_duration: 1, cut_into_windows_hop: 0.8, min_duration: 0.5}`);
    const cuts = await cutsOf(source);
    expect(cuts.map(({ id, duration }) => [id.slice(-2), duration])).toEqual([
      ["-0", 1],
      ["-1", 1],
      ["-2", 0.75],
    ]);
    expect(cuts.map(({ offset }) => offset)).toEqual([0, 0.8, 1.6]);
    expect(leaves[0]).toMatchObject({ utterances: 1, seconds: 2.75 });
    const strict = await open(`{manifest_filepath: ${long}, cut_into_windows_duration: 1, cut_into_windows_hop: 0.8, min_duration: 0.8, perturb_speed: true}`);
    expect(strict.leaves[0]?.leftOut.lines()).toEqual([`3 shorter than min_duration, 0.8 s (first: ${long}:1)`]);
    const all = await cutsOf(strict.source);
    expect(all.map(({ id }) => id.replace(/^.*wav/, "")).sort()).toEqual(["-0", "-1", "_sp0.9-0", "_sp0.9-1", "_sp0.9-2", "_sp1.1-0", "_sp1.1-1"]);
    const stream = await strict.source.open({ epoch: 0, seed: 0, shuffle: false });
    const block = await stream.read(10);
    expect([...(block?.durations.subarray(0, 7) ?? [])]).toEqual(all.map(({ duration }) => duration));
  });

  test("max_cer, min_context_speaker_similarity and excluded speakers leave out, counted", async () => {
    const said = manifest(
      "said",
      [1, 2, 3, 4, 5],
      (i) => [{ cer: 0.2 }, { cer: 0.01, context_speaker_similarity: 0.3 }, { speaker: "7" }, { reader: 8 }, { speaker: "9" }][i] as object,
    );
    writeFileSync(at("speakers.yaml"), "train: [7]\nother: [8, nobody]\n");
    const { source, leaves } = await open(
      `{manifest_filepath: ${said}, max_cer: 0.1, min_context_speaker_similarity: 0.5, excluded_speaker_ids: ${at("speakers.yaml")}, speaker_filter_fields: [speaker, reader]}`,
    );
    expect(texts(await cutsOf(source))).toEqual(["text 5"]);
    expect(leaves[0]?.leftOut.lines()).toEqual([
      `1 with a cer above max_cer, 0.1 (first: ${said}:1)`,
      `1 with a similarity below min_context_speaker_similarity, 0.5 (first: ${said}:2)`,
      `1 of a speaker of excluded_speaker_ids (in speaker) (first: ${said}:3)`,
      `1 of a speaker of excluded_speaker_ids (in reader) (first: ${said}:4)`,
    ]);
    const some = await open(`{manifest_filepath: ${said}, excluded_speaker_ids: [9], speaker_filter_fields: [speaker]}`);
    expect(some.source.length).toBe(4);
  });

  test("extra_fields gives each utterance its line of a file, or one at random", async () => {
    writeFileSync(at("questions.txt"), "who?\nwhat? \nwhen?\nwhere?\n");
    const fields = (type: string): string => `extra_fields: [{type: ${type}, name: question, path: ${at("questions.txt")}}]`;
    const questions = async (yaml: string) => (await cutsOf((await open(yaml)).source)).map(({ custom }) => custom["question"]);
    expect(await questions(`{manifest_filepath: ${a}, ${fields("text_iter")}}`)).toEqual(["who?", "what?", "when?", "where?"]);
    const sampled = await questions(`{manifest_filepath: ${a}, ${fields("text_sample")}}`);
    expect(sampled.every((one) => ["who?", "what?", "when?", "where?"].includes(String(one)))).toBe(true);
    expect(await questions(`{manifest_filepath: ${a}, ${fields("text_sample")}}`)).toEqual(sampled);
    writeFileSync(at("questions.txt"), "who?\n");
    await expect(questions(`{manifest_filepath: ${a}, ${fields("text_iter")}}`)).rejects.toThrow(/questions\.txt: the file has 1 lines.*none for line 2 \[SOURCE_EMPTY\]/);
    await expect(open(`manifest_filepath: ${a}\n${fields("text_every")}`)).rejects.toThrow(
      /^train\.yaml:2: extra_fields\[0\] has the type "text_every", expected text_iter or text_sample/,
    );
    const { tars, manifests } = writeDataset(at("fields"), simpleShards([2]));
    await expect(
      openSources({ manifest_filepath: manifests, tarred_audio_filepaths: tars, extra_fields: [{ type: "text_iter", name: "q", path: at("questions.txt") }] }, quiet),
    ).rejects.toThrow(/has no order of its own/);
  });

  test("tokens are counted where something depends on them", async () => {
    const countTokens = (text: string): number => Number(text.slice(5));
    const { source } = await open(`{manifest_filepath: ${a}, min_tps: 15, max_tps: 35}`, { ...quiet, countTokens });
    expect(texts(await cutsOf(source))).toEqual(["text 2", "text 3"]);
    const stream = await source.open({ epoch: 0, seed: 0, shuffle: false });
    expect([...((await stream.read(9))?.tokens?.subarray(0, 2) ?? [])]).toEqual([2, 3]);
    await expect(open(`\nmanifest_filepath: ${a}\nmin_tps: 1`)).rejects.toThrow(/^train\.yaml:3: .*need a tokenizer/);
  });

  test("large manifests are indexed once: another start reads the figures, with the same filters, reasons and errors, and no line", async () => {
    const path = at("large.jsonl");
    const lines = Array.from({ length: 12_000 }, (_, i) =>
      JSON.stringify({
        audio_filepath: `audio/a-${i % 4}.wav`,
        duration: 1 + (i % 20),
        text: `words of utterance ${i}`.padEnd(60),
        ...(i % 7 === 0 ? { validation_status: i % 2 === 0 ? "pass" : "bad" } : {}),
        ...(i % 11 === 0 ? { _skipme: true } : {}),
      }),
    );
    lines[50] = '{"audio_filepath": "x.wav"}';
    writeFileSync(path, `${lines.join("\n")}\n`);
    let counted = 0;
    const countTokens = (text: string): number => text.length + 0 * counted++;
    for (const [yaml, options, index] of [
      ["", {}, "large.jsonl.nemo.index"],
      [", min_duration: 3, max_duration: 15", {}, "large.jsonl.nemo.index"],
      [", min_tps: 4", { countTokens, tokensKey: "letters" }, undefined],
    ] as const) {
      const start = async () => {
        const { source, leaves } = await open(`{manifest_filepath: ${path}${yaml}}`, { ...quiet, ...options, onBad: "skip" });
        const stream = await source.open({ epoch: 0, seed: 0, shuffle: true });
        const first = await stream.read(5);
        return { length: source.length, left: leaves[0]?.leftOut.lines(), refs: String(first?.refs.subarray(0, 5)), where: source.where(3000), fingerprint: source.fingerprint() };
      };
      const built = await start();
      const before = counted;
      expect(await start()).toEqual(built);
      expect(counted).toBe(before);
      if (index !== undefined) expect(existsSync(at(index))).toBe(true);
      expect(built.left).toContain(`1 unusable lines: MANIFEST_NO_DURATION (first: ${path}:51: no "duration")`);
      expect(built.left?.some((line) => line.includes("that is not pass"))).toBe(true);
    }
    expect(counted).toBeGreaterThan(10_000);
    // What a first start told as an error is one at the next, too.
    await expect(open(`manifest_filepath: ${path}`)).rejects.toThrow(/large\.jsonl:51: no "duration" \[MANIFEST_NO_DURATION\]/);
  });

  test("bad lines are errors at file:line, or left out and counted", async () => {
    writeFileSync(at("bad.jsonl"), `${readFileSync(a, "utf8").split("\n")[0]}\n{"audio_filepath": "x.wav"}\n{oops\n`);
    await expect(open(`manifest_filepath: ${at("bad.jsonl")}`)).rejects.toThrow(/bad\.jsonl:2: no "duration"/);
    const { source, leaves } = await open(`manifest_filepath: ${at("bad.jsonl")}`, { ...quiet, onBad: "skip" });
    expect(source.length).toBe(1);
    expect(leaves[0]?.leftOut.lines()).toEqual([
      `1 unusable lines: MANIFEST_NO_DURATION (first: ${at("bad.jsonl")}:2: no "duration")`,
      expect.stringContaining(`1 unusable lines: JSONL_BAD_LINE (first: ${at("bad.jsonl")}:3:2: `),
    ]);
    writeFileSync(at("syntax.jsonl"), '\n{"audio_filepath": "x.wav", oops}\n');
    await expect(open(`manifest_filepath: ${at("syntax.jsonl")}`)).rejects.toThrow(/syntax\.jsonl:2:29: .*JSONL_BAD_LINE/);
    writeFileSync(at("pretty.jsonl"), '[\n  {"audio_filepath": "x.wav"}\n]\n');
    await expect(open(`manifest_filepath: ${at("pretty.jsonl")}`)).rejects.toThrow(/MANIFEST_PRETTY_PRINTED/);
    writeFileSync(at("lhotse.jsonl"), '{"id": "c", "recording": {}, "type": "MonoCut"}\n');
    await expect(open(`manifest_filepath: ${at("lhotse.jsonl")}`)).rejects.toThrow(/type: lhotse with cuts_path/);
  });

  test("a manifest that changes while training is an error that says so", async () => {
    const changing = manifest("changing", [1, 2]);
    const { source } = await open(`manifest_filepath: ${changing}`);
    writeFileSync(changing, "{}\n");
    await expect(source.load([1])).rejects.toThrow(/changing\.jsonl:2: .*\[FILE_CHANGED\]/);
  });
});

describe("tarred datasets", () => {
  test("give every utterance once where they are finite, and go on without end where not; shards are drawn by max_open_streams", async () => {
    const { tars, manifests } = writeDataset(at("tarred"), simpleShards([3, 2, 4]));
    const block = { manifest_filepath: manifests, tarred_audio_filepaths: tars };
    const finite = await openSources({ ...block, force_finite: true }, quiet);
    const cuts = await cutsOf(finite.source, { shuffle: true });
    expect(new Set(cuts.map(({ id }) => id)).size).toBe(9);
    expect(cuts.length).toBe(9);
    for (const cut of cuts) expect(levelOf(await sourceSamples(cut, rate))).toBe(Number(cut.text.slice(1)));
    const endless = await openSources({ ...block, max_open_streams: 2 }, quiet);
    expect(endless.infinite).toBe(true);
    expect((await cutsOf(endless.source, { most: 40, shuffle: true })).length).toBe(40);
    const tars1 = new Set((await cutsOf(endless.source, { most: 4 })).map(({ audioPath }) => audioPath));
    expect(tars1.size).toBeLessThanOrEqual(2);
  });
});

test("a large tarred dataset is opened once: another start reads neither manifests nor tars, until one of them changes", async () => {
  const shards = simpleShards([20, 15, 30]).map(({ members, lines }, shard) => ({
    members,
    lines: lines.map((line, i) => ({ ...line, note: "x".repeat(20_000), ...(i === 3 ? { validation_status: "bad" } : {}), ...(i === 4 && shard === 1 ? { duration: 0.01 } : {}) })),
  }));
  const { tars, manifests } = writeDataset(at("kept"), shards);
  const files = [0, 1, 2].flatMap((i) => [at("kept", `audio_${i}.tar`), at("kept", "sharded_manifests", `manifest_${i}.json`)]);
  for (const file of files) utimesSync(file, 1_000_000, 1_000_000);
  const start = async (extra: object) => {
    let read = 0;
    const options = { ...quiet, onProgress: (count: number) => void (read = count) };
    const { source, leaves } = await openSources({ manifest_filepath: manifests, tarred_audio_filepaths: tars, force_finite: true, ...extra }, options);
    const cuts = await cutsOf(source, { shuffle: true });
    return { read, told: { cuts, left: leaves[0]?.leftOut.lines(), shards: leaves[0]?.shards.map(({ length }) => length), fingerprint: source.fingerprint() } };
  };
  const built = await start({});
  expect(built.read).toBe(65);
  expect(built.told.shards).toEqual([19, 14, 29]);
  const kept = await start({});
  expect(kept.read).toBe(0);
  expect(kept.told).toEqual(built.told);
  for (const cut of kept.told.cuts.slice(0, 5)) expect(levelOf(await sourceSamples(cut, rate))).toBe(Number(cut.text.slice(1)));
  // Bounds are no part of what is kept.
  const bounded = await start({ min_duration: 0.05 });
  expect([bounded.read, bounded.told.cuts.length]).toEqual([0, 61]);
  expect(bounded.told.left).toEqual(["3 with a validation_status that is not pass", "1 shorter than min_duration, 0.05 s"].map((line) => expect.stringContaining(line)));
  expect((await start({ keep: "bad" })).read).toBe(65);
  utimesSync(at("kept", "audio_1.tar"), 2_000_000, 2_000_000);
  expect((await start({})).read).toBe(65);
  expect((await start({})).read).toBe(0);
});

test("slice_length gives some utterances in a row of each shard, others in another epoch, with exact restarts", async () => {
  const { tars, manifests } = writeDataset(at("sliced"), simpleShards([30, 2, 40]));
  const { source } = await openSources({ manifest_filepath: manifests, tarred_audio_filepaths: tars, force_finite: true, slice_length: 5 }, quiet);
  expect(source.length).toBe(12);
  const epochs = await Promise.all([0, 0, 1, 2, 3].map((epoch) => cutsOf(source, { epoch })));
  expect(epochs[0]).toEqual(epochs[1]);
  const starts = new Set(epochs.map((cuts) => cuts[0]?.id));
  expect(starts.size).toBeGreaterThan(1);
  for (const cuts of epochs) {
    expect(cuts).toHaveLength(12);
    const numbers = cuts.filter(({ audioPath }) => audioPath === cuts[0]?.audioPath).map(({ text }) => Number(text.slice(1)));
    expect(numbers).toEqual(numbers.map((_, i) => (numbers[0] as number) + i));
  }
  const stream = await source.open({ epoch: 3, seed: 0, shuffle: true });
  const before = (await stream.read(4))?.refs.slice(0, 4);
  const state = JSON.parse(JSON.stringify(stream.state()));
  const rest = (await stream.read(20))?.refs.slice(0, 8);
  const again = await source.open({ epoch: 3, seed: 0, shuffle: true }, { state, held: [] });
  expect((await again.read(20))?.refs.slice(0, 8)).toEqual(rest);
  expect(new Set([...(before ?? []), ...(rest ?? [])]).size).toBe(12);
  // Without an end, each pass over the shards takes other parts.
  const endless = await openSources({ manifest_filepath: manifests, tarred_audio_filepaths: tars, slice_length: 5 }, quiet);
  expect(new Set((await cutsOf(endless.source, { most: 3000 })).map(({ id }) => id)).size).toBe(72);
});

describe("lhotse's cuts and Shar", () => {
  const golden = JSON.parse(readFileSync(new URL("../../golden/shar.json", import.meta.url), "utf8")) as {
    files: Record<string, string>;
    cuts: { id: string; duration: number; text: string; samples: number; audioSum: number; frames: number; featureSum: number }[];
  };

  beforeAll(() => {
    mkdirSync(at("shar"), { recursive: true });
    for (const [name, bytes] of Object.entries(golden.files)) writeFileSync(at("shar", name), Buffer.from(bytes, "base64"));
  });

  test("a folder that lhotse wrote gives its cuts, samples and features", async () => {
    const { source, leaves } = await open(`{shar_path: ${at("shar")}, force_finite: true}`);
    expect(leaves[0]).toMatchObject({ utterances: 3, kind: "lhotse_shar" });
    expect(leaves[0]?.shards).toHaveLength(2);
    const cuts = await cutsOf(source);
    for (const [i, { id, duration, text, samples, audioSum, frames, featureSum }] of golden.cuts.entries()) {
      const cut = cuts[i] as SourceCut;
      expect(cut).toMatchObject({ id, duration, text, speaker: "me", lang: "en" });
      expect(cut.custom).toMatchObject({ score: i });
      const wave = await sourceSamples(cut, 16000);
      expect(wave.length).toBe(samples);
      expect(wave.reduce((x, y) => x + y, 0)).toBeCloseTo(audioSum, 3);
      const features = await sourceFeatures(cut, { sampleRate: 16000, numMelBins: 8 });
      expect(features.frames).toBe(frames);
      expect(features.data.reduce((x, y) => x + y, 0)).toBeCloseTo(featureSum, 2);
    }
  });

  test("Shar is read again and again unless it is finite; fields can be named one by one", async () => {
    const endless = await open(`shar_path: ${at("shar")}`);
    expect(endless.infinite).toBe(true);
    expect((await cutsOf(endless.source, { most: 10 })).length).toBe(10);
    const named = await open(`{shar_path: {cuts: "${at("shar")}/cuts.00000{0..1}.jsonl.gz", recording: "${at("shar")}/recording.00000{0..1}.tar"}, force_finite: true}`);
    const [cut] = await cutsOf(named.source);
    expect(cut?.features).toBeUndefined();
    expect(await sourceFeatures(cut as SourceCut, { sampleRate: 16000, numMelBins: 8 })).toMatchObject({ frames: 10, bins: 8 });
  });

  test("folders whose parts do not go together are errors that name the file", async () => {
    const broken = (name: string, change: (folder: string) => void): string => {
      mkdirSync(at(name), { recursive: true });
      for (const [file, bytes] of Object.entries(golden.files)) writeFileSync(at(name, file), Buffer.from(bytes, "base64"));
      change(at(name));
      return `{shar_path: ${at(name)}, force_finite: true}`;
    };
    await expect(open(broken("shar-less", (one) => rmSync(join(one, "recording.000001.tar"))))).rejects.toThrow(/2 shards of cuts and 1 of recording.*MANIFEST_SHAR_BAD/);
    await expect(
      open(
        broken("shar-swapped", (one) => {
          const first = readFileSync(join(one, "recording.000000.tar"));
          writeFileSync(join(one, "recording.000000.tar"), readFileSync(join(one, "recording.000001.tar")));
          writeFileSync(join(one, "recording.000001.tar"), first);
        }),
      ),
    ).rejects.toThrow(/recording\.000000\.tar:c2\.wav: expected the cut c0.*MANIFEST_SHAR_BAD/);
    await expect(open(broken("shar-none", (one) => Object.keys(golden.files).forEach((file) => rmSync(join(one, file)))))).rejects.toThrow(
      /shar-none: no such file or folder|not a Shar folder/,
    );
    await expect(open(`shar_path: ${at("nowhere")}`)).rejects.toThrow(/nowhere: no such file/);
  });

  test("manifests of cuts, gzip and plain, with paths beside them", async () => {
    const line = (i: number): string =>
      JSON.stringify({
        id: `c${i}`,
        start: 0.02,
        duration: 0.05,
        channel: 0,
        supervisions: [{ id: `s${i}`, recording_id: "r", start: 0, duration: 0.05, text: `TEXT ${i}`, custom: { normalized: `norm ${i}` } }],
        recording: { id: "r", sources: [{ type: "file", channels: [0], source: `audio/a-${i}.wav` }], sampling_rate: rate, num_samples: 800, duration: 0.1, channel_ids: [0] },
        type: "MonoCut",
      });
    writeFileSync(at("cuts.jsonl.gz"), gzipSync([0, 1, 2].map(line).join("\n")));
    writeFileSync(at("cuts.jsonl"), line(3));
    const { source } = await open(`cuts_path: [${at("cuts.jsonl.gz")}, ${at("cuts.jsonl")}]`);
    const cuts = await cutsOf(source);
    expect(texts(cuts)).toEqual(["TEXT 0", "TEXT 1", "TEXT 2", "TEXT 3"]);
    expect(await Promise.all(cuts.map(async (cut) => levelOf(await sourceSamples(cut, rate))))).toEqual([1, 2, 3, 4]);
    expect((await sourceSamples(cuts[0] as SourceCut, rate)).length).toBe(400);
    const other = await open(`{cuts_path: ${at("cuts.jsonl")}, text_field: normalized}`);
    expect(texts(await cutsOf(other.source))).toEqual(["norm 3"]);
  });
});

describe("input_cfg", () => {
  test("groups, nested files, tags, weights and inherited keys", async () => {
    writeFileSync(at("inner.yaml"), `- {type: nemo, manifest_filepath: ${b}, weight: 3, text_field: text}\n- {type: nemo, manifest_filepath: ${a}, weight: 1}\n`);
    writeFileSync(
      at("train.yaml"),
      `input_cfg:
  - type: group
    weight: 0.9
    tags: {corpus: inner, lang: no}
    text_field: nothing
    input_cfg: inner.yaml
  - type: nemo
    weight: 0.1
    manifest_filepath: ${a}
    tags: {corpus: outer}
`,
    );
    const warnings: string[] = [];
    const { source, leaves, infinite } = await openSources(readConfig(at("train.yaml")), { onWarning: (line) => warnings.push(line) });
    expect(infinite).toBe(true);
    expect(leaves.map(({ share }) => Math.round(share * 1000))).toEqual([675, 225, 100]);
    const cuts = await cutsOf(source, { most: 4000, shuffle: true });
    const share = (keep: (cut: SourceCut) => boolean): number => cuts.filter(keep).length / cuts.length;
    expect(share((cut) => cut.custom["corpus"] === "outer")).toBeCloseTo(0.1, 1);
    expect(share((cut) => cut.text.startsWith("text 1") && cut.text.length > 6)).toBeCloseTo(0.675, 1);
    // text_field of the group reaches what does not set it; "no" stays a text, which YAML 1.1 would make false.
    expect(cuts.filter((cut) => cut.custom["corpus"] === "inner").every((cut) => cut.custom["lang"] === "no" && (cut.text === "" || cut.text.length === 7))).toBe(true);
    expect(warnings).toEqual([]);
  });

  test("temperature: weights to its power, for all levels or one each", async () => {
    const yaml = (temperature: string): string => `
reweight_temperature: ${temperature}
input_cfg:
- {type: nemo, manifest_filepath: ${a}, weight: 8}
- {type: group, weight: 2, input_cfg: [{type: nemo, manifest_filepath: ${a}, weight: 9}, {type: nemo, manifest_filepath: ${b}, weight: 1}]}
`;
    const shares = async (temperature: string): Promise<number[]> => (await open(yaml(temperature))).leaves.map(({ share }) => share);
    expect(await shares("1")).toEqual([0.8, 0.18, 0.02].map((share) => expect.closeTo(share, 9)));
    expect(await shares("0")).toEqual([0.5, 0.25, 0.25].map((share) => expect.closeTo(share, 9)));
    expect(await shares("[0.5, 1]")).toEqual([2 / 3, 0.3, 1 / 30].map((share) => expect.closeTo(share, 9)));
    await expect(open(yaml("[1]"))).rejects.toThrow(/^train\.yaml:2: reweight_temperature has 1 numbers for 2 levels/);
  });

  test("lists of manifests with weights, with sizes as weights, and of tars beside them", async () => {
    const weighted = await open(`manifest_filepath: [[${a}, 0.25], [${b}, 0.75]]`);
    expect(weighted.leaves.map(({ share }) => share)).toEqual([0.25, 0.75]);
    expect(weighted.infinite).toBe(true);
    const bySize = await open(`manifest_filepath: [[${a}], [${b}]]`);
    expect(bySize.leaves.map(({ share }) => share)).toEqual([4 / 6, 2 / 6]);
    const finite = await open(`{manifest_filepath: [[${a}], [${b}]], force_finite: true}`);
    expect((await cutsOf(finite.source, { shuffle: true })).length).toBe(6);
    await expect(open(`manifest_filepath: [[${a}, 0.5], [${b}]]`)).rejects.toThrow(/weights for 1 of 2 items.*MIX_BAD_WEIGHT/);
    await expect(open(`manifest_filepath: [[${a}, 0], [${b}, 1]]`)).rejects.toThrow(/MIX_BAD_WEIGHT/);
    await expect(open(`{manifest_filepath: [[${a}], [${b}]], tarred_audio_filepaths: [[x.tar]]}`)).rejects.toThrow(/names 1 datasets, manifest_filepath 2/);
  });

  test("batches of a mixture go on after a restart exactly as without one, on every rank", async () => {
    const yaml = `
seed: 3
shuffle: true
input_cfg:
- {type: nemo, manifest_filepath: ${a}, weight: 1}
- type: group
  weight: 2
  input_cfg:
  - {type: nemo, manifest_filepath: ${b}, weight: 1}
  - {type: nemo_tarred, weight: 3, manifest_filepath: ${at("tarred", "tarred_audio_manifest.json")}, tarred_audio_filepaths: "${at("tarred")}/audio_{0..2}.tar", max_open_streams: 2}
`;
    writeDataset(at("tarred"), simpleShards([3, 2, 4]));
    for (const extra of ["batch_size: 3", "batch_duration: 0.5\nuse_bucketing: true\nnum_buckets: 2", "batch_size: 2\nforce_finite: true"])
      for (const rank of [0, 1]) {
        const sampler = async () => {
          const { source, config } = await open(`${extra === "batch_size: 2\nforce_finite: true" ? yaml.replace(", max_open_streams: 2", "") : yaml}${extra}\n`);
          return createSampler(source, samplerOptionsOf(config, { rank, worldSize: 2 }));
        };
        const whole: string[][] = [];
        const stream = await (await sampler()).epoch(1);
        let state: SamplerState | undefined;
        for (let i = 0; i < 9; i++) {
          if (i === 3) state = JSON.parse(JSON.stringify(stream.state())) as SamplerState;
          const batch = await stream.next();
          if (!batch) break;
          whole.push((await batch.load()).map(({ origin }) => origin));
        }
        const rest = await (await sampler()).resume(state as SamplerState);
        for (let i = 3; i < whole.length; i++) {
          const batch = await rest.next();
          expect(((await batch?.load()) ?? []).map(({ origin }) => origin)).toEqual(whole[i]);
        }
        // The state of an earlier step, asked for when more was drawn: what loaders that work ahead save.
        const earlier = JSON.parse(JSON.stringify(stream.stateAt(2))) as SamplerState;
        const third = await (await (await sampler()).resume(earlier)).next();
        expect((await (third as NonNullable<typeof third>).load()).map(({ origin }) => origin)).toEqual(whole[2]);
      }
  });

  test("brace patterns, in every spelling", async () => {
    for (const pattern of ["{a,b}.jsonl", "_OP_a,b_CL_.jsonl", "(a,b).jsonl"]) {
      const { source } = await open(`input_cfg: [{type: nemo, manifest_filepath: "${folder}/${pattern}"}]`);
      expect((await cutsOf(source)).length).toBe(6);
    }
  });

  test.each<[string, string, RegExp]>([
    [
      "an unknown key",
      "input_cfg:\n- type: nemo\n  manifest_filepat: x\n",
      /^train\.yaml:3: unknown key input_cfg\[0\]\.manifest_filepat \[CONFIG_UNKNOWN_OPTION\]\. Did you mean manifest_filepath\?/,
    ],
    ["an unknown key of the config", "manifest_filepath: A\nbatch_duratoin: 3\n", /^train\.yaml:2: unknown key batch_duratoin .*Did you mean batch_duration\?/],
    ["a name of icefall's", "manifest_filepath: A\nmax_cuts: 3\n", /^train\.yaml:2: .*icefall's; here it is batch_size/],
    ["an unknown type", "input_cfg:\n- type: nemo_tared\n", /^train\.yaml:2: input_cfg\[0\]\.type is "nemo_tared".*MIX_UNKNOWN_TYPE.*Did you mean nemo_tarred\?/],
    ["a type for texts", "input_cfg:\n- type: txt_pair\n", /^train\.yaml:2: .*does not read \[MIX_UNKNOWN_TYPE\]/],
    ["no type", "input_cfg:\n- cuts_path: x\n", /^train\.yaml:2: .*has no type.*Write type: lhotse/],
    ["an empty list", "input_cfg: []\n", /^train\.yaml:1: input_cfg is an empty list/],
    [
      "a missing weight",
      "input_cfg:\n- {type: nemo, manifest_filepath: A, weight: 1}\n- {type: nemo, manifest_filepath: A}\n",
      /^train\.yaml:3: input_cfg\[1\] has no weight.*MIX_BAD_WEIGHT/,
    ],
    ["a zero weight", "input_cfg:\n- {type: nemo, manifest_filepath: A, weight: 0}\n", /^train\.yaml:2: input_cfg\[0\]\.weight is 0.*Leave out a source/],
    ["a weight that is a text", "input_cfg:\n- {type: nemo, manifest_filepath: A, weight: much}\n", /weight is "much", expected a number above 0/],
    ["a source without its files", "input_cfg:\n- {type: lhotse, weight: 1}\n", /^train\.yaml:2: a source of type lhotse without cuts_path/],
    ["tars that are missing", "input_cfg:\n- {type: nemo_tarred, manifest_filepath: A}\n", /nemo_tarred without tarred_audio_filepaths/],
    ["no data", "batch_size: 3\n", /^train\.yaml:1: .*names no data/],
    ["a file that is missing", "manifest_filepath: nowhere.jsonl\n", /^train\.yaml:1: nowhere\.jsonl: no such file or folder \[FILE_MISSING\]\. Check the path/],
    ["a nested file that is missing", "input_cfg: nowhere.yaml\n", /^train\.yaml:1: input_cfg is nowhere\.yaml: there is no such file/],
    ["a value of the wrong kind", "manifest_filepath: A\nbatch_size: many\n", /^train\.yaml:2: batch_size is "many", expected a whole number of 1 or more/],
    ["a mandatory value", "manifest_filepath: ???\n", /manifest_filepath is \?\?\?, which stands for a value that has to be given/],
    [
      "sampling that is not there",
      "manifest_filepath: A\nuse_packed_sequence_sampling: true\n",
      /^train\.yaml:2: use_packed_sequence_sampling is true, which serac does not have.*Leave use_packed_sequence_sampling out/,
    ],
    ["batch sizes without bins", "manifest_filepath: A\nbucket_batch_size: [1, 2]\n", /^train\.yaml:2: bucket_batch_size is set without bucket_duration_bins/],
    ["bins of another number", "manifest_filepath: A\nbucket_batch_size: [1, 2]\nbucket_duration_bins: [3]\n", /has 2 numbers for 1 bins/],
    ["bounds that leave nothing", "manifest_filepath: A\nmin_duration: 5\nmax_duration: 3\n", /^train\.yaml:2: min_duration is 5, more than max_duration, 3/],
    ["windows without a length", "manifest_filepath: A\ncut_into_windows_hop: 1\n", /^train\.yaml:2: cut_into_windows_hop is set without cut_into_windows_duration/],
    ["windows of what is truncated", "manifest_filepath: A\ncut_into_windows_duration: 1\ntruncate_duration: 1\n", /^train\.yaml:2: .*are both set/],
    ["speakers without a key", "manifest_filepath: A\nexcluded_speaker_ids: [x]\n", /^train\.yaml:2: .*without speaker_filter_fields/],
    ["streams of a finite mixture", "manifest_filepath: A\nmax_open_streams: 3\nforce_finite: true\n", /^train\.yaml:2: max_open_streams does not go with force_finite/],
    ["a store", "manifest_filepath: s3://bucket/a.json\n", /only files can be read/],
    ["broken YAML", "a: [1\n", /^train\.yaml:2:1: .*CONFIG_BAD_YAML/],
  ])("%s is an error at file:line that says what to do", async (_, yaml, message) => {
    await expect(Promise.resolve().then(() => open(yaml.replaceAll(/(?<=: )A\b/g, a)))).rejects.toThrow(message);
  });

  test("sources without an utterance say why, before training", async () => {
    writeFileSync(at("empty.jsonl"), "\n");
    await expect(open(`input_cfg:\n- {type: nemo, manifest_filepath: ${a}}\n- {type: nemo, manifest_filepath: ${at("empty.jsonl")}}`)).rejects.toThrow(
      /^train\.yaml:3: .*empty\.jsonl has no utterance that can be used: it is empty \[SOURCE_EMPTY\]/,
    );
    await expect(open(`{manifest_filepath: ${a}, min_duration: 100}`)).rejects.toThrow(/4 shorter than min_duration, 100 s.*\[SOURCE_EMPTY\]\. Check the filters and their units/);
  });

  test("more ranks than shards or utterances: an error where the data ends, and no rank waits where it does not", async () => {
    const { tars, manifests } = writeDataset(at("ranks"), simpleShards([2, 1]));
    const block = { manifest_filepath: manifests, tarred_audio_filepaths: tars, batch_size: 1 };
    const sampler = async (extra: object, rank: number) => {
      const { source, config } = await openSources({ ...block, ...extra }, quiet);
      return createSampler(source, samplerOptionsOf(config, { rank, worldSize: 5 }));
    };
    await expect(sampler({ force_finite: true }, 4)).rejects.toThrow(/3 utterances for 5 ranks \[SAMPLER_TOO_FEW\]\. Train on fewer ranks/);
    for (let rank = 0; rank < 5; rank++) {
      const stream = await (await sampler({}, rank)).epoch(0);
      for (let step = 0; step < 20; step++) expect((await (await stream.next())?.load())?.length).toBe(1);
    }
  });

  test("manifests and tars that end early are named before training", async () => {
    const whole = gzipSync(Array.from({ length: 500 }, (_, i) => JSON.stringify({ audio_filepath: "audio/a-0.wav", duration: 1, text: `${i * 7919}` })).join("\n"));
    writeFileSync(at("cut-off.jsonl.gz"), whole.subarray(0, whole.length - 200));
    await expect(open(`manifest_filepath: ${at("cut-off.jsonl.gz")}`)).rejects.toThrow(/cut-off\.jsonl\.gz: the gzip data is damaged or ends early.*\[GZIP_BAD\]/);
    writeFileSync(at("cut-off.jsonl"), `${readFileSync(a, "utf8").trimEnd().slice(0, -10)}`);
    await expect(open(`manifest_filepath: ${at("cut-off.jsonl")}`)).rejects.toThrow(/cut-off\.jsonl:4:\d+: .*\[JSONL_BAD_LINE\]/);
    const { tars, manifests } = writeDataset(at("cut-off"), simpleShards([3, 3]));
    const tar = tars.replace(/\{.*\}|_OP_.*_CL_/, "1");
    writeFileSync(tar, readFileSync(tar).subarray(0, 2500));
    const opening = openSources({ manifest_filepath: manifests, tarred_audio_filepaths: tars, force_finite: true }, quiet);
    await expect(opening).rejects.toMatchObject({ code: "TAR_TRUNCATED", message: expect.stringContaining(tar) });
  });

  test("keys that mean nothing here are named once, other spellings are read and said", async () => {
    const warnings: string[] = [];
    const options = { onWarning: (line: string) => void warnings.push(line) };
    await openSources(parseConfig(`use_lhotse: true\nmanifest_filepath: ${a}\npin_memory: true\nis_tarred: false\nshuffle_n: 8\nconcurrent_bucketing: true\n`, "t.yaml"), options);
    expect(warnings).toEqual([
      expect.stringMatching(/^t\.yaml:3: pin_memory changes nothing here/),
      expect.stringMatching(/^t\.yaml:4: is_tarred changes nothing here: .*without Lhotse/),
      expect.stringMatching(/^t\.yaml:5: shuffle_n changes nothing/),
    ]);
    warnings.length = 0;
    const { tars, manifests } = writeDataset(at("singular"), simpleShards([2]));
    await openSources({ input_cfg: [{ type: "nemo_tarred", manifest_filepath: manifests, tarred_audio_filepath: tars }], force_finite: true }, options);
    expect(warnings).toEqual([expect.stringMatching(/tarred_audio_filepath is read as tarred_audio_filepaths/)]);
  });
});
