import fc from "fast-check";
import { expect, test } from "vitest";
import type { Features } from "../../src/audio/fbank.ts";
import { interpolateFrames, SpecAugment } from "../../src/audio/specAugment.ts";
import { Random } from "../../src/util/random.ts";

function ramp(frames: number, bins: number): Features {
  return { frames, bins, data: Float32Array.from({ length: frames * bins }, (_, i) => Math.sin(i * 1.7) + 5) };
}
/** All values distinct, so that a changed one shows. */
function changed(before: Features, after: Features): boolean[][] {
  return Array.from({ length: before.frames }, (_, t) => Array.from({ length: before.bins }, (_, c) => before.data[t * before.bins + c] !== after.data[t * before.bins + c]));
}
const copy = (f: Features): Features => ({ ...f, data: f.data.slice() });

test("interpolation equals torch's bicubic, align_corners False", () => {
  // torch.nn.functional.interpolate(torch.tensor([1., 2., 4., 8.]).reshape(1, 1, 4, 1), size=(n, 1), mode="bicubic", align_corners=False): worked out by hand from
  // the kernel with a = -0.75: at t = 0.5 the weights are -0.09375, 0.59375, 0.59375, -0.09375.
  const data = Float32Array.of(1, 2, 4, 8);
  const out = new Float32Array(2);
  interpolateFrames(data, 4, out, 2, 1);
  expect(out[0]).toBeCloseTo(-0.09375 * (1 + 4) + 0.59375 * (1 + 2), 6);
  expect(out[1]).toBeCloseTo(-0.09375 * (2 + 8) + 0.59375 * (4 + 8), 6);
  const same = new Float32Array(4);
  interpolateFrames(data, 4, same, 4, 1);
  expect(same).toEqual(data);
  const wide = new Float32Array(7 * 2);
  interpolateFrames(Float32Array.of(3, -1, 3, -1, 3, -1), 3, wide, 7, 2);
  wide.forEach((x, i) => expect(x).toBeCloseTo(i % 2 ? -1 : 3, 5)); // weights sum to 1
});

test("masks take the mean, within the limits of width, number and budget", () => {
  fc.assert(
    fc.property(fc.integer(), fc.integer({ min: 0, max: 400 }), fc.integer({ min: 2, max: 60 }), (seed, frames, bins) => {
      const augment = new SpecAugment({ timeWarpFactor: 0, p: 1 });
      const before: Features = { frames, bins, data: Float32Array.from({ length: frames * bins }, (_, i) => (i % 2 ? 4 : 6)) }; // the mean is neither
      const after = copy(before);
      augment.mask(after, new Random(seed));
      const mean = before.data.reduce((a, b) => a + b, 0) / Math.max(1, before.data.length);
      const map = changed(before, after);
      expect(after.data.every((x, i) => x === before.data[i] || Math.abs(x - mean) < 1e-4)).toBe(true);
      const maskedFrames = map.filter((row) => row.every(Boolean)).length;
      const maskedBins = Array.from({ length: bins }, (_, c) => map.every((row) => row[c])).filter(Boolean).length;
      if (maskedBins < bins) expect(maskedFrames).toBeLessThanOrEqual(Math.ceil(0.15 * frames));
      if (maskedFrames < frames) expect(maskedBins).toBeLessThanOrEqual(52);
      // Nothing but whole rows and whole columns.
      const open = map.filter((row) => !row.every(Boolean));
      expect(new Set(open.map((row) => row.join())).size).toBeLessThanOrEqual(1);
    }),
    { numRuns: 100 },
  );
});

test("every width below the limit is drawn, the limit is not", () => {
  const widths = new Set<number>();
  const augment = new SpecAugment({ numFrameMasks: 0, numFeatureMasks: 1, featuresMaskSize: 5 });
  const random = new Random(1);
  for (let i = 0; i < 200; i++) {
    const before = ramp(3, 20);
    const after = copy(before);
    augment.mask(after, random);
    widths.add((changed(before, after)[0] as boolean[]).filter(Boolean).length);
  }
  expect([...widths].sort()).toEqual([0, 1, 2, 3, 4]);
});

test("warping keeps both ends, moves the middle, and leaves short features alone", () => {
  const augment = new SpecAugment({ timeWarpFactor: 80 });
  const short = ramp(161, 4);
  const same = copy(short);
  for (let seed = 0; seed < 20; seed++) augment.timeWarp(same, new Random(seed));
  expect(same).toEqual(short);
  const linear: Features = { frames: 400, bins: 2, data: Float32Array.from({ length: 800 }, (_, i) => Math.floor(i / 2)) };
  let moved = 0;
  for (let seed = 0; seed < 20; seed++) {
    const warped = copy(linear);
    augment.timeWarp(warped, new Random(seed));
    expect(Math.abs((warped.data[0] as number) - 0)).toBeLessThan(2);
    expect(Math.abs((warped.data[799] as number) - 399)).toBeLessThan(2);
    const most = Math.max(...warped.data.map((x, i) => Math.abs(x - Math.floor(i / 2))));
    expect(most).toBeLessThanOrEqual(81);
    if (most > 1) moved++;
  }
  expect(moved).toBeGreaterThan(10);
});

test("segments are warped inside of themselves only", () => {
  const augment = new SpecAugment({ p: 1, numFeatureMasks: 0, numFrameMasks: 0 });
  const before = ramp(700, 3);
  const after = copy(before);
  augment.applyToSegments(
    after,
    [
      { startFrame: 100, numFrames: 300 },
      { startFrame: 650, numFrames: 900 },
      { startFrame: -5, numFrames: 10 },
    ],
    new Random(2),
  );
  const rows = changed(before, after).map((row) => row.some(Boolean));
  expect(rows.slice(0, 100).some(Boolean) || rows.slice(400).some(Boolean)).toBe(false);
  expect(rows.slice(100, 400).some(Boolean)).toBe(true);
});

test("p is the probability of each half, and seeds repeat", () => {
  const never = new SpecAugment({ p: 0 });
  const before = ramp(500, 10);
  const after = copy(before);
  for (let seed = 0; seed < 10; seed++) never.apply(after, new Random(seed));
  expect(after).toEqual(before);
  const run = (seed: number) => {
    const f = copy(before);
    new SpecAugment().apply(f, new Random(seed));
    return f.data;
  };
  expect(run(1)).toEqual(run(1));
  expect(run(1)).not.toEqual(run(2));
  expect(() => new SpecAugment({ p: 1.5 })).toThrow(expect.objectContaining({ code: "CONFIG_BAD_VALUE" }));
  expect(() => new SpecAugment({ featuresMaskSize: -1 })).toThrow(expect.objectContaining({ code: "CONFIG_BAD_VALUE" }));
});
