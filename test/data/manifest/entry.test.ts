import { homedir } from "node:os";
import { join, relative, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { isTarredManifest, type ManifestEntry, parseEntry, readEntries, readManifest, rebasePath, resolveAudioPath } from "../../../src/data/manifest/index.ts";
import { corpus } from "./corpus.ts";

const { folder, write, manifest, wav } = corpus();
const entry = (value: Record<string, unknown>, path = join(folder, "m.jsonl")): ManifestEntry => parseEntry({ value, line: 3, path });

describe("keys", () => {
  test("every key and alias has its place, and unknown keys are kept", () => {
    expect(
      entry({
        audio_filepath: "a.wav",
        duration: 2.5,
        offset: 1,
        text: "hi",
        speaker: 7,
        lang: "en",
        orig_sample_rate: 44100,
        sampling_rate: 16000,
        token_labels: [1, 2],
        rttm_file: "a.rttm",
        feature_file: "a.npy",
        video_file: "a.mp4",
        context: "c",
        context_type: "text",
        context_duration: 1,
        answer: "b",
        answer_type: "text",
        answer_duration: 2,
        question: "q",
        question_type: "text",
        task: "asr",
        shard_id: 4,
        pred_text: "ho",
        id: "x",
        snr: 12,
        nested: { a: [1] },
      }),
    ).toMatchObject({
      audioFile: "a.wav",
      duration: 2.5,
      offset: 1,
      text: "hi",
      speaker: "7",
      lang: "en",
      origSr: 44100,
      samplingRate: 16000,
      tokenLabels: [1, 2],
      rttmFile: "a.rttm",
      featureFile: "a.npy",
      videoFile: "a.mp4",
      context: "c",
      contextType: "text",
      contextDuration: 1,
      answer: "b",
      answerType: "text",
      answerDuration: 2,
      question: "q",
      questionType: "text",
      task: "asr",
      shardId: 4,
      predText: "ho",
      id: "x",
      rest: { snr: 12, nested: { a: [1] } },
      origin: `${join(folder, "m.jsonl")}:3`,
    });
  });

  test("aliases are looked for in NeMo's order, and a context does not replace an utterance's own audio", () => {
    expect(entry({ audio_file: "c", audio_filepath: "b", audio_filename: "a", duration: 1 }).audioFile).toBe("a");
    expect(entry({ audio_file: "c", audio_filepath: "b", duration: 1 }).audioFile).toBe("b");
    expect(entry({ audio_file: "c", context: "d", duration: 1 }).audioFile).toBe("c");
    expect(entry({ context: "d", context_duration: 3 })).toMatchObject({ audioFile: "d", duration: 3 });
    for (const key of ["rttm_file", "rttm_filename", "rttm_filepath"]) expect(entry({ audio_file: "a", duration: 1, [key]: "r" }).rttmFile).toBe("r");
    for (const key of ["feature_file", "feature_filename", "feature_filepath"]) expect(entry({ audio_file: "a", duration: 1, [key]: "f" }).featureFile).toBe("f");
    for (const key of ["video_file", "video_filename", "video_filepath"]) expect(entry({ audio_file: "a", duration: 1, [key]: "v" }).videoFile).toBe("v");
    expect(entry({ audio_file: "a", duration: 1, sample_rate: 8000 }).samplingRate).toBe(8000);
  });

  test("texts come from text, a file beside the manifest, or normalized_text; lines of a file are parted by spaces", () => {
    write("t/a.txt", "one two\nthree\r\n");
    const path = join(folder, "t", "m.jsonl");
    expect(entry({ audio_file: "a", duration: 1, text_filepath: "a.txt", normalized_text: "n" }, path).text).toBe("one two three");
    expect(entry({ audio_file: "a", duration: 1, normalized_text: "n" }).text).toBe("n");
    expect(entry({ audio_file: "a", duration: 1, text: "", normalized_text: "n" }).text).toBe("");
    expect(() => entry({ audio_file: "a", duration: 1, text_filepath: "none.txt" }, path)).toThrow(/text_filepath.*no such file.*MANIFEST_BAD_TEXT/);
  });

  test("audio in a file a channel and texts as spans of languages are read", async () => {
    const spans = [
      { str: "hello", lang: "en" },
      { str: "welt", lang: "de" },
    ];
    expect(entry({ audio_filepath: ["a.wav", "b.wav"], duration: 1, text: spans })).toMatchObject({ audioFile: ["a.wav", "b.wav"], text: spans });
    const path = manifest("spans.jsonl", [
      { audio_filepath: "a", duration: 1, text: spans },
      { audio_filepath: ["a", "b"], duration: 1 },
    ]);
    const cuts = readManifest(path);
    expect((await cuts.next()).value).toMatchObject({ text: "hello welt" });
    await expect(cuts.next()).rejects.toMatchObject({ code: "MANIFEST_NO_AUDIO", at: `${path}:2` });
  });

  test("_skipme is honoured, at the top and in custom; texts without audio are read where they are asked for", async () => {
    const path = manifest("skip.jsonl", [
      { audio_filepath: "a", duration: 1, _skipme: true },
      { audio_filepath: "b", duration: 1, custom: { _skipme: 1 } },
      { audio_filepath: "c", duration: 1, _skipme: false },
      { text: "t", tts_text: "x", _skipme: 0 },
    ]);
    const read = async (options: object): Promise<unknown[]> => {
      const found: unknown[] = [];
      for await (const { audioFile, rest } of readEntries(path, options)) found.push(audioFile ?? rest["tts_text"]);
      return found;
    };
    expect(await read({ needAudio: false, needDuration: false })).toEqual(["c", "x"]);
    expect(await read({ needAudio: false, needDuration: false, keepSkipped: true })).toEqual(["a", "b", "c", "x"]);
    await expect(read({})).rejects.toMatchObject({ code: "MANIFEST_NO_AUDIO", at: `${path}:4` });
  });

  test("a cut of lhotse is told to be converted", () => {
    expect(() => entry({ id: "a", recording: {}, supervisions: [] })).toThrow(/cut of lhotse.*manifest convert/);
  });
});

describe("paths", () => {
  test("beside the manifest comes first, then the working directory, and which one it was is told", async () => {
    wav("p/a.wav");
    const path = join(folder, "p", "m.jsonl");
    expect(resolveAudioPath("a.wav", path)).toEqual({ path: join(folder, "p/a.wav"), from: "manifest" });
    expect(resolveAudioPath("package.json", path)).toEqual({ path: resolve("package.json"), from: "workingDirectory" });
    write("p/package.json", "{}");
    expect(resolveAudioPath("package.json", path)).toEqual({ path: join(folder, "p/package.json"), from: "manifest" });
    expect(resolveAudioPath("none.wav", path)).toEqual({ path: join(folder, "p/none.wav"), from: "nowhere" });
    expect(resolveAudioPath("/x/y.wav", path)).toEqual({ path: "/x/y.wav", from: "absolute" });
    expect(resolveAudioPath("~/y.wav", path)).toEqual({ path: join(homedir(), "y.wav"), from: "absolute" });
    expect(resolveAudioPath("s3://b/y.wav", path)).toEqual({ path: "s3://b/y.wav", from: "url" });
    expect(resolveAudioPath(`${"x".repeat(300)}.wav`, path).from).toBe("nowhere");
    const cut = await readManifest(manifest("p/m.jsonl", [{ audio_filepath: "a.wav", duration: 1 }])).next();
    expect(cut.value).toMatchObject({ audioPath: join(folder, "p/a.wav"), audioFrom: "manifest" });
  });

  test("names in manifests of tarred datasets are members", () => {
    for (const name of ["tarred_audio_manifest.json", "x/tarred_audio_manifest_version_2.json", "x/sharded_manifests/manifest_3.json", "/x/sharded_manifests/manifest_12.jsonl"])
      expect(resolveAudioPath("a.wav", name), name).toEqual({ path: "a.wav", from: "member" });
    for (const name of ["manifest_3.json", "x/sharded_manifests/other.json", "tarred.json"]) expect(isTarredManifest(name), name).toBe(false);
  });

  test("another folder's manifest names the same file", () => {
    wav("p/a.wav");
    const from = join(folder, "p", "m.jsonl");
    expect(rebasePath("a.wav", from, join(folder, "q", "n.jsonl"))).toBe("../p/a.wav");
    expect(rebasePath("a.wav", from, join(folder, "q", "n.jsonl"), "absolute")).toBe(join(folder, "p/a.wav"));
    expect(rebasePath("/x/a.wav", from, "/x/y/n.jsonl")).toBe("/x/a.wav");
    expect(rebasePath("/x/a.wav", from, "/x/y/n.jsonl", "relative")).toBe("../a.wav");
    expect(rebasePath("package.json", join(folder, "q", "m.jsonl"), "/x/n.jsonl")).toBe("package.json");
    expect(rebasePath("package.json", join(folder, "q", "m.jsonl"), "/x/n.jsonl", "relative")).toBe(relative("/x", resolve("package.json")));
  });
});
