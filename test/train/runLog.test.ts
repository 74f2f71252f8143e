import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { showLosses } from "../../src/train/metrics.ts";
import { RunLog } from "../../src/train/runLog.ts";
import { packageRoot } from "../../src/util/paths.ts";
import { withMounts } from "../data/unprivileged.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-log-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("losses are printed as icefall's MetricsTracker prints them", () => {
  expect(showLosses({ loss: 1234.5678, simple_loss: 0.0001, frames: 1000 })).toBe("loss=1.235, simple_loss=1e-07, over 1000.00 frames. ");
});

test("a log file of icefall's name and form, metrics and events beside it", () => {
  const said: string[] = [];
  const log = new RunLog(folder, { tensorboard: true, say: (line) => said.push(line), now: () => new Date(2026, 10, 5, 9, 8, 7, 65) });
  log.say("Training started");
  log.say("Grad scale is small: 0.005", "WARNING");
  log.note("for the file alone");
  log.metrics({ kind: "train", loss: 0.5 });
  log.scalars({ loss: 0.5, ctc_loss: 0.25 }, 50, "train/tot_");
  log.close();
  expect(said).toEqual(["Training started", "Grad scale is small: 0.005"]);
  expect(readdirSync(join(folder, "log"))).toEqual(["log-train-2026-11-05-09-08-07"]);
  expect(readFileSync(log.path, "utf8").split("\n")).toEqual([
    "2026-11-05 09:08:07,065 INFO [train] Training started",
    "2026-11-05 09:08:07,065 WARNING [train] Grad scale is small: 0.005",
    "2026-11-05 09:08:07,065 INFO [train] for the file alone",
    "",
  ]);
  expect(readFileSync(join(folder, "metrics.jsonl"), "utf8")).toBe('{"kind":"train","loss":0.5}\n');
  const [events] = readdirSync(join(folder, "tensorboard"));
  const bytes = readFileSync(join(folder, "tensorboard", events as string)).toString("latin1");
  for (const tag of ["brain.Event:2", "train/tot_loss", "train/tot_ctc_loss"]) expect(bytes).toContain(tag);
});

test("without TensorBoard there is no event file", () => {
  const log = new RunLog(join(folder, "plain"), { tensorboard: false, say: () => {} });
  log.scalars({ loss: 1 }, 1);
  log.close();
  expect(readdirSync(join(folder, "plain"))).toEqual(["log"]);
});

test("a full disk is said once, and leaves no half of a line or of an event: what is written once there is room again can be read", ({ skip }) => {
  const mounted = join(folder, "small");
  mkdirSync(mounted);
  const script = `
    import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
    const { RunLog } = await import(${JSON.stringify(join(packageRoot, "build/js/train/runLog.js"))});
    const said = [];
    const log = new RunLog(process.argv[1] + "/exp", { tensorboard: true, say: (line) => said.push(line) });
    const write = (from, count) => {
      for (let i = from; i < from + count; i++) {
        log.note("line " + i + " " + "x".repeat(900));
        log.metrics({ i, text: "x".repeat(900) });
        log.scalars(Object.fromEntries(Array.from({ length: 20 }, (_, k) => ["a scalar with a name " + k, i])), i);
      }
    };
    write(0, 2);
    try { for (let i = 0; ; i++) writeFileSync(process.argv[1] + "/full", Buffer.alloc(1000), { flag: "a" }); } catch (error) { if (error.code !== "ENOSPC") throw error; }
    write(2, 20);
    const whileFull = said.length;
    rmSync(process.argv[1] + "/full");
    write(22, 3);
    log.close();
    const text = (...path) => readFileSync([process.argv[1], "exp", ...path].join("/"));
    const lines = (bytes) => bytes.toString().trimEnd().split("\\n");
    const events = text("tensorboard", readdirSync(process.argv[1] + "/exp/tensorboard")[0]);
    let at = 0;
    let count = 0;
    for (; at < events.length; count++) at += 16 + Number(events.readBigUInt64LE(at));
    console.log(JSON.stringify({
      said, whileFull,
      metrics: lines(text("metrics.jsonl")).map((line) => JSON.parse(line).i),
      log: lines(text("log", readdirSync(process.argv[1] + "/exp/log")[0])).map((line) => Number(/ INFO \\[train\\] line (\\d+) x{900}$/.exec(line)?.[1])),
      events: { count, whole: at === events.length },
    }));`;
  const result = withMounts(`mount -t tmpfs -o size=64k tmpfs ${mounted}; "${process.execPath}" --input-type=module -e '${script}' ${mounted}`);
  if (result === undefined) return skip("this system does not let tests mount a file system");
  expect(result.status, result.stderr).toBe(0);
  const { said, whileFull, metrics, log, events } = JSON.parse(result.stdout);
  expect(whileFull).toBe(2);
  expect(said.sort()).toEqual([
    expect.stringMatching(/^metrics\.jsonl cannot be written: ENOSPC/),
    expect.stringMatching(/^the event file cannot be written: .*tfevents.*: cannot write this file: ENOSPC/),
  ]);
  for (const kept of [metrics, log] as number[][]) {
    expect(kept.slice(0, 2)).toEqual([0, 1]);
    expect(kept.slice(-3)).toEqual([22, 23, 24]);
    expect(kept).toEqual([...kept].sort((a, b) => a - b));
  }
  expect(metrics.length).toBeLessThan(25);
  expect(events.whole).toBe(true);
  expect(events.count).toBeGreaterThanOrEqual(1 + 5 * 20);
});
