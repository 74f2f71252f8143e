import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { IndexedTar, parseTarIndex, sampleKey, serializeTarIndex } from "../../../src/formats/tar/readIndex.ts";
import { archive } from "./archives.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-idx-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

const long = `${"n".repeat(150)}.wav`;
const specs = [
  { name: "a.json", data: "{}" },
  { name: "a.wav", data: "A" },
  { name: long, data: "L".repeat(600) },
  { name: "b.wav", data: "B" },
];

test("an index is built beside the archive: a number a sample, at its first header, then the file's size", async () => {
  const path = join(folder, "a.tar");
  writeFileSync(path, archive(specs));
  const tar = await IndexedTar.open(path);
  const bytes = readFileSync(`${path}.idx`);
  // a.json and a.wav are one sample; the PAX header of the long name belongs to its member.
  expect(Array.from({ length: bytes.length / 8 }, (_, i) => Number(bytes.readBigUInt64LE(8 * i)))).toEqual([0, 2048, 2048 + 1536 + 1024, 10240]);
  expect(tar.length).toBe(3);
  expect((await tar.sample(2)).map(({ name, data }) => [name, String(data)])).toEqual([["b.wav", "B"]]);
  expect((await tar.sample(0)).map(({ name, data }) => [name, String(data)])).toEqual([
    ["a.json", "{}"],
    ["a.wav", "A"],
  ]);
  expect((await tar.sample(1)).map(({ name, headerOffset, dataOffset }) => [name, headerOffset, dataOffset])).toEqual([[long, 2048, 3584]]);
  await expect(tar.sample(3)).rejects.toThrow(RangeError);
  await tar.close();
});

test("an index of another archive, a broken one and a packed archive are coded errors", async () => {
  const path = join(folder, "b.tar");
  writeFileSync(path, archive(specs));
  writeFileSync(`${path}.idx`, serializeTarIndex({ offsets: [0, 51200], fileSize: 102400 }));
  await expect(IndexedTar.open(path)).rejects.toMatchObject({ code: "TAR_INDEX_BAD", at: `${path}.idx` });
  writeFileSync(`${path}.idx`, "12345");
  await expect(IndexedTar.open(path)).rejects.toMatchObject({ code: "TAR_INDEX_BAD" });
  writeFileSync(`${path}.idx`, serializeTarIndex({ offsets: [512], fileSize: 10240 }));
  const wrong = await IndexedTar.open(path);
  await expect(wrong.sample(0)).rejects.toMatchObject({ code: "TAR_BAD" });
  await wrong.close();
  writeFileSync(join(folder, "c.tar.gz"), gzipSync(archive(specs)));
  await expect(IndexedTar.open(join(folder, "c.tar.gz"))).rejects.toMatchObject({ code: "TAR_COMPRESSED" });
  expect(existsSync(join(folder, "c.tar.gz.idx"))).toBe(false);
});

test("indices round-trip, with and without the file's size at the end", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 0, max: 2 ** 40 }), { maxLength: 20 }), (blocks) => {
      const offsets = blocks.map((block) => block * 512).sort((a, b) => a - b);
      const index = { offsets, fileSize: (offsets.at(-1) ?? 0) + 10240 };
      expect(parseTarIndex(serializeTarIndex(index), index.fileSize, "x")).toEqual(index);
      if (offsets.length > 0) expect(parseTarIndex(serializeTarIndex(index).subarray(0, 8 * offsets.length), index.fileSize, "x")).toEqual(index);
    }),
  );
});

test("the key of a sample is the name without folder and last suffix, as Python's stem", () => {
  expect(["d/a.wav", "a.b.wav", "a", ".hidden", "a.", "x/.wav"].map(sampleKey)).toEqual(["a", "a.b", "a", ".hidden", "a.", ".wav"]);
});
