import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { convertToTarred } from "../../../../src/data/tarred/convert/convert.ts";
import { divide, divideByShardSize } from "../../../../src/data/tarred/convert/order.ts";
import { readTar } from "../../../../src/formats/tar/index.ts";
import { packageRoot } from "../../../../src/util/paths.ts";
import { corpus, newFolder, put, tree, wavBytes } from "./corpus.ts";

interface Line {
  audio_filepath: string;
  duration: number;
  shard_id: number;
  text?: string;
  [key: string]: unknown;
}
const linesOf = (path: string): Line[] =>
  readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
const aggregate = (folder: string): Line[] => linesOf(join(folder, "tarred_audio_manifest.json"));
async function members(path: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of readTar(path)) names.push(name);
  return names;
}
const base = { maxDuration: 20, workers: 1 };

describe("order and division", () => {
  test("every utterance is in at most one shard, and none is lost with keepRemainder", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 1, max: 40 }), fc.boolean(), (count, shards, keep) => {
        const { sizes, dropped } = divide(count, shards, keep);
        expect(sizes.reduce((sum, size) => sum + size, 0) + dropped).toBe(count);
        expect(sizes.length).toBe(Math.min(count, shards));
        if (keep) expect(dropped).toBe(0);
        if (count > 0) expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(keep ? 1 : 0);
        const more = divideByShardSize(count, shards, keep);
        expect(more.sizes.reduce((sum, size) => sum + size, 0) + more.dropped).toBe(count);
        if (!keep) for (const size of more.sizes) expect(size).toBe(shards);
      }),
    );
  });
});

describe("a new dataset", () => {
  test("drops the remainder as NeMo does and says so; keepRemainder spreads it", async () => {
    const folder = newFolder();
    const manifestPath = [corpus(folder, 11)];
    const said: string[] = [];
    const [report] = await convertToTarred({ ...base, manifestPath, targetDir: join(folder, "a"), numShards: 3 }, { say: (line) => said.push(line) });
    expect(report).toMatchObject({ kept: 11, dropped: 2, shards: 3, entriesPerShard: 3, written: 9 });
    expect(said.join("\n")).toMatch(/2 utterances are left over and dropped/);
    expect(aggregate(join(folder, "a")).map(({ shard_id }) => shard_id)).toEqual([0, 0, 0, 1, 1, 1, 2, 2, 2]);
    await convertToTarred({ ...base, manifestPath, targetDir: join(folder, "b"), numShards: 3, keepRemainder: true });
    expect(aggregate(join(folder, "b")).map(({ shard_id }) => shard_id)).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]);
  });

  test("filters at min inclusive and max exclusive; buckets cover the whole range once", async () => {
    const folder = newFolder();
    const manifestPath = [corpus(folder, 20)];
    const [one] = await convertToTarred({ manifestPath, targetDir: join(folder, "a"), numShards: 1, minDuration: 0.2, maxDuration: 0.5, workers: 1 });
    expect(one).toMatchObject({ kept: 12, filtered: 8 });
    const reports = await convertToTarred({ manifestPath, targetDir: join(folder, "b"), numShards: 2, minDuration: 0.1, maxDuration: 0.5, bucketsNum: 2, workers: 1 });
    expect(reports.map(({ kept }) => kept)).toEqual([12, 8]); // the inner border is 0.30000000000000004, above 0.3; the last one takes 0.5
    expect(readFileSync(join(folder, "b", "bucket2", "metadata.yaml"), "utf8")).toMatch(/max_duration: 0.50001\n.*min_duration: 0.30000000000000004/s);
  });

  test("the same seed gives the same files with any number of threads; without one it is drawn and recorded", async () => {
    const folder = newFolder();
    const manifestPath = [corpus(folder, 40)];
    const options = { manifestPath, maxDuration: 20, numShards: 4, shuffle: true, shuffleSeed: 5 };
    await convertToTarred({ ...options, targetDir: join(folder, "a"), workers: 1 });
    const script = spawnSync(
      process.execPath,
      [
        join(packageRoot, "bin/serac"),
        "tar",
        "--manifest_path",
        manifestPath[0] as string,
        "--target_dir",
        join(folder, "b"),
        "--max_duration=20",
        "--num_shards",
        "4",
        "--shuffle",
        "--shuffle_seed=5",
        "--workers",
        "3",
      ],
      { encoding: "utf8" },
    );
    expect(script.status, script.stderr).toBe(0);
    const [a, b] = [tree(join(folder, "a")), tree(join(folder, "b"))];
    for (const files of [a, b]) files["tarred_audio_record.json"] = (files["tarred_audio_record.json"] as string).replaceAll(/"(targetDir|workers)".*\n/g, "");
    expect(Object.keys(b).sort()).toEqual(Object.keys(a).sort());
    for (const [name, text] of Object.entries(a)) expect(b[name] === text, name).toBe(true);
    const [free] = await convertToTarred({ ...options, shuffleSeed: undefined, targetDir: join(folder, "c"), workers: 1 });
    const [again] = await convertToTarred({ ...options, shuffleSeed: free?.seed as number, targetDir: join(folder, "d"), workers: 1 });
    expect(again?.seed).toBe(free?.seed);
    expect(tree(join(folder, "d"))["audio_2.tar"] === tree(join(folder, "c"))["audio_2.tar"]).toBe(true);
  });

  test("repeated files are stored once a shard; files are kept together when asked", async () => {
    const folder = newFolder();
    const path = put(join(folder, "long.wav"), wavBytes(1));
    const other = put(join(folder, "other.wav"), wavBytes(1, 2));
    const lines = [0, 1, 2, 3].flatMap((i) => [path, other].map((audio_filepath) => JSON.stringify({ audio_filepath, offset: i * 0.25, duration: 0.25 })));
    const manifestPath = [put(join(folder, "m.json"), lines.join("\n"))];
    await convertToTarred({ ...base, manifestPath, targetDir: join(folder, "a"), numShards: 2 });
    const stem = (one: string) => one.slice(0, -4).replaceAll("/", "_");
    expect(await members(join(folder, "a", "audio_0.tar"))).toEqual([`${stem(path)}.wav`, `${stem(other)}.wav`]);
    expect(aggregate(join(folder, "a")).map(({ audio_filepath }) => audio_filepath)).toEqual(
      [0, 1].flatMap(() => [`${stem(path)}.wav`, `${stem(other)}.wav`, `${stem(path)}-sub1.wav`, `${stem(other)}-sub1.wav`]),
    );
    await convertToTarred({ ...base, manifestPath, targetDir: join(folder, "b"), numShards: 2, shuffle: true, shuffleSeed: 3, keepFilesTogether: true });
    for (const shard of [0, 1]) expect(await members(join(folder, "b", `audio_${shard}.tar`))).toHaveLength(1);
  });

  test("sorts shards by duration and keeps the order of equal ones", async () => {
    const folder = newFolder();
    await convertToTarred({ ...base, manifestPath: [corpus(folder, 20)], targetDir: join(folder, "a"), numShards: 2, sortInShards: true });
    for (const shard of [0, 1]) {
      const lines = linesOf(join(folder, "a", "sharded_manifests", `manifest_${shard}.json`));
      const keys = lines.map(({ duration, text }) => [duration, Number(text?.slice(6))] as const);
      expect(keys).toEqual([...keys].sort((x, y) => x[0] - y[0] || x[1] - y[1]));
    }
  });

  test("two paths that flatten to one name get two names; -sub in a path is no mark", async () => {
    const folder = newFolder();
    const paths = ["a/b_c.wav", "a_b/c.wav", "a/b.c.wav", "a/b_c.flac", "x-sub1.wav", "x.wav"].map((name, i) => put(join(folder, name), wavBytes(0.2, i)));
    const lines = paths.map((audio_filepath, i) => JSON.stringify({ audio_filepath, duration: 0.2, text: String(i) }));
    const [report] = await convertToTarred({ ...base, manifestPath: [put(join(folder, "m.json"), lines.join("\n"))], targetDir: join(folder, "t"), numShards: 1 });
    const names = await members(join(folder, "t", "audio_0.tar"));
    expect(new Set(names.map((name) => name.split(".")[0])).size).toBe(6);
    expect(names.some((name) => /-sub\d/.test(name))).toBe(false);
    expect(report?.renamed).toBe(4);
    let i = 0;
    for await (const { name, data } of readTar(join(folder, "t", "audio_0.tar"))) {
      expect(aggregate(join(folder, "t"))[i]?.audio_filepath).toBe(name);
      expect((data as Buffer).equals(readFileSync(paths[i++] as string))).toBe(true);
    }
  });

  test("fewer utterances than shards or bins are handled", async () => {
    const folder = newFolder();
    const said: string[] = [];
    const [report] = await convertToTarred(
      { ...base, manifestPath: [corpus(folder, 3)], targetDir: join(folder, "t"), numShards: 8, dynamicBucketsNum: 30 },
      { say: (line) => said.push(line) },
    );
    expect(report).toMatchObject({ shards: 3, written: 3 });
    expect(said.join()).toMatch(/fewer utterances than shards.*only 3 utterances/s);
    expect(readFileSync(join(folder, "t", "metadata.yaml"), "utf8")).toMatch(/num_shards: 3\n.*num_buckets: 3\n/s);
  });

  test("dry runs write nothing; only manifests write no audio; no-shard-manifests writes one", async () => {
    const folder = newFolder();
    const manifestPath = [corpus(folder, 6)];
    const [dry] = await convertToTarred({ ...base, manifestPath, targetDir: join(folder, "dry"), numShards: 2, dryRun: true });
    expect(dry).toMatchObject({ kept: 6, written: 0 });
    expect(readdirSync(folder)).not.toContain("dry");
    await convertToTarred({ ...base, manifestPath, targetDir: join(folder, "m"), numShards: 2, onlyManifests: true });
    expect(readdirSync(join(folder, "m")).sort()).toEqual(["metadata.yaml", "sharded_manifests", "tarred_audio_manifest.json", "tarred_audio_record.json"]);
    expect(aggregate(join(folder, "m"))[0]?.["abs_audio_filepath"]).toBe(join(folder, "audio/s0/u0.wav"));
    await convertToTarred({ ...base, manifestPath, targetDir: join(folder, "n"), numShards: 2, shardManifests: false });
    expect(readdirSync(join(folder, "n")).sort()).toEqual(["audio_0.tar", "audio_1.tar", "metadata.yaml", "tarred_audio_manifest.json", "tarred_audio_record.json"]);
  });

  test("reads gzip, several manifests, aliases, byte order marks and blank lines; keeps keys and numbers as they are spelled", async () => {
    const folder = newFolder();
    const path = put(join(folder, "a.wav"), wavBytes(0.2));
    const { gzipSync } = await import("node:zlib");
    const one = put(join(folder, "one.json.gz"), gzipSync(`{"audio_file": "${path}", "duration": 0.20, "x": [1.0, 1e-5, {"ä": "ß"}], "n": 12345678901234567890}\n\n`));
    const two = put(join(folder, "two.json"), `\ufeff{"audio_filepath": "a.wav", "duration": 2e-1, "shard_id": 77}`);
    await convertToTarred({ ...base, manifestPath: [one, two], targetDir: join(folder, "t"), numShards: 2 });
    const flat = path.replaceAll("/", "_").replace("_wav", ".wav").replace("a.wav", "a.wav");
    const name = `${path.slice(0, -4).replaceAll("/", "_")}.wav`;
    expect(flat.length).toBe(name.length);
    expect(readFileSync(join(folder, "t", "tarred_audio_manifest.json"), "utf8")).toBe(
      `{"audio_file": "${path}", "duration": 0.2, "x": [1.0, 1e-05, {"ä": "ß"}], "n": 12345678901234567890, "audio_filepath": "${name}", "shard_id": 0}\n` +
        `{"audio_filepath": "${name}", "duration": 0.2, "shard_id": 1}\n`,
    );
    expect(readdirSync(join(folder, "t"))).not.toContain(".serac-tar");
  });

  test("deterministic headers depend on names and contents alone", async () => {
    const folder = newFolder();
    const manifestPath = [corpus(folder, 4)];
    const options = { ...base, manifestPath, numShards: 1, deterministicHeaders: true };
    await convertToTarred({ ...options, targetDir: join(folder, "a") });
    const { utimesSync } = await import("node:fs");
    utimesSync(join(folder, "audio/s0/u0.wav"), 1, 1);
    await convertToTarred({ ...options, targetDir: join(folder, "b") });
    expect(readFileSync(join(folder, "a", "audio_0.tar")).equals(readFileSync(join(folder, "b", "audio_0.tar")))).toBe(true);
    for await (const { mtime, uid, userName, mode } of readTar(join(folder, "b", "audio_0.tar")))
      expect({ mtime, uid, userName, mode }).toEqual({ mtime: 0, uid: 0, userName: "", mode: 0o644 });
  });
});

describe("what cannot be tarred", () => {
  test("lines without audio, duration or offset are errors with file:line", async () => {
    const folder = newFolder();
    const path = put(join(folder, "a.wav"), wavBytes(0.2));
    const attempt = (line: string, more = {}) =>
      convertToTarred({ ...base, manifestPath: [put(join(folder, "m.json"), `\n${line}\n`)], targetDir: join(folder, "t"), numShards: 1, ...more });
    await expect(attempt(`{"duration": 1}`)).rejects.toThrow(/m\.json:2: no "audio_filepath".*TARRED_BAD_ENTRY/);
    await expect(attempt(`{"audio_filepath": ["a", "b"], "duration": 1}`)).rejects.toThrow(/m\.json:2: "audio_filepath" is \["a","b"\]/);
    await expect(attempt(`{"audio_filepath": "${path}"}`)).rejects.toThrow(/m\.json:2: no "duration"/);
    await expect(attempt(`{"audio_filepath": "${path}", "duration": "1"}`)).rejects.toThrow(/m\.json:2: "duration" is "1"/);
    await expect(attempt(`{"audio_filepath": "${path}", "duration": 1}`, { sliceWithOffset: true })).rejects.toThrow(/m\.json:2: no "offset"/);
    await expect(attempt(`{"audio_filepath": "${path}", "duration": 1,}`)).rejects.toThrow(/m\.json:2:\d+: .*JSONL_BAD_LINE/);
    await expect(attempt("[1]")).rejects.toThrow(/m\.json:2: .*MANIFEST_NOT_AN_OBJECT/);
    await expect(attempt(`{"audio_filepath": "${path}", "duration": 30}`)).rejects.toThrow(/TARRED_EMPTY/);
  });

  test("missing, empty and unreadable audio is named before anything is written, or left out and counted", async () => {
    const folder = newFolder();
    const manifest = corpus(folder, 4);
    const empty = put(join(folder, "empty.wav"), "");
    const lines = [join(folder, "gone.wav"), empty, folder, "neither/here/nor/there.wav"].map((audio_filepath) => JSON.stringify({ audio_filepath, duration: 0.2 }));
    writeFileSync(manifest, `${readFileSync(manifest, "utf8")}${lines.join("\n")}\n`);
    const options = { ...base, manifestPath: [manifest], targetDir: join(folder, "t"), numShards: 2 };
    const error = await convertToTarred(options).catch((one: Error) => one);
    expect(String(error)).toMatch(
      /the audio of 4 of 8 lines.*train\.json:5: .*gone\.wav: no such file.*:6: .*empty\.wav: the file has no bytes.*:7: .*not a regular file.*:8: .*neither from.*TARRED_AUDIO/s,
    );
    expect(readdirSync(join(folder, "t"))).toEqual([]);
    const [report] = await convertToTarred({ ...options, targetDir: join(folder, "u"), skipUnreadable: true });
    expect(report).toMatchObject({ kept: 8, unreadable: 4, written: 4 });
  });

  test("names of 255 bytes in folders of 300, and names that are not UTF-8, come through", async () => {
    const folder = newFolder();
    const long = put(join(folder, "d".repeat(150), "e".repeat(150), `${"f".repeat(251)}.wav`), wavBytes(0.1));
    const odd = Buffer.concat([Buffer.from(`${folder}/x`), Buffer.from([0xff, 0xe4]), Buffer.from(".wav")]);
    writeFileSync(odd, wavBytes(0.1, 2));
    const lines = [`{"audio_filepath": "${long}", "duration": 0.1}`, `{"audio_filepath": "${folder}/x\\udcff\\udce4.wav", "duration": 0.1}`];
    await convertToTarred({ ...base, manifestPath: [put(join(folder, "m.json"), lines.join("\n"))], targetDir: join(folder, "t"), numShards: 1 });
    const names = await members(join(folder, "t", "audio_0.tar"));
    expect(names).toEqual([`${long.slice(0, -4).replaceAll("/", "_")}.wav`, `${folder.replaceAll("/", "_")}_x\udcff\udce4.wav`]);
    expect(aggregate(join(folder, "t")).map(({ audio_filepath }) => audio_filepath)).toEqual(names);
  });

  test("a target that holds something else is left as it is, unless it may be overwritten", async () => {
    const folder = newFolder();
    const manifestPath = [corpus(folder, 9)];
    const options = { ...base, manifestPath, targetDir: join(folder, "t") };
    await convertToTarred({ ...options, numShards: 4 });
    const before = tree(join(folder, "t"));
    await expect(convertToTarred({ ...options, numShards: 2 })).rejects.toThrow(/TARRED_EXISTS.*--overwrite/);
    const said: string[] = [];
    const [again] = await convertToTarred({ ...options, numShards: 4 }, { say: (line) => said.push(line) });
    expect(again).toMatchObject({ written: 0, resumed: 4 });
    expect(said.join()).toMatch(/complete already/);
    expect(tree(join(folder, "t"))).toEqual(before);
    await convertToTarred({ ...options, numShards: 2, overwrite: true });
    expect(Object.keys(tree(join(folder, "t"))).sort()).toEqual([
      "audio_0.tar",
      "audio_1.tar",
      "metadata.yaml",
      "sharded_manifests/manifest_0.json",
      "sharded_manifests/manifest_1.json",
      "tarred_audio_manifest.json",
      "tarred_audio_record.json",
    ]);
  });

  test("targets that cannot be written to are clear errors, and the sources stay", async () => {
    const folder = newFolder();
    const manifestPath = [corpus(folder, 4)];
    const sources = tree(join(folder, "audio"));
    const file = put(join(folder, "file"), "x");
    await expect(convertToTarred({ ...base, manifestPath, targetDir: join(file, "t"), numShards: 1 })).rejects.toThrow(/FILE_UNWRITABLE/);
    await expect(convertToTarred({ ...base, manifestPath, targetDir: "/proc/serac", numShards: 1 })).rejects.toThrow(/FILE_UNWRITABLE/);
    await expect(convertToTarred({ ...base, manifestPath, targetDir: "s3://bucket/x", numShards: 1 })).rejects.toThrow(/write to a folder and copy it/);
    // The folder vanishes after its first shard.
    const target = join(folder, "t");
    const vanishing = convertToTarred({ ...base, manifestPath, targetDir: target, numShards: 4 }, { shard: ({ shard }) => shard === 0 && rmSync(target, { recursive: true }) });
    await expect(vanishing).rejects.toThrow(/FILE_UNWRITABLE/);
    expect(tree(join(folder, "audio"))).toEqual(sources);
    expect(readFileSync(file, "utf8")).toBe("x");
  });

  test("a disk that fills up ends the run with what is finished kept, and the same command goes on", () => {
    const folder = newFolder();
    const lines = [0, 1, 2, 3].map((i) => JSON.stringify({ audio_filepath: put(join(folder, `${i}.wav`), wavBytes(i === 2 ? 20 : 1, i)), duration: 1 }));
    put(join(folder, "m.json"), lines.join("\n"));
    const command = `exec "${process.execPath}" "${join(packageRoot, "bin/serac")}" tar --manifest_path ${folder}/m.json --target_dir ${folder}/t --max_duration 9 --num_shards 4 --workers 1`;
    // A limit on the size of files stands in for a full disk: the third shard does not fit. (In blocks of 1024 bytes.)
    const full = spawnSync("bash", ["-c", `ulimit -f 100; trap '' XFSZ; ${command}`], { encoding: "utf8" });
    expect(full.status, full.stderr).toBe(1);
    expect(full.stderr).toMatch(/audio_2\.tar: cannot write this file: EFBIG.*FILE_UNWRITABLE/s);
    expect(full.stderr).toMatch(/2 of 4 shards are finished: the same command goes on from there/);
    expect(readdirSync(join(folder, "t")).sort()).toEqual([".serac-tar", "audio_0.tar", "audio_1.tar", "sharded_manifests"]);
    const again = spawnSync("bash", ["-c", command], { encoding: "utf8" });
    expect(again.status, again.stderr).toBe(0);
    expect(again.stderr).toMatch(/2 of 4 shards are finished already/);
    const whole = spawnSync("bash", ["-c", command.replace("/t ", "/u ")], { encoding: "utf8" });
    expect(whole.status, whole.stderr).toBe(0);
    for (let i = 0; i < 4; i++) expect(readFileSync(join(folder, "t", `audio_${i}.tar`)).equals(readFileSync(join(folder, "u", `audio_${i}.tar`)))).toBe(true);
  });

  test("links to audio are followed", async () => {
    const folder = newFolder();
    put(join(folder, "real.wav"), wavBytes(0.1));
    symlinkSync("real.wav", join(folder, "link.wav"));
    const manifestPath = [put(join(folder, "m.json"), `{"audio_filepath": "${folder}/link.wav", "duration": 0.1}`)];
    await convertToTarred({ ...base, manifestPath, targetDir: join(folder, "t"), numShards: 1 });
    for await (const { type, data } of readTar(join(folder, "t", "audio_0.tar"))) {
      expect(type).toBe("0");
      expect((data as Buffer).equals(Buffer.from(wavBytes(0.1)))).toBe(true);
    }
  });
});
