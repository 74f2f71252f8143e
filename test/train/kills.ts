/** A run that is killed again and again, at updates that a seed chooses, and gone on with as its refusal to start anew says. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, watch } from "node:fs";
import { join } from "node:path";
import { disposeCheckpoint, loadCheckpoint } from "../../src/models/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { SeracError } from "../../src/util/errors.ts";
import { flagOf } from "../../src/util/options.ts";
import { packageRoot } from "../../src/util/paths.ts";
import type { Random } from "../../src/util/random.ts";

/** When a run is killed. */
export interface Kill {
  /** Once this line of the log was seen: "Epoch 1, batch 7,". */
  after: string;
  /** Then as soon as a file is being written, instead of some milliseconds later. */
  inSave: boolean;
  /** Milliseconds. */
  delay: number;
}

/** Lines of the log of a whole run that say an update: the moments there are. */
export const momentsOf = (said: readonly string[]): string[] => said.flatMap((line) => /^Epoch \d+, batch \d+,/.exec(line) ?? []);

/** Chooses kills, in the order of training. @param inSave how many of them are aimed at a save */
export function chooseKills(moments: readonly string[], { count, inSave, random }: { count: number; inSave: number; random: Random }): Kill[] {
  const chosen = new Set<number>();
  while (chosen.size < count) chosen.add(random.integer(0, moments.length));
  const aims = new Set<number>();
  while (aims.size < inSave) aims.add(random.integer(0, count));
  return [...chosen].sort((a, b) => a - b).map((i, k) => ({ after: moments[i] as string, inSave: aims.has(k), delay: random.uniform() * 60 }));
}

const isUnfinished = (name: string): boolean => /\.tmp-\d+-\d+$/.test(name);

/** What became of a kill. */
export interface KillReport extends Kill {
  /** Where the run went on afterwards: "--start-batch 12"; "" where nothing was saved yet. */
  goesOn: string;
  /** The file whose writing it broke off. */
  unfinished: string | undefined;
}

/** @returns once the run was killed; undefined where it ended before */
async function killOnce(options: TrainOptionsInput, { after, inSave, delay }: Kill): Promise<true | undefined> {
  const expDir = options.expDir as string;
  const flags = Object.entries(options).map(([name, value]) => `${flagOf(name)}=${Array.isArray(value) ? value.join(",") : value}`);
  const child = spawn(process.execPath, [join(packageRoot, "bin", "serac"), "train", ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  const watcher = watch(expDir);
  let talk = "";
  let armed = false;
  const kill = (): void => void child.kill("SIGKILL");
  const arm = (): void => {
    if (armed || !talk.includes(after)) return;
    armed = true;
    if (!inSave) setTimeout(kill, delay);
  };
  watcher.on("change", (_, name) => {
    if (armed && inSave && isUnfinished(String(name))) kill();
  });
  child.stderr.on("data", (text: Buffer) => {
    talk += text.toString();
    arm();
  });
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => child.once("close", (...ended) => resolve(ended)));
  watcher.close();
  if (signal === "SIGKILL") return true;
  if (code !== 0) throw new Error(`the run ended with ${code}:\n${talk}`);
  return undefined;
}

/** The flag that goes on with what is in the folder, as the command says it; "" where there is nothing yet. */
async function goesOn(options: TrainOptionsInput): Promise<TrainOptionsInput> {
  const saved = readdirSync(options.expDir as string).some((name) => name.endsWith(".pt"));
  if (!saved) return {};
  try {
    await train(options);
  } catch (error) {
    if (!(error instanceof SeracError) || error.code !== "TRAIN_EXISTS") throw error;
    const [, flag, n] = /go on with --start-(epoch|batch) (\d+)/.exec(error.fix ?? "") ?? [];
    if (flag === undefined) throw error;
    return flag === "epoch" ? { startEpoch: Number(n) } : { startBatch: Number(n) };
  }
  throw new Error("a run from the start replaced the checkpoints of a killed one");
}

/** Kills a run so often, then lets it end. @returns what each kill met */
export async function killedRun(options: TrainOptionsInput, kills: readonly Kill[]): Promise<KillReport[]> {
  const expDir = options.expDir as string;
  mkdirSync(expDir, { recursive: true });
  const reports: KillReport[] = [];
  let more: TrainOptionsInput = {};
  for (const kill of kills) {
    if (!(await killOnce({ ...options, ...more }, kill))) break; // aimed at a save behind the last one
    const unfinished = readdirSync(expDir).find(isUnfinished);
    more = await goesOn(options);
    reports.push({
      ...kill,
      unfinished,
      goesOn: Object.entries(more)
        .map(([name, value]) => `${flagOf(name)} ${value}`)
        .join(""),
    });
  }
  if (!existsSync(join(expDir, `epoch-${options.numEpochs}.pt`))) await train({ ...options, ...more });
  return reports;
}

/** All that a checkpoint holds, tensors as digests; without the options that may differ between runs of the same result. */
export function contents(path: string): Record<string, unknown> {
  const { state, generator, tokenizer, config, ...checkpoint } = loadCheckpoint(path);
  const digest = (data: NodeJS.ArrayBufferView | undefined): string | undefined => data && createHash("sha256").update(data).digest("hex");
  const tensors: Record<string, unknown> = {};
  for (const part of ["model", "modelAvg", "optimizer"] as const) for (const [key, tensor] of checkpoint[part] ?? []) tensors[`${part}.${key}`] = digest(tensor.toTypedArray());
  disposeCheckpoint({ state, generator, tokenizer, config, ...checkpoint });
  const { expDir, startEpoch, startBatch, numWorkers, scanForOomBatches, ...options } = state?.options ?? {};
  return { tensors, state: { ...state, options }, generator: digest(generator), tokenizer: digest(tokenizer), config };
}

/** The checkpoints of a folder by name. */
export const checkpointsIn = (expDir: string): string[] =>
  readdirSync(expDir)
    .filter((name) => name.endsWith(".pt"))
    .sort();

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Keys of values that differ, joined by dots. */
function differingKeys(a: unknown, b: unknown, key = ""): string[] {
  if (!isObject(a) || !isObject(b)) return JSON.stringify(a) === JSON.stringify(b) ? [] : [key];
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap((name) => differingKeys(a[name], b[name], key === "" ? name : `${key}.${name}`));
}

/** Where two runs' folders differ: names that only one has, and files that hold something else. Empty where they are the same. */
export function differences(expDir: string, whole: string): string[] {
  const names = new Set([...checkpointsIn(expDir), ...checkpointsIn(whole)]);
  return [...names].flatMap((name) => {
    const [a, b] = [join(expDir, name), join(whole, name)];
    if (!existsSync(a) || !existsSync(b)) return [`${name} is only in ${existsSync(a) ? expDir : whole}`];
    const [mine, theirs] = [contents(a), contents(b)];
    return differingKeys(mine, theirs).map((key) => `${name}: ${key} differs`);
  });
}

/** Files that nobody finished. */
export const unfinishedIn = (expDir: string): string[] => readdirSync(expDir).filter(isUnfinished);
