/**
 * Samplers over a million cuts: in memory, over plain JSON lines, over an index; with lhotse on the same file in the same run where
 * SERAC_BENCH_PYTHON names a Python that has it. Also: the start, a restart in the middle, memory. SERAC_BENCH_CUTS makes it another number.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSampler, type ItemSource, indexedManifest, lazyManifest, memorySource, type SamplerOptions } from "../src/data/sampling/index.ts";
import { openSources } from "../src/data/sources/index.ts";
import { Random } from "../src/util/random.ts";

const count = Number(process.env.SERAC_BENCH_CUTS ?? 1_000_000);
const python = process.env.SERAC_BENCH_PYTHON;
const settings: SamplerOptions = { maxDuration: 600, numBuckets: 30, bufferSize: 20_000, shuffle: true };

interface LineCut {
  id: string;
  duration: number;
}
const parse = ({ value }: { value: Record<string, unknown> }): LineCut => value as unknown as LineCut;

/** A lhotse cut a line, with its recording and supervision, as icefall's recipes have them. */
function generate(path: string, lines: number): void {
  const random = new Random(1);
  const fd = openSync(path, "w");
  let block = "";
  for (let i = 0; i < lines; i++) {
    const samples = 16_000 + random.integer(0, 15 * 16_000);
    const duration = samples / 16_000;
    const text = Array.from({ length: Math.ceil(2.5 * duration) }, () => "wordlist"[random.integer(0, 8)]?.repeat(5)).join(" ");
    const recording = {
      id: `rec-${i}`,
      sources: [{ type: "file", channels: [0], source: `audio/${i % 997}/rec-${i}.flac` }],
      sampling_rate: 16000,
      num_samples: samples,
      duration,
      channel_ids: [0],
    };
    const supervision = { id: `sup-${i}`, recording_id: `rec-${i}`, start: 0, duration, channel: 0, text, language: "English", speaker: `spk${i % 5003}` };
    block += `${JSON.stringify({ id: `cut-${i}`, start: 0, duration, channel: 0, supervisions: [supervision], recording, type: "MonoCut" })}\n`;
    if (block.length > 1 << 20) {
      writeSync(fd, block);
      block = "";
    }
  }
  writeSync(fd, block);
}

/** Items a second by the clock, and a second of CPU time, which other work on the machine does not change much. */
interface Rate {
  wall: number;
  cpu: number;
}

const cpuSeconds = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

/** Every batch of an epoch. */
async function rate<T>(source: ItemSource<T>, options: SamplerOptions, load = false): Promise<Rate> {
  const sampler = await createSampler(source, options);
  const start = performance.now();
  const cpu = cpuSeconds();
  let items = 0;
  for await (const batch of await sampler.epoch(0)) {
    items += batch.refs.length;
    if (load) await batch.load();
    else source.release(batch.refs);
  }
  if (items !== count) throw new Error(`${items} of ${count} items`);
  return { wall: items / ((performance.now() - start) / 1000), cpu: items / (cpuSeconds() - cpu) };
}

const seconds = (start: number): string => `${((performance.now() - start) / 1000).toFixed(3)} s`;
const show = (perSecond: number): string => Math.round(perSecond).toLocaleString("en");

/** lhotse's rates: `eager` in memory, `lazy` from the file, over as many cuts as its speed allows. */
const lhotseScript = `
import itertools, sys, time, warnings
warnings.simplefilter("ignore")
from lhotse import CutSet
from lhotse.dataset import DynamicBucketingSampler
path, most = sys.argv[1], int(sys.argv[2])
def rate(name, cuts):
    sampler = DynamicBucketingSampler(cuts, max_duration=600, num_buckets=30, buffer_size=20000, shuffle=True)
    start, cpu, count = time.perf_counter(), time.process_time(), 0
    for batch in sampler:
        count += len(batch)
    print(name, count / (time.perf_counter() - start), count / (time.process_time() - cpu))
rate("lazy", CutSet.from_jsonl_lazy(path))
rate("eager", CutSet.from_cuts(itertools.islice(CutSet.from_jsonl_lazy(path), most)))
`;

function lhotse(path: string): Record<string, Rate> {
  if (!python) return {};
  const most = Math.min(count, 100_000);
  // A file of its own: a subset of a lazy set would be read before the clock starts.
  const first = `${path}.first`;
  generate(first, most);
  const { stdout, stderr, status } = spawnSync(python, ["-c", lhotseScript, first, String(most)], { encoding: "utf8" });
  if (status !== 0) throw new Error(`lhotse failed: ${stderr}`);
  return Object.fromEntries(
    stdout
      .trim()
      .split("\n")
      .map((line) => line.split(" "))
      .map(([name, wall, cpu]) => [name, { wall: Number(wall), cpu: Number(cpu) }]),
  );
}

/** The manifest as a source: by its index alone, or as a config names it, with filters. */
async function opened(kind: "index" | "config", path: string): Promise<ItemSource<{ duration: number }>> {
  if (kind === "index") return indexedManifest(path, { parse });
  const { source } = await openSources({ input_cfg: [{ type: "lhotse", cuts_path: path }], min_duration: 0.5, max_duration: 30, force_finite: true });
  return source;
}

/** What is measured in a process of its own, so that memory and start-up are its own too. */
async function inside(what: string, path: string): Promise<void> {
  const start = performance.now();
  const [kind, mode] = what.split(" ") as [string, string];
  const by = mode as "index" | "config";
  if (kind === "build") {
    await opened(by, path);
    console.log(`index built in ${seconds(start)}, by ${by}`);
  } else if (kind === "start") {
    const sampler = await createSampler(await opened(by, path), settings);
    const batch = await (await sampler.epoch(0)).next();
    await batch?.load();
    console.log(`start to the first loaded batch, by ${by}: ${seconds(start)} (target: 2 s)`);
  } else if (kind === "restart") {
    const sampler = await createSampler(await opened(by, path), settings);
    const stream = await sampler.epoch(0);
    for (let seen = 0; seen < count / 2; ) seen += (await stream.next())?.refs.length ?? count;
    const saving = performance.now();
    const text = JSON.stringify(stream.state());
    console.log(`state: ${(text.length / 1024).toFixed(0)} KiB, saved in ${seconds(saving)}`);
    const again = performance.now();
    const fresh = await createSampler(await opened(by, path), { ...settings });
    const ready = performance.now();
    const resumed = await fresh.resume(JSON.parse(text));
    const [a, b] = [await resumed.next(), await stream.next()];
    await a?.load();
    if (String(a?.refs) !== String(b?.refs)) throw new Error("another batch after the restart");
    console.log(`restart in the middle, by ${by}: ${seconds(ready)} to the next loaded batch, ${seconds(again)} with opening the manifest (target: 1 s)`);
  } else {
    const options = { ...settings, mode: mode as "serac" | "lhotse" };
    const source = kind === "lazy" || kind === "scanned" ? lazyManifest(path, { parse }) : kind === "config" ? await opened("config", path) : indexedManifest(path, { parse });
    const { wall, cpu } = await rate<unknown>(source, options, kind === "loaded" || kind === "lazy");
    console.log(`WALL ${wall} CPU ${cpu}`);
  }
  console.log(`MEMORY ${process.resourceUsage().maxRSS * 1024}`);
}

function run(what: string, path: string): { text: string; rate: Rate; memory: number } {
  const { stdout, stderr, status } = spawnSync(process.execPath, [...process.execArgv, import.meta.filename, what, path], { encoding: "utf8" });
  if (status !== 0) throw new Error(`${what} failed: ${stderr}`);
  const field = (name: string): number => Number(new RegExp(`${name} (\\S+)`).exec(stdout)?.[1]);
  return { text: stdout.trim(), rate: { wall: field("WALL"), cpu: field("CPU") }, memory: field("MEMORY") };
}

/** Says what a process said of itself. */
function tell({ text, memory }: { text: string; memory: number }): void {
  console.log(text.replace(/\nMEMORY.*/, `; ${(memory / 1e6).toFixed(0)} MB`));
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "serac-bench-"));
  const path = join(folder, "cuts.jsonl");
  try {
    generate(path, count);
    console.log(`${count} cuts, ${(statSync(path).size / 1e6).toFixed(0)} MB; batches of 600 s from 30 buckets, shuffled, 20,000 cuts held`);
    for (const by of ["index", "config"]) tell(run(`build ${by}`, path));
    await new Promise((resolve) => setTimeout(resolve, 2500)); // until the index is clearly younger than the manifest
    const theirs = lhotse(path);
    const random = new Random(2);
    const cuts = Array.from({ length: count }, (_, i) => ({ id: `cut-${i}`, duration: 1 + random.integer(0, 15 * 16_000) / 16_000 }));
    const compare = (label: string, rates: readonly Rate[], name: string, target: number | undefined): void => {
      const wall = Math.max(...rates.map((one) => one.wall));
      const cpu = Math.max(...rates.map((one) => one.cpu));
      const their = theirs[name];
      const ratio = their
        ? `; lhotse ${name}: ${show(their.wall)}, ${show(their.cpu)}: ratio ${(wall / their.wall).toFixed(1)}, ${(cpu / their.cpu).toFixed(1)}`
        : `; lhotse ${name}`;
      console.log(`${label}: ${show(wall)} cuts/s by the clock, ${show(cpu)} by CPU time${ratio}${target === undefined ? "" : ` (target: ${target} times)`}`);
    };
    for (const mode of ["serac", "lhotse"] as const) {
      const rates: Rate[] = [];
      for (let turn = 0; turn < 3; turn++) rates.push(await rate(memorySource(cuts), { ...settings, mode }));
      compare(`in memory, mode ${mode}`, rates, "eager", 20);
    }
    compare("in memory, static", [await rate(memorySource(cuts), { ...settings, kind: "static" })], "eager", 20);
    cuts.length = 0;
    const measured = (what: string, label: string, name: string, target?: number): void => {
      const results = [run(what, path), run(what, path), run(what, path)];
      compare(
        label,
        results.map(({ rate }) => rate),
        name,
        target,
      );
      console.log(`  memory: ${(Math.max(...results.map(({ memory }) => memory)) / 1e6).toFixed(0)} MB at most (target: 600 MB)`);
    };
    measured("scanned serac", "plain .jsonl, batches chosen and none loaded", "lazy", 8);
    measured("lazy serac", "plain .jsonl, each batch loaded", "lazy", 8);
    measured("indexed serac", "indexed .jsonl", "lazy", 40);
    measured("indexed lhotse", "indexed .jsonl, mode lhotse", "lazy", 40);
    measured("loaded serac", "indexed .jsonl, each batch loaded, line by line where it lies", "lazy");
    measured("config serac", "indexed .jsonl as a config names it, with filters", "lazy", 40);
    for (const what of ["start", "restart"]) for (const by of ["index", "config"]) tell(run(`${what} ${by}`, path));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const [what, path] = process.argv.slice(2);
if (what !== undefined && path !== undefined) await inside(what, path);
else await main();
