import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { configNode, lhotseKeys, overrideConfig, parseConfig, plainConfig, readConfig, readLhotseConfig, samplerOptionsOf } from "../../../src/data/sources/index.ts";
import { lhotseOptions, meaningless, notThere, snakeCase } from "../../../src/data/sources/lhotseConfig.ts";
import { packageRoot } from "../../../src/util/paths.ts";

/** OmegaConf's way to name another value. */
const ref = (name: string): string => `\${${name}}`;
const read = (block: Record<string, unknown>) => readLhotseConfig(configNode({ manifest_filepath: "a", ...block }, "api"), () => {});

describe("LhotseDataLoadingConfig", () => {
  test("COMPATIBILITY.md has a row for every key, and says of each what is true", () => {
    const section = readFileSync(join(packageRoot, "COMPATIBILITY.md"), "utf8").split("\n## NeMo: keys of train_ds and validation_ds, with Lhotse\n")[1]?.split("\n## ")[0] ?? "";
    const rows = new Map(Array.from(section.matchAll(/^\| `lhotse (\w+)` \| (\w+) \|/gm), ([, key, state]) => [key as string, state as string]));
    expect([...rows.keys()].sort()).toEqual([...lhotseKeys].sort());
    for (const name of Object.keys(lhotseOptions)) expect(["works", "differs"], name).toContain(rows.get(snakeCase(name)));
    for (const key of Object.keys(meaningless)) expect([key, rows.get(key)]).toEqual([key, "differs"]);
    for (const key of Object.keys(notThere)) expect([key, rows.get(key)]).toEqual([key, "missing"]);
  });

  test("defaults are NeMo's", () => {
    expect(read({}).config).toMatchObject({
      numBuckets: 30,
      numCutsForBinsEstimate: 10000,
      bucketBufferSize: 10000,
      shuffleBufferSize: 10000,
      useBucketing: false,
      dropLast: false,
      minDuration: -1,
      maxDuration: Number.POSITIVE_INFINITY,
      sampleRate: 16000,
      shuffle: false,
      textField: "text",
      langField: "lang",
      keep: "pass",
    });
  });

  test("every default of NeMo's may be written out, and says nothing", () => {
    const warnings: string[] = [];
    const block = Object.fromEntries(
      Object.entries({ ...meaningless, ...notThere }).map(([key, { default: initial }]) => [key, initial === Number.POSITIVE_INFINITY ? "inf" : initial]),
    );
    readLhotseConfig(configNode({ manifest_filepath: "a", ...block }, "api"), (line) => warnings.push(line));
    expect(warnings).toEqual([]);
    for (const [key, { default: initial }] of Object.entries(notThere)) {
      const other = typeof initial === "number" ? 7 : typeof initial === "boolean" ? 1 : "other";
      expect(() => read({ [key]: other }), key).toThrow(/serac does not have/);
    }
  });

  test("bucketing is on where bins or batch sizes are given", () => {
    expect(read({ bucket_duration_bins: [1, 2] }).config.useBucketing).toBe(true);
    expect(read({ batch_duration: 100 }).config.useBucketing).toBe(false);
  });

  test("max_duration without the size of a batch is explained", () => {
    expect(() => samplerOptionsOf(read({ max_duration: 600 }).config, { at: "train.yaml:3" })).toThrow(
      /^train\.yaml:3: .*max_duration is the longest utterance, not the seconds of a batch as in icefall/,
    );
    expect(() => samplerOptionsOf(read({}).config)).toThrow(/nothing says how large a batch is/);
  });

  test("seeds that would make runs unrepeatable are refused; those of shards are the run's", () => {
    expect(() => read({ seed: "trng" })).toThrow(/Runs are repeatable here/);
    expect(read({ shard_seed: "trng" }).config.shardSeed).toBe("trng");
    expect(() => read({ shard_seed: "random" })).toThrow(/expected a whole number, "trng" or "randomized"/);
  });

  test("keys become options of the sampler", () => {
    const { config } = read({
      batch_duration: 600,
      quadratic_duration: 20,
      use_bucketing: true,
      num_buckets: 4,
      max_duration: 20,
      min_duration: 2,
      shuffle: true,
      seed: 7,
      drop_last: true,
    });
    expect(samplerOptionsOf(config, { rank: 1, worldSize: 2 })).toMatchObject({
      kind: "bucketing",
      maxDuration: 600,
      quadraticDuration: 20,
      durationBins: [6.5, 11, 15.5],
      bufferSize: 20000,
      shuffle: true,
      dropLast: true,
      seed: 7,
      rank: 1,
      worldSize: 2,
    });
    expect(samplerOptionsOf(read({ batch_size: 8 }).config)).toMatchObject({ kind: "dynamic", maxCuts: 8, durationBins: undefined });
  });
});

describe("configurations", () => {
  test("values know their lines; anchors, merges and aliases are followed", () => {
    const root = parseConfig("base: &base\n  a: 1\n  b: no\nblock:\n  <<: *base\n  c: [x, *base]\n", "c.yaml");
    expect(plainConfig(root)).toEqual({ base: { a: 1, b: "no" }, block: { a: 1, b: "no", c: ["x", { a: 1, b: "no" }] } });
    expect((root.value as Map<string, { at: string }>).get("block")?.at).toBe("c.yaml:4");
  });

  test("overrides are typed as YAML, reach into lists, add and remove", () => {
    const root = parseConfig("train_ds:\n  input_cfg:\n  - {type: nemo, weight: 1}\n  shuffle: true\n", "c.yaml");
    const changed = overrideConfig(root, [
      "train_ds.batch_duration=300",
      "train_ds.input_cfg.0.weight=0.5",
      "train_ds.input_cfg[0].tags.lang=de",
      "+train_ds.bins=[1, 2]",
      "~train_ds.shuffle",
    ]);
    expect(plainConfig(changed)).toEqual({ train_ds: { input_cfg: [{ type: "nemo", weight: 0.5, tags: { lang: "de" } }], batch_duration: 300, bins: [1, 2] } });
    expect(plainConfig(root)).toEqual({ train_ds: { input_cfg: [{ type: "nemo", weight: 1 }], shuffle: true } });
    expect(() => overrideConfig(root, ["train_ds.shuffle.x=1"])).toThrow(/train_ds\.shuffle has no "x"/);
    expect(() => overrideConfig(root, ["nonsense"])).toThrow(/is no override/);
    expect(() => readLhotseConfig(overrideConfig(configNode({ manifest_filepath: "a" }, "api"), ["batch_sise=3"]), () => {})).toThrow(
      /^command line, batch_sise=3: unknown key batch_sise.*Did you mean batch_size/,
    );
  });

  test("references are filled in as OmegaConf does", () => {
    const folder = mkdtempSync(join(tmpdir(), "serac-config-"));
    try {
      const file = join(folder, "c.yaml");
      writeFileSync(file, `root: /data\nrate: 16000\nblock:\n  sample_rate: ${ref("rate")}\n  path: ${ref("root")}/${ref("oc.env:SERAC_TEST_UNSET,part")}/a.json\n`);
      expect(plainConfig(readConfig(file))).toMatchObject({ block: { sample_rate: 16000, path: "/data/part/a.json" } });
      writeFileSync(file, `a: ${ref("b")}\nb: ${ref("a")}\n`);
      expect(() => readConfig(file)).toThrow(/leads back to itself/);
      writeFileSync(file, `a:\n  b: ${ref("nothing.there")}\n`);
      expect(() => readConfig(file)).toThrow(/c\.yaml:2: a\.b: there is nothing to put for \$\{nothing\.there\}/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
