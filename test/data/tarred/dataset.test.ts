import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TarredOptions, type TarredUtterance, tarredDataset } from "../../../src/data/tarred/index.ts";
import { levelOf, rate, type ShardSpec, simpleShards, tone, writeDataset } from "./corpus.ts";

let root: string;
let made = 0;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "serac-tarred-"));
});
afterAll(() => rmSync(root, { recursive: true }));
const fresh = (): string => join(root, `d${made++}`);

const silent = { onWarning: () => {} };
async function all(options: TarredOptions, epoch?: number): Promise<TarredUtterance[]> {
  const found: TarredUtterance[] = [];
  for await (const utterance of (await tarredDataset({ ...silent, ...options })).epoch(epoch)) found.push(utterance);
  return found;
}
const texts = (found: readonly TarredUtterance[]): string[] => found.map(({ cut }) => cut.text);
const levels = (found: readonly TarredUtterance[]): number[] => found.map(({ audio }) => levelOf(audio?.channels[0]));

describe("tarredDataset", () => {
  test("sharded and single manifests, ids from 0 and from 1, in order and at random, give every utterance once with its samples", async () => {
    for (const first of [0, 1, 12]) {
      const { tars, manifests, manifest } = writeDataset(fresh(), simpleShards([3, 2, 4], first), { first });
      for (const spec of [manifests, manifest])
        for (const access of ["sequential", "random"] as const) {
          const found = await all({ manifest: spec, tars, access });
          expect(texts(found)).toEqual(Array.from({ length: 9 }, (_, i) => `u${i}`));
          expect(levels(found)).toEqual(Array.from({ length: 9 }, (_, i) => i));
          expect(found[0]).toMatchObject({ member: "u0.wav", repeated: false, entry: { audio_filepath: "u0.wav", shard_id: first } });
        }
      expect(existsSync(`${tars.replace(/_OP_.*/, String(first))}.tar.idx`)).toBe(true);
    }
  });

  test("shard_id counted from 0 beside tars numbered from 1 is shifted, and said; without shard_id names decide", async () => {
    const warnings: string[] = [];
    const shifted = writeDataset(fresh(), simpleShards([2, 2], 0), { first: 1 });
    expect(texts(await all({ manifest: shifted.manifest, tars: shifted.tars, onWarning: (warning) => warnings.push(warning) }))).toEqual(["u0", "u1", "u2", "u3"]);
    expect(warnings).toEqual([expect.stringContaining("shard_id is 1 less than the number in the tars' names")]);
    const plain = simpleShards([2, 2]).map(({ members, lines }) => ({ members, lines: lines.map(({ shard_id, ...line }) => line as typeof line & { audio_filepath: string }) }));
    const without = writeDataset(fresh(), plain);
    expect(texts(await all({ manifest: without.manifest, tars: without.tars }))).toEqual(["u0", "u1", "u2", "u3"]);
  });

  test("-subN entries and offsets play their stretch of one stored file, whatever the order", async () => {
    const shard: ShardSpec = {
      members: [
        { name: "a.wav", data: tone(10, 0.5) },
        { name: "b.wav", data: tone(50, 0.3) },
        { name: "b-sub1.wav", data: tone(90, 0.1) },
      ],
      lines: [
        { audio_filepath: "b-sub1.wav", duration: 0.1, text: "its own member" },
        { audio_filepath: "a-sub2.wav", duration: 0.1, offset: 0.3, text: "a at 0.3" },
        { audio_filepath: "a.wav", duration: 0.2, offset: 0, text: "a at 0" },
        { audio_filepath: "a-sub1.wav", duration: 0.1, offset: 0.1, text: "a at 0.1" },
        { audio_filepath: "b-sub2.wav", duration: 0.1, offset: 0.2, text: "b at 0.2" },
        { audio_filepath: "b.wav", duration: 0.05, text: "b without offset" },
        { audio_filepath: "a-sub3.wav", duration: 0.4, offset: 0.1, text: "a to its end" },
      ],
    };
    const { tars, manifest } = writeDataset(fresh(), [shard]);
    const found = await all({ manifest, tars });
    expect(found.map(({ cut, audio }) => [cut.text, levelOf(audio?.channels[0]), (audio?.channels[0]?.length ?? 0) / rate])).toEqual([
      ["a at 0.3", 13, 0.1],
      ["a at 0", 10, 0.2],
      ["a at 0.1", 11, 0.1],
      ["a to its end", 11, 0.4],
      ["b at 0.2", 52, 0.1],
      ["b without offset", 50, 0.05], // 0.25 s longer than the entry: cut, as lhotse does
      ["its own member", 90, 0.1],
    ]);
  });

  test("names match exactly, then without suffix: members that were transcoded, in folders, and with ./ before them", async () => {
    const shard: ShardSpec = {
      members: [
        { name: "./x.wav", data: tone(1) },
        { name: "y.wav", data: tone(2) },
        { name: "y.flac", data: tone(3) },
        { name: "d/z.wav", data: tone(4) },
        { name: "dup.wav", data: tone(5) },
        { name: "dup.wav", data: tone(6) },
        { name: "e/only.wav", data: tone(7) },
        { name: "e/two.wav", data: tone(8) },
        { name: "f/two.wav", data: tone(9) },
      ],
      lines: [
        { audio_filepath: "x.wav", duration: 0.1, text: "x" },
        { audio_filepath: "y.flac", duration: 0.1, text: "y.flac" },
        { audio_filepath: "y.opus", duration: 0.1, text: "y.opus" },
        { audio_filepath: "d/z.mp3", duration: 0.1, text: "z" },
        { audio_filepath: "/other/z.mp3", duration: 0.1, text: "another z, whose audio is not there" },
        { audio_filepath: "/other/only.mp3", duration: 0.1, text: "without folders" },
        { audio_filepath: "/other/two.mp3", duration: 0.1, text: "one of two, nobody knows which" },
        { audio_filepath: "dup.wav", duration: 0.1, text: "dup first" },
        { audio_filepath: "dup.wav", duration: 0.1, text: "dup second" },
      ],
    };
    const { tars, manifest } = writeDataset(fresh(), [shard]);
    const dataset = await tarredDataset({ manifest, tars, onWarning: () => {} });
    expect(dataset.report.findings.get("entriesWithoutMember")?.examples.map((example) => Number(example.split(":").at(-1)))).toEqual([5, 7]);
    expect((await all({ manifest, tars })).map(({ cut, audio }) => [cut.text, levelOf(audio?.channels[0])])).toEqual([
      ["x", 1],
      ["y.opus", 2],
      ["y.flac", 3],
      ["z", 4],
      ["dup first", 5],
      ["dup second", 6],
      ["without folders", 7],
    ]);
  });

  test("an entry whose audio is in no tar does not get that of another with the same name in another folder", async () => {
    const shard = (id: number, members: string[], lines: string[]): ShardSpec => ({
      members: members.map((name, i) => ({ name, data: tone(10 * id + i + 1) })),
      lines: lines.map((name) => ({ audio_filepath: name, duration: 0.1, text: name, shard_id: id })),
    });
    const { tars, manifest } = writeDataset(fresh(), [shard(0, ["b/1.wav"], ["a/1.wav", "b/1.wav"]), shard(1, ["c/1.wav"], ["c/1.wav"])]);
    const dataset = await tarredDataset({ manifest, tars, onWarning: () => {} });
    expect(dataset.length).toBe(2);
    expect(dataset.report.count("entriesWithoutMember")).toBe(1);
    expect((await all({ manifest, tars })).map(({ cut, audio }) => [cut.text, levelOf(audio?.channels[0])])).toEqual([
      ["b/1.wav", 1],
      ["c/1.wav", 11],
    ]);
  });

  test("PAX, GNU, ustar, gzip, bzip2 and xz read alike; packed tars are not read at random", async () => {
    const shards = simpleShards([3, 2]);
    for (const format of ["pax", "gnu", "ustar"] as const) {
      const { tars, manifests } = writeDataset(fresh(), shards, { format });
      expect(levels(await all({ manifest: manifests, tars }))).toEqual([0, 1, 2, 3, 4]);
    }
    const program = (name: string) => (bytes: Buffer) => spawnSync(name, ["-c"], { input: bytes }).stdout;
    for (const [suffix, pack] of [
      [".gz", gzipSync],
      [".bz2", program("bzip2")],
      [".xz", program("xz")],
    ] as const) {
      const { tars, manifests } = writeDataset(fresh(), shards, { suffix, pack });
      const dataset = await tarredDataset({ manifest: manifests, tars, worldSize: 2, rank: 1, ...silent });
      const found: TarredUtterance[] = [];
      for await (const utterance of dataset) found.push(utterance);
      expect(levels(found)).toEqual([2, 3, 4]);
      await expect(tarredDataset({ manifest: manifests, tars, access: "random", ...silent })).rejects.toMatchObject({ code: "TAR_COMPRESSED" });
    }
  });

  test("a hard link plays the file that it names", async () => {
    const { tars, manifest } = writeDataset(fresh(), [
      {
        members: [
          { name: "a.wav", data: tone(7) },
          { name: "b.wav", data: "", type: "1", linkName: "a.wav" },
        ],
        lines: [{ audio_filepath: "b.wav", duration: 0.1, text: "b" }],
      },
    ]);
    expect(levels(await all({ manifest, tars }))).toEqual([7]);
  });

  test("entries without a member and members without an entry are counted and said; the length is what is yielded", async () => {
    const shards = simpleShards([4, 3]);
    shards[0]?.members.splice(1, 1);
    shards[1]?.lines.splice(0, 1);
    shards[1]?.members.push({ name: "u4.wav", data: tone(99) });
    const { tars, manifests, manifest } = writeDataset(fresh(), shards);
    for (const spec of [manifests, manifest]) {
      const warnings: string[] = [];
      const dataset = await tarredDataset({ manifest: spec, tars, onWarning: (warning) => warnings.push(warning) });
      expect((["entriesWithoutMember", "membersWithoutEntry", "duplicateMembers"] as const).map((reason) => dataset.report.count(reason))).toEqual([1, 1, 1]);
      expect(warnings.join("\n")).toMatch(/1 entries whose audio is in no tar \(first: .*manifest.*\.json:2\)/);
      expect(dataset.length).toBe(5);
      const found: string[] = [];
      for await (const { cut } of dataset) found.push(cut.text);
      expect(found).toEqual(["u0", "u2", "u3", "u5", "u6"]);
    }
  });

  test("filters are inclusive, counted by reason, and not in the length", async () => {
    const shards = simpleShards([4]);
    [0.05, 0.1, 0.2, 0.3].forEach((duration, i) => Object.assign(shards[0]?.lines[i] ?? {}, { duration }));
    const { tars, manifest } = writeDataset(fresh(), shards);
    const dataset = await tarredDataset({ manifest, tars, minDuration: 0.1, maxDuration: 0.2, ...silent });
    expect(dataset.length).toBe(2);
    expect(dataset.report.lines()).toEqual([expect.stringMatching(/^1 entries shorter than minDuration/), expect.stringMatching(/^1 entries longer than maxDuration/)]);
    expect(texts(await all({ manifest, tars, filter: ({ text }) => text === "u3" }))).toEqual(["u3"]);
    expect(texts(await all({ manifest, tars, maxUtts: 2 }))).toEqual(["u0", "u1"]);
    await expect(all({ manifest, tars, minDuration: 5 })).rejects.toMatchObject({ code: "SHARDS_EMPTY", message: expect.stringContaining("4 entries shorter than minDuration") });
  });

  test("damaged members follow the policy, and the rest of the shard is read", async () => {
    const shards = simpleShards([5]);
    Object.assign(shards[0]?.members[1] ?? {}, { data: "no audio at all" });
    const { tars, manifest } = writeDataset(fresh(), shards);
    await expect(all({ manifest, tars })).rejects.toMatchObject({ at: expect.stringMatching(/audio_0\.tar:u1\.wav$/) });
    const warnings: string[] = [];
    const dataset = await tarredDataset({ manifest, tars, onDamaged: "warn", strategy: "scatter", onWarning: (warning) => warnings.push(warning) });
    for (let epoch = 0; epoch < 2; epoch++) {
      const found: string[] = [];
      for await (const { cut } of dataset.epoch(epoch)) found.push(cut.text);
      expect(found).toEqual(["u0", "u2", "u3", "u4"]);
      expect(dataset.length).toBe(4);
    }
    expect(warnings).toEqual([expect.stringContaining("u1.wav")]);
    expect(dataset.report.count("damaged")).toBe(1);

    // Under even a damaged utterance is made up for, so that no rank has fewer.
    const even = await tarredDataset({ manifest, tars, onDamaged: "skip", ...silent });
    const found: TarredUtterance[] = [];
    for await (const utterance of even) found.push(utterance);
    expect(found).toHaveLength(even.length);
    expect(found.filter(({ repeated }) => repeated)).toHaveLength(1);
    expect(even.report.count("repeated")).toBe(1);
  });

  test("damaged headers and truncated shards: what is whole is read, the rest is counted", async () => {
    const folder = fresh();
    const { tars, manifests } = writeDataset(folder, simpleShards([4, 4]));
    const broken = join(folder, "audio_0.tar");
    const bytes = readFileSync(broken);
    bytes[bytes.indexOf("u1.wav") + 130] = 0x39; // in the size of the second member
    writeFileSync(broken, bytes);
    truncateSync(join(folder, "audio_1.tar"), 3 * 4096 - 1000);
    await expect(all({ manifest: manifests, tars })).rejects.toMatchObject({ code: "TAR_BAD" });
    const dataset = await tarredDataset({ manifest: manifests, tars, onDamaged: "skip", ...silent });
    expect(dataset.report.count("damaged")).toBe(2);
    expect(dataset.report.count("entriesWithoutMember")).toBeGreaterThanOrEqual(2);
    const found: string[] = [];
    for await (const { cut } of dataset) found.push(cut.text);
    expect(found.slice(0, 3)).toEqual(["u0", "u2", "u3"]);
    expect(found).toHaveLength(dataset.length);
  });

  test("a packed shard that is cut off in its middle: what came before is read under skip", async () => {
    const folder = fresh();
    const noise = Buffer.from(Array.from({ length: 4 }, (_, i) => (i * 2654435761) % 256));
    const shards = simpleShards([6]);
    for (const member of shards[0]?.members ?? []) member.data = tone(1, 0.1 + (noise[0] as number) / 1000);
    const { tars, manifests } = writeDataset(folder, shards, { suffix: ".gz", pack: (bytes) => gzipSync(bytes, { level: 0 }) });
    truncateSync(join(folder, "audio_0.tar.gz"), 12_000);
    await expect(tarredDataset({ manifest: manifests, tars, ...silent })).rejects.toMatchObject({ code: "GZIP_BAD" });
    const dataset = await tarredDataset({ manifest: manifests, tars, onDamaged: "skip", ...silent });
    expect(dataset.length).toBeGreaterThan(0);
    expect(dataset.length).toBeLessThan(6);
    const found: string[] = [];
    for await (const { cut } of dataset) found.push(cut.text);
    expect(found).toHaveLength(dataset.length);
  });

  test("shards that only one side has are refused with their numbers", async () => {
    const folder = fresh();
    const { tars, manifests } = writeDataset(folder, simpleShards([1, 1, 1]));
    await expect(tarredDataset({ manifest: manifests.replace("0..2", "0..1"), tars, ...silent })).rejects.toMatchObject({
      code: "SHARDS_DIFFER",
      message: expect.stringContaining("tars 2 have no manifest"),
    });
    await expect(tarredDataset({ manifest: manifests, tars: tars.replace("0..2", "1..2"), ...silent })).rejects.toThrow(/manifests 0 have no tar/);
    await expect(tarredDataset({ manifest: manifests, tars: "s3://bucket/a_{0..2}.tar", ...silent })).rejects.toThrow(/only files can be read/);
  });

  test("lists of datasets pair one by one, whatever numbers they repeat; manifests without numbers are for all tars", async () => {
    const [a, b] = [2, 3].map((count) => writeDataset(fresh(), simpleShards([count, 1])));
    for (const [one, other] of [
      ["manifests", "manifests"],
      ["manifest", "manifest"],
      ["manifest", "manifests"],
    ] as const)
      expect(texts(await all({ manifest: [a?.[one] as string, b?.[other] as string], tars: [a?.tars as string, b?.tars as string] }))).toEqual([
        "u0",
        "u1",
        "u2",
        "u0",
        "u1",
        "u2",
        "u3",
      ]);
    const { manifest, tars } = writeDataset(fresh(), simpleShards([1, 1, 1]));
    const lines = readFileSync(manifest, "utf8").split("\n");
    const halves = [lines.slice(0, 1), lines.slice(1)].map((half, i) => {
      const path = join(root, `half-${"ab"[i]}.json`);
      writeFileSync(path, half.join("\n"));
      return path;
    });
    expect(texts(await all({ manifest: halves, tars }))).toEqual(["u0", "u1", "u2"]);
  });

  test("a folder that cannot be written only costs the index; a stale index is replaced, and said", async () => {
    const folder = fresh();
    const { tars, manifests } = writeDataset(folder, simpleShards([3]));
    await all({ manifest: manifests, tars, access: "random" });
    writeDataset(folder, simpleShards([20]));
    const warnings: string[] = [];
    expect(await all({ manifest: manifests, tars, access: "random", onWarning: (warning) => warnings.push(warning) })).toHaveLength(20);
    expect(warnings).toEqual([expect.stringContaining("reading all headers instead")]);
    if (process.getuid?.() !== 0) {
      rmSync(join(folder, "audio_0.tar.idx"));
      chmodSync(folder, 0o500);
      expect(await all({ manifest: manifests, tars, access: "random" })).toHaveLength(20);
      chmodSync(folder, 0o700);
    }
  });
});

describe("ranks, workers and epochs", () => {
  test("over ranks and workers: even gives every utterance once, with as many steps on every rank; repeat as many utterances", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 7 }), { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 3 }),
        fc.integer({ min: 1, max: 2 }),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        fc.constantFrom("sequential", "random"),
        async (counts, worldSize, numWorkers, batchSize, shuffle, access) => {
          const total = counts.reduce((a, b) => a + b, 0);
          fc.pre(total >= worldSize * numWorkers);
          const { tars, manifests } = writeDataset(fresh(), simpleShards(counts));
          for (const strategy of ["even", "repeat"] as const) {
            const found: string[] = [];
            const steps = new Set<number>();
            const sizes = new Set<number>();
            for (let rank = 0; rank < worldSize; rank++) {
              let mine = 0;
              for (let worker = 0; worker < numWorkers; worker++) {
                const dataset = await tarredDataset({
                  manifest: manifests,
                  tars,
                  strategy,
                  worldSize,
                  rank,
                  numWorkers,
                  worker,
                  batchSize,
                  shuffle,
                  shuffleN: shuffle ? 3 : 0,
                  access: access as "random",
                  decode: false,
                  ...silent,
                });
                let count = 0;
                for await (const batch of dataset.batches(1)) {
                  mine++;
                  count += batch.length;
                  for (const { cut, repeated } of batch) if (!repeated) found.push(cut.text);
                }
                expect(count).toBe(dataset.length);
                sizes.add(count);
              }
              steps.add(mine);
            }
            expect(found.sort()).toEqual(Array.from({ length: total }, (_, i) => `u${i}`).sort());
            expect(steps.size).toBe(1);
            if (strategy === "repeat") expect(sizes.size).toBe(1);
          }
        },
      ),
      { numRuns: 15 },
    );
  });

  test("damage on one rank leaves all ranks with the same number of steps", async () => {
    const shards = simpleShards([4, 4]);
    for (const i of [0, 1]) Object.assign(shards[0]?.members[i] ?? {}, { data: "damage" });
    const { tars, manifests } = writeDataset(fresh(), shards);
    const counts: number[] = [];
    for (const rank of [0, 1]) {
      const dataset = await tarredDataset({ manifest: manifests, tars, worldSize: 2, rank, batchSize: 2, onDamaged: "skip", ...silent });
      let steps = 0;
      for await (const batch of dataset.batches()) steps += batch.length === 2 ? 1 : 0;
      counts.push(steps);
    }
    expect(counts).toEqual([2, 2]);
    for (const member of shards[0]?.members ?? []) member.data = "damage";
    const broken = writeDataset(fresh(), shards);
    await expect(all({ manifest: broken.manifests, tars: broken.tars, worldSize: 2, rank: 0, onDamaged: "skip" })).rejects.toMatchObject({ code: "SHARDS_ALL_DAMAGED" });
  });

  test("scatter refuses what would hang, unless the caller knows; its warnings are said", async () => {
    const { tars, manifests } = writeDataset(fresh(), simpleShards([4, 1, 2]));
    const warnings: string[] = [];
    const options = { manifest: manifests, tars, strategy: "scatter", worldSize: 2, onWarning: (warning: string) => warnings.push(warning) } as const;
    await expect(tarredDataset(options)).rejects.toMatchObject({ code: "SHARDS_UNEVEN", message: expect.stringContaining("rank 1 runs out after 1 steps, rank 0 has 4") });
    expect(warnings.join("\n")).toMatch(/3 shards do not divide by 2 ranks: 1 shards with 2 utterances are never read/);
    expect((await tarredDataset({ ...options, allowUneven: true, rank: 1 })).length).toBe(1);
  });

  test("the seed and the epoch give the order; another epoch another one; start goes on in the middle", async () => {
    const { tars, manifests } = writeDataset(fresh(), simpleShards([5, 5, 5]));
    for (const access of ["sequential", "random"] as const) {
      const options = { manifest: manifests, tars, shuffle: true, shuffleN: 4, seed: 3, access, ...silent };
      const order = texts(await all(options, 1));
      expect(texts(await all(options, 1))).toEqual(order);
      expect(texts(await all(options, 2))).not.toEqual(order);
      expect(texts(await all({ ...options, seed: 4 }, 1))).not.toEqual(order);
      expect([...order].sort()).toEqual(Array.from({ length: 15 }, (_, i) => `u${i}`).sort());
      const rest: TarredUtterance[] = [];
      for await (const utterance of (await tarredDataset(options)).epoch(1, { start: 6 })) rest.push(utterance);
      expect(texts(rest)).toEqual(order.slice(6));
    }
  });
});

describe("WebDataset tars", () => {
  test("consecutive members of a key are a sample: text and length from json or txt, else from the audio", async () => {
    const folder = fresh();
    const { tars } = writeDataset(folder, [
      {
        members: [
          { name: "d/001.wav", data: tone(1, 0.2) },
          { name: "d/001.json", data: JSON.stringify({ text: "one", duration: 0.2, lang: "en" }) },
          { name: "d/002.txt", data: "two\n" },
          { name: "d/002.wav", data: tone(2, 0.3) },
          { name: "d/002.cls", data: "4" },
          { name: "d/003.txt", data: "no audio" },
          { name: "004.json", data: JSON.stringify({ transcript: "four", source: { duration: 60 } }) },
          { name: "004.16k.wav", data: tone(4, 0.1) },
        ],
        lines: [],
      },
    ]);
    const dataset = await tarredDataset({ tars, ...silent });
    const found: TarredUtterance[] = [];
    for await (const utterance of dataset) found.push(utterance);
    expect(found.map(({ cut, audio }) => [cut.text, cut.duration, levelOf(audio?.channels[0])])).toEqual([
      ["one", 0.2, 1],
      ["two", 0.3, 2],
      ["four", 0.1, 4],
    ]);
    expect(found[0]?.cut.lang).toBe("en");
    expect(dataset.report.count("samplesWithoutAudio")).toBe(1);
    expect(texts(await all({ tars, minDuration: 0.15 }))).toEqual(["one", "two"]);
    expect(texts(await all({ tars, access: "random" }))).toEqual(["one", "two", "four"]);
  });

  test("json that is none, and audio that is none, follow the policy", async () => {
    const { tars } = writeDataset(fresh(), [
      {
        members: [
          { name: "1.wav", data: tone(1) },
          { name: "1.json", data: "[1" },
          { name: "2.wav", data: "junk" },
          { name: "3.wav", data: tone(3) },
        ],
        lines: [],
      },
    ]);
    await expect(all({ tars })).rejects.toThrow(/audio_0\.tar:/);
    const dataset = await tarredDataset({ tars, onDamaged: "skip", ...silent });
    expect(dataset.length).toBe(1);
    expect(dataset.report.count("damaged")).toBe(2);
  });
});
