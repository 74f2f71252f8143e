import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { convertToTarred } from "../../../../src/data/tarred/convert/convert.ts";
import { packageRoot } from "../../../../src/util/paths.ts";
import { Random } from "../../../../src/util/random.ts";
import { corpus, newFolder, tree } from "./corpus.ts";

/** Runs serac tar. @returns its exit code; undefined where it was killed after so many milliseconds */
function run(args: readonly string[], killAfter?: number): Promise<number | undefined> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(packageRoot, "bin/serac"), "tar", ...args], { stdio: "ignore" });
    const timer = killAfter === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), killAfter);
    child.on("exit", (code) => {
      clearTimeout(timer);
      resolve(code ?? undefined);
    });
  });
}

/** What may differ between two runs: when, where and by how many threads. */
function comparable(folder: string): Record<string, string> {
  const files = tree(folder);
  files["tarred_audio_record.json"] = (files["tarred_audio_record.json"] as string).replaceAll(/"(targetDir|workers)".*\n/g, "");
  return files;
}

test("killed at 20 random moments and called again, a conversion ends as one that was left alone", async () => {
  const folder = newFolder();
  const manifest = corpus(folder, 60);
  const args = (target: string) => [
    "--manifest_path",
    manifest,
    "--target_dir",
    join(folder, target),
    "--num_shards=15",
    "--max_duration=9",
    "--shuffle",
    "--shuffle_seed=3",
    "--force_codec=flac",
  ];
  const start = performance.now();
  expect(await run([...args("whole"), "--workers=2"])).toBe(0);
  const whole = performance.now() - start;
  const random = new Random(11);
  let kills = 0;
  let finished = 0;
  // Sometimes a run ends before it is killed; then what it made goes away and it begins again.
  while (kills < 20) {
    const code = await run([...args("killed"), `--workers=${1 + (kills % 2)}`], random.uniform() * whole);
    if (code === undefined) kills++;
    else {
      expect(code).toBe(0);
      finished++;
      expect(comparable(join(folder, "killed"))).toEqual(comparable(join(folder, "whole")));
      rmSync(join(folder, "killed"), { recursive: true });
    }
    // Under its own name a tar file is always whole: it ends with two blocks of zeros.
    if (existsSync(join(folder, "killed")))
      for (const name of readdirSync(join(folder, "killed"))) {
        if (!name.endsWith(".tar")) continue;
        const bytes = readFileSync(join(folder, "killed", name));
        expect(bytes.equals(readFileSync(join(folder, "whole", name))), name).toBe(true);
      }
  }
  expect(await run([...args("killed"), "--workers=2"])).toBe(0);
  expect(comparable(join(folder, "killed"))).toEqual(comparable(join(folder, "whole")));
  expect(readdirSync(join(folder, "killed"))).not.toContain(".serac-tar");
  expect(finished).toBeLessThan(1000);
});

test("a run that goes on makes shards again that changed meanwhile, and does not go on with other settings or inputs", async () => {
  const folder = newFolder();
  const manifest = corpus(folder, 12);
  const options = { manifestPath: [manifest], maxDuration: 20, numShards: 4, workers: 1, targetDir: join(folder, "t") };
  await convertToTarred({ ...options, targetDir: join(folder, "whole") });
  const stop = new AbortController();
  const stopped = convertToTarred(options, { signal: stop.signal, shard: ({ shard }) => shard === 2 && stop.abort() });
  await expect(stopped).rejects.toThrow(/abort/i);
  expect(existsSync(join(folder, "t", "metadata.yaml"))).toBe(false);
  await expect(convertToTarred({ ...options, numShards: 3 })).rejects.toThrow(/TARRED_EXISTS/);
  const bytes = readFileSync(join(folder, "t", "audio_1.tar"));
  bytes[600] = (bytes[600] as number) ^ 1;
  writeFileSync(join(folder, "t", "audio_1.tar"), bytes);
  truncateSync(join(folder, "t", "sharded_manifests", "manifest_0.json"), 10);
  writeFileSync(join(folder, "t", ".serac-tar", "journal.jsonl"), `${readFileSync(join(folder, "t", ".serac-tar", "journal.jsonl"), "utf8")}{"shard": 3, "ta`); // cut while it was written
  const [report] = await convertToTarred(options);
  expect(report).toMatchObject({ resumed: 1, written: 12 });
  expect(comparable(join(folder, "t"))).toEqual(comparable(join(folder, "whole")));
  writeFileSync(manifest, `${readFileSync(manifest, "utf8")}\n`);
  await expect(convertToTarred(options)).rejects.toThrow(/TARRED_EXISTS/);
});
