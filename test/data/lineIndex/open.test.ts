import { appendFileSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { anyFormat, IndexedLines, lineIndexPath, openAnyLineIndex, openLineIndex } from "../../../src/data/lineIndex/index.ts";
import { indexedManifest } from "../../../src/data/sampling/index.ts";
import { corpus, type Item } from "../sampling/corpus.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-index-"));
afterAll(() => rmSync(folder, { recursive: true }));
let path = "";
let files = 0;
beforeEach(() => {
  path = join(folder, `${files++}.jsonl`);
});

const line = ({ id, duration }: Item): string => JSON.stringify({ audio_filepath: `${id}.wav`, duration, text: `the text of ${id} …` });
const write = (items: readonly Item[]): void => writeFileSync(path, `${items.map(line).join("\n")}\n`);

describe("an index", () => {
  test("is built once, beside the manifest, and says what the lines say", () => {
    const items = corpus(200);
    write(items);
    const built = openLineIndex(path, anyFormat(undefined));
    expect([...built.durations]).toEqual(items.map(({ duration }) => duration));
    const written = statSync(lineIndexPath(path)).mtimeMs;
    const kept = openLineIndex(path, anyFormat(undefined));
    expect(kept).toEqual(built);
    expect(statSync(lineIndexPath(path)).mtimeMs).toBe(written);
  });

  test("finds lines whatever they hold: blank and skipped ones, byte order marks, CRLF, no last line feed, other scripts", async () => {
    writeFileSync(
      path,
      '\ufeff{"audio_filepath": "a.wav", "duration": 1, "text": "ä"}\r\n\n{"audio_filepath": "b.wav", "duration": 2, "_skipme": true}\n  \n{"audio_filepath": "c.wav", "duration": 3.5, "text": "日本"}',
    );
    const source = indexedManifest(path);
    const cuts = await source.load([1, 0]);
    expect(cuts.map(({ audioPath, duration, text, origin }) => [audioPath.split("/").at(-1), duration, text, origin.split(":").at(-1)])).toEqual([
      ["c.wav", 3.5, "日本", "5"],
      ["a.wav", 1, "ä", "1"],
    ]);
    expect(source.where(1)).toBe(`${path}:5`);
  });

  test("is built again when the manifest is another, also one of the same size, and not when it is only copied or touched", () => {
    write(corpus(50, 1));
    const first = openLineIndex(path, anyFormat(undefined));
    utimesSync(path, 1, 1);
    expect(openLineIndex(path, anyFormat(undefined))).toEqual(first);
    appendFileSync(path, `${line({ id: "more", duration: 7, tokens: 0 })}\n`);
    expect(openLineIndex(path, anyFormat(undefined)).durations.length).toBe(51);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replace('"duration":7,', '"duration":8,'));
    expect(openLineIndex(path, anyFormat(undefined)).durations.at(-1)).toBe(8);
  });

  test("that is cut off or damaged is built again", () => {
    write(corpus(50));
    const built = openLineIndex(path, anyFormat(undefined));
    const bytes = readFileSync(lineIndexPath(path));
    for (const damage of [
      bytes.subarray(0, 10),
      bytes.subarray(0, bytes.length - 8),
      Buffer.from("nothing"),
      Buffer.concat([bytes.subarray(0, 16), Buffer.alloc(bytes.length - 16)]),
    ]) {
      writeFileSync(lineIndexPath(path), damage);
      expect(openLineIndex(path, anyFormat(undefined))).toEqual(built);
    }
  });

  test("holds blocks of any size: lines longer than what is read at a time", async () => {
    const items = corpus(5).map((item, i) => ({ ...item, id: "x".repeat(i * 700_000) + item.id }));
    write(items);
    expect((await indexedManifest(path).load([4, 2])).map(({ id }) => id)).toEqual([`${items[4]?.id}.wav`, `${items[2]?.id}.wav`]);
  });

  test("refuses what no sampler could use, with its line; or leaves it out and counts", () => {
    write(corpus(3));
    appendFileSync(path, '{"audio_filepath": "d.wav", "duration": -1}\n');
    expect(() => openLineIndex(path, anyFormat(undefined))).toThrow(/:4: the duration is -1, expected seconds above 0 \[MANIFEST_BAD_DURATION\]/);
    expect(existsSync(lineIndexPath(path))).toBe(false);
    const errors: string[] = [];
    expect(openLineIndex(path, anyFormat(undefined), { onError: ({ code }) => errors.push(code) }).durations.length).toBe(3);
    expect(errors).toEqual(["MANIFEST_BAD_DURATION"]);
    write(corpus(1));
    appendFileSync(path, '{"audio_filepath": "d.wav", "duration": NaN}\n');
    expect(() => openLineIndex(path, anyFormat(undefined))).toThrow(/:2: the duration is NaN/);
    write(corpus(1));
    appendFileSync(path, '{"audio_filepath": "d.wav"}\n{"duration": \n');
    expect(() => openLineIndex(path, anyFormat(undefined))).toThrow(/:2: no "duration" \[MANIFEST_NO_DURATION\]/);
    writeFileSync(path, '{"duration": \n');
    expect(() => openLineIndex(path, anyFormat(undefined))).toThrow(/JSONL_BAD_LINE/);
    writeFileSync(path, "[1]\n");
    expect(() => openLineIndex(path, anyFormat(undefined))).toThrow(/MANIFEST_NOT_AN_OBJECT/);
    writeFileSync(path, gzipSync('{"duration": 1}\n'));
    expect(() => openLineIndex(path, anyFormat(undefined))).toThrow(/a gzip file cannot be indexed/);
    expect(() => openLineIndex(join(folder, "none.jsonl"), anyFormat(undefined))).toThrow(/FILE_MISSING/);
  });

  test("a manifest that is replaced while it is in use is an error at its line, not another utterance", async () => {
    write(corpus(20, 1));
    const source = indexedManifest(path);
    const other = join(folder, "other.jsonl");
    writeFileSync(other, readFileSync(path, "utf8").replaceAll('"duration":', '"durations":'));
    renameSync(other, path);
    await expect(source.load([3])).rejects.toThrow(/:4: the line is not what it was when the manifest was indexed \[FILE_CHANGED\]/);
  });

  test("token counts are kept under the tokenizer's name", () => {
    write(corpus(20));
    let counted = 0;
    const tokens = { key: "letters", count: (value: Record<string, unknown>) => String(value["text"]).length + 0 * counted++ };
    const first = openLineIndex(path, anyFormat(tokens));
    expect(first.tokens?.[3]).toBe("the text of utt-3 …".length);
    expect(openLineIndex(path, anyFormat(tokens))).toEqual(first);
    expect(counted).toBe(20);
    expect(openLineIndex(path, anyFormat(undefined)).tokens).toBeUndefined();
  });

  test("what is kept is what was built, whatever the lines hold; packed manifests give the same lines", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.record({ duration: fc.double({ min: 0.01, max: 30, noNaN: true }), text: fc.string({ unit: "grapheme" }) }).map((value) => JSON.stringify(value)),
            fc.record({ duration: fc.constantFrom(-1, 0, "3", null), text: fc.string() }).map((value) => JSON.stringify(value)),
            fc.constantFrom("", "  ", "{", '{"duration": 2, "_skipme": 1}', "[1]", '{"duration": 1.5, "validation_status": "bad"}'),
          ),
          { minLength: 1, maxLength: 200 },
        ),
        fc.constantFrom("\n", "\r\n"),
        async (texts, feed) => {
          writeFileSync(path, texts.join(feed));
          rmSync(lineIndexPath(path), { force: true });
          const open = () => {
            const errors: string[] = [];
            const index = openLineIndex(path, anyFormat(undefined), { onError: (error) => errors.push(error.message) });
            return { errors, index: { ...index, errors: index.errors.map(({ message }) => message) } };
          };
          const built = open();
          expect(existsSync(lineIndexPath(path))).toBe(true);
          expect(open()).toEqual(built);
          writeFileSync(`${path}.gz`, gzipSync(readFileSync(path)));
          const packed = await openAnyLineIndex(`${path}.gz`, anyFormat(undefined), { onError: () => {} });
          const rows = Array.from({ length: packed.durations.length }, (_, i) => packed.durations.length - 1 - i);
          const values = async (index: typeof packed) => (await new IndexedLines([index], anyFormat(undefined)).read(rows)).map(({ value, line }) => [value, line]);
          expect(await values(packed)).toEqual(await values(built.index as unknown as typeof packed));
          expect(packed.digest).toBe(built.index.digest);
        },
      ),
      { numRuns: 100 },
    ));

  test("very many bad lines are not kept", () => {
    writeFileSync(path, `${'{"duration": 0}\n'.repeat(1001)}{"duration": 1}\n`);
    let errors = 0;
    for (let start = 0; start < 2; start++) openLineIndex(path, anyFormat(undefined), { onError: () => errors++ });
    expect(errors).toBe(2002);
    expect(existsSync(lineIndexPath(path))).toBe(false);
  });
});
