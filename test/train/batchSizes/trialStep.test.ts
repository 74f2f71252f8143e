import { expect, test } from "vitest";
import { modelOptions } from "../../../src/models/index.ts";
import { allocatedBytes, limitMemory, liveTensors, scope, zeros } from "../../../src/torch/index.ts";
import { boundMemory, deviceMemory, readBytes } from "../../../src/train/batchSizes/memory.ts";
import { findBatchSizes } from "../../../src/train/batchSizes/search.ts";
import { TrialStep } from "../../../src/train/batchSizes/trialStep.ts";
import { checkTrainOptions, trainOptions } from "../../../src/train/options.ts";
import { parseOptions } from "../../../src/util/options.ts";
import { showBytes } from "../../../src/util/progress.ts";
import { collectUntil } from "../../torch/collect.ts";
import { toneShape } from "../tones.ts";

const tiny = {
  featureDim: 24,
  sampleRate: 8000,
  ...toneShape,
  seed: 1,
};

function trialOf({ ddp = false, ...more }: { ddp?: boolean; useBf16?: boolean } = {}): TrialStep {
  const options = checkTrainOptions(parseOptions(trainOptions, { ...tiny, ...more }));
  const shape = parseOptions(modelOptions, Object.fromEntries(Object.keys(modelOptions).map((name) => [name, options[name as keyof typeof options]])));
  return new TrialStep({ config: { ...shape, vocabSize: 40, blankId: 0, sampleRate: options.sampleRate }, options, ratio: 12, steps: 2, ddp });
}

test("a bound on memory makes more of it an error of its own, and nothing is left behind", () => {
  const before = allocatedBytes();
  limitMemory(before + 1_000_000);
  try {
    expect(() => scope(() => zeros([300_000]))).toThrow(expect.objectContaining({ code: "TORCH_NO_MEMORY", message: expect.stringContaining("not enough memory") }));
    scope(() => expect(zeros([200_000]).shape).toEqual([200_000]));
  } finally {
    limitMemory(undefined);
  }
  scope(() => expect(zeros([300_000]).shape).toEqual([300_000]));
  expect(allocatedBytes()).toBe(before);
});

test("batch sizes found on real training steps fit, larger ones do not, and longer buckets have smaller ones; all memory comes back", async () => {
  const [tensors, bytes] = [liveTensors(), allocatedBytes()];
  for (const useBf16 of [false, true]) {
    const limit = 40_000_000;
    const lift = boundMemory("cpu", allocatedBytes() + limit);
    const trial = trialOf({ useBf16 });
    try {
      const found = await findBatchSizes([1, 2, 4], { startBatchSize: 8, threshold: 0.1 }, (bucket, size) => trial.fits(bucket, size));
      const sizes = found.map(({ batchSize }) => batchSize);
      expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
      expect(sizes[0]).toBeGreaterThan(1.5 * (sizes[2] as number));
      for (const { bucket, batchSize } of found) {
        // What a step needs varies by some percent: regularisers act by chance.
        expect(trial.fits(bucket, Math.floor(0.85 * batchSize)), `${bucket} s`).toBe(true);
        expect(trial.peak).toBeLessThanOrEqual(limit + bytes);
        expect(trial.fits(bucket, Math.ceil(1.5 * batchSize)), `${bucket} s, more`).toBe(false);
      }
    } finally {
      trial.dispose();
      lift();
    }
  }
  expect(liveTensors()).toBe(tensors);
  expect(await collectUntil(() => allocatedBytes() === bytes)).toBe(true); // arrays that look into tensors hold some until they are collected
});

test("2-D buckets: more tokens need more memory; no more tokens than frames hold; a second copy of the parameters takes room", () => {
  const trial = trialOf();
  expect(trial.shapeOf(2)).toEqual({ frames: 200, tokens: 24 });
  expect(trial.shapeOf([2, 1000])).toEqual({ frames: 200, tokens: 48 });
  trial.fits([3, 5], 8);
  const few = trial.peak;
  trial.fits([3, 60], 8);
  expect(trial.peak).toBeGreaterThan(few);
  trial.dispose();
  const held = allocatedBytes();
  const [one, two] = [false, true].map((ddp) => {
    const own = trialOf({ ddp });
    const bytes = allocatedBytes() - held;
    own.dispose();
    return bytes;
  }) as [number, number];
  expect(two - one).toBeGreaterThan(100_000);
});

test("bytes are read and shown with their units; the machine's memory is known", () => {
  expect(["16G", "500M", "1.5Gi", "16000", "2kb"].map(readBytes)).toEqual([16e9, 500e6, 1.5 * 2 ** 30, 16000, 2000]);
  expect(["", "G", "-1", "0", "12T", "many"].map(readBytes)).toEqual(Array(6).fill(undefined));
  expect([showBytes(1_240_000_000), showBytes(1_500_000)]).toEqual(["1.24 GB", "1.5 MB"]);
  expect(deviceMemory("cpu")).toBeGreaterThan(100e6);
});
