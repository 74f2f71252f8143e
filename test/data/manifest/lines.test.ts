import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type LineError, type ManifestLine, manifestPaths, readManifestLines } from "../../../src/data/manifest/index.ts";
import { corpus } from "./corpus.ts";

const { folder, write, manifest } = corpus();

async function read(content: string | Uint8Array, options?: { onError: (error: LineError) => void }): Promise<ManifestLine[]> {
  const lines: ManifestLine[] = [];
  for await (const line of readManifestLines(write("in.jsonl", content), options)) lines.push(line);
  return lines;
}

test("byte order mark, CRLF, blank lines and a missing last newline do not matter; the line's own text is kept", async () => {
  expect(await read('\ufeff{"a": 1.0}\r\n\r\n  \n{"b": "é"}\n{"c":2}')).toEqual([
    { value: { a: 1 }, text: '{"a": 1.0}', line: 1, path: join(folder, "in.jsonl") },
    { value: { b: "é" }, text: '{"b": "é"}', line: 4, path: join(folder, "in.jsonl") },
    { value: { c: 2 }, text: '{"c":2}', line: 5, path: join(folder, "in.jsonl") },
  ]);
  expect(await read("")).toEqual([]);
});

test("NaN and Infinity, which Python writes, are read", async () => {
  const [line] = await read('{"snr": NaN, "gain": -Infinity}');
  expect(line?.value).toEqual({ snr: Number.NaN, gain: Number.NEGATIVE_INFINITY });
});

test("a bad line is an error with file:line:column, or skipped and counted", async () => {
  const content = '{"a": 1}\n{"ä😀": nan}\n[1]\n{"a": "b\n{"c": 1}';
  await expect(read(content)).rejects.toMatchObject({ code: "JSONL_BAD_LINE", at: `${folder}/in.jsonl:2:8` });
  const errors: LineError[] = [];
  const lines = await read(content, { onError: (error) => errors.push(error) });
  expect(lines.map(({ line }) => line)).toEqual([1, 5]);
  expect(errors.map(({ code, at }) => [code, at?.slice(folder.length + 10)])).toEqual([
    ["JSONL_BAD_LINE", "2:8"],
    ["MANIFEST_NOT_AN_OBJECT", "3"],
    ["JSONL_BAD_LINE", "4:9"],
  ]);
});

test("bytes that are no UTF-8 spoil their own line only; UTF-16 is named", async () => {
  const errors: LineError[] = [];
  const lines = await read(Buffer.concat([Buffer.from('{"a": 1}\n{"b": "'), Buffer.from([0xe4]), Buffer.from('"}\n\n{"c": "ä"}')]), { onError: (error) => errors.push(error) });
  expect(lines.map(({ value, line }) => [value, line])).toEqual([
    [{ a: 1 }, 1],
    [{ c: "ä" }, 4],
  ]);
  expect(errors[0]?.message).toMatch(/in\.jsonl:2:8: not UTF-8/);
  await expect(read(Buffer.from('\ufeff{"a": 1}\n', "utf16le"))).rejects.toThrow("UTF-16");
});

test.each([
  ["an object", JSON.stringify({ audio_filepath: "a.wav", duration: 1 }, undefined, 2)],
  ["an array", JSON.stringify([{ audio_filepath: "a.wav" }, { audio_filepath: "b.wav" }], undefined, 4)],
  ["objects one after another", `${JSON.stringify({ a: 1, b: 2 }, undefined, 2)}\n${JSON.stringify({ a: 2, b: 3 }, undefined, 2)}`],
])("%s over several lines is named for what it is, also where bad lines are skipped", async (_, content) => {
  await expect(read(content, { onError: () => {} })).rejects.toMatchObject({
    code: "MANIFEST_PRETTY_PRINTED",
    at: expect.stringMatching(/:1$/),
    fix: expect.stringContaining("--from json"),
  });
});

test("one array on one line is told how to be written", async () => {
  await expect(read('[{"audio_filepath": "a.wav"}]')).rejects.toMatchObject({ code: "MANIFEST_NOT_AN_OBJECT", fix: expect.stringContaining("--from json") });
});

test("a single truncated line is not taken for pretty printing", async () => {
  await expect(read('{"a": 1,\n{"a": 2}\n')).rejects.toMatchObject({ code: "JSONL_BAD_LINE" });
});

test("long lines and deep ones are read or named at once, first in the manifest or not", async () => {
  const [n, deep] = [1_000_000, "[".repeat(1_000_000)];
  for (const [text, at] of [
    [deep, ":1:992"],
    [`${deep}${"]".repeat(n)}`, ":1:992"],
    [`{"a": ${deep}NaN${"]".repeat(n)}}`, ":1:997"],
    [`{"a": "${"x".repeat(n)}`, `:1:${n + 8}`],
    [`${"x".repeat(n)}`, ":1:1"],
  ] as const) {
    await expect(read(`${text}\n`)).rejects.toMatchObject({ code: "JSONL_BAD_LINE", at: `${folder}/in.jsonl${at}` });
    const errors: LineError[] = [];
    expect(await read(`{"a": 1}\n${text}\n{"b": 2}\n`, { onError: (error) => errors.push(error) })).toHaveLength(2);
    expect(errors).toHaveLength(1);
  }
  expect(await read(`{"a": "${"[".repeat(n)}"}`)).toHaveLength(1); // brackets of a text are not depth
});

test("commas, lists, brace patterns and gzip name several manifests, in order", async () => {
  for (const i of [0, 1, 2]) write(`shard_${i}.json`, `{"n": ${i}}\n`);
  write("z.jsonl.gz", gzipSync('{"n": 9}\n'));
  const ns = async (spec: string | string[]): Promise<unknown[]> => {
    const found: unknown[] = [];
    for await (const { value } of readManifestLines(spec)) found.push(value["n"]);
    return found;
  };
  expect(await ns(`${folder}/shard_{0..2}.json`)).toEqual([0, 1, 2]);
  expect(await ns(`${folder}/shard__OP_2..0_CL_.json`)).toEqual([2, 1, 0]);
  expect(await ns(`${folder}/z.jsonl.gz, ${folder}/shard_1.json`)).toEqual([9, 1]);
  expect(await ns([`${folder}/shard_0.json`, `${folder}/shard_{1,2}.json`])).toEqual([0, 1, 2]);
  const odd = manifest("a,{1}(x).jsonl", [{ n: 5 }]);
  expect(manifestPaths(odd)).toEqual([odd]); // a name that is there is that file
  await expect(ns(join(folder, "none.jsonl"))).rejects.toMatchObject({ code: "FILE_MISSING" });
  expect(() => manifestPaths(" , ")).toThrow("no manifest is named");
});

test("any lines in blocks of any size come back with their text and number", async () => {
  const object = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(object, fc.constant(undefined)), { maxLength: 30 }), fc.nat(20_000), fc.boolean(), async (objects, pad, last) => {
      const lines = objects.map((one) => (one === undefined ? "" : JSON.stringify({ ...one, pad: "ä".repeat(pad) })));
      const found = await read(lines.join("\n") + (last ? "\n" : ""));
      expect(found.map(({ text }) => text)).toEqual(lines.filter((line) => line !== ""));
      expect(found.map(({ line }) => line)).toEqual(lines.flatMap((line, i) => (line === "" ? [] : [i + 1])));
      expect(readFileSync(join(folder, "in.jsonl"), "utf8").length).toBeGreaterThanOrEqual(found.length);
    }),
    { numRuns: 40 },
  );
});
