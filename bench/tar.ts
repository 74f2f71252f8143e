/**
 * serac tar beside the programs that do the same, as whole processes with everything in the page cache, one after the other:
 * NeMo's script (SERAC_NEMO_SCRIPT, run by SERAC_BENCH_PYTHON with SERAC_BENCH_PYTHONPATH), `tar cf` and `flac -5`; those that are not there are left out.
 * SERAC_BENCH_SPEECH names a NeMo manifest of small files; SERAC_BENCH_TAR=small,large,flac,plan chooses.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { serializeWav } from "../src/formats/wav.ts";
import { packageRoot } from "../src/util/paths.ts";
import { Random } from "../src/util/random.ts";

const work = mkdtempSync(join(tmpdir(), "serac-bench-"));
process.on("exit", () => rmSync(work, { recursive: true, force: true }));
const serac = join(packageRoot, "bin/serac");
const nemo = process.env.SERAC_NEMO_SCRIPT;
const python = process.env.SERAC_BENCH_PYTHON ?? "python3";
const chosen = (process.env.SERAC_BENCH_TAR ?? "small,large,flac,plan").split(",");

interface Cost {
  seconds: number;
  cpu: number;
  /** Of the largest process, in MB. */
  memory: number;
}

/** Runs a command line; its cost is that of all its processes. */
function run(command: string): Promise<Cost> {
  return new Promise((resolve, reject) => {
    const start = performance.now();
    const child = spawn("bash", ["-c", `ulimit -c 0; export TIMEFORMAT='%U %S'; time { ${command}; }`], { stdio: ["ignore", "ignore", "pipe"] });
    let peak = 0;
    const watch = setInterval(() => {
      try {
        for (const pid of readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim().split(" ")) {
          const kilobytes = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
          peak = Math.max(peak, kilobytes / 1024);
        }
      } catch {
        // It has ended, or this system has no /proc.
      }
    }, 50);
    let text = "";
    child.stderr.on("data", (chunk) => (text = (text + chunk).slice(-2000)));
    child.on("exit", (code) => {
      clearInterval(watch);
      const cpu = (text.trim().split("\n").at(-1) ?? "").split(" ").reduce((sum, one) => sum + Number(one), 0);
      if (code === 0) resolve({ seconds: (performance.now() - start) / 1000, cpu, memory: peak });
      else reject(new Error(`${command}: exit code ${code}\n${text}`));
    });
  });
}

/** Runs the programs by turns, so that what else the machine does meets all of them; the least of each counts. */
async function compare(title: string, programs: Record<string, string | undefined>, rounds = 3): Promise<void> {
  const best: Record<string, Cost> = {};
  for (let round = 0; round <= rounds; round++)
    for (const [name, command] of Object.entries(programs)) {
      if (command === undefined) continue;
      const cost = await run(command.replaceAll("OUT", join(work, "out")));
      rmSync(join(work, "out"), { recursive: true, force: true });
      if (round > 0 && !((best[name]?.seconds ?? Number.POSITIVE_INFINITY) < cost.seconds)) best[name] = cost; // the first round fills the page cache
    }
  console.log(title);
  const ours = best["serac"] as Cost;
  for (const [name, { seconds, cpu, memory }] of Object.entries(best))
    console.log(
      `  ${name.padEnd(12)} ${seconds.toFixed(2)} s, ${cpu.toFixed(2)} s of CPU, ${memory.toFixed(0)} MB${name === "serac" ? "" : `: serac takes ${(ours.seconds / seconds).toFixed(2)} of its time, ${(ours.memory / memory).toFixed(2)} of its memory`}`,
    );
}

const nemoRun = (args: string): string | undefined => (nemo ? `PYTHONPATH=${process.env.SERAC_BENCH_PYTHONPATH ?? ""} ${python} ${nemo} ${args}` : undefined);
const both = (args: string) => ({ serac: `${process.execPath} ${serac} tar ${args}`, NeMo: nemoRun(args) });

/** Writes audio files of one length and their manifest. */
function corpus(name: string, count: number, seconds: number, sampleRate = 16000): string {
  const folder = join(work, name);
  mkdirSync(folder, { recursive: true });
  const random = new Random(1);
  const samples = new Float32Array(Math.round(seconds * sampleRate));
  // Something between speech and noise, so that FLAC has work to do.
  for (let i = 0, x = 0; i < samples.length; i++) samples[i] = 0.5 * Math.sin(i * 0.03) * Math.sin(i * 0.0007) + 0.2 * (x = 0.9 * x + 0.1 * (random.uniform() - 0.5));
  const bytes = serializeWav({ sampleRate, channels: [samples] });
  const lines: string[] = [];
  for (let i = 0; i < count; i++) {
    const path = join(folder, `u${i}.wav`);
    writeFileSync(path, bytes);
    lines.push(JSON.stringify({ audio_filepath: path, offset: 0, duration: seconds, text: "some words that were said" }));
  }
  writeFileSync(join(work, `${name}.json`), `${lines.join("\n")}\n`);
  return join(work, `${name}.json`);
}

if (chosen.includes("small")) {
  const given = process.env.SERAC_BENCH_SPEECH;
  let manifest: string;
  if (given !== undefined && existsSync(given)) {
    manifest = join(work, "speech.json");
    writeFileSync(manifest, readFileSync(given, "utf8").replace(/"audio_filepath": "(?!\/)/g, `"audio_filepath": "${dirname(given)}/`));
  } else manifest = corpus("small", 2700, 0.44, 8000);
  await compare(
    `2,700 small files as they are, 8 shards, shuffled, 2 workers${given ? "" : " (0.44 s each)"}`,
    both(`--manifest_path ${manifest} --target_dir OUT --num_shards 8 --max_duration 20 --shuffle --shuffle_seed 1 --workers 2`),
  );
}
if (chosen.includes("large")) {
  const manifest = corpus("large", 10_000, 3.2);
  await compare("10,000 files of 102 kB as they are, 8 shards, 2 workers", {
    serac: `${process.execPath} ${serac} tar --manifest_path ${manifest} --target_dir OUT --num_shards 8 --max_duration 20 --workers 2`,
    "tar cf": `mkdir -p OUT && tar cf OUT/all.tar -C ${work} large`,
  });
  rmSync(join(work, "large"), { recursive: true });
}
if (chosen.includes("flac")) {
  const manifest = corpus("flac", 1200, 10);
  const half = (from: number, to: number) => `flac -5 --silent --totally-silent --output-prefix=OUT/ $(seq -f ${work}/flac/u%g.wav ${from} ${to})`;
  await compare("1,200 files of 10 s sliced and written as FLAC, 2 workers", {
    ...both(`--manifest_path ${manifest} --target_dir OUT --num_shards 4 --max_duration 20 --slice_with_offset --force_codec flac --shuffle --shuffle_seed 1 --workers 2`),
    "two flac -5": existsSync("/usr/bin/flac") ? `mkdir -p OUT && { ${half(0, 599)} & ${half(600, 1199)} & wait; }` : undefined,
  });
  rmSync(join(work, "flac"), { recursive: true });
}
if (chosen.includes("plan")) {
  const path = join(work, "plan.json");
  const random = new Random(2);
  let text = "";
  writeFileSync(path, "");
  for (let i = 0; i < 5_000_000; i++) {
    const duration = Math.round(random.uniform() * 200_000) / 10_000;
    text += `{"audio_filepath": "/data/corpus/part${i % 1000}/utterance_${i}.wav", "duration": ${duration}, "text": "some words that were said in number ${i}", "lang": "en", "speaker": "s${i % 777}"}\n`;
    if (text.length > 1 << 24 || i === 4_999_999) {
      writeFileSync(path, text, { flag: "a" });
      text = "";
    }
  }
  await compare(
    "5 million lines planned, shuffled (--dry_run)",
    both(`--manifest_path ${path} --target_dir OUT --num_shards 1024 --max_duration 20 --min_duration 0.5 --shuffle --shuffle_seed 1 --dry_run`),
    1,
  );
}
