/**
 * `serac manifest stats` of a million lines beside a bare loop of JSON.parse over the same file: whole processes, warm cache, in turns.
 * SERAC_BENCH_LINES makes it another number; from 10 million on, the memory of stats, filter and split is the point.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Random } from "../src/util/random.ts";

const count = Number(process.env.SERAC_BENCH_LINES ?? 1_000_000);
const folder = mkdtempSync(join(tmpdir(), "serac-bench-"));
const path = join(folder, "manifest.jsonl");

/** Lines as of read books: 6 to 25 words of a vocabulary of 20,000, 5,000 speakers. */
function generate(): void {
  const random = new Random(1);
  const words = Array.from({ length: 20_000 }, () => Array.from({ length: 2 + random.integer(0, 8) }, () => String.fromCharCode(97 + random.integer(0, 26))).join(""));
  const fd = openSync(path, "w");
  let block = "";
  for (let i = 0; i < count; i++) {
    const text = Array.from({ length: 6 + random.integer(0, 20) }, () => words[Math.floor(20_000 * random.uniform() ** 4)]).join(" "); // few words are frequent
    const duration = (1 + random.uniform() * 15).toFixed(3);
    block += `{"audio_filepath": "audio/${i % 997}/utterance-${i}.flac", "duration": ${duration}, "text": "${text}", "speaker": "spk${i % 5003}", "lang": "en"}\n`;
    if (block.length > 1 << 20) {
      writeSync(fd, block);
      block = "";
    }
  }
  writeSync(fd, block);
}

const bare = `
import { readFileSync } from "node:fs";
const text = readFileSync(process.argv[1], "utf8");
let texts = 0;
for (let start = 0; start < text.length; ) {
  let end = text.indexOf("\\n", start);
  if (end < 0) end = text.length;
  if (typeof JSON.parse(text.slice(start, end)).text === "string") texts++;
  start = end + 1;
}
if (texts !== ${count}) throw new Error(String(texts));
`;

interface Run {
  /** Seconds by the clock, and of the CPUs. */
  wall: number;
  cpu: number;
  /** Bytes at most. */
  memory: number;
}

/** Runs node with arguments, under GNU time where it is there, which tells CPU time and memory. */
function run(args: readonly string[]): Run {
  const start = performance.now();
  const { status, stderr } = spawnSync("/usr/bin/time", ["-f", "TIME %U %S %M", process.execPath, ...args], { stdio: ["ignore", "ignore", "pipe"], encoding: "utf8" });
  const wall = (performance.now() - start) / 1000;
  const [, user, system, memory] = /TIME ([\d.]+) ([\d.]+) (\d+)/.exec(stderr ?? "") ?? [];
  if (status !== 0 || user === undefined) throw new Error(`node ${args.slice(-4).join(" ")} failed (GNU time is needed): ${stderr}`);
  return { wall, cpu: Number(user) + Number(system), memory: Number(memory) * 1024 };
}

const serac = join(process.cwd(), "bin", "serac");
const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(0)} MB`;
try {
  generate();
  console.log(`${count} lines, ${megabytes(statSync(path).size)}`);
  const commands: Record<string, string[]> = { "manifest stats": ["manifest", "stats", path, "--json"] };
  if (count <= 2_000_000) commands["bare JSON.parse"] = ["--input-type=module", "-e", bare, path];
  else {
    commands["manifest filter"] = ["manifest", "filter", path, "--min-duration", "4", "-o", join(folder, "f.jsonl")];
    commands["manifest split"] = ["manifest", "split", path, "--parts", "train=0.9,valid=0.1", "--out-dir", folder];
    commands["manifest split --by speaker"] = ["manifest", "split", path, "--parts", "train=0.9,valid=0.1", "--by", "speaker", "--out-dir", folder];
    commands["manifest split --by audio"] = ["manifest", "split", path, "--parts", "train=0.9,valid=0.1", "--by", "audio", "--out-dir", folder];
  }
  const best: Record<string, Run> = {};
  for (let turn = 0; turn < (count <= 2_000_000 ? 5 : 1); turn++)
    for (const [name, args] of Object.entries(commands)) {
      const one = run(args[0] === "manifest" ? [serac, ...args] : args);
      if (best[name] === undefined || one.cpu < best[name].cpu) best[name] = one;
    }
  for (const [name, { wall, cpu, memory }] of Object.entries(best)) console.log(`${name}: ${wall.toFixed(2)} s, ${cpu.toFixed(2)} s of CPU, ${megabytes(memory)} at most`);
  const [stats, loop] = [best["manifest stats"], best["bare JSON.parse"]];
  if (stats && loop)
    console.log(`stats takes ${(stats.cpu / loop.cpu).toFixed(2)} times the CPU of the bare loop, ${(stats.wall / loop.wall).toFixed(2)} times by the clock (target: 2)`);
} finally {
  rmSync(folder, { recursive: true });
}
