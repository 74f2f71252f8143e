/** The scan for batches that exhaust memory: it leaves no trace in what is trained, and says which batch does not fit. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { liveTensors } from "../../src/torch/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { noiseFolder } from "./corpora.ts";
import { checkpointsIn, differences } from "./kills.ts";
import { toneCorpus } from "./tones.ts";

let folder: string;
let options: TrainOptionsInput;
const said: string[] = [];
const report = { say: (line: string) => void said.push(line) };
const exp = (name: string): string => join(folder, name);
const heading = "Sanity check -- see if any of the batches in epoch 1 would cause OOM.";

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-scan-"));
  const { validManifest: _, ...tones } = await toneCorpus(folder);
  options = { ...tones, speedPerturb: true, noisePath: noiseFolder(folder), enableSpecAug: true, specAugTimeWarpFactor: 4, numEpochs: 1, averagePeriod: 4, saveEveryN: 4 };
  writeFileSync(exp("mix.yaml"), `- {type: nemo, manifest_filepath: ${exp("train.jsonl")}, weight: 0.5}\n- {type: nemo, manifest_filepath: ${exp("test.jsonl")}, weight: 0.5}\n`);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each<[string, () => TrainOptionsInput]>([
  ["two workers", () => ({ ...options, numWorkers: 2 })],
  ["two replicas in bfloat16", () => ({ ...options, numWorkers: 0, replicas: 2, threads: 2, useBf16: true })],
  [
    "data without end",
    () => {
      const { trainManifest: _, maxDuration: _2, numBuckets: _3, dropLast: _4, minUtterance: _5, noisePath: _6, ...rest } = options;
      return { ...rest, trainDs: exp("mix.yaml"), overrides: ["train_ds.batch_duration=8", "train_ds.min_duration=0.1"], limitTrainBatches: 9 };
    },
  ],
])("with %s, checkpoints are those of a run without it: parameters, average, optimiser, generators, place in the data", async (name, given) => {
  const before = liveTensors();
  said.length = 0;
  await train({ ...given(), expDir: exp(`${name} scanned`) }, { report });
  expect(said).toContain(heading);
  expect(said.some((line) => /^Maximum memory allocated so far is [\d.]+ [MG]B$/.test(line))).toBe(true);
  said.length = 0;
  await train({ ...given(), scanForOomBatches: false, expDir: exp(name) }, { report });
  expect(said).not.toContain(heading);
  expect(checkpointsIn(exp(name)).length).toBeGreaterThan(2);
  expect(differences(exp(`${name} scanned`), exp(name))).toEqual([]);
  expect(liveTensors()).toBe(before);
});

test.each([1, 2])("with %i replicas, a batch that does not fit ends training before it begins, with its name and what to change", async (replicas) => {
  const before = liveTensors();
  const available = vi.spyOn(process, "availableMemory").mockReturnValue(2e6);
  const name = `small-${replicas}`;
  await expect(train({ ...options, replicas, threads: 2, expDir: exp(name) })).rejects.toMatchObject({
    code: "TRAIN_NO_MEMORY",
    at: expect.stringMatching(/^the batch of epoch 1 with the (longest utterance|most audio)/),
    message: expect.stringMatching(
      /memory is too small for a batch of \d+ utterances of [\d.]+ to [\d.]+ s, [\d.]+ s with padding: .*train\.jsonl:\d+ \([\d.]+ s\).*bad-batch\.jsonl/,
    ),
    fix: expect.stringMatching(/^lower --max-duration \(it is 8\), .*--max-utterance.*serac batch-sizes/),
  });
  available.mockRestore();
  const [first] = readFileSync(join(exp(name), "bad-batch.jsonl"), "utf8").split("\n");
  expect(JSON.parse(first as string)).toMatchObject({ origin: expect.stringContaining("train.jsonl:"), duration: expect.any(Number) });
  expect(checkpointsIn(exp(name))).toEqual([]);
  expect(liveTensors()).toBe(before);
  // The bound is gone with the scan.
  expect((await train({ ...options, expDir: exp(name), maxSteps: 1 })).updates).toBe(1);
});
