/** What a run does besides learning: both recipes' losses, accumulated gradients, logs, checkpoints, and what it refuses. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { SpeechBatch } from "../../src/data/index.ts";
import { openPt, type PtDict } from "../../src/formats/index.ts";
import { RunLock } from "../../src/formats/runLock.ts";
import { disposeCheckpoint, loadCheckpoint } from "../../src/models/index.ts";
import { Module } from "../../src/nn/index.ts";
import { liveTensors } from "../../src/torch/index.ts";
import { BadBatches } from "../../src/train/badBatches.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { toneCorpus } from "./tones.ts";

let folder: string;
let options: TrainOptionsInput;
const exp = (name: string): string => join(folder, name);
const said: string[] = [];
const report = { say: (line: string) => void said.push(line) };

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-recipe-"));
  options = { ...(await toneCorpus(folder)), numEpochs: 1 };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function parameters(path: string): Map<string, number[]> {
  const checkpoint = loadCheckpoint(path);
  const values = new Map(Array.from(checkpoint.model, ([key, tensor]) => [key, tensor.toArray()]));
  disposeCheckpoint(checkpoint);
  return values;
}
const metricsOf = (name: string): Record<string, number>[] =>
  readFileSync(join(exp(name), "metrics.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("CR-CTC", () => {
  const cr = { useCrCtc: true, useCtc: true, enableSpecAug: false, logInterval: 1 } as const;

  test("has a consistency loss besides the others, in training and validation, and the masks follow the seed", async () => {
    const before = liveTensors();
    await train({ ...options, ...cr, expDir: exp("cr"), maxSteps: 0 });
    const [first, ...rest] = metricsOf("cr");
    expect(first).toMatchObject({ loss: expect.any(Number), ctc_loss: expect.any(Number), cr_loss: expect.any(Number), simple_loss: expect.any(Number) });
    expect(rest.at(-1)).toMatchObject({ kind: "valid", cr_loss: expect.any(Number) });
    await train({ ...options, ...cr, expDir: exp("cr2") });
    expect(parameters(join(exp("cr2"), "epoch-1.pt"))).toEqual(parameters(join(exp("cr"), "epoch-1.pt")));
    await train({ ...options, ...cr, expDir: exp("cr-ratio"), timeMaskRatio: 0.5 });
    expect(parameters(join(exp("cr-ratio"), "epoch-1.pt"))).not.toEqual(parameters(join(exp("cr"), "epoch-1.pt")));
    expect(liveTensors()).toBe(before);
  });

  test("its weight: constant as the seed has it, rising with the warm-up as of June 2026", async () => {
    const loss = async (name: string, more: TrainOptionsInput): Promise<Record<string, number>> => {
      await train({ ...options, ...cr, expDir: exp(name), useTransducer: false, ctcLossScale: 1, crLossScale: 0.5, warmStep: 10, maxSteps: 1, ...more });
      return metricsOf(name)[0] as Record<string, number>;
    };
    const seed = await loss("cr-seed", { recipe: "seed" });
    expect(seed.loss).toBeCloseTo((seed.ctc_loss as number) + 0.5 * (seed.cr_loss as number), 4);
    const later = await loss("cr-2026", { recipe: "2026" });
    expect(later.loss).toBeCloseTo((later.ctc_loss as number) + 0.05 * (later.cr_loss as number), 4);
  });
});

test("accumGrad updates once for so many batches, and at the end of an epoch by what is left; within it nothing is saved half-way", async () => {
  await train({ ...options, expDir: exp("accum"), accumGrad: 4, saveEveryN: 1, averagePeriod: 1, keepLastK: 100 });
  const path = join(exp("accum"), "epoch-1.pt");
  const { state, ...rest } = loadCheckpoint(path);
  const { batchIdxTrain: batches, optimizer } = state as NonNullable<typeof state>;
  const steps = Object.values((optimizer as { state: Record<string, { step: number }> }).state).map(({ step }) => step);
  expect(new Set(steps)).toEqual(new Set([Math.ceil(batches / 4)]));
  disposeCheckpoint({ state, ...rest });
  const saved = readdirSync(exp("accum")).flatMap((name) => Number(/^checkpoint-(\d+)\.pt$/.exec(name)?.[1] ?? 0) || []);
  expect(saved.sort((a, b) => a - b)).toEqual(Array.from({ length: Math.floor(batches / 4) }, (_, i) => 4 * (i + 1)));
});

describe("mixed precision", () => {
  test("bfloat16 has a scale of the loss, which is logged and saved, and goes on from a checkpoint bit for bit", async () => {
    const base: TrainOptionsInput = { ...options, useBf16: true, numEpochs: 2, saveEveryN: 5, averagePeriod: 5, logInterval: 1 };
    said.length = 0;
    await train({ ...base, expDir: exp("bf16") }, { report });
    expect(
      said.some((line) => /^Epoch 1, batch 0, loss\[loss=[\d.]+, .*over [\d.]+ frames\. \], tot_loss\[.*\], batch size: \d+, lr: \d\.\d\de-\d\d, grad_scale: [12]\.0$/.test(line)),
    ).toBe(true);
    mkdirSync(exp("bf16-again"));
    writeFileSync(join(exp("bf16-again"), "checkpoint-5.pt"), readFileSync(join(exp("bf16"), "checkpoint-5.pt")));
    await train({ ...base, expDir: exp("bf16-again"), startBatch: 5 });
    expect(parameters(join(exp("bf16-again"), "epoch-2.pt"))).toEqual(parameters(join(exp("bf16"), "epoch-2.pt")));
    const { state, ...rest } = loadCheckpoint(join(exp("bf16"), "epoch-2.pt"));
    expect(state?.scaler).toMatchObject({ scale: expect.any(Number), growth_interval: 2000, _growth_tracker: expect.any(Number) });
    disposeCheckpoint({ state, ...rest });
  });

  test("bfloat16 is for training alone: of the same parameters validation gives the loss that it gives without", async () => {
    // With a rate of 0 both runs keep the parameters that the seed draws.
    const runs = [];
    for (const useBf16 of [false, true]) {
      const expDir = `valid-${useBf16}`;
      await train({ ...options, useBf16, baseLr: 0, logInterval: 1, maxDuration: 60, expDir: exp(expDir) });
      const losses = (kind: string) => metricsOf(expDir).flatMap((line) => ((line.kind as unknown) === kind ? [line.loss as number] : []));
      runs.push({ training: losses("train"), validation: losses("valid") });
    }
    const [float, bf16] = runs as [(typeof runs)[number], (typeof runs)[number]];
    expect(bf16.training[0]).not.toBe(float.training[0]);
    expect(bf16.validation).toEqual(float.validation);
    expect(float.validation).toHaveLength(2); // after the first batch, and at the end
  });

  test.each<[string, TrainOptionsInput, RegExp]>([
    ["float16 on the CPU", { useFp16: true }, /--use-fp16 is for --device cuda/],
    ["both", { useFp16: true, useBf16: true }, /--use-fp16 and --use-bf16 are both on/],
    ["several processes", { worldSize: 2 }, /--world-size 2: several processes are not built yet/],
    ["CR-CTC without CTC", { useCrCtc: true, useCtc: false }, /--use-cr-ctc needs --use-ctc 1/],
    ["CR-CTC with SpecAugment", { useCrCtc: true, useCtc: true, enableSpecAug: true }, /add --enable-spec-aug 0/i],
    ["CTC and attention that do not sum to 1", { useTransducer: false, ctcLossScale: 0.3, useCtc: true, useAttentionDecoder: true }, /must sum to 1/],
  ])("%s: refused before anything is read", async (_, more, message) => {
    await expect(train({ ...options, trainManifest: ["none.jsonl"], expDir: exp("never"), ...more })).rejects.toThrow(message);
    expect(existsSync(exp("never"))).toBe(false);
  });
});

test("logs: icefall's file, TensorBoard's events, options and versions, in the folder and in the checkpoint", async () => {
  await train({ ...options, expDir: exp("logs"), logInterval: 1, masterPort: 12354 });
  const [name] = readdirSync(join(exp("logs"), "log"));
  expect(name).toMatch(/^log-train-\d{4}(-\d\d){5}$/);
  const lines = readFileSync(join(exp("logs"), "log", name as string), "utf8");
  for (const part of [
    "INFO [train] Training started",
    "training data: 96 utterances",
    '"env_info":{"serac-version":',
    "Epoch 1, batch 0, loss[",
    "Epoch 1, validation: loss=",
    "Done!",
  ])
    expect(lines).toContain(part);
  expect(lines).toMatch(/Computing validation loss\n.*Epoch 1, validation: loss=.*\n.*Maximum memory allocated so far is [1-9]\d*MB\n/);
  const [events] = readdirSync(join(exp("logs"), "tensorboard"));
  const bytes = readFileSync(join(exp("logs"), "tensorboard", events as string)).toString("latin1");
  for (const tag of ["train/epoch", "train/learning_rate", "train/current_loss", "train/tot_pruned_loss", "train/valid_loss"]) expect(bytes).toContain(tag);
  const saved = JSON.parse(readFileSync(join(exp("logs"), "options.json"), "utf8")) as Record<string, unknown>;
  expect(saved).toMatchObject({ numEpochs: 1, envInfo: { "node-version": process.version } });
  const file = openPt(join(exp("logs"), "epoch-1.pt"));
  const value = file.value as PtDict;
  expect(JSON.parse(value.get("env_info") as string)).toMatchObject({ "node-version": process.version, "torch-version": expect.any(String) });
  expect([value.get("num_epochs"), value.get("base_lr"), value.get("use_autocast")]).toEqual([1n, options.baseLr ?? 0.045, false]);
  file.close();
  await train({ ...options, expDir: exp("no-events"), tensorboard: false, maxSteps: 1 });
  expect(readdirSync(exp("no-events"))).not.toContain("tensorboard");
});

describe("checkpoints", () => {
  test("the epochs with the least training and validation loss are copied", async () => {
    await train({ ...options, expDir: exp("best"), numEpochs: 2 });
    const state = loadCheckpoint(join(exp("best"), "epoch-2.pt"));
    const { bestTrainEpoch, bestValidEpoch } = state.state as { bestTrainEpoch: number; bestValidEpoch: number };
    disposeCheckpoint(state);
    for (const [name, epoch] of [
      ["best-train-loss.pt", bestTrainEpoch],
      ["best-valid-loss.pt", bestValidEpoch],
    ] as const)
      expect(readFileSync(join(exp("best"), name)).equals(readFileSync(join(exp("best"), `epoch-${epoch}.pt`))), name).toBe(true);
    expect(readdirSync(exp("best")).filter((name) => name.includes(".tmp"))).toEqual([]);
  });

  test("one that cannot be written is told with the last good one, and training goes on; the last one's failure is an error", async () => {
    // A folder where a file belongs, made once training has looked for what is there.
    const blockAt = (path: string) => ({ say: (line: string) => void (said.push(line) && line.startsWith("model: ") && mkdirSync(join(path, "x"), { recursive: true })) });
    said.length = 0;
    const result = await train({ ...options, expDir: exp("blocked"), saveEveryN: 5, averagePeriod: 5 }, { report: blockAt(join(exp("blocked"), "checkpoint-5.pt")) });
    expect(said.find((line) => line.includes("could not be saved"))).toMatch(/none was saved yet.*training goes on.*checkpoint-5\.pt.*FILE_UNWRITABLE/);
    expect(existsSync(result.checkpoint)).toBe(true);
    // The last one of a run has nothing behind it that could be saved instead.
    await expect(train({ ...options, expDir: exp("blocked-end") }, { report: blockAt(join(exp("blocked-end"), "epoch-1.pt")) })).rejects.toMatchObject({
      code: "FILE_UNWRITABLE",
      message: expect.stringContaining("epoch-1.pt"),
    });
    expect(readdirSync(exp("blocked-end")).filter((name) => name.includes(".tmp"))).toEqual([]);
  });

  test("a second run in the same folder is refused while the first one is there", async () => {
    mkdirSync(exp("busy"));
    const lock = RunLock.take(join(exp("busy"), ".lock"), { at: exp("busy"), busy: "is training into this folder" });
    await expect(train({ ...options, expDir: exp("busy") })).rejects.toMatchObject({ code: "FOLDER_BUSY", message: expect.stringMatching(/is training into this folder/) });
    lock.release();
    expect((await train({ ...options, expDir: exp("busy"), maxSteps: 1 })).updates).toBe(1);
  });
});

test("--inf-check and --print-diagnostics see a run's model; nothing is saved", async () => {
  const before = liveTensors();
  said.length = 0;
  const result = await train({ ...options, expDir: exp("diagnosed"), printDiagnostics: true, infCheck: true }, { report });
  expect(said.filter((line) => line.startsWith("Sanity check") || line.includes(", validation: "))).toEqual([]);
  expect(result.diagnostics?.some((line) => /^module=encoder\.encoders\.0\.layers\.0\.[\w.]+\.output, type=\w+.*, dim=\d, size=[\d.]+, rms /.test(line))).toBe(true);
  expect(result.diagnostics?.some((line) => line.startsWith("module=joiner.output_linear.weight.param_grad, dim=0"))).toBe(true);
  expect(readdirSync(exp("diagnosed")).filter((name) => name.endsWith(".pt"))).toEqual([]);
  expect(liveTensors()).toBe(before);
});

test("--print-diagnostics ends after an epoch that has fewer batches than it looks at", async () => {
  const result = await train({ ...options, expDir: exp("diagnosed-few"), printDiagnostics: true, numEpochs: 3, limitTrainBatches: 2 }, { report });
  expect(result.updates).toBe(2);
  expect(result.diagnostics?.some((line) => line.startsWith("module=joiner.output_linear.weight.param_grad, dim=0"))).toBe(true);
  expect(readdirSync(exp("diagnosed-few")).filter((name) => name.endsWith(".pt"))).toEqual([]);
});

test("schedules move at every tenth batch of an epoch, also where a run goes on within it", async () => {
  const spy = vi.spyOn(Module.prototype, "setBatchCount");
  const counts = async (more: TrainOptionsInput): Promise<number[]> => {
    spy.mockClear();
    await train({ ...options, numEpochs: 2, limitTrainBatches: 12, maxDuration: 2, refDuration: 2, expDir: exp("schedules"), ...more });
    return spy.mock.calls.map(([count]) => count);
  };
  try {
    expect(await counts({})).toEqual([0, 10, 12, 22]); // 12 is the first batch of the second epoch
    expect(await counts({ expDir: exp("schedules-parted"), maxSteps: 18 })).toEqual([0, 10, 12]);
    expect(await counts({ expDir: exp("schedules-parted"), startBatch: 18 })).toEqual([18, 12, 22]);
  } finally {
    spy.mockRestore();
  }
});

test("an epoch's average loss is its own, also where a run goes on within it", async () => {
  said.length = 0;
  const run = { ...options, numEpochs: 2, limitTrainBatches: 6, logInterval: 1 };
  const totals = (): string[] => said.flatMap((line) => /^Epoch 2, batch \d+, .*tot_loss\[(.*)\], batch size/.exec(line)?.[1] ?? []);
  await train({ ...run, expDir: exp("totals") }, { report });
  expect(said.find((line) => line.startsWith("Epoch 2, batch 0,"))).toMatch(/loss\[(.*)\], tot_loss\[\1\], batch size/);
  const whole = totals();
  expect(whole).toHaveLength(6);
  await train({ ...run, expDir: exp("totals-parted"), maxSteps: 9 });
  said.length = 0;
  await train({ ...run, expDir: exp("totals-parted"), startBatch: 9 }, { report });
  expect(totals()).toEqual(whole.slice(3));
});

describe("losses that are not finite", () => {
  test("batches are left out, named and listed; too many in a row end training with advice, the model and the batch kept", async () => {
    said.length = 0;
    const before = liveTensors();
    const run = train({ ...options, expDir: exp("nan"), baseLr: 1e38, maxBadBatches: 3, infCheck: true }, { report });
    await expect(run).rejects.toMatchObject({ code: "TRAIN_LOSS_NOT_FINITE", message: expect.stringMatching(/3 batches in a row.*lower --base-lr/) });
    expect(said.filter((line) => /^left out update \d+: the loss is NaN .*train\.jsonl:\d+/.test(line))).toHaveLength(2);
    expect(said.some((line) => /^The sum of [\w.<>-]+\.output(\[\d\])? is not finite$/.test(line))).toBe(true);
    expect(said).toContainEqual(expect.stringMatching(/^left out of validation: \d+ batches whose loss is not finite$/));
    expect(said).toContainEqual(expect.stringMatching(/^Epoch 1, validation: loss=nan, /));
    const listed = readFileSync(join(exp("nan"), "bad-batches.jsonl"), "utf8")
      .trim()
      .split("\n");
    expect(new Set(listed.map((line) => JSON.parse(line).update)).size).toBe(3);
    expect(JSON.parse(listed[0] as string)).toMatchObject({ origin: expect.stringContaining("train.jsonl:"), text: expect.any(String), duration: expect.any(Number) });
    expect(readdirSync(exp("nan"))).toEqual(expect.arrayContaining(["bad-model-0.pt", "bad-batch.jsonl"]));
    disposeCheckpoint(loadCheckpoint(join(exp("nan"), "bad-model-0.pt")));
    expect(liveTensors()).toBe(before);
  });

  test("good batches between bad ones begin the count anew", () => {
    const bad = new BadBatches(folder, { limit: 2, say: (line) => said.push(line) });
    const batch = { cuts: [{ id: "a", origin: "x.jsonl:1", duration: 1, text: "one" }] } as unknown as SpeechBatch;
    const sums = { loss: Number.POSITIVE_INFINITY, frames: 10 };
    for (let update = 1; update <= 5; update++) {
      bad.bad(batch, sums, update);
      bad.good();
    }
    bad.bad(batch, sums, 6);
    expect(() => bad.bad(batch, sums, 7)).toThrow(expect.objectContaining({ code: "TRAIN_LOSS_NOT_FINITE" }));
    expect(bad.total).toBe(7);
  });
});
