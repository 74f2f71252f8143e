/**
 * How fast a tarred dataset is read in order, undecoded, beside `cat` of the same tars in the same minute: whole processes, warm cache.
 * Two datasets: 10,000 members of 100 kB (1 GB), and 20,000 of 8 kB. Opening (manifests and all headers) is counted.
 */
import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { tarredDataset } from "../src/data/tarred/index.ts";
import { printTarHeader } from "../src/formats/tar/index.ts";
import { Random } from "../src/util/random.ts";

const [folder, access] = process.argv.slice(2);
if (folder !== undefined) {
  // The process that is measured.
  const dataset = await tarredDataset({
    manifest: join(folder, "manifest_{0..3}.json"),
    tars: join(folder, "audio_{0..3}.tar"),
    access: access as "random",
    decode: false,
    onWarning: () => {},
  });
  let bytes = 0;
  for await (const utterance of dataset) bytes += utterance.bytes.length;
  console.log(JSON.stringify({ bytes, count: dataset.length, peak: process.resourceUsage().maxRSS }));
  process.exit(0);
}

function write(root: string, count: number, size: number): void {
  const random = new Random(1);
  const data = Buffer.alloc(Math.ceil(size / 512) * 512);
  for (let i = 0; i < size; i++) data[i] = random.uint32() & 255;
  for (let shard = 0; shard < 4; shard++) {
    const fd = openSync(join(root, `audio_${shard}.tar`), "w");
    const lines: string[] = [];
    for (let i = shard * (count / 4); i < (shard + 1) * (count / 4); i++) {
      const name = `utterance_${i}.wav`;
      writeSync(fd, printTarHeader({ name, mode: 0o644, uid: 0, gid: 0, size, mtime: 0, type: "0", linkName: "", userName: "", groupName: "" }));
      writeSync(fd, data);
      lines.push(`${JSON.stringify({ audio_filepath: name, duration: 1, text: "x", shard_id: shard })}\n`);
    }
    writeSync(fd, Buffer.alloc(1024));
    closeSync(fd);
    writeFileSync(join(root, `manifest_${shard}.json`), lines.join(""));
  }
}

/** Seconds of the fastest of three runs, and what the last printed. */
function time(command: string, args: readonly string[]): { seconds: number; stdout: string } {
  let seconds = Number.POSITIVE_INFINITY;
  let stdout = "";
  for (let i = 0; i < 3; i++) {
    const start = performance.now();
    const result = spawnSync(command, args, { encoding: "utf8" });
    if (result.status !== 0) throw new Error(result.stderr);
    seconds = Math.min(seconds, (performance.now() - start) / 1000);
    stdout = result.stdout;
  }
  return { seconds, stdout };
}

for (const [count, size] of [
  [10_000, 100_000],
  [20_000, 8_000],
] as const) {
  const root = mkdtempSync(join(tmpdir(), "serac-bench-tar-"));
  try {
    write(root, count, size);
    const cat = time("sh", ["-c", `cat ${root}/audio_*.tar | wc -c`]);
    console.log(`${count} members of ${size / 1000} kB; cat: ${(Number(cat.stdout) / 1e6 / cat.seconds).toFixed(0)} MB/s`);
    for (const kind of ["sequential", "random"]) {
      const { seconds, stdout } = time(process.execPath, [fileURLToPath(import.meta.url), root, kind]);
      const { bytes, count: found, peak } = JSON.parse(stdout) as { bytes: number; count: number; peak: number };
      if (found !== count) throw new Error(`${found} of ${count} utterances`);
      console.log(`  ${kind}: ${(bytes / 1e6 / seconds).toFixed(0)} MB/s, ${(count / seconds).toFixed(0)} utterances/s, ${(peak / 1024).toFixed(0)} MB`);
    }
  } finally {
    rmSync(root, { recursive: true });
  }
}
