/**
 * Makes the demo's speech: training and validation sets of synthetic voices, a test set of voices held out, a test set of a person.
 *
 *   node build/demo/demo/makeSpeech.js --out DIR [--hours 3] [--seed 1] [--workers 2] [--main-only]
 *
 * Ended half-way, the next run goes on where it was. Manifests are NeMo's and appear when everything else is there.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { writeFileAtomic } from "../src/formats/atomic.ts";
import type { Take } from "./engines.ts";
import { engineAvailable, engineNeeds, sayTakes } from "./engines.ts";
import { makeUtterance } from "./makeUtterance.ts";
import type { Plan, SetName, Utterance } from "./plan.ts";
import { makePlan } from "./plan.ts";
import type { EngineName } from "./voices.ts";
import { chooseVoices, humanVoices } from "./voices.ts";

/** What a worker is given at a time. */
type Job = { kind: "say"; takes: Take[]; folder: string } | { kind: "make"; utterances: Utterance[]; folder: string };
/** How it answers: the seconds of audio of each take or utterance, or what went wrong. */
type Answer = { seconds: number[] } | { error: string };

const recipeVersion = 3; // of the speech that a seed gives: a change of any voice or distortion is a new one

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      out: { type: "string" },
      hours: { type: "string", default: "3" },
      seed: { type: "string", default: "1" },
      workers: { type: "string", default: "2" },
      "main-only": { type: "boolean", default: false },
    },
  });
  if (values.out === undefined) throw new Error("--out is missing: give the folder to write to");
  const out = resolve(values.out);
  const [hours, seed, workers] = [values.hours, values.seed, values.workers].map(Number) as [number, number, number];
  if (!(hours > 0 && hours < 1000)) throw new Error(`--hours ${values.hours}: give a number above 0`);
  if (!Number.isSafeInteger(seed)) throw new Error(`--seed ${values.seed}: give an integer`);
  if (!(Number.isInteger(workers) && workers >= 1)) throw new Error(`--workers ${values.workers}: give an integer of at least 1`);
  const nonFree = !values["main-only"];

  const recipe = JSON.stringify({ recipeVersion, hours, seed, nonFree });
  const started = existsSync(join(out, "recipe.json")) ? await readFile(join(out, "recipe.json"), "utf8") : undefined;
  const sets: readonly SetName[] = ["train", "valid", "test-synthetic", "test-human"];
  if (started === recipe && sets.every((set) => existsSync(join(out, `${set}.jsonl`)))) {
    console.error(`speech: already made in ${out}`);
    return;
  }
  if (started !== recipe) {
    for (const name of ["takes", ...sets]) await rm(join(out, name), { recursive: true, force: true });
    for (const set of sets) await rm(join(out, `${set}.jsonl`), { force: true });
  }
  for (const name of ["takes", ...sets]) await mkdir(join(out, name), { recursive: true });
  writeFileAtomic(join(out, "recipe.json"), recipe);

  const { training, heldOut } = chooseVoices({ nonFree });
  checkEngines([...new Set([...training, ...heldOut].map((voice) => voice.engine))]);
  const plan = makePlan({ seed, hours, training, heldOut });
  const pool = new Pool(workers);
  try {
    const missing = plan.takes.filter(({ id }) => !existsSync(join(out, "takes", `${id}.wav`)));
    await pool.runAll("synthesizers", sayJobs(missing, join(out, "takes")));
    const seconds = await pool.runAll("recordings", makeJobs(plan.utterances, out));
    writeManifests(plan, seconds, out, sets);
  } finally {
    await pool.close();
  }
  await rm(join(out, "takes"), { recursive: true });
}

function checkEngines(engines: readonly EngineName[]): void {
  const missing = engines.filter((engine) => !engineAvailable(engine)).map((engine) => `${engine} (Debian: ${engineNeeds[engine].packages})`);
  for (const { folder, source } of humanVoices) if (!existsSync(folder)) missing.push(`recordings of digits (Debian: ${source})`);
  if (missing.length > 0) throw new Error(`not installed: ${missing.join("; ")}`);
}

/** Takes by engine, since a process of Festival says many; the slowest engines first, so that the workers end together. */
function sayJobs(takes: readonly Take[], folder: string): Job[] {
  const jobs: Job[] = [];
  for (const engine of ["rhvoice", "festival", "flite", "pico", "espeak"] as const) {
    const own = takes.filter(({ voice }) => voice.engine === engine).sort((a, b) => a.voice.id.localeCompare(b.voice.id, "en"));
    for (let i = 0; i < own.length; i += 40) jobs.push({ kind: "say", takes: own.slice(i, i + 40), folder });
  }
  return jobs;
}

function makeJobs(utterances: readonly Utterance[], folder: string): Job[] {
  const jobs: Job[] = [];
  for (let i = 0; i < utterances.length; i += 25) jobs.push({ kind: "make", utterances: utterances.slice(i, i + 25), folder });
  return jobs;
}

function writeManifests({ utterances }: Plan, seconds: readonly number[], out: string, sets: readonly SetName[]): void {
  const lines = new Map(sets.map((set) => [set, [] as string[]]));
  // A set of many utterances may be of few recordings: its error rate must not look like more.
  const humanRecordings = new Set(utterances.flatMap(({ set, parts }) => (set === "test-human" ? parts : []))).size;
  utterances.forEach(({ id, set, text, speaker, engine }, i) => {
    const duration = Number((seconds[i] as number).toFixed(4));
    const provenance = set === "test-human" ? { kind: "human", joined_from: humanRecordings } : { kind: "synthetic" };
    lines.get(set)?.push(JSON.stringify({ audio_filepath: `${id}.wav`, duration, text, lang: "en", speaker, engine, ...provenance }));
  });
  for (const [set, own] of lines) writeFileAtomic(join(out, `${set}.jsonl`), `${own.join("\n")}\n`);
  const total = (set: SetName): string => {
    const own = utterances.flatMap((utterance, i) => (utterance.set === set ? [seconds[i] as number] : []));
    return `${set} ${own.length} utterances, ${(own.reduce((sum, x) => sum + x, 0) / 3600).toFixed(2)} h`;
  };
  console.error(`speech: ${sets.map(total).join("; ")}`);
}

/** Worker threads that take jobs as they become free. */
class Pool {
  private readonly workers: Worker[];

  constructor(size: number) {
    this.workers = Array.from({ length: size }, () => new Worker(fileURLToPath(import.meta.url)));
  }

  /** @returns the seconds of audio of all items of all jobs, in the order of the jobs */
  async runAll(what: string, jobs: readonly Job[]): Promise<number[]> {
    const results: number[][] = [];
    const total = jobs.reduce((sum, job) => sum + jobSize(job), 0);
    const start = performance.now();
    let [next, done, audio, shown] = [0, 0, 0, 0];
    const serve = async (worker: Worker): Promise<void> => {
      while (next < jobs.length) {
        const index = next++;
        const job = jobs[index] as Job;
        const seconds = await ask(worker, job);
        results[index] = seconds;
        done += jobSize(job);
        audio += seconds.reduce((sum, x) => sum + x, 0);
        const elapsed = (performance.now() - start) / 1000;
        if (elapsed - shown > 2 || done === total) {
          shown = elapsed;
          const rate = audio > 0 ? `, ${(audio / elapsed).toFixed(0)} s of audio a second` : "";
          console.error(`speech: ${what} ${done} of ${total}${rate}, ${Math.ceil((elapsed * (total - done)) / done)} s left`);
        }
      }
    };
    await Promise.all(this.workers.map(serve));
    return results.flat();
  }

  async close(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.terminate()));
  }
}

function jobSize(job: Job): number {
  return job.kind === "say" ? job.takes.length : job.utterances.length;
}

function ask(worker: Worker, job: Job): Promise<number[]> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void): void => {
      worker.off("message", onMessage).off("error", onError).off("exit", onExit);
      act();
    };
    const onMessage = (answer: Answer): void => settle(() => ("error" in answer ? reject(new Error(answer.error)) : resolve(answer.seconds)));
    const onError = (error: Error): void => settle(() => reject(error));
    const onExit = (code: number): void => settle(() => reject(new Error(`a worker ended with ${code}`)));
    worker.on("message", onMessage).on("error", onError).on("exit", onExit);
    worker.postMessage(job);
  });
}

async function work(job: Job): Promise<Answer> {
  try {
    if (job.kind === "say") {
      await sayTakes(job.takes, job.folder);
      return { seconds: [] };
    }
    const seconds: number[] = [];
    for (const utterance of job.utterances) seconds.push(await makeUtterance(utterance, job.folder));
    return { seconds };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

if (isMainThread) {
  main().catch((error: unknown) => {
    console.error(`speech: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  });
} else {
  parentPort?.on("message", (job: Job) => void work(job).then((answer) => parentPort?.postMessage(answer)));
}
