import { existsSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type CheckOptions, type CheckReport, changesPath, checkManifest, type IssueKind } from "../../../src/data/manifest/index.ts";
import { corpus } from "./corpus.ts";

const { folder, manifest, wav, write, lines } = corpus();
wav("a.wav");
wav("b.wav");
wav("rate16.wav", { rate: 16000, samples: 16000 });
wav("stereo.wav", { channels: 2 });

async function check(entries: readonly (object | string)[], options: CheckOptions = {}): Promise<CheckReport> {
  return checkManifest(manifest("m.jsonl", entries), options);
}
const found = (report: CheckReport): Record<string, number> => Object.fromEntries(report.kinds.map(({ kind, count }) => [kind, count]));
const good = { audio_filepath: "a.wav", duration: 1.0, text: "one" };

test("a good manifest has nothing, and says where its audio was found", async () => {
  const report = await check([good, { audio_filepath: join(folder, "b.wav"), duration: 1.0, text: "two" }]);
  expect(report).toMatchObject({
    utterances: 2,
    errors: 0,
    warnings: 0,
    kinds: [],
    seconds: 2,
    audioFrom: { manifest: 1, absolute: 1 },
    samplingRates: { "8000": 2 },
    channels: { "1": 2 },
  });
});

describe("each kind of mistake is found at its line", () => {
  write("empty.wav", "");
  write("text.wav", "this is no audio");
  wav("none.wav", { samples: 0 });
  write("cut.wav", readFileSync(join(folder, "a.wav")).subarray(0, 5000));
  wav("x/y.wav");
  wav("x_y.wav");
  wav("a-sub2.wav");
  wav("my-subset/c.wav");
  const cases: [string, (object | string)[], Partial<Record<IssueKind, number>>][] = [
    ["not JSON", ["{bad", good], { badLine: 1 }],
    ["no object", ["[1]", "3", good], { notAnObject: 2 }],
    [
      "no audio",
      [
        { duration: 1, text: "x" },
        { audio_filepath: 3, duration: 1, text: "x" },
      ],
      { noAudio: 2 },
    ],
    ["missing audio", [{ ...good, audio_filepath: "gone.wav" }], { missingAudio: 1 }],
    [
      "unreadable audio",
      [
        { ...good, audio_filepath: "text.wav" },
        { ...good, audio_filepath: "cut.wav" },
      ],
      { unreadableAudio: 2 },
    ],
    [
      "empty audio",
      [
        { ...good, audio_filepath: "empty.wav" },
        { ...good, audio_filepath: "none.wav" },
      ],
      { emptyAudio: 2 },
    ],
    [
      "no duration",
      [
        { audio_filepath: "a.wav", text: "x" },
        { ...good, duration: null, offset: 0.5 },
      ],
      { noDuration: 2 },
    ],
    [
      "bad durations",
      [
        { ...good, duration: "1" },
        { ...good, duration: -1 },
      ],
      { badDuration: 2 },
    ],
    [
      "other durations",
      [
        { ...good, duration: 1.2 },
        { ...good, audio_filepath: "b.wav", duration: 0.8 },
      ],
      { wrongDuration: 2 },
    ],
    [
      "durations within the tolerance",
      [
        { ...good, duration: 1.04 },
        { ...good, audio_filepath: "b.wav", duration: 0.96 },
      ],
      {},
    ],
    [
      "bad offsets",
      [
        { ...good, offset: "0" },
        { ...good, offset: -1 },
      ],
      { badOffset: 2 },
    ],
    [
      "past the end",
      [
        { ...good, offset: 0.5 },
        { ...good, offset: 3 },
      ],
      { pastEnd: 2 },
    ],
    [
      "segments",
      [
        { ...good, offset: 0, duration: 0.5 },
        { ...good, offset: 0.5, duration: 0.5 },
      ],
      {},
    ],
    ["duplicates", [good, good, { ...good, text: "other" }], { duplicateUtterance: 2 }],
    [
      "duplicate member names",
      [
        { ...good, audio_filepath: "x/y.wav" },
        { ...good, audio_filepath: "x_y.wav" },
      ],
      { duplicateMember: 1 },
    ],
    [
      "-sub",
      [
        { ...good, audio_filepath: "a-sub2.wav" },
        { ...good, audio_filepath: "my-subset/c.wav" },
      ],
      { subSuffix: 1, subInPath: 1 },
    ],
    [
      "texts that are none",
      [
        { ...good, text: 7 },
        { ...good, audio_filepath: "b.wav", text: { a: 1 } },
      ],
      { badText: 2 },
    ],
    [
      "no text",
      [
        { ...good, text: " " },
        { audio_filepath: "b.wav", duration: 1 },
      ],
      { emptyText: 2 },
    ],
    [
      "control characters",
      [
        { ...good, text: "a\tb" },
        { ...good, audio_filepath: "b.wav", text: "c\u0085" },
      ],
      { controlCharacter: 2 },
    ],
    [
      "sampling rates",
      [
        { ...good, sampling_rate: 16000 },
        { ...good, audio_filepath: "b.wav", sample_rate: 8000 },
      ],
      { wrongSamplingRate: 1 },
    ],
    [
      "channels",
      [
        { ...good, channels: 2 },
        { ...good, audio_filepath: "stereo.wav" },
      ],
      { wrongChannels: 1, severalChannels: 1 },
    ],
    ["mixed rates", [good, { ...good, audio_filepath: "b.wav" }, { ...good, audio_filepath: "rate16.wav" }], { mixedSamplingRates: 1 }],
    [
      "Canary",
      [
        { ...good, source_lang: "en" },
        { ...good, audio_filepath: "b.wav", source_lang: "en", target_lang: "de", itn: "perhaps" },
      ],
      { canaryMissing: 1, canaryValue: 1 },
    ],
    [
      "Canary's spellings",
      [
        { ...good, source_lang: "en", target_lang: "en", pnc: "Yes" },
        { ...good, audio_filepath: "b.wav", source_lang: "en", target_lang: "en", pnc: "yes", itn: true, emotion: "happy" },
      ],
      { canarySpelling: 3 },
    ],
  ];
  test.each(cases)("%s", async (_, entries, expected) => {
    const report = await check(entries);
    expect(found(report)).toEqual(expected);
    for (const { examples } of report.kinds) for (const { at } of examples) expect(at).toMatch(/m\.jsonl:\d+(:\d+)?$/);
  });

  test("task with Canary v2", async () => {
    const entry = { ...good, source_lang: "en", target_lang: "en", task: "asr", pnc: "yes" };
    expect(found(await check([entry]))).toEqual({});
    expect(found(await check([entry], { canary: "v2" }))).toEqual({ canaryTask: 1 });
    expect(found(await check([{ ...entry, itn: "no" }]))).toEqual({ canaryTask: 1 }); // itn is a key of v2 alone
    expect(found(await check([good], { canary: "v1" }))).toEqual({ canaryMissing: 4 });
    expect(found(await check([{ ...entry, pnc: "x" }], { canary: "none" }))).toEqual({});
  });

  test("a text of a million spaces with a control character in it", async () => {
    const path = manifest("spaces.jsonl", [{ ...good, text: `a${" ".repeat(1_000_000)}b\u0000 c` }]);
    const report = await checkManifest(path, { fix: join(folder, "spaces.fixed.jsonl") });
    expect(found(report)).toEqual({ controlCharacter: 1 });
    expect(JSON.parse(lines(join(folder, "spaces.fixed.jsonl"))[0] as string).text).toBe(`a${" ".repeat(1_000_000)}b c`);
  });

  test("more tokens than frames", async () => {
    const tokenizer = { encode: (text: string) => Array.from(text, (char) => char.charCodeAt(0)) };
    // 1 s: 100 feature frames, (93 // 2 + 1) // 2 = 23 encoder frames.
    expect(
      found(
        await check(
          [
            { ...good, text: "ab".repeat(11) },
            { ...good, audio_filepath: "b.wav", text: "ab".repeat(12) },
          ],
          { tokenizer },
        ),
      ),
    ).toEqual({ tooManyTokens: 1 });
    expect(found(await check([{ ...good, text: "a".repeat(13) }], { tokenizer }))).toEqual({ tooManyTokens: 1 }); // blanks between equal ones
    expect(found(await check([{ ...good, text: "a".repeat(13) }], { tokenizer, ctc: false }))).toEqual({});
  });

  test("characters that are unusual for the language", async () => {
    const say = (i: number, text: string, lang?: string): object => ({ audio_filepath: "a.wav", offset: i / 10, duration: 0.1, text, lang });
    const report = await check(
      [
        say(0, "plain words, isn't it?", "en"),
        say(1, "naïve", "en"),
        say(2, "schöne Grüße", "de"),
        say(3, "привет", "ru"),
        say(4, "hell\u043e", "en"),
        say(5, "a\u200bb ☃ \ufffd", "en"),
        say(6, "नमस्ते", "hi"),
        say(7, "नमस्ते x", "hi"),
        say(8, "日本語のカタカナ", "ja"),
      ],
      { examples: 20 },
    );
    const unusual = report.kinds.find(({ kind }) => kind === "unusualCharacter");
    expect(unusual?.examples.map(({ at, message }) => [Number(at.split(":").at(-1)), /U\+\w+/.exec(message)?.[0]]).sort()).toEqual([
      [2, "U+00EF"],
      [5, "U+043E"],
      [6, "U+200B"],
      [6, "U+2603"],
      [6, "U+FFFD"],
      [8, "U+0078"],
    ]);
    expect(report.errors).toBe(0);
  });
});

test("cuts of lhotse are told apart, with what to do", async () => {
  const path = manifest("cuts.jsonl", [{ id: "a", start: 0, duration: 1, channel: 0, supervisions: [], recording: { id: "r", sources: [] }, type: "MonoCut" }]);
  const [noAudio] = (await checkManifest(path)).kinds.filter(({ kind }) => kind === "noAudio");
  expect(noAudio?.examples).toEqual([{ at: `${path}:1`, message: expect.stringMatching(/cut of lhotse.*serac manifest convert/) }]);
});

test("manifests without an utterance are named, also among others", async () => {
  const [empty, skipped] = [write("empty.jsonl", ""), manifest("skipped.jsonl", [{ ...good, _skipme: true }])];
  expect(await checkManifest(empty)).toMatchObject({ errors: 1, kinds: [{ kind: "noUtterances", examples: [{ at: empty }] }] });
  const report = await checkManifest([manifest("m.jsonl", [good]), empty, skipped]);
  expect(report.kinds).toMatchObject([{ kind: "noUtterances", count: 2, examples: [{ at: empty }, { at: skipped }] }]);
});

test("a duplicate names the line that it repeats, over several manifests too", async () => {
  const one = manifest("d1.jsonl", [good]);
  const two = manifest("d2.jsonl", [{ ...good, audio_filepath: "b.wav" }, good]);
  const report = await checkManifest([one, two]);
  expect(report.kinds).toMatchObject([{ kind: "duplicateUtterance", examples: [{ at: `${two}:2`, message: `the same as ${one}:1` }] }]);
});

test("members of tarred datasets and stores are not looked for; without audio only lines are checked", async () => {
  const tarred = manifest("tarred_audio_manifest.json", [{ audio_filepath: "x.wav", duration: 1, text: "x", shard_id: 0 }]);
  expect(await checkManifest(tarred)).toMatchObject({ errors: 0, audioFrom: { member: 1 } });
  expect(await check([{ ...good, audio_filepath: "gone.wav" }], { audio: "none" })).toMatchObject({ errors: 0, samplingRates: {} });
  expect(found(await check([{ ...good, audio_filepath: "cut.wav" }], { audio: "decode" }))).toEqual({ unreadableAudio: 1 });
});

describe("--fix", () => {
  test("writes the mended manifest as Python would, and says what was changed and dropped and why", async () => {
    const path = manifest("fix.jsonl", [
      '{"audio_filepath": "a.wav", "duration": 1.0, "text": "one", "snr": 1e-05}',
      '{"audio_filepath": "b.wav", "duration": 4, "text": "tab\\there", "n": 12345678901234567890}',
      '{"audio_filepath": "gone.wav", "duration": 1.0, "text": "x"}',
      "{broken",
      '{"audio_filepath": "rate16.wav", "text": 7, "sampling_rate": 8000}',
      '{"audio_filepath": "a.wav", "duration": 1.0, "text": "again"}',
      '{"audio_filepath": "stereo.wav", "offset": 0.75, "duration": 1, "text": "x", "source_lang": "en", "target_lang": "en", "pnc": "Yes"}',
      '{"audio_filepath": "gone2.wav", "duration": 1, "_skipme": true}',
    ]);
    const out = join(folder, "fixed.jsonl");
    const report = await checkManifest(path, { fix: out });
    expect(lines(out)).toEqual([
      '{"audio_filepath": "a.wav", "duration": 1.0, "text": "one", "snr": 1e-05}',
      '{"audio_filepath": "b.wav", "duration": 1.0, "text": "tab here", "n": 12345678901234567890}',
      '{"audio_filepath": "rate16.wav", "text": "7", "sampling_rate": 16000, "duration": 1.0}',
      '{"audio_filepath": "stereo.wav", "offset": 0.75, "duration": 0.25, "text": "x", "source_lang": "en", "target_lang": "en", "pnc": "yes"}',
      '{"audio_filepath": "gone2.wav", "duration": 1, "_skipme": true}',
    ]);
    expect(report.fix).toEqual({ out, changes: changesPath(out), kept: 5, changed: 3, dropped: 3 });
    const changes = lines(changesPath(out)).map((line) => JSON.parse(line));
    expect(changes.map(({ at, action, kind, key }) => [Number(at.slice(path.length + 1).split(":")[0]), action, kind, key]).sort()).toEqual(
      [
        [2, "changed", "wrongDuration", "duration"],
        [2, "changed", "controlCharacter", "text"],
        [3, "dropped", "missingAudio", undefined],
        [4, "dropped", "badLine", undefined],
        [5, "changed", "noDuration", "duration"],
        [5, "changed", "wrongSamplingRate", "sampling_rate"],
        [5, "changed", "badText", "text"],
        [6, "dropped", "duplicateUtterance", undefined],
        [7, "changed", "pastEnd", "duration"],
        [7, "changed", "canarySpelling", "pnc"],
      ].sort(),
    );
    expect(changes.every(({ why }) => why.length > 3)).toBe(true);
    const again = await checkManifest(out);
    expect(again.errors).toBe(0);
  });
});

describe("an interrupted check", () => {
  test("goes on where it was, and gives the report of one that was not interrupted", async () => {
    const entries = Array.from({ length: 700 }, (_, i) => ({ audio_filepath: wav(`r/${i}.wav`, { samples: 80 }), duration: i % 7 === 0 ? 2 : 0.01, text: "x" }));
    const path = manifest("resume.jsonl", entries);
    const whole = await checkManifest(path);
    const stop = new AbortController();
    let seen = 0;
    await expect(checkManifest(path, { signal: stop.signal, onProgress: (count) => (seen += count) >= 256 && stop.abort() })).rejects.toMatchObject({ name: "AbortError" });
    expect(existsSync(`${path}.check`)).toBe(true);
    writeFileSync(`${path}.check`, `${readFileSync(`${path}.check`, "utf8")}["torn`); // killed while it wrote
    const changed = join(folder, "r/5.wav");
    utimesSync(changed, 1, 1); // looked at again
    const resumed = await checkManifest(path);
    expect(resumed.resumed).toBeGreaterThan(200);
    expect({ ...resumed, resumed: 0 }).toEqual(whole);
    expect(existsSync(`${path}.check`)).toBe(false);
  });

  test("a side file of another manifest or of other settings is not used", async () => {
    const path = manifest("other.jsonl", [good]);
    write("other.jsonl.check", '{"serac":"manifest check","version":1,"settings":"headers","manifests":[["x",1,2]]}\n["0",1,2,"missingAudio","x"]\n');
    expect(await checkManifest(path)).toMatchObject({ errors: 0, resumed: 0 });
    expect(existsSync(`${path}.check`)).toBe(false);
  });
});
