import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { datasetSpecs, expandShards } from "../../src/data/shards.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-shards-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("expandShards", () => {
  test("lists and lists of lists expand in order", () => {
    expect(expandShards(["a_{0..1}.tar", ["b.tar", "c_OP_1..2_CL_.tar"]])).toEqual(["a_0.tar", "a_1.tar", "b.tar", "c1.tar", "c2.tar"]);
  });

  test("scatter gives floor blocks and says what it leaves; replicate gives all; workers stride", () => {
    const warnings: string[] = [];
    const onWarning = (message: string) => warnings.push(message);
    expect(expandShards("{0..9}", { worldSize: 4, rank: 1, onWarning })).toEqual(["2", "3"]);
    expect(warnings).toEqual(["10 shards do not divide by 4 ranks: 2 shards (from 8) are never read under the strategy scatter"]);
    expect(expandShards("{0..9}", { worldSize: 4, rank: 3, strategy: "replicate" })).toHaveLength(10);
    expect(expandShards("{0..9}", { worldSize: 2, rank: 1, numWorkers: 2, worker: 1 })).toEqual(["6", "8"]);
    expect(expandShards("{0..1}", { worldSize: 4, rank: 0 })).toEqual([]);
    warnings.length = 0;
    expandShards("{0..1}", { numWorkers: 3, onWarning });
    expect(warnings).toEqual(["rank 0 has 2 shards for 3 workers: 1 workers have nothing to read"]);
  });

  test("over ranks and workers every shard is read once, but for the tail that scatter leaves", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 5 }), (shards, worldSize, numWorkers) => {
        const all = Array.from({ length: worldSize * numWorkers }, (_, i) =>
          expandShards(`{1..${shards}}`, { worldSize, rank: Math.floor(i / numWorkers), numWorkers, worker: i % numWorkers }),
        ).flat();
        const expected = Math.floor(shards / worldSize) * worldSize;
        expect(all.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: expected }, (_, i) => i + 1));
      }),
    );
  });

  test("a folder whose name would be expanded is an error that says how to write it", () => {
    const odd = join(folder, "[2020,2021]");
    mkdirSync(odd);
    writeFileSync(join(odd, "audio_0.tar"), "");
    expect(() => expandShards(join(odd, "audio_{0..0}.tar"))).toThrow(
      /there is a folder .*\[2020,2021\].*\[SHARDS_BAD_PATTERN\]\. To mean the folder, write .*\\\[2020\\,2021\\\]\/audio_\{0\.\.0\}\.tar/,
    );
    expect(expandShards(join(folder, "\\[2020\\,2021\\]", "audio_{0..0}.tar"))).toEqual([join(odd, "audio_0.tar")]);
    expect(expandShards(join(folder, "(v1)/audio_{0..1}.tar"))).toEqual([join(folder, "(v1)/audio_0.tar"), join(folder, "(v1)/audio_1.tar")]);
  });

  test("ranks, workers and strategies that cannot be are refused", () => {
    for (const options of [{ rank: 1 }, { worldSize: 0 }, { worker: -1 }, { strategy: "block" as "scatter" }]) expect(() => expandShards("a", options)).toThrow(/CONFIG_BAD_VALUE/);
  });
});

test("datasetSpecs: a text with commas, a flat list and a list of lists; mixed lists are refused", () => {
  expect(datasetSpecs("a_{0,1}.json,b.json", "manifest_filepath")).toEqual([["a_{0,1}.json", "b.json"]]);
  expect(datasetSpecs(["a", "b"], "x")).toEqual([["a", "b"]]);
  expect(datasetSpecs([["a"], ["b", "c"]], "x")).toEqual([["a"], ["b", "c"]]);
  for (const spec of [[], ["a", ["b"]], [[]], [[["a"]]]]) expect(() => datasetSpecs(spec as string[], "manifest_filepath")).toThrow(/manifest_filepath is .*CONFIG_BAD_VALUE/);
});
