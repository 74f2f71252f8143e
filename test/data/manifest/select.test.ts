import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { filterManifest, manifestStats, mergeManifests, parseCondition, type SplitPart, sampleManifest, splitManifest } from "../../../src/data/manifest/index.ts";
import { corpus } from "./corpus.ts";

const { folder, manifest, wav, lines, write } = corpus();
const at = (name: string): string => join(folder, name);

describe("conditions", () => {
  const line = { audio_filepath: "a.wav", duration: 2, text: "one two", lang: "en", speaker: 7, custom: { snr: 11.5 }, "odd key": "x", "a.b": 1, flag: false };
  test.each([
    ["duration >= 2 and duration < 3", true],
    ["duration > 2 or lang = en", true],
    ["not (duration > 2 or lang = de)", true],
    ["lang in de|en|fr", true],
    ["lang != en", false],
    ["speaker = 7", true],
    ["speaker in 6|7", true],
    ["custom.snr > 11", true],
    ['"odd key" = x', true],
    ["a.b = 1", true],
    ["flag", false],
    ["missing", false],
    ["missing > 1", false],
    ["missing != 1", true],
    ["text ~ '^one'", true],
    ['text !~ "[0-9]"', true],
    ["words = 2 and chars = 7", true],
    ["char_rate <= 3.5 and word_rate = 1", true],
    ["audio ~ wav", true],
    ["duration>=2 and(lang=en)", true],
  ])("%s is %s", (text, expected) => expect(parseCondition(text)(line)).toBe(expected));

  test.each(["duration >", "duration > x", "(duration > 1", "duration > 1 lang", "= 3", "text ~ '('", "", "lang in", "'open", "a = 1 and"])(
    "%j is an error that shows its place",
    (text) => {
      expect(() => parseCondition(text)).toThrow(/condition, character \d+.*CONFIG_BAD_VALUE/);
    },
  );
});

describe("filterManifest", () => {
  test("lines keep their bytes and order, and what is left out goes to its own file", async () => {
    const path = manifest("f.jsonl", [
      '{"audio_filepath":"/a.wav",  "duration": 1.0}',
      '{"audio_filepath": "/b.wav", "duration": 2e0, "x": 1E5}',
      '{"audio_filepath": "/c.wav", "duration": 3}',
    ]);
    const result = await filterManifest(path, at("out/f.jsonl"), ({ duration }) => (duration as number) > 1, { rejected: at("out/rest.jsonl") });
    expect(lines(at("out/f.jsonl"))).toEqual(lines(path).slice(1));
    expect(lines(at("out/rest.jsonl"))).toEqual(lines(path).slice(0, 1));
    expect(result).toEqual({ kept: 2, keptSeconds: 5, dropped: 1, droppedSeconds: 1 });
  });

  test("relative paths name the same files from another folder, and the rest of the line stays as Python writes it", async () => {
    wav("g/audio/a.wav");
    const path = manifest("g/m.jsonl", ['{"audio_filepath": "audio/a.wav", "duration": 1.0, "snr": 1e-05, "0": [1.50]}', '{"audio_filepath": "/x/b.wav", "duration":1}']);
    await filterManifest(path, at("h/m.jsonl"), () => true);
    expect(lines(at("h/m.jsonl"))).toEqual(['{"audio_filepath": "../g/audio/a.wav", "duration": 1.0, "snr": 1e-05, "0": [1.5]}', '{"audio_filepath": "/x/b.wav", "duration":1}']);
    await filterManifest(path, at("g/same.jsonl"), () => true);
    expect(lines(at("g/same.jsonl"))).toEqual(lines(path));
    await filterManifest(path, at("h/abs.jsonl"), () => true, { paths: "absolute" });
    expect(lines(at("h/abs.jsonl"))[0]).toContain(`"${at("g/audio/a.wav")}"`);
    await filterManifest(path, at("h/keep.jsonl"), () => true, { paths: "keep" });
    expect(lines(at("h/keep.jsonl"))).toEqual(lines(path));
  });

  test("gzip is written where the name asks for it; where reading fails, what was there before stays", async () => {
    const path = manifest("i.jsonl", [{ audio_filepath: "/a", duration: 1 }]);
    await filterManifest(path, at("i.out.jsonl.gz"), () => true);
    expect(gunzipSync(readFileSync(at("i.out.jsonl.gz"))).toString()).toBe(readFileSync(path, "utf8"));
    const bad = manifest("j.jsonl", [{ audio_filepath: "/a", duration: 1 }, "{bad"]);
    write("old/out.jsonl", "old\n");
    await expect(filterManifest(bad, at("old/out.jsonl"), () => true)).rejects.toMatchObject({ code: "JSONL_BAD_LINE" });
    expect(readFileSync(at("old/out.jsonl"), "utf8")).toBe("old\n");
    expect(readdirSync(at("old"))).toEqual(["out.jsonl"]);
    await expect(filterManifest(path, join(path, "below"), () => true)).rejects.toMatchObject({ code: "FILE_UNWRITABLE" });
  });
});

const speakers = fc.array(fc.record({ speaker: fc.nat(8), duration: fc.integer({ min: 1, max: 20 }) }), { minLength: 1, maxLength: 120 });
const numbered = (items: readonly { speaker: number; duration: number }[]): object[] =>
  items.map((item, i) => ({ audio_filepath: `/${i}.wav`, ...item, speaker: `s${item.speaker}` }));
const partsOf = (names: Record<string, SplitPart["amount"]>): SplitPart[] => Object.entries(names).map(([name, amount]) => ({ path: at(`split/${name}.jsonl`), amount }));
const readParts = (parts: readonly SplitPart[]): { audio_filepath: string; speaker: string; duration: number }[][] =>
  parts.map(({ path }) => lines(path).map((line) => JSON.parse(line)));

describe("splitManifest", () => {
  mkdirSync(at("split"), { recursive: true });

  test("shares give exact numbers; every line is in one part, in order, and the seed decides", async () => {
    await fc.assert(
      fc.asyncProperty(speakers, fc.nat(1000), async (items, seed) => {
        const path = manifest("split/all.jsonl", numbered(items));
        const parts = partsOf({ train: { ratio: 0.7 }, valid: { ratio: 0.2 }, test: { ratio: 0.1 } });
        const result = await splitManifest(path, parts, { seed });
        const found = readParts(parts);
        const n = items.length;
        expect(found.map(({ length }) => length)).toEqual([Math.round(0.7 * n), Math.round(0.7 * n + 0.2 * n) - Math.round(0.7 * n), n - Math.round(0.7 * n + 0.2 * n)]);
        expect(
          found
            .flat()
            .map(({ audio_filepath }) => audio_filepath)
            .sort(),
        ).toEqual(
          lines(path)
            .map((line) => JSON.parse(line).audio_filepath as string)
            .sort(),
        );
        const order = new Map(lines(path).map((line, i) => [JSON.parse(line).audio_filepath, i]));
        for (const part of found)
          expect(part.map(({ audio_filepath }) => order.get(audio_filepath) as number)).toEqual(
            part.map(({ audio_filepath }) => order.get(audio_filepath) as number).sort((a, b) => a - b),
          );
        expect(result.parts.map(({ utterances }) => utterances)).toEqual(found.map(({ length }) => length));
        await splitManifest(path, parts, { seed });
        expect(readParts(parts)).toEqual(found);
      }),
      { numRuns: 20 },
    );
  });

  test("by a key nothing leaks, nothing is lost, and sizes are within one group of what was asked for", async () => {
    await fc.assert(
      fc.asyncProperty(speakers, fc.nat(1000), async (items, seed) => {
        const path = manifest("split/all.jsonl", numbered(items));
        const parts = partsOf({ train: { ratio: 0.6 }, valid: { ratio: 0.4 } });
        const result = await splitManifest(path, parts, { seed, by: "speaker" });
        const found = readParts(parts);
        const [train = [], valid = []] = found.map((part) => new Set(part.map(({ speaker }) => speaker)));
        for (const speaker of train) expect(new Set(valid).has(speaker)).toBe(false);
        expect(found.flat()).toHaveLength(items.length);
        expect(result.left.utterances).toBe(0);
        const largest = Math.max(...[...new Set(items.map(({ speaker }) => speaker))].map((one) => items.filter(({ speaker }) => speaker === one).length));
        expect(Math.abs((found[0]?.length ?? 0) - 0.6 * items.length)).toBeLessThanOrEqual(largest);
      }),
      { numRuns: 20 },
    );
  });

  test("hours are a limit, the rest takes what is left, and without it what is left is told", async () => {
    const items = Array.from({ length: 100 }, (_, i) => ({ speaker: i % 10, duration: 36 }));
    const path = manifest("split/all.jsonl", numbered(items));
    const parts = partsOf({ valid: { hours: 0.1 }, test: { count: 5 }, train: "rest" });
    const result = await splitManifest(path, parts);
    expect(result.parts.map(({ utterances, seconds }) => [utterances, seconds])).toEqual([
      [10, 360],
      [5, 180],
      [85, 3060],
    ]);
    const some = await splitManifest(path, partsOf({ valid: { hours: 0.105 } }), { by: "speaker" });
    expect(some.parts[0]).toMatchObject({ utterances: 10, groups: 1 });
    expect(some.left).toEqual({ utterances: 90, seconds: 3240 });
  });

  test("audio as a key keeps segments of one recording together; lines without the key go alone, and _skipme stays out", async () => {
    const path = manifest("split/seg.jsonl", [
      ...Array.from({ length: 20 }, (_, i) => ({ audio_filepath: `/r${i % 2}.wav`, offset: i, duration: 1 })),
      { audio_filepath: "/skip.wav", duration: 1, _skipme: true },
    ]);
    const parts = partsOf({ a: { ratio: 0.5 }, b: { ratio: 0.5 } });
    const result = await splitManifest(path, parts, { by: "audio" });
    expect(readParts(parts).map((part) => [part.length, new Set(part.map(({ audio_filepath }) => audio_filepath)).size])).toEqual([
      [10, 1],
      [10, 1],
    ]);
    expect(result).toMatchObject({ skipped: 1, withoutKey: 0 });
    const alone = await splitManifest(path, parts, { by: "speaker" });
    expect(alone.withoutKey).toBe(20);
    expect(alone.parts.map(({ utterances }) => utterances)).toEqual([10, 10]);
  });

  test.each([
    [{ a: { ratio: 0.8 }, b: { ratio: 0.3 } } as const, "add up to"],
    [{ a: "rest", b: "rest" } as const, "several parts get the rest"],
    [{ a: { ratio: -0.1 } } as const, "the size of"],
  ])("sizes that cannot be are errors: %j", async (parts, message) => {
    await expect(splitManifest(at("split/all.jsonl"), partsOf(parts))).rejects.toThrow(message);
  });
});

describe("sampleManifest", () => {
  test("gives the size that was asked for, in order, each line as it was, by the seed", async () => {
    const path = manifest("s.jsonl", numbered(Array.from({ length: 50 }, (_, i) => ({ speaker: i, duration: 1 + (i % 3) }))));
    const sample = async (size: object): Promise<string[]> => {
      await sampleManifest(path, at("s.out.jsonl"), size);
      return lines(at("s.out.jsonl"));
    };
    const ten = await sample({ count: 10, seed: 1 });
    expect(ten).toHaveLength(10);
    expect(ten).toEqual(lines(path).filter((line) => ten.includes(line)));
    expect(await sample({ count: 10, seed: 1 })).toEqual(ten);
    expect(await sample({ count: 10, seed: 2 })).not.toEqual(ten);
    expect(await sample({ ratio: 0.5 })).toHaveLength(25);
    expect(await sample({ count: 500 })).toEqual(lines(path));
    const hours = (await sample({ hours: 20 / 3600 })).reduce((sum, line) => sum + JSON.parse(line).duration, 0);
    expect(hours).toBe(20);
    await expect(sample({})).rejects.toThrow("the size of the sample is not given once");
    await expect(sample({ count: 1, ratio: 0.5 })).rejects.toThrow("not given once");
  });

  test("every line has the same chance", async () => {
    const path = manifest("u.jsonl", numbered(Array.from({ length: 4 }, () => ({ speaker: 0, duration: 1 }))));
    const counts = [0, 0, 0, 0];
    for (let seed = 0; seed < 200; seed++) {
      await sampleManifest(path, at("u.out.jsonl"), { count: 1, seed });
      counts[Number(/\d/.exec(lines(at("u.out.jsonl"))[0] as string))]!++;
    }
    for (const count of counts) expect(Math.abs(count - 50)).toBeLessThan(25); // 4 standard deviations
  });
});

describe("mergeManifests", () => {
  test("paths of several folders are named from the new one, and duplicates can be left out", async () => {
    wav("m1/a.wav");
    wav("m2/a.wav");
    const one = manifest("m1/m.jsonl", [
      { audio_filepath: "a.wav", duration: 1 },
      { audio_filepath: "a.wav", offset: 1, duration: 1 },
    ]);
    const two = manifest("m2/m.jsonl", [
      { audio_filepath: "a.wav", duration: 1 },
      { audio_filepath: "../m1/a.wav", duration: 1 },
    ]);
    const result = await mergeManifests([one, two], at("merged.jsonl"), { deduplicate: true });
    expect(lines(at("merged.jsonl")).map((line) => JSON.parse(line).audio_filepath)).toEqual(["m1/a.wav", "m1/a.wav", "m2/a.wav"]);
    expect(result).toMatchObject({ kept: 3, dropped: 1 });
    expect((await mergeManifests([one, two], at("merged.jsonl"))).kept).toBe(4);
  });
});

describe("manifestStats", () => {
  test("counts what is there, with the percentiles of numpy", async () => {
    const path = manifest("stats.jsonl", [
      { audio_filepath: "a", duration: 1, text: "aa b\u00a0😀", lang: "en", speaker: "x", sampling_rate: 16000 },
      { audio_filepath: "b", duration: 2, text: "b b", lang: "de", speaker: "x" },
      { audio_filepath: "c", duration: 4, text: "", target_lang: "de", speaker: 3, offset: 1 },
      { audio_filepath: "d", text: [{ str: "aa", lang: "en" }] },
      { audio_filepath: "e", duration: 100, _skipme: true },
      "{",
    ]);
    let bad = 0;
    const stats = await manifestStats(path, { onError: () => bad++ });
    expect(bad).toBe(1);
    expect(stats).toMatchObject({ utterances: 4, skipped: 1, badLines: 1, seconds: 7, withoutDuration: 1, emptyTexts: 1, withOffset: 1 });
    expect(stats.duration).toMatchObject({ count: 3, min: 1, max: 4, mean: 7 / 3 });
    expect(stats.duration?.percentiles).toMatchObject({ 25: 1.5, 50: 2, 75: 3, 90: 2 + 2 * 0.8 });
    expect(stats.words).toMatchObject({ total: 6, distinct: 3 });
    expect(stats.characters).toMatchObject({ total: 6 + 3 + 2, distinct: 5 });
    expect(Object.fromEntries(stats.characters.counts.map(({ character, count }) => [character, count]))).toEqual({ a: 4, b: 3, " ": 2, "\u00a0": 1, "😀": 1 });
    expect(stats.characters.perSecond?.percentiles[50]).toBeCloseTo(1.5, 2);
    expect(stats.languages).toEqual({ de: { utterances: 2, seconds: 6 }, en: { utterances: 1, seconds: 1 } });
    expect(stats.speakers).toEqual({ distinct: 2, largest: { "3": { utterances: 1, seconds: 4 }, x: { utterances: 2, seconds: 3 } } });
    expect(stats.samplingRates).toEqual({ "16000": { utterances: 1, seconds: 1 } });
    expect(stats.keys).toMatchObject({ audio_filepath: 4, duration: 3, text: 4 });
    expect(stats.histogram?.counts.reduce((sum, count) => sum + count, 0)).toBe(3);
  });

  test("cuts of lhotse tell by their supervisions and recordings", async () => {
    const cut = (id: string, duration: number, texts: string[]) => ({
      id,
      start: 0,
      duration,
      channel: 0,
      supervisions: texts.map((text, i) => ({ id: `${id}-${i}`, recording_id: id, start: 0, duration, channel: 0, text, language: "English", speaker: "7" })),
      recording: { id, sources: [{ type: "file", channels: [0], source: "a.flac" }], sampling_rate: 16000, num_samples: 16000 * duration, duration },
      type: "MonoCut",
    });
    const stats = await manifestStats(manifest("cuts.jsonl", [cut("a", 2, ["ONE TWO", "THREE"]), cut("b", 4, [])]));
    expect(stats).toMatchObject({
      utterances: 2,
      seconds: 6,
      emptyTexts: 1,
      words: { total: 3, distinct: 3 },
      languages: { English: { utterances: 1, seconds: 2 } },
      speakers: { distinct: 1 },
      samplingRates: { "16000": { utterances: 2, seconds: 6 } },
    });
  });

  test("percentiles of rates are within 0.1 % of exact ones, and words are told apart", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.integer({ min: 1, max: 30 }), fc.double({ min: 0.1, max: 60, noNaN: true })), { minLength: 1, maxLength: 60 }), async (items) => {
        const path = manifest(
          "rates.jsonl",
          items.map(([words, duration], i) => ({ duration, text: Array.from({ length: words }, (_, j) => `w${(i * 7 + j) % 50}`).join(" ") })),
        );
        const stats = await manifestStats(path);
        const rates = items.map(([words, duration]) => words / duration).sort((a, b) => a - b);
        const median = stats.words.perSecond?.percentiles[50] as number;
        expect(median).toBeGreaterThan((rates[Math.floor((rates.length - 1) / 2)] as number) * 0.999);
        expect(median).toBeLessThan((rates[Math.ceil((rates.length - 1) / 2)] as number) * 1.001);
        expect(stats.words.distinct).toBe(new Set(items.flatMap(([words], i) => Array.from({ length: words }, (_, j) => (i * 7 + j) % 50))).size);
      }),
      { numRuns: 30 },
    );
    expect(existsSync(at("rates.jsonl"))).toBe(true);
  });
});
