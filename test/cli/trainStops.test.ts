/** How `serac train` stops: by Ctrl-C, by a second one, by another process in its folder, by a disk that takes no more. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { flagOf } from "../../src/util/options.ts";
import { packageRoot } from "../../src/util/paths.ts";
import { seracCommand, withMounts } from "../data/unprivileged.ts";
import { noiseFolder } from "../train/corpora.ts";
import { differences } from "../train/kills.ts";
import { toneCorpus } from "../train/tones.ts";

let folder: string;
let options: TrainOptionsInput;
/** Validates for seconds after the first batch, so that a run can be met there. */
let long: TrainOptionsInput;
const exp = (name: string): string => join(folder, name);
const saved = (name: string): string[] => readdirSync(exp(name)).filter((file) => file.includes(".pt"));

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-stops-"));
  const { validManifest: _, ...tones } = await toneCorpus(folder);
  options = { ...tones, speedPerturb: true, noisePath: noiseFolder(folder), enableSpecAug: true, specAugTimeWarpFactor: 4, numEpochs: 1, logInterval: 1 };
  writeFileSync(exp("long.jsonl"), readFileSync(exp("train.jsonl"), "utf8").repeat(40));
  long = { ...options, validManifest: [exp("long.jsonl")], validInterval: 1 };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Ended {
  code: number | null;
  signal: string | null;
  stderr: string;
}

const flagsOf = (given: TrainOptionsInput): string[] => Object.entries(given).map(([name, value]) => `${flagOf(name)}=${Array.isArray(value) ? value.join(",") : value}`);

/** Starts `serac train`; `seen` is called with all of stderr as it grows. @param shell what to do before, in bash */
function start(given: TrainOptionsInput, seen: (stderr: string, child: ChildProcess) => void, shell = ""): Promise<Ended> {
  const command = [process.execPath, join(packageRoot, "bin", "serac"), "train", ...flagsOf(given)];
  return new Promise((resolve) => {
    const child = spawn("bash", ["-c", `${shell} exec "$@"`, "bash", ...command], { stdio: ["ignore", "ignore", "pipe"] });
    let stderr = "";
    child.stderr.on("data", (data: Buffer) => seen((stderr += data.toString()), child));
    child.on("close", (code, signal) => resolve({ code, signal, stderr }));
  });
}

/** Calls once, as soon as a text is there. */
const once = (text: string, act: (child: ChildProcess) => void): ((stderr: string, child: ChildProcess) => void) => {
  let done = false;
  return (stderr, child) => {
    if (done || !stderr.includes(text)) return;
    done = true;
    act(child);
  };
};

/** Presses Ctrl-C until the process ends, once a text is there; kills one that never does. */
const hail = (text: string): ((stderr: string, child: ChildProcess) => void) =>
  once(text, (child) => {
    let pressed = 0;
    const timer = setInterval(() => child.kill(++pressed < 100 ? "SIGINT" : "SIGKILL"), 100);
    child.once("close", () => clearInterval(timer));
  });

test("Ctrl-C, which some send to a process and to its group, finishes the batch, saves, says how to go on, and going on gives the run that was not stopped, bit for bit", async () => {
  const { code, stderr } = await start(
    { ...options, expDir: exp("once") },
    once("Epoch 1, batch 3,", (child) => {
      child.kill("SIGINT");
      child.kill("SIGTERM"); // two of one name may come as one
    }),
  );
  expect(code).toBe(130);
  const [, path, batch] = /saved (\S+); to go on: --start-batch (\d+)/.exec(stderr) ?? [];
  expect(path).toBe(join(exp("once"), `checkpoint-${batch}.pt`));
  await train({ ...options, expDir: exp("once"), startBatch: Number(batch) });
  await train({ ...options, expDir: exp("whole") });
  expect(differences(exp("once"), exp("whole")).filter((line) => !line.startsWith(`checkpoint-${batch}.pt`))).toEqual([]);
});

test("Ctrl-C breaks a validation off, after a batch or at the end of an epoch; going on makes it, and gives the run that was not stopped", async () => {
  writeFileSync(exp("valid.jsonl"), readFileSync(exp("test.jsonl"), "utf8").repeat(4));
  const given = { ...options, validManifest: [exp("valid.jsonl")], validInterval: 5, numWorkers: 0 };
  const lines: string[] = [];
  await train({ ...given, expDir: exp("validated") }, { report: { say: (line) => void lines.push(line) } });
  const updates = lines.filter((line) => /^Epoch 1, batch \d+,/.test(line)).length;
  for (const batch of [5, updates - 1]) {
    const name = `broken off ${batch}`;
    const controller = new AbortController();
    const said: string[] = [];
    const say = (line: string): void => {
      said.push(line);
      if (line.startsWith(`Epoch 1, batch ${batch},`)) controller.abort();
    };
    const validations = (all: readonly string[]): number => all.filter((line) => line.startsWith("Epoch 1, validation: ")).length;
    expect(await train({ ...given, expDir: exp(name) }, { signal: controller.signal, report: { say } })).toMatchObject({ interrupted: true, updates: batch + 1 });
    const before = validations(said);
    await train({ ...given, expDir: exp(name), startBatch: batch + 1 }, { report: { say } });
    expect(validations(said) - before).toBe(validations(lines) - before);
    expect(validations(said)).toBe(validations(lines));
    expect(differences(exp(name), exp("validated")).filter((line) => !line.startsWith("checkpoint-"))).toEqual([]);
  }
});

test("a second Ctrl-C ends it at once, without saving, also while a disk does not answer", async () => {
  const first = once("Epoch 1, batch 0,", (child) => {
    // Whatever the checkpoint's unfinished file is called, opening it waits for a reader that never comes.
    const names = Array.from({ length: 60 }, (_, batch) => join(exp("twice"), `checkpoint-${batch + 1}.pt.tmp-${child.pid}-0`));
    spawnSync("mkfifo", names);
    child.kill("SIGINT");
  });
  const second = hail("press Ctrl-C again");
  const { signal, stderr } = await start({ ...options, expDir: exp("twice"), numEpochs: 100 }, (text, child) => {
    first(text, child);
    second(text, child);
  });
  expect(signal, stderr).toBe("SIGINT");
  expect(stderr).not.toContain("saved ");
  expect(saved("twice").filter((name) => name.endsWith(".pt"))).toEqual([]);
});

test("a second Ctrl-C ends it while the main thread is in a call that does not return, and hears neither", async () => {
  mkdirSync(exp("stuck"));
  spawnSync("mkfifo", [join(exp("stuck"), "options.json")]); // opening it waits for a reader that never comes
  const { signal, stderr } = await start({ ...options, expDir: exp("stuck") }, hail("model: "));
  expect(signal).toBe("SIGINT");
  expect(stderr).not.toContain("stopping");
});

test("a second process in the same folder is refused by the number of the first, and takes the folder over once that was killed", async () => {
  const again = { ...options, expDir: exp("busy"), maxSteps: 1 };
  let refused: Promise<unknown> = Promise.resolve();
  const { signal } = await start(
    { ...long, expDir: exp("busy") },
    once("Epoch 1, batch 0,", (child) => {
      refused = expect(train(again)).rejects.toMatchObject({
        code: "FOLDER_BUSY",
        message: expect.stringMatching(new RegExp(`process ${child.pid} on \\S+ is training into this folder`)),
      });
      refused.catch(() => {}).finally(() => child.kill("SIGKILL"));
    }),
  );
  await refused;
  expect(signal).toBe("SIGKILL");
  expect((await train(again)).updates).toBe(1);
});

test("one of several processes that torchrun started is refused before it makes anything; a single one trains", async () => {
  const { code, stderr } = await start({ ...options, expDir: exp("ranks") }, () => {}, "export WORLD_SIZE=2 RANK=1;");
  expect(code).toBe(2);
  expect(stderr).toMatch(/^serac: the environment has WORLD_SIZE=2 and RANK=1: several processes, as torchrun starts them, are not built yet \[CONFIG_BAD_VALUE\]/m);
  expect(existsSync(exp("ranks"))).toBe(false);
  expect((await start({ ...options, expDir: exp("rank"), maxSteps: 1 }, () => {}, "export WORLD_SIZE=1 RANK=0;")).code).toBe(0);
});

test("a disk that fills up ends no run before its end: the last good file is named, can be gone on from bit for bit, and nothing unfinished remains", async ({ skip }) => {
  const given = { ...options, saveEveryN: 5, averagePeriod: 5 };
  await train({ ...given, expDir: exp("room") });
  // Room for two checkpoints and a half, and for logs.
  const kilobytes = Math.ceil((2.5 * statSync(join(exp("room"), "checkpoint-5.pt")).size) / 1024) + 300;
  const disk = exp("disk");
  mkdirSync(disk);
  const flags = flagsOf({ ...given, expDir: join(disk, "exp") }).join(" ");
  const result = withMounts(`mount -t tmpfs -o size=${kilobytes}k tmpfs ${disk}; ${seracCommand} train ${flags}; code=$?; cp -r ${disk}/exp ${exp("filled")}; exit $code`);
  if (result === undefined) return skip("this system does not let tests mount a file system");
  const { status, stderr } = result;
  expect(status).toBe(1);
  const failures = stderr.match(
    /a checkpoint could not be saved \(the last good one is \S+\/checkpoint-10\.pt\); training goes on\. .*checkpoint-\d+\.pt: cannot write this file: ENOSPC/g,
  );
  expect(failures?.length, stderr).toBeGreaterThan(0);
  expect(stderr).toMatch(/^serac: .*epoch-1\.pt: cannot write this file: ENOSPC.*\[FILE_UNWRITABLE\]/m);
  expect(saved("filled")).toEqual(["checkpoint-10.pt", "checkpoint-5.pt"]);
  await train({ ...given, expDir: exp("filled"), startBatch: 10 });
  expect(differences(exp("filled"), exp("room"))).toEqual([]);
});

test("a limit on the size of files ends no run before its end either", async () => {
  // No file may become larger than 200 KiB, and a checkpoint has megabytes.
  const { code, stderr } = await start({ ...options, expDir: exp("full"), saveEveryN: 5, averagePeriod: 5 }, () => {}, "ulimit -f 200;");
  expect(code).toBe(1);
  expect(stderr.match(/a checkpoint could not be saved \(none was saved yet\); training goes on\. .*checkpoint-\d+\.pt: cannot write this file: EFBIG/g)?.length).toBeGreaterThan(
    1,
  );
  expect(stderr).toMatch(/^serac: .*epoch-1\.pt: cannot write this file: EFBIG.*\[FILE_UNWRITABLE\]/m);
  expect(saved("full")).toEqual([]);
});
