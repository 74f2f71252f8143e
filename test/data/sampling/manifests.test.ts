import { appendFileSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { createSampler, type ItemSource, indexedManifest, lazyManifest, manifestIndexPath, openManifestIndex, type SamplerOptions } from "../../../src/data/sampling/index.ts";
import { scanDuration } from "../../../src/data/sampling/lazyManifest.ts";
import { corpus, drain, type Item, throughJson } from "./corpus.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-index-"));
afterAll(() => rmSync(folder, { recursive: true }));
let path = "";
let files = 0;
beforeEach(() => {
  path = join(folder, `${files++}.jsonl`);
});

const line = ({ id, duration }: Item): string => JSON.stringify({ audio_filepath: `${id}.wav`, duration, text: `the text of ${id} …` });
const write = (items: readonly Item[]): void => writeFileSync(path, `${items.map(line).join("\n")}\n`);

async function ids(source: ItemSource<{ id: string }>, options: SamplerOptions, epoch = 0): Promise<string[][]> {
  const batches: string[][] = [];
  for await (const batch of await (await createSampler(source, options)).epoch(epoch)) batches.push((await batch.load()).map(({ id }) => id));
  return batches;
}

const options: SamplerOptions = { maxDuration: 100, numBuckets: 6, shuffle: true, bufferSize: 300 };

describe("an index", () => {
  test("is built once, beside the manifest, and says what the lines say", () => {
    const items = corpus(200);
    write(items);
    const built = openManifestIndex(path);
    expect([...built.durations]).toEqual(items.map(({ duration }) => duration));
    const written = statSync(manifestIndexPath(path)).mtimeMs;
    const kept = openManifestIndex(path);
    expect(kept).toEqual(built);
    expect(statSync(manifestIndexPath(path)).mtimeMs).toBe(written);
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
    const first = openManifestIndex(path);
    utimesSync(path, 1, 1);
    expect(openManifestIndex(path)).toEqual(first);
    appendFileSync(path, `${line({ id: "more", duration: 7, tokens: 0 })}\n`);
    expect(openManifestIndex(path).durations.length).toBe(51);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replace('"duration":7,', '"duration":8,'));
    expect(openManifestIndex(path).durations.at(-1)).toBe(8);
  });

  test("that is cut off or damaged is built again", () => {
    write(corpus(50));
    const built = openManifestIndex(path);
    const bytes = readFileSync(manifestIndexPath(path));
    for (const damage of [
      bytes.subarray(0, 10),
      bytes.subarray(0, bytes.length - 8),
      Buffer.from("nothing"),
      Buffer.concat([bytes.subarray(0, 16), Buffer.alloc(bytes.length - 16)]),
    ]) {
      writeFileSync(manifestIndexPath(path), damage);
      expect(openManifestIndex(path)).toEqual(built);
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
    expect(() => openManifestIndex(path)).toThrow(/:4: the duration is -1, expected seconds above 0 \[MANIFEST_BAD_DURATION\]/);
    expect(existsSync(manifestIndexPath(path))).toBe(false);
    const errors: string[] = [];
    expect(openManifestIndex(path, { onError: ({ code }) => errors.push(code) }).durations.length).toBe(3);
    expect(errors).toEqual(["MANIFEST_BAD_DURATION"]);
    write(corpus(1));
    appendFileSync(path, '{"audio_filepath": "d.wav", "duration": NaN}\n');
    expect(() => openManifestIndex(path)).toThrow(/:2: the duration is NaN/);
    write(corpus(1));
    appendFileSync(path, '{"audio_filepath": "d.wav"}\n{"duration": \n');
    expect(() => openManifestIndex(path)).toThrow(/:2: no "duration" \[MANIFEST_NO_DURATION\]/);
    writeFileSync(path, '{"duration": \n');
    expect(() => openManifestIndex(path)).toThrow(/JSONL_BAD_LINE/);
    writeFileSync(path, "[1]\n");
    expect(() => openManifestIndex(path)).toThrow(/MANIFEST_NOT_AN_OBJECT/);
    writeFileSync(path, gzipSync('{"duration": 1}\n'));
    expect(() => openManifestIndex(path)).toThrow(/a gzip file cannot be indexed/);
    expect(() => openManifestIndex(join(folder, "none.jsonl"))).toThrow(/FILE_MISSING/);
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
    const first = openManifestIndex(path, { tokens });
    expect(first.tokens?.[3]).toBe("the text of utt-3 …".length);
    expect(openManifestIndex(path, { tokens })).toEqual(first);
    expect(counted).toBe(20);
    expect(openManifestIndex(path).tokens).toBeUndefined();
  });
});

describe("manifests as sources", () => {
  test("indexed, read in order, zipped and as several files: every utterance once, as a cut", async () => {
    const items = corpus(400);
    write(items);
    const zipped = `${path}.gz`;
    writeFileSync(zipped, gzipSync(readFileSync(path)));
    const halves = [join(folder, "half-a.jsonl"), join(folder, "half-b.jsonl")];
    halves.forEach((half, i) =>
      writeFileSync(
        half,
        `${items
          .slice(200 * i, 200 * (i + 1))
          .map(line)
          .join("\n")}\n`,
      ),
    );
    const expected = items.map(({ id }) => `${id}.wav`).sort();
    for (const source of [indexedManifest(path), lazyManifest(path), lazyManifest(zipped), indexedManifest(halves), lazyManifest(halves)])
      expect((await ids(source, options)).flat().sort()).toEqual(expected);
  });

  test("lines that ask to be left out are", async () => {
    writeFileSync(
      path,
      `${[1, 2, 3, 4].map((duration) => JSON.stringify({ audio_filepath: `${duration}.wav`, duration, ...(duration === 3 ? { _skipme: true } : {}) })).join("\n")}\n`,
    );
    for (const source of [indexedManifest(path), lazyManifest(path)]) expect((await ids(source, { maxCuts: 10, kind: "dynamic" })).flat()).toEqual(["1.wav", "2.wav", "4.wav"]);
  });

  test("lines of long ago can still be loaded", async () => {
    const padding = "x".repeat(3000);
    const line = (i: number): string => JSON.stringify({ audio_filepath: `${i}.wav`, duration: 1 + (i % 20), text: padding });
    writeFileSync(path, `${Array.from({ length: 13_000 }, (_, i) => line(i)).join("\n")}\n`);
    const source = lazyManifest(path);
    const stream = await source.open({ epoch: 0, seed: 0, shuffle: false });
    const kept: number[] = [];
    for (let block = await stream.read(1000); block; block = await stream.read(1000)) {
      kept.push(block.refs[0] as number);
      source.release(block.refs.subarray(1, block.count));
    }
    expect(kept.length).toBeGreaterThan(140);
    expect((await source.load(kept)).map(({ id }) => id)).toEqual(kept.map((ref) => `${ref}.wav`));
  });

  test("the lines of one rank are loaded on that rank alone", async () => {
    write(corpus(300));
    const seen: string[] = [];
    for (let rank = 0; rank < 3; rank++) {
      const source = lazyManifest(path, { parse: ({ line }) => ({ id: String(line) }) });
      seen.push(...(await ids(source, { ...options, rank, worldSize: 3 })).flat());
    }
    expect(new Set(seen).size).toBe(300);
    expect(seen.length).toBe(300);
  });

  test("go on after a restart, from any step", () =>
    fc.assert(
      fc.asyncProperty(
        fc.nat(),
        fc.constantFrom("serac" as const, "lhotse" as const),
        fc.constantFrom("bucketing" as const, "dynamic" as const, "static" as const),
        fc.integer({ min: 1, max: 3 }),
        async (point, mode, kind, worldSize) => {
          write(corpus(150, 3));
          for (const make of [() => indexedManifest(path), () => lazyManifest(path)]) {
            const all = { ...options, bufferSize: 40, kind, mode, worldSize, rank: point % worldSize };
            const whole = await ids(make(), all, 2);
            const stream = await (await createSampler(make(), all)).epoch(2);
            const stop = point % (whole.length + 1);
            for (let i = 0; i < stop; i++) await (await stream.next())?.load();
            const state = throughJson(stream.state());
            await stream.close();
            const rest = await drain(await (await createSampler(make(), all)).resume(state));
            const source = rest.length > 0 ? await Promise.all(rest.map((batch) => batch.load())) : [];
            expect(source.map((cuts) => cuts.map(({ id }) => id))).toEqual(whole.slice(stop));
          }
        },
      ),
      { numRuns: 30 },
    ));

  test("a manifest that was edited since the state was saved is told, before anything is trained on", async () => {
    write(corpus(100));
    for (const make of [() => indexedManifest(path), () => lazyManifest(path)]) {
      const fixed = { ...options, durationBins: [5, 10] };
      const stream = await (await createSampler(make(), fixed)).epoch(0);
      await stream.next();
      const state = throughJson(stream.state());
      const text = readFileSync(path, "utf8");
      writeFileSync(path, text.replace("the text of utt-50", "the word of utt-50"));
      await expect((await createSampler(make(), fixed)).resume(state)).rejects.toThrow(
        /the data is not what it was when the state was saved, in step 1 of epoch 0 \[SAMPLER_SOURCE_CHANGED\]/,
      );
      writeFileSync(path, text);
      expect((await drain(await (await createSampler(make(), fixed)).resume(state))).length).toBeGreaterThan(1);
    }
  });

  test("an empty manifest", async () => {
    writeFileSync(path, "\n");
    await expect(createSampler(indexedManifest(path), options)).rejects.toThrow(/there is no utterance \[SAMPLER_EMPTY\]/);
    await expect(createSampler(lazyManifest(path), options)).rejects.toThrow(/SAMPLER_EMPTY/);
  });
});

describe("the scan for a duration", () => {
  test("finds what JSON.parse finds, or says that the line must be parsed", () =>
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom("duration", "text", "a\\b", '"duration":', "x"), fc.jsonValue({ maxDepth: 2 })), fc.nat(2), (object, spaces) => {
        const text = JSON.stringify(object, undefined, "").replaceAll('":', `":${" ".repeat(spaces)}`);
        const found = scanDuration(Buffer.from(text));
        const parsed = (JSON.parse(text) as { duration?: unknown }).duration;
        if (Number.isNaN(found)) expect(typeof parsed === "number" && parsed >= 0 && /^[\d.]+$/.test(JSON.stringify(parsed))).toBe(false);
        else expect(found).toBe(parsed);
      }),
      { numRuns: 2000 },
    ));

  test("is not misled by nested keys, values and escapes", () => {
    const scan = (value: unknown) => scanDuration(Buffer.from(JSON.stringify(value)));
    expect(scan({ recording: { duration: 9 }, supervisions: [{ duration: 8 }], duration: 2.5 })).toBe(2.5);
    expect(scan({ text: '"duration": 7', note: "duration", duration: 3 })).toBe(3);
    expect(scan({ text: "a\\", duration: 3 })).toBe(3);
    expect(scan({ text: "no such key" })).toBeNaN();
    expect(scan({ duration: "3" })).toBeNaN();
    expect(scan({ duration: -3 })).toBeNaN();
    expect(scan({ duration: 3, speed: 2 })).toBe(3);
    expect(scanDuration(Buffer.from('{"duration": 1.5}\r'))).toBe(1.5);
    expect(scanDuration(Buffer.from('{"duration": NaN}'))).toBeNaN();
    expect(scanDuration(Buffer.from(""))).toBeNaN();
  });
});
