import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { createSampler, type ItemSource, indexedManifest, lazyManifest, type SamplerOptions } from "../../../src/data/sampling/index.ts";
import { scanDuration } from "../../../src/data/sampling/scanDuration.ts";
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

  test("the lines of one rank are parsed and loaded on that rank alone", async () => {
    write(corpus(300));
    for (const make of [indexedManifest<{ id: string }>, lazyManifest<{ id: string }>]) {
      const seen: string[] = [];
      let parsed = 0;
      for (let rank = 0; rank < 3; rank++) {
        const source = make(path, { parse: ({ line }) => ({ id: String(line + 0 * parsed++) }) });
        seen.push(...(await ids(source, { ...options, rank, worldSize: 3 })).flat());
      }
      expect(new Set(seen).size).toBe(300);
      expect([seen.length, parsed]).toEqual([300, 300]);
    }
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
