import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadManifest, readManifest } from "../../../src/data/manifest/index.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-manifest-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};

describe("readManifest", () => {
  test("reads a line and resolves its path beside the manifest", async () => {
    mkdirSync(join(folder, "audio"), { recursive: true });
    write("audio/a.wav", "");
    const path = write("a.jsonl", '{"audio_filepath": "audio/a.wav", "duration": 1.5, "text": "one", "speaker": 7, "lang": "en"}\n');
    const [cut] = await loadManifest(path);
    expect(cut).toMatchObject({ audioPath: join(folder, "audio/a.wav"), duration: 1.5, text: "one", speaker: "7", lang: "en", offset: undefined, origin: `${path}:1` });
  });

  test("takes aliases, offsets and several manifests with commas; leaves out _skipme", async () => {
    const a = write("b.jsonl", '{"audio_filename": "/x/1.wav", "duration": 2, "offset": 3.5}\n{"audio_filepath": "/x/2.wav", "duration": 2, "_skipme": true}\n');
    const b = write("c.jsonl", '{"audio_file": "/x/3.wav", "duration": 1, "text": null}');
    const cuts = await loadManifest(`${a}, ${b}`);
    expect(cuts.map((cut) => [cut.audioPath, cut.offset, cut.text])).toEqual([
      ["/x/1.wav", 3.5, ""],
      ["/x/3.wav", undefined, ""],
    ]);
  });

  test.each([
    ["[1]", "MANIFEST_NOT_AN_OBJECT"],
    ['{"duration": 1}', "MANIFEST_NO_AUDIO"],
    ['{"audio_filepath": 3, "duration": 1}', "MANIFEST_NO_AUDIO"],
    ['{"audio_filepath": "a"}', "MANIFEST_NO_DURATION"],
    ['{"audio_filepath": "a", "duration": "1"}', "MANIFEST_BAD_DURATION"],
    ['{"audio_filepath": "a", "duration": -1}', "MANIFEST_BAD_DURATION"],
    ['{"audio_filepath": "a", "duration": 1, "offset": -2}', "MANIFEST_BAD_OFFSET"],
    ['{"audio_filepath": "a", "duration": 1, "text": 5}', "MANIFEST_BAD_TEXT"],
    ['{"audio_filepath": "a", ', "JSONL_BAD_LINE"],
  ])("%s is %s at its line, or counted", async (line, code) => {
    const path = write("bad.jsonl", `{"audio_filepath": "a", "duration": 1}\n${line}\n{"audio_filepath": "b", "duration": 1}\n`);
    await expect(loadManifest(path)).rejects.toMatchObject({ code, at: expect.stringContaining(`${path}:2`) });
    const errors: unknown[] = [];
    const cuts = await loadManifest(path, { onError: (error) => errors.push(error) });
    expect(cuts.map((cut) => cut.id)).toEqual(["a", "b"]);
    expect(errors).toHaveLength(1);
  });

  test("cuts of lhotse are stretches of their recordings, under their ids; copies at other speeds are named and left out", async () => {
    const cut = (id: string, fields: object, recording: object = {}): string =>
      `${JSON.stringify({
        id,
        start: 0,
        duration: 2.5,
        channel: 0,
        supervisions: [{ id, recording_id: "r", start: 0, duration: 2.5, channel: 0, text: "ONE TWO", language: "English", speaker: "7" }],
        features: { type: "kaldi-fbank", num_frames: 250 },
        recording: {
          id: "r",
          sources: [{ type: "file", channels: [0], source: "/x/r.flac" }],
          sampling_rate: 16000,
          num_samples: 160000,
          duration: 10,
          channel_ids: [0],
          ...recording,
        },
        type: "MonoCut",
        ...fields,
      })}\n`;
    const path = write(
      "cuts.jsonl",
      cut("r-0", {}) + cut("r-1", { start: 4.25 }) + cut("r-0_sp0.9", {}, { transforms: [{ name: "Speed", kwargs: { factor: 0.9 } }] }) + cut("r-2", { custom: { _skipme: true } }),
    );
    const errors: Error[] = [];
    const cuts = await loadManifest(path, { onError: (error) => errors.push(error) });
    expect(cuts).toMatchObject([
      { id: "r-0", audioPath: "/x/r.flac", offset: 0, duration: 2.5, text: "ONE TWO", speaker: "7", origin: `${path}:1` },
      { id: "r-1", audioPath: "/x/r.flac", offset: 4.25, duration: 2.5, text: "ONE TWO", speaker: "7", origin: `${path}:2` },
    ]);
    expect(errors).toMatchObject([{ code: "MANIFEST_NO_AUDIO", at: `${path}:3` }]);
    expect(errors[0]?.message).toMatch(/transforms.*--manifest-dir/);
    await expect(loadManifest(path)).rejects.toMatchObject({ code: "MANIFEST_NO_AUDIO" });
  });

  test("a manifest to decode needs no durations", async () => {
    const path = write("d.jsonl", '{"audio_filepath": "a"}');
    for await (const cut of readManifest(path, { needDuration: false })) expect(cut.duration).toBeNaN();
  });

  test("where no line can be used the reasons are counted, each with its first line", async () => {
    const line = (fields: object): string => `${JSON.stringify({ audio_filepath: "a", duration: 1, ...fields })}\n`;
    const path = write(
      "all-bad.jsonl",
      `${line({ duration: "abc" })}${line({ duration: -1 })}${line({ text: 5 })}{"audio_filepath": "a", "duration": NaN}\n{"duration": 1}\nnot json\n`,
    );
    const seen: string[] = [];
    const error = (await loadManifest(path, { onError: ({ code }) => seen.push(code) }).catch((e: unknown) => e)) as Error;
    expect(seen).toHaveLength(6); // told all the same
    expect(error).toMatchObject({ code: "MANIFEST_EMPTY", at: path });
    expect(error.message).toContain(`3 with MANIFEST_BAD_DURATION (first: ${path}:1: "duration" is "abc", expected seconds above 0)`);
    expect(error.message).toContain(`1 with MANIFEST_BAD_TEXT (first: ${path}:3: "text" is 5, expected a string)`);
    expect(error.message).toContain(`1 with MANIFEST_NO_AUDIO (first: ${path}:5: no "audio_filepath")`);
    expect(error.message).toContain(`1 with JSONL_BAD_LINE (first: ${path}:6:1: `);
    expect(error.message).toContain("serac manifest check");
    expect(error.message).not.toContain("JSON object per line");
  });

  test("an empty manifest and a missing one are errors", async () => {
    await expect(loadManifest(write("e.jsonl", "\n"))).rejects.toMatchObject({ code: "MANIFEST_EMPTY" });
    await expect(loadManifest(join(folder, "none.jsonl"))).rejects.toMatchObject({ code: "FILE_MISSING" });
  });
});
