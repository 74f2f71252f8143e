import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ConversionResult, type ConvertManifestOptions, convertManifest } from "../../../src/data/manifest/index.ts";
import { parseWav } from "../../../src/formats/index.ts";
import { dumpPython, type PyObject, type PyValue, parsePython } from "../../../src/formats/pythonJson.ts";
import { readTar } from "../../../src/formats/tar/index.ts";
import { corpus } from "./corpus.ts";

const { folder, manifest, wav, write, lines } = corpus();
const at = (name: string): string => join(folder, name);
const a = wav("a.wav"); // 1 s at 8000 Hz
const b = wav("sub/b.wav", { samples: 12000 });
const c = wav("c.wav");
const stereo = wav("stereo.wav", { channels: 2 });

const convert = (from: string, to: string, options: ConvertManifestOptions = {}): Promise<ConversionResult> => convertManifest([from], to, options);
const zipped = (path: string): string[] => gunzipSync(readFileSync(path)).toString().trimEnd().split("\n");
/** A line without the order of its keys. */
const sorted = (line: string): string => dumpPython(new Map([...(parsePython(line) as PyObject)].sort(([x], [y]) => (x < y ? -1 : 1))));

const rich = [
  `{"audio_filepath": "${a}", "duration": 1.0, "text": "one  two", "lang": "en", "speaker": "s1", "snr": 1e-05, "n": 12345678901234567890, "nested": {"b": [1, 2.0], "a": null}}`,
  `{"audio_filepath": "${b}", "duration": 1.5, "text": "", "lang": "de", "speaker": 7, "id": "my-id"}`,
  `{"audio_filepath": "${b}", "duration": 0.25, "offset": 0.5, "text": "part"}`,
  `{"audio_filepath": "${b}", "duration": 0.75, "offset": 0, "text": "é\\u2028\\"x\\""}`,
  `{"audio_filepath": "${c}", "duration": 0.9999}`,
  `{"audio_filepath": "${stereo}", "duration": 1, "text": [{"str": "x", "lang": "en"}]}`,
];

describe("lhotse cuts", () => {
  test("a line is a cut with its recording and supervision, spelled as lhotse spells them", async () => {
    await convert(manifest("one.jsonl", [rich[2] as string]), at("one.cuts.jsonl.gz"));
    const id = `${b}-000050-000025`;
    expect(zipped(at("one.cuts.jsonl.gz"))).toEqual([
      `{"id": "${id}", "start": 0.5, "duration": 0.25, "channel": 0, "supervisions": [{"id": "${id}", "recording_id": "${b}", "start": 0.0, "duration": 0.25, "channel": 0, "text": "part"}], ` +
        `"recording": {"id": "${b}", "sources": [{"type": "file", "channels": [0], "source": "${b}"}], "sampling_rate": 8000, "num_samples": 12000, "duration": 1.5, "channel_ids": [0]}, "type": "MonoCut"}`,
    ]);
  });

  test("there and back every key and value comes back, numbers by their spelling", async () => {
    const result = await convert(manifest("rich.jsonl", rich), at("rich.cuts.jsonl.gz"));
    expect(result).toMatchObject({ from: "nemo", to: "lhotse", utterances: 6, dropped: 0, losses: [] });
    const back = await convert(at("rich.cuts.jsonl.gz"), at("rich.back.jsonl"));
    expect(back).toMatchObject({ from: "lhotse", to: "nemo", utterances: 6, losses: [] });
    expect(lines(at("rich.back.jsonl")).map(sorted)).toEqual(rich.map((line) => sorted(line)));
  });

  test("audio of several channels is a MultiCut, also from a file a channel", async () => {
    await convert(
      manifest("multi.jsonl", [
        { audio_filepath: stereo, duration: 1 },
        { audio_filepath: [a, a], duration: 1 },
      ]),
      at("multi.cuts.jsonl.gz"),
    );
    const cuts = zipped(at("multi.cuts.jsonl.gz")).map((line) => JSON.parse(line));
    expect(cuts.map(({ type, channel, recording }) => [type, channel, recording.sources.map((source: { channels: number[] }) => source.channels)])).toEqual([
      ["MultiCut", [0, 1], [[0, 1]]],
      ["MultiCut", [0, 1], [[0], [1]]],
    ]);
    await convert(at("multi.cuts.jsonl.gz"), at("multi.back.jsonl"));
    expect(lines(at("multi.back.jsonl")).map((line) => JSON.parse(line).audio_filepath)).toEqual([stereo, [a, a]]);
  });

  const recording = { id: "r", sources: [{ type: "file", channels: [0], source: a }], sampling_rate: 8000, num_samples: 8000, duration: 1.0, channel_ids: [0] };
  const supervision = (id: string, start: number, duration: number, more: object = {}): object => ({ id, recording_id: "r", start, duration, channel: 0, text: id, ...more });
  const cut = (more: object): object => ({ id: "c", start: 0, duration: 1, channel: 0, supervisions: [], recording, type: "MonoCut", ...more });

  test("what a manifest cannot hold is listed, and what has no audio is left out", async () => {
    const path = manifest("hard.cuts.jsonl", [
      cut({ supervisions: [supervision("x", 0, 0.5, { alignment: { word: [["x", 0, 1, 1]] } }), supervision("y", 0.5, 0.5, { speaker: "s", gender: "F", custom: { q: 1 } })] }),
      cut({ features: {} }),
      cut({ type: "MixedCut", tracks: [] }),
      cut({ recording: { ...recording, sources: [{ type: "command", channels: [0], source: "cat a" }] } }),
      cut({ recording: { ...recording, transforms: [{ name: "Speed", kwargs: { factor: 0.9 } }] } }),
      { id: "n", start: 0, duration: 1, channel: 0, supervisions: [], type: "MonoCut" },
      cut({ start: 0.25, duration: 0.5 }),
    ]);
    const result = await convert(path, at("hard.jsonl"));
    expect(result).toMatchObject({ utterances: 3, dropped: 4 });
    expect(result.losses.map(({ what }) => what)).toEqual([
      "alignments",
      "borders between the supervisions of a cut, whose texts were joined (--segments supervision keeps them)",
      "features",
      "left out: MixedCuts",
      'left out: audio of the kind "command"',
      "left out: recordings with transforms, which a manifest cannot apply",
      "left out: cuts without a recording",
    ]);
    expect(result.losses[0]?.example).toBe(`${path}:1`);
    expect(lines(at("hard.jsonl")).map((line) => JSON.parse(line))).toEqual([
      { audio_filepath: a, duration: 1, text: "x y", speaker: "s", gender: "F", q: 1, id: "c" },
      { audio_filepath: a, duration: 1, id: "c" },
      { audio_filepath: a, duration: 0.5, offset: 0.25, id: "c" },
    ]);
    await convert(path, at("segments.jsonl"), { segments: "supervision" });
    expect(
      lines(at("segments.jsonl"))
        .slice(0, 2)
        .map((line) => JSON.parse(line)),
    ).toMatchObject([
      { duration: 0.5, offset: 0, text: "x", id: "x" },
      { duration: 0.5, offset: 0.5, text: "y", id: "y" },
    ]);
  });

  test("audio that is not there is left out and listed; ids stay different", async () => {
    const path = manifest("gone.jsonl", [
      { audio_filepath: "gone.wav", duration: 1 },
      { audio_filepath: a, duration: 1 },
      { audio_filepath: a, duration: 1, text: "again" },
      { duration: 1 },
    ]);
    const result = await convert(path, at("gone.cuts.jsonl.gz"));
    expect(result).toMatchObject({ utterances: 2, dropped: 2 });
    expect(result.losses.map(({ what, count }) => [what, count])).toEqual([
      ["left out: audio that cannot be read", 1],
      ["ids that were there already got a number", 1],
      ["left out: lines without audio", 1],
    ]);
    expect(zipped(at("gone.cuts.jsonl.gz")).map((line) => JSON.parse(line).id)).toEqual([a, `${a}_1`]);
  });
});

describe("lhotse Shar", () => {
  test("cuts and pairs of members, in order, in shards; audio and keys come back", async () => {
    const path = manifest("shar.jsonl", rich);
    const result = await convert(path, at("shar"), { to: "shar", shardSize: 4, audioFormat: "wav" });
    expect(result).toMatchObject({ utterances: 6, dropped: 0 });
    expect(readdirSync(at("shar")).sort()).toEqual(["cuts.000000.jsonl.gz", "cuts.000001.jsonl.gz", "recording.000000.tar", "recording.000001.tar"]);
    const cuts = zipped(at("shar/cuts.000000.jsonl.gz")).map((line) => JSON.parse(line));
    const members: { name: string; data: Buffer }[] = [];
    for await (const { name, data } of readTar(at("shar/recording.000000.tar"))) members.push({ name, data: Buffer.from(data ?? []) });
    expect(members.map(({ name }) => name)).toEqual(cuts.flatMap(({ id }) => [`${id}.wav`, `${id}.json`]));
    expect(cuts[2]).toMatchObject({ start: 0, duration: 0.25, recording: { sources: [{ type: "shar", channels: [0], source: "" }], num_samples: 2000, duration: 0.25 } });
    expect(JSON.parse(members[5]?.data.toString() as string)).toEqual(cuts[2].recording);
    const whole = parseWav(readFileSync(b)).channels[0] as Float32Array;
    expect(parseWav(members[4]?.data as Buffer).channels[0]).toEqual(whole.slice(4000, 6000));

    const back = await convert(at("shar"), at("back/shar.jsonl"));
    expect(back).toMatchObject({ from: "shar", utterances: 6, dropped: 0 });
    const entries = lines(at("back/shar.jsonl")).map((line) => parsePython(line) as PyObject);
    const without = (object: PyObject, ...keys: string[]): string => sorted(dumpPython(new Map([...object].filter(([key]) => !["audio_filepath", "id", ...keys].includes(key)))));
    // Segments are files of their own now, so that their offsets are gone.
    expect(entries.map((entry) => without(entry, "offset"))).toEqual(rich.map((line) => without(parsePython(line) as PyObject, "offset")));
    expect(parseWav(readFileSync(join(at("back"), String(entries[2]?.get("audio_filepath"))))).channels[0]).toEqual(whole.slice(4000, 6000));
  });

  test("original copies whole files byte for byte", async () => {
    await convert(manifest("orig.jsonl", [rich[0] as string, rich[2] as string]), at("orig"), { to: "shar", audioFormat: "original" });
    const members: { name: string; data: Buffer }[] = [];
    for await (const { name, data } of readTar(at("orig/recording.000000.tar"))) members.push({ name, data: Buffer.from(data ?? []) });
    expect(members[0]?.data.equals(readFileSync(a))).toBe(true);
    expect(members[2]?.name).toMatch(/\.flac$/);
  });

  test("a folder with shards is not written into; shards that do not go together are named", async () => {
    const path = manifest("twice.jsonl", rich.slice(0, 2));
    await convert(path, at("twice"), { to: "shar", audioFormat: "wav" });
    await expect(convert(path, at("twice"), { to: "shar" })).rejects.toMatchObject({ code: "MANIFEST_OUTPUT_EXISTS" });
    const cuts = zipped(at("twice/cuts.000000.jsonl.gz"));
    writeFileSync(at("twice/cuts.000000.jsonl.gz"), gzipSync(`${cuts.reverse().join("\n")}\n`));
    await expect(convert(at("twice"), at("twice.jsonl"))).rejects.toMatchObject({ code: "MANIFEST_SHAR_BAD" });
    writeFileSync(at("twice/cuts.000000.jsonl.gz"), gzipSync(`${cuts[1]}\n`));
    await expect(convert(at("twice"), at("twice.jsonl"))).rejects.toThrow("holds more recordings");
    await expect(convert(at("sub"), at("twice.jsonl"), { from: "shar" })).rejects.toMatchObject({ code: "FILE_MISSING" });
  });
});

describe("Kaldi data folders", () => {
  test("files are sorted and hold what Kaldi has a place for; the rest is listed", async () => {
    const result = await convert(manifest("k.jsonl", [rich[2] as string, rich[0] as string, rich[1] as string]), at("kaldi"), { to: "kaldi" });
    expect(result.losses.map(({ what }) => what).sort()).toEqual([
      "speakers that are no word",
      'the key "n"',
      'the key "nested"',
      'the key "snr"',
      "white space in texts other than single blanks",
    ]);
    const file = (name: string): string[] => lines(at(`kaldi/${name}`));
    for (const name of readdirSync(at("kaldi"))) expect(file(name), name).toEqual([...file(name)].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y))));
    expect(
      file("utt2spk")
        .map((line) => line.split(" ")[1])
        .sort(),
    ).toEqual(["7", "s1", expect.stringContaining("sub_b")]);
    expect(file("segments").find((line) => line.includes(" 0.5 "))).toMatch(/ 0\.5 0\.75$/);
    expect(file("text").find((line) => line.startsWith("s1-"))).toMatch(/ one two$/);
    expect(file("wav.scp").map((line) => line.split(" ")[1])).toEqual([a, b]);
    expect(file("reco2dur").map((line) => Number(line.split(" ")[1]))).toEqual([1, 1.5]);
  });

  test("there and back the audio, times, texts, speakers and languages are the same", async () => {
    const path = manifest("k2.jsonl", [
      { audio_filepath: a, duration: 1, text: "one two", speaker: "s1", lang: "en", id: "s1-a" },
      { audio_filepath: b, duration: 0.25, offset: 0.5, text: "part", speaker: "s2", id: "s2-b" },
    ]);
    await convert(path, at("kaldi2"), { to: "kaldi" });
    const back = await convert(at("kaldi2"), at("k2.back.jsonl"));
    expect(back).toMatchObject({ from: "kaldi", losses: [] });
    expect(lines(at("k2.back.jsonl")).map(sorted)).toEqual(lines(path).map((line) => sorted(line)));
  });

  test("a folder by hand: commands and arks are left out, an end of -1 is the audio's, durations come from the audio", async () => {
    write("hand/wav.scp", `r1 ${a}\nr2 sph2pipe x |\nr3 /x.ark:12\n`);
    write("hand/segments", "u1 r1 0.25 0.75\nu2 r2 0 1\nu3 r3 0 1\nu4 none 0 1\nu5 r1 0.5 -1\n");
    write("hand/text", "u1 hello  there\nu5\n");
    write("hand/spk2gender", "s m\n");
    write("hand/utt2spk", "u1 s\n");
    const result = await convert(at("hand"), at("hand.jsonl"));
    expect(result).toMatchObject({ utterances: 2, dropped: 3 });
    expect(lines(at("hand.jsonl")).map((line) => JSON.parse(line))).toEqual([
      { audio_filepath: a, duration: 0.5, offset: 0.25, text: "hello  there", speaker: "s", gender: "m", id: "u1" },
      { audio_filepath: a, duration: 0.5, offset: 0.5, text: "", id: "u5" },
    ]);
  });
});

describe("tables", () => {
  const cell = fc.oneof(
    fc.string(),
    fc.constantFrom("", "12", "1.0", "null", "[1]", '"q"', "a,b", "a\tb", "a\nb", "\r\n", " x ", "true", "é😀"),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(fc.integer(), { maxLength: 3 }),
    fc.dictionary(fc.string(), fc.string(), { maxKeys: 2 }),
  );

  test.each(["csv", "tsv"])("%s there and back gives every line again, whatever its values look like", async (suffix) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ audio: fc.stringMatching(/^\/[a-z ,"]{1,8}\.wav$/), text: fc.string(), extra: cell, more: fc.option(cell, { nil: undefined }) }), {
          minLength: 1,
          maxLength: 6,
        }),
        async (items) => {
          const written = items.map(({ audio, text, extra, more }) =>
            dumpPython({ audio_filepath: audio, text, duration: 1, extra: extra as PyValue, more: more as PyValue | undefined }),
          );
          const path = manifest("t.jsonl", written);
          const result = await convert(path, at(`t.${suffix}`));
          expect(result.losses).toEqual([]);
          await convert(at(`t.${suffix}`), at("t.back.jsonl"));
          expect(lines(at("t.back.jsonl")).map(sorted)).toEqual(written.map((line) => sorted(dumpPython(parsePython(line)))));
        },
      ),
      { numRuns: 60 },
    );
  });

  test("what a table cannot hold is listed", async () => {
    const result = await convert(manifest("l.jsonl", [{ audio_filepath: "/a", text: "x" }, { audio_filepath: "/b" }, { audio_filepath: "/c", text: 7 }]), at("l.csv"));
    expect(result.losses.map(({ what }) => what)).toEqual(["the difference between no text and an empty one", 'that "text" is a number, or true, false or null']);
  });

  test("a table by hand: quotes, CRLF, a byte order mark; errors at their row", async () => {
    write("h.csv", '\ufeffaudio_filepath,duration,text\r\n/a.wav,1.50,"say ""x"", now"\r\n\r\n/b.wav,2,"two\r\nlines"\r\n/c.wav,,x');
    await convert(at("h.csv"), at("h.jsonl"));
    expect(lines(at("h.jsonl"))).toEqual([
      '{"audio_filepath": "/a.wav", "duration": 1.5, "text": "say \\"x\\", now"}',
      '{"audio_filepath": "/b.wav", "duration": 2, "text": "two\\r\\nlines"}',
      '{"audio_filepath": "/c.wav", "text": "x"}',
    ]);
    for (const [content, message] of [
      ["a,b\n1\n", ":2: 1 cells, the head has 2"],
      ["a,a\n", ':1: the head has "a" twice'],
      ['a,b\n1,"x\n', ":2: a quoted cell is not closed"],
    ]) {
      write("bad.csv", content as string);
      await expect(convert(at("bad.csv"), at("bad.jsonl"))).rejects.toThrow(message);
    }
    write("bad.csv", Buffer.from([0x61, 0x0a, 0xe4, 0x0a]));
    await expect(convert(at("bad.csv"), at("bad.jsonl"))).rejects.toThrow("not UTF-8");
  });
});

test("a pretty-printed array or object becomes a line each; a manifest is rewritten as Python writes it", async () => {
  write("p.json", JSON.stringify([{ audio_filepath: "a.wav", duration: 1.5 }, { audio_filepath: "sub/b.wav" }], undefined, 2));
  expect(await convert(at("p.json"), at("sub/p.jsonl"), { from: "json" })).toMatchObject({ utterances: 2 });
  expect(lines(at("sub/p.jsonl"))).toEqual(['{"audio_filepath": "../a.wav", "duration": 1.5}', '{"audio_filepath": "b.wav"}']);
  write("bad.json", '{\n  "a": 1,\n  "b": x\n}');
  await expect(convert(at("bad.json"), at("p.jsonl"), { from: "json" })).rejects.toMatchObject({ at: `${at("bad.json")}:3:8` });
  await convert(manifest("spaced.jsonl", ['{"duration":1.0,"audio_filepath":"/x",   "b":1E5}']), at("spaced.out.jsonl"));
  expect(lines(at("spaced.out.jsonl"))).toEqual(['{"duration": 1.0, "audio_filepath": "/x", "b": 100000.0}']);
  await expect(convert(at("spaced.jsonl"), at("nowhere"))).rejects.toThrow("--to kaldi or --to shar");
});
