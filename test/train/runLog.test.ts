import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { showLosses } from "../../src/train/metrics.ts";
import { RunLog } from "../../src/train/runLog.ts";

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
