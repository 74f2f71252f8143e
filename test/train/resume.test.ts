/** Going on after a stop, at any step: the parameters are those of the run that was not stopped, bit for bit. Threads run compiled code: `npm run build:js` before. */
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { disposeCheckpoint, loadCheckpoint } from "../../src/models/index.ts";
import { liveTensors } from "../../src/torch/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { everythingRandom } from "./corpora.ts";
import { toneCorpus } from "./tones.ts";

let folder: string;
/** Everything that draws: dropout, speed, noise, rooms, SpecAugment. */
let options: TrainOptionsInput;
const exp = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-resume-"));
  const { validManifest: _, ...tones } = await toneCorpus(folder);
  options = {
    ...tones,
    ...everythingRandom(folder),
    numEpochs: 2,
    saveEveryN: 5,
  };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A digest of each tensor of a checkpoint. */
function contents(path: string): Record<string, string> {
  const checkpoint = loadCheckpoint(path);
  const digests: Record<string, string> = {};
  for (const part of ["model", "modelAvg", "optimizer"] as const)
    for (const [key, tensor] of checkpoint[part] ?? []) digests[`${part}.${key}`] = createHash("sha256").update(tensor.toTypedArray()).digest("hex");
  disposeCheckpoint(checkpoint);
  return digests;
}
const batchesIn = (name: string): number[] =>
  readdirSync(exp(name))
    .flatMap((file) => /^checkpoint-(\d+)\.pt$/.exec(file)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);

/** Copies a checkpoint-B to a folder of its own, as if the run had been stopped there. */
function stoppedAt(from: string, batch: number, to: string): void {
  cpSync(join(exp(from), `checkpoint-${batch}.pt`), join(exp(to), `checkpoint-${batch}.pt`), { recursive: true });
}

describe("resume within an epoch", () => {
  test.each([0, 2])("with %i workers: from any checkpoint, parameters, average and optimiser are bit-identical", async (numWorkers) => {
    const before = liveTensors();
    const name = `whole-${numWorkers}`;
    await train({ ...options, numWorkers, expDir: exp(name) });
    const whole = contents(join(exp(name), "epoch-2.pt"));
    const checkpoints = batchesIn(name);
    expect(checkpoints.length).toBeGreaterThan(4);
    for (const batch of [checkpoints[0], checkpoints.at(-1)] as number[]) {
      stoppedAt(name, batch, `${name}-${batch}`);
      // The other number of workers goes on with the very same batches.
      await train({ ...options, numWorkers: 2 - numWorkers, expDir: exp(`${name}-${batch}`), startBatch: batch });
      expect(contents(join(exp(`${name}-${batch}`), "epoch-2.pt"))).toEqual(whole);
    }
    expect(liveTensors()).toBe(before);
  });

  test("after maxSteps, at a step of any number", async () => {
    const whole = contents(join(exp("whole-0"), "epoch-2.pt"));
    const { checkpoint } = await train({ ...options, numWorkers: 0, expDir: exp("steps"), maxSteps: 7 });
    expect(checkpoint).toBe(join(exp("steps"), "checkpoint-7.pt"));
    await train({ ...options, numWorkers: 0, expDir: exp("steps"), startBatch: 7 });
    expect(contents(join(exp("steps"), "epoch-2.pt"))).toEqual(whole);
  });

  test("stopped between two epochs: the next one begins where the epoch's file ends, and what a killed run had not copied yet is copied", async () => {
    const first = loadCheckpoint(join(exp("whole-0"), "epoch-1.pt"));
    disposeCheckpoint(first);
    const said: string[] = [];
    // As many updates as the first epoch has: the second one ends before it begins.
    const stopped = { ...options, numWorkers: 0, expDir: exp("between"), maxSteps: first.state?.batchIdxTrain as number };
    const { checkpoint } = await train(stopped, { report: { say: (line) => void said.push(line) } });
    expect(checkpoint).toBe(join(exp("between"), "epoch-1.pt"));
    expect(said.at(-1)).toMatch(/epoch-1\.pt; to go on: --start-epoch 2$/);
    rmSync(join(exp("between"), "best-train-loss.pt"));
    await train({ ...stopped, startEpoch: 2 });
    expect(contents(join(exp("between"), "best-train-loss.pt"))).toEqual(contents(join(exp("whole-0"), "epoch-1.pt")));
    await train({ ...options, numWorkers: 0, expDir: exp("between"), startEpoch: 2 });
    expect(contents(join(exp("between"), "epoch-2.pt"))).toEqual(contents(join(exp("whole-0"), "epoch-2.pt")));
  });

  test("stopped before the first update, nothing is saved and the same command starts again", async () => {
    const said: string[] = [];
    const { checkpoint, interrupted } = await train(
      { ...options, numWorkers: 0, expDir: exp("early") },
      { signal: AbortSignal.abort(), report: { say: (line) => void said.push(line) } },
    );
    expect([checkpoint, interrupted, said.at(-1)]).toEqual(["", true, "stopped before the first update: there is nothing to go on from"]);
    expect(readdirSync(exp("early")).filter((name) => name.endsWith(".pt"))).toEqual([]);
    expect((await train({ ...options, numWorkers: 0, expDir: exp("early"), maxSteps: 1 })).updates).toBe(1);
  });

  test("a checkpoint that is not there: the newest that is, or none; nothing is made", async () => {
    const [batch] = batchesIn("whole-0") as [number];
    stoppedAt("whole-0", batch, "gone");
    for (const given of [{ startBatch: batch + 1 }, { startEpoch: 9, numEpochs: 9 }])
      await expect(train({ ...options, expDir: exp("gone"), ...given })).rejects.toMatchObject({
        code: "CHECKPOINT_MISSING",
        message: expect.stringContaining("no such checkpoint"),
        fix: expect.stringMatching(/^give --start-(batch|epoch) \d+: the newest checkpoint is \w+-\d+\.pt$/),
      });
    await expect(train({ ...options, expDir: exp("nowhere"), startBatch: 3 })).rejects.toMatchObject({
      code: "CHECKPOINT_MISSING",
      fix: expect.stringContaining("leave the flag out"),
    });
    expect(existsSync(exp("nowhere"))).toBe(false);
  });

  test("other data, another limit or other augmentation is refused, not gone on with", async () => {
    const [batch] = batchesIn("whole-0") as [number];
    for (const [given, code] of [
      [{ maxDuration: 9 }, "SAMPLER_BAD_STATE"],
      [{ noiseMixProb: 0.5 }, "SAMPLER_BAD_STATE"],
      [{ enableSpecAug: false }, "SAMPLER_BAD_STATE"],
      [{ speedPerturb: false }, "SAMPLER_BAD_STATE"],
      [{ maxUtterance: 1.5 }, "SAMPLER_BAD_STATE"],
    ] as const) {
      stoppedAt("whole-0", batch, "other");
      await expect(train({ ...options, numWorkers: 0, expDir: exp("other"), startBatch: batch, ...given }), JSON.stringify(given)).rejects.toMatchObject({ code });
    }
  });
});
