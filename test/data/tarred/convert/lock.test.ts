import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { convertToTarred } from "../../../../src/data/tarred/convert/convert.ts";
import { tarShards } from "../../../../src/data/tarred/convert/partial.ts";
import { FolderLock } from "../../../../src/formats/folderLock.ts";
import { packageRoot } from "../../../../src/util/paths.ts";
import { numberOf } from "../../../child.ts";
import { corpus, newFolder, tree } from "./corpus.ts";

function start(args: readonly string[]): { child: ChildProcess; ended: Promise<{ code: number | null; stderr: string }> } {
  const child = spawn(process.execPath, [join(packageRoot, "bin/serac"), "tar", ...args], { stdio: ["pipe", "ignore", "pipe"] });
  let stderr = "";
  child.stderr?.on("data", (chunk) => (stderr += chunk));
  return { child, ended: once(child, "exit").then(([code]) => ({ code: code as number | null, stderr })) };
}

/** What may differ between two runs: when, where and by how many threads. */
function comparable(folder: string): Record<string, string> {
  const files = tree(folder);
  files["tarred_audio_record.json"] = (files["tarred_audio_record.json"] as string).replaceAll(/"(targetDir|workers)".*\n/g, "");
  return files;
}

describe("two conversions into one folder", () => {
  test("started together: one converts, the others say who does or find it done", async () => {
    const folder = newFolder();
    const manifest = corpus(folder, 40);
    const args = (target: string) => ["--manifest_path", manifest, "--target_dir", join(folder, target), "--num_shards=8", "--max_duration=9", "--force_codec=flac", "--workers=2"];
    await start(args("alone")).ended;
    const ended = await Promise.all(Array.from({ length: 3 }, () => start(args("t")).ended));
    const good = ended.filter(({ code, stderr }) => code === 0 && !/complete already/.test(stderr));
    expect(good, ended.map(({ stderr }) => stderr).join("\n")).toHaveLength(1);
    for (const { code, stderr } of ended)
      if (code === 0) expect(stderr).toMatch(/Entries per shard/);
      else expect(stderr).toMatch(/\/t: process \d+ on .* is converting into this folder \[FOLDER_BUSY\]/);
    expect(comparable(join(folder, "t"))).toEqual(comparable(join(folder, "alone")));
    expect(readdirSync(join(folder, "t"))).not.toContain(".serac-tar");
  });

  test("a killed process's lock is taken over, a living one's is not", async () => {
    const folder = newFolder();
    const manifest = corpus(folder, 6);
    const target = join(folder, "t");
    // It holds the folder, and waits for its manifest on standard input.
    const { child, ended } = start(["--manifest_path=-", "--target_dir", target, "--num_shards=2", "--max_duration=9", "--workers=1"]);
    const isThere = () => lstatSync(join(target, ".serac-tar", "lock-1"), { throwIfNoEntry: false }) !== undefined;
    while (!isThere()) await new Promise((resolve) => setTimeout(resolve, 5));
    const options = { manifestPath: [manifest], targetDir: target, numShards: 2, maxDuration: 9, workers: 1 };
    await expect(convertToTarred(options)).rejects.toThrow(new RegExp(`process ${child.pid} on ${hostname()} is converting.*remove .*lock-1`));
    expect(isThere()).toBe(true);
    child.kill("SIGKILL");
    await ended;
    const [report] = await convertToTarred(options);
    expect(report).toMatchObject({ written: 6 });
    expect(readdirSync(target)).not.toContain(".serac-tar");
  });

  test("dry runs need no lock; a failed run leaves none", async () => {
    const folder = newFolder();
    const manifestPath = [corpus(folder, 4)];
    const target = join(folder, "t");
    const lock = FolderLock.take(join(target, ".serac-tar"), { at: target, busy: "is busy" });
    await convertToTarred({ manifestPath, targetDir: target, numShards: 2, maxDuration: 9, dryRun: true });
    lock.release();
    rmSync(join(folder, "audio", "s0", "u0.wav"));
    await expect(convertToTarred({ manifestPath, targetDir: target, numShards: 2, maxDuration: 9, workers: 1 })).rejects.toThrow(/TARRED_AUDIO/);
    expect(readdirSync(target)).toEqual([]);
  });
});

describe("a lock", () => {
  const talk = { at: "there", busy: "is busy" };
  /** The lock of this process with other values. */
  function foreign(folder: string, change: (parts: string[]) => void): string {
    const lock = FolderLock.take(folder, talk);
    const path = join(folder, "lock-1");
    const parts = readlinkSync(path).split("|");
    lock.release();
    change(parts);
    symlinkSync(parts.join("|"), path);
    return path;
  }

  test("of another machine is not touched; of before the last start, or of a number that was used again, it is taken over", () => {
    const folder = newFolder();
    const path = foreign(folder, (parts) => (parts[0] = "elsewhere"));
    expect(() => FolderLock.take(folder, talk)).toThrow(new RegExp(`there: process ${process.pid} on elsewhere is busy.*FOLDER_BUSY.*remove ${path}`));
    for (const change of [(parts: string[]) => (parts[1] = "another-start"), (parts: string[]) => (parts[4] = "1"), (parts: string[]) => (parts[3] = "2147483646")]) {
      rmSync(path, { force: true });
      foreign(folder, change);
      const lock = FolderLock.take(folder, talk);
      expect(readdirSync(folder)).toEqual(["lock-2"]);
      lock.release();
      expect(readdirSync(folder)).toEqual([]);
    }
  });

  test("that is none of ours is not touched", () => {
    const folder = newFolder();
    symlinkSync("what is this", join(folder, "lock-7"));
    expect(() => FolderLock.take(folder, talk)).toThrow(/another process is busy.*lock-7/);
    expect(readdirSync(folder)).toEqual(["lock-7"]);
  });

  test("many processes that find a dead one's lock: never two of them hold the folder", async () => {
    const folder = newFolder();
    mkdirSync(join(folder, "locked"));
    const script = `
      import { openSync, closeSync, unlinkSync, symlinkSync } from "node:fs";
      const { FolderLock } = await import(process.argv[1]);
      let held = 0;
      for (let i = 0; i < 60; i++) {
        let lock;
        try { lock = FolderLock.take(process.argv[2], { at: "x", busy: "is busy" }); }
        catch (error) { if (error.code !== "FOLDER_BUSY") throw error; continue; }
        closeSync(openSync(process.argv[3], "wx")); // fails where another one is inside
        held++;
        for (const end = performance.now() + 1; performance.now() < end; );
        unlinkSync(process.argv[3]);
        lock.release();
        if (i % 5 === 0)
          try { symlinkSync(process.argv[4], process.argv[2] + "/lock-1"); } catch {} // a dead one's
      }
      console.log(held);`;
    const own = FolderLock.take(join(folder, "locked"), talk);
    const dead = readlinkSync(join(folder, "locked", "lock-1")).replace(/\|\d+\|\d*$/, "|2147483646|1");
    own.release();
    symlinkSync(dead, join(folder, "locked", "lock-1"));
    const module = join(packageRoot, "build/js/formats/folderLock.js");
    const held = await Promise.all(Array.from({ length: 4 }, () => numberOf(script, [module, join(folder, "locked"), join(folder, "inside"), dead])));
    expect(held.reduce((sum, one) => sum + one, 0)).toBeGreaterThan(0);
  });
});

test("jobs that tar shards of one dataset at the same time all record theirs, and a killed one's shards are made again", async () => {
  const folder = newFolder();
  const manifest = corpus(folder, 24);
  const target = join(folder, "t");
  const made = { manifestPath: [manifest], numShards: 12, maxDuration: 9, workers: 1 };
  await convertToTarred({ ...made, targetDir: join(folder, "whole") });
  await convertToTarred({ ...made, targetDir: target, onlyManifests: true });
  const tarredManifestFilepath = join(target, "tarred_audio_manifest.json");
  const jobs = ["0:4", "4:8", "8:12"].map((shards) => start(["shards", "--tarred_manifest_filepath", tarredManifestFilepath, "--shards_to_tar", shards]).ended);
  for (const { code, stderr } of await Promise.all(jobs)) expect(code, stderr).toBe(0);
  const shardsOf = (at: string) => (JSON.parse(readFileSync(join(folder, at, "tarred_audio_record.json"), "utf8")) as { shards: unknown }).shards;
  expect(shardsOf("t")).toEqual(shardsOf("whole"));
  expect(readdirSync(target)).not.toContain(".serac-tar");
  // As if one had been killed between its tar file and the record.
  const record = JSON.parse(readFileSync(join(target, "tarred_audio_record.json"), "utf8")) as { shards: { shard: number }[] };
  record.shards = record.shards.filter(({ shard }) => shard !== 5);
  writeFileSync(join(target, "tarred_audio_record.json"), JSON.stringify(record));
  await expect(tarShards({ tarredManifestFilepath, numWorkers: 1 })).rejects.toThrow(/audio_5\.tar: .*not made here/);
  mkdirSync(join(target, ".serac-tar", "shards-killed"), { recursive: true });
  writeFileSync(join(target, ".serac-tar", "shards-killed", "making-5"), "");
  expect(await tarShards({ tarredManifestFilepath, numWorkers: 1 })).toMatchObject({ shards: 1, skipped: 11 });
  expect(shardsOf("t")).toEqual(shardsOf("whole"));
  expect(readdirSync(target)).not.toContain(".serac-tar");
});
