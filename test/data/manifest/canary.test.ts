import { describe, expect, test } from "vitest";
import { canaryEmotions, examineCanary, parseEntry, readCanary, readEntries, writeCanary } from "../../../src/data/manifest/index.ts";
import { corpus } from "./corpus.ts";

const v2 = { source_lang: "en", target_lang: "de" };
const v1 = { ...v2, task: "ast", pnc: "yes" };

test("Flash and v2: what is not there has its default", () => {
  expect(readCanary(v2)).toEqual({ sourceLang: "en", targetLang: "de", pnc: true, itn: false, timestamp: false, diarize: false, decodercontext: "", emotion: "undefined" });
});

describe("spellings", () => {
  test.each(["yes", "Yes", "YES", "true", "True", true, 1, "1", "pnc", "<|pnc|>"])("%j is yes", (pnc) => expect(readCanary({ ...v2, pnc }).pnc).toBe(true));
  test.each(["no", "No", "false", "False", false, 0, "0", "nopnc", "<|nopnc|>"])("%j is no", (pnc) => expect(readCanary({ ...v2, pnc }).pnc).toBe(false));
  test.each(["itn", "timestamp", "diarize"] as const)("%s has the same, with its own tokens", (key) => {
    expect(readCanary({ ...v2, [key]: `<|${key}|>` })[key]).toBe(true);
    expect(readCanary({ ...v2, [key]: `no${key}` })[key]).toBe(false);
    expect(() => readCanary({ ...v2, [key]: "maybe" })).toThrow(new RegExp(`"${key}" is "maybe", expected yes or no`));
    expect(() => readCanary({ ...v2, [key]: "pnc" })).toThrow("CANARY_BAD_SLOT");
  });
  test("emotions by their names, by their tokens, in any case", () => {
    for (const emotion of canaryEmotions) {
      expect(readCanary({ ...v2, emotion }).emotion).toBe(emotion);
      expect(readCanary({ ...v2, emotion: `<|emo:${emotion}|>` }).emotion).toBe(emotion);
    }
    expect(readCanary({ ...v2, emotion: "Happy" }).emotion).toBe("happy");
    expect(() => readCanary({ ...v2, emotion: "bored" })).toThrow(/undefined, neutral, happy, sad, angry/);
    expect(() => readCanary({ ...v2, emotion: 3 })).toThrow("CANARY_BAD_SLOT");
  });
  test("languages with and without bars", () => {
    expect(readCanary({ source_lang: "<|en|>", target_lang: "pt-BR" })).toMatchObject({ sourceLang: "en", targetLang: "pt-BR" });
  });
  test.each([
    ["asr", "asr"],
    ["transcribe", "asr"],
    ["<|transcribe|>", "asr"],
    ["ast", "ast"],
    ["translate", "ast"],
    ["<|translate|>", "ast"],
    ["s2t_translation", "ast"],
  ])("v1: the task %s is %s", (task, meant) => {
    expect(readCanary({ ...v1, task }, { version: "v1" }).task).toBe(meant);
    expect(readCanary({ ...v2, pnc: "no", taskname: task }, { version: "v1" }).task).toBe(meant);
  });
});

describe("what is wrong", () => {
  test("keys that are needed and missing are all named", () => {
    const { errors } = examineCanary({}, { version: "v1", at: "m:3" });
    expect(errors.map(({ message }) => /no "(\w+)"/.exec(message)?.[1])).toEqual(["source_lang", "target_lang", "task", "pnc"]);
    expect(errors.every(({ at, code }) => at === "m:3" && code === "CANARY_BAD_SLOT")).toBe(true);
    expect(examineCanary({}, { version: "v2" }).errors).toHaveLength(2);
    expect(() => readCanary({ ...v1, task: "sing" }, { version: "v1" })).toThrow(/"task" is "sing", expected asr or ast/);
    expect(() => readCanary({ ...v2, source_lang: 3 })).toThrow('"source_lang" is 3');
  });
  test("task with v2 is told, timestamps and context with v1 are refused", () => {
    const { errors, warnings } = examineCanary(v1, { version: "v2" });
    expect(errors).toEqual([]);
    expect(warnings.map(({ message }) => message)).toEqual([expect.stringContaining('"task" has no place')]);
    expect(() => readCanary({ ...v1, timestamp: "yes" }, { version: "v1" })).toThrow("no place in the prompt of Canary v1");
    expect(() => readCanary({ ...v1, decodercontext: "x" }, { version: "v1" })).toThrow("no place in the prompt of Canary v1");
    expect(() => readCanary({ ...v2, decodercontext: "a <|b" })).toThrow("special token");
    expect(() => readCanary({ ...v2, decodercontext: 3 })).toThrow("expected a text");
  });
});

test("writeCanary writes what every release of NeMo reads as it is meant, and reading it gives the same slots", () => {
  const slots = readCanary({ ...v2, pnc: true, itn: "Yes", emotion: "happy", decodercontext: "x" });
  expect(writeCanary(slots)).toEqual({ source_lang: "en", target_lang: "de", pnc: "yes", itn: "yes", decodercontext: "x", emotion: "<|emo:happy|>" });
  expect(readCanary(writeCanary(slots))).toEqual(slots);
  expect(writeCanary(readCanary(v2))).toEqual({ source_lang: "en", target_lang: "de", pnc: "yes" });
  const first = readCanary({ ...v1, pnc: "False" }, { version: "v1" });
  expect(writeCanary(first, { version: "v1" })).toEqual({ source_lang: "en", target_lang: "de", task: "ast", pnc: "no" });
  expect(readCanary(writeCanary(first, { version: "v1" }), { version: "v1" })).toEqual(first);
  expect(writeCanary(readCanary({ ...v2, target_lang: "en" }), { version: "v1" })["task"]).toBe("asr");
});

describe("the reader of manifests", () => {
  const { manifest } = corpus();
  const audio = { audio_filepath: "a.wav", duration: 1, text: "x" };

  test("yields the slots normalised and with their defaults, of the version that a line was written for", async () => {
    const path = manifest("canary.jsonl", [
      { ...audio, ...v2, pnc: "Yes", emotion: "happy", itn: true },
      { ...audio, ...v2 },
      { ...audio, ...v1, pnc: false },
      { ...audio, lang: "en" },
    ]);
    const slots: unknown[] = [];
    for await (const { canary } of readEntries(path, { canary: "auto" })) slots.push(canary);
    const plain = { sourceLang: "en", targetLang: "de", pnc: true, itn: false, timestamp: false, diarize: false, decodercontext: "", emotion: "undefined" };
    expect(slots).toEqual([{ ...plain, itn: true, emotion: "happy" }, plain, { ...plain, task: "ast", pnc: false }, undefined]);
    for await (const { canary } of readEntries(path)) expect(canary).toBeUndefined();
  });

  test("names what is missing or unknown at its line, or leaves the line out", async () => {
    const path = manifest("bad.jsonl", [
      { ...audio, source_lang: "en" },
      { ...audio, ...v2, itn: "perhaps" },
      { ...audio, ...v2 },
    ]);
    await expect(readEntries(path, { canary: "v2" }).next()).rejects.toMatchObject({ code: "CANARY_BAD_SLOT", at: `${path}:1` });
    const errors: (string | undefined)[] = [];
    let read = 0;
    for await (const _ of readEntries(path, { canary: "v2", onError: ({ at }) => errors.push(at) })) read++;
    expect([read, ...errors]).toEqual([1, `${path}:1`, `${path}:2`]);
    expect(() => parseEntry({ value: { ...audio }, line: 1, path }, { canary: "v1" })).toThrow('no "source_lang"');
  });
});
