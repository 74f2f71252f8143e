/** What the flags of schedules and of training data do. */
import { describe, expect, test } from "vitest";
import { specAugmentOf } from "../../src/train/augment.ts";
import { adjustedBatchCount, transducerScales } from "../../src/train/loss.ts";
import { addLosses, perFrame } from "../../src/train/metrics.ts";
import { trainOptions } from "../../src/train/options.ts";
import { parseOptions } from "../../src/util/options.ts";
import { Random } from "../../src/util/random.ts";

const options = (given: object) => parseOptions(trainOptions, { trainManifest: ["train.jsonl"], ...given });

describe("schedules", () => {
  test("warmStep: the simple loss leads at first, and the pruned one has its full weight from warmStep updates on", () => {
    const settings = { warmStep: 2000, simpleLossScale: 0.5 };
    expect(transducerScales(0, settings)).toEqual({ simple: 1, pruned: 0.1 });
    expect(transducerScales(1000, settings)).toEqual({ simple: 0.75, pruned: 0.55 });
    for (const b of [2000, 1_000_000]) expect(transducerScales(b, settings)).toEqual({ simple: 0.5, pruned: 1 });
  });

  test("refDuration: batches of so many seconds count once, larger ones more often", () => {
    expect(adjustedBatchCount(1230, { maxDuration: 600, refDuration: 600 })).toBe(1230);
    expect(adjustedBatchCount(1230, { maxDuration: 200, refDuration: 600 })).toBe(410);
    expect(adjustedBatchCount(9, { maxDuration: 200, refDuration: 1 })).toBe(1800);
  });

  test("resetInterval: the loss shown is that of about so many batches", () => {
    const fade = 1 - 1 / 200;
    let total = addLosses(undefined, { loss: 500, frames: 100 }, fade);
    for (let i = 0; i < 1000; i++) total = addLosses(total, { loss: 100, frames: 100 }, fade);
    expect(perFrame(total).loss).toBeCloseTo(1 + (4 * fade ** 1000) / (200 * (1 - fade ** 1001)), 6);
    expect(total.frames).toBeCloseTo(100 * 200, -3);
  });
});

describe("training data", () => {
  test("enableSpecAug turns masks and warping on and off, and the settings reach them", () => {
    expect(specAugmentOf(options({ enableSpecAug: false }))).toBeUndefined();
    const given = options({ specAugTimeWarpFactor: 0, specAugNumFrameMasks: 0, specAugFeaturesMaskSize: 5 });
    const augment = specAugmentOf(given);
    expect(augment?.options).toMatchObject({ timeWarpFactor: 0, numFrameMasks: 0, featuresMaskSize: 5, maxFramesMaskFraction: 0.15 });
    const bins = 40;
    const data = new Float32Array(100 * bins).map((_, i) => (i % bins) + 1);
    augment?.apply({ data, frames: 100, bins } as Parameters<NonNullable<typeof augment>["apply"]>[0], new Random(1));
    const changed = Array.from({ length: bins }, (_, bin) => Array.from({ length: 100 }, (_, t) => data[t * bins + bin]).some((x) => x !== bin + 1)).filter(Boolean).length;
    expect(changed).toBeGreaterThan(0);
    expect(changed).toBeLessThanOrEqual(8); // two masks of at most four bins, and no other
  });

  test("specAugTimeWarpFactor moves the middle of an utterance", () => {
    const ramp = () => new Float32Array(400).map((_, t) => t);
    const moved = (factor: number): number => {
      const data = ramp();
      const augment = specAugmentOf(options({ specAugTimeWarpFactor: factor, specAugNumFrameMasks: 0, specAugFeaturesMaskSize: 0 }));
      augment?.apply({ data, frames: 400, bins: 1 } as Parameters<NonNullable<typeof augment>["apply"]>[0], new Random(3));
      return Math.max(...data.map((x, t) => Math.abs(x - t)));
    };
    for (const off of [0, -1]) expect(moved(off)).toBe(0);
    expect(moved(80)).toBeGreaterThan(1);
    expect(moved(80)).toBeLessThan(82);
  });
});
