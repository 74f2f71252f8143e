import fc from "fast-check";
import { expect, test } from "vitest";
import { SpecAugment } from "../../src/audio/index.ts";
import { crCopies, crSpecAugment } from "../../src/train/crCopies.ts";
import { Random } from "../../src/util/random.ts";

const batch = (rows: number, frames: number, bins: number, seed: number) => {
  const random = new Random(seed);
  const inputLens = Array.from({ length: rows }, (_, i) => (i === 0 ? frames : random.integer(1, frames + 1)));
  return { inputs: Float32Array.from({ length: rows * frames * bins }, () => random.uniform() + 1), frames, bins, inputLens };
};

test("masks are icefall's: more of them, and more of the time", () => {
  expect(crSpecAugment({ timeMaskRatio: 2.5, timeWarpFactor: 80 }).options).toMatchObject({
    numFrameMasks: 25,
    maxFramesMaskFraction: 0.375,
    featuresMaskSize: 27,
    numFeatureMasks: 2,
    framesMaskSize: 100,
    timeWarpFactor: 80,
    p: 0.9,
  });
});

test("without masks both copies are the batch; the batch stays as it is", () => {
  const one = batch(3, 20, 4, 1);
  const before = one.inputs.slice();
  const two = crCopies(one, undefined, undefined);
  expect(two.inputLens).toEqual([...one.inputLens, ...one.inputLens]);
  expect(two.inputs.subarray(0, before.length)).toEqual(before);
  expect(two.inputs.subarray(before.length)).toEqual(before);
  crCopies(one, new SpecAugment({ p: 1 }), new Random(1));
  expect(one.inputs).toEqual(before);
});

test("copies share their warp: where neither is masked they are alike; masks differ; the same draws give the same", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 200, max: 260 }), fc.integer(), (rows, frames, seed) => {
      const bins = 8;
      const one = batch(rows, frames, bins, seed);
      const augment = new SpecAugment({ p: 1, timeWarpFactor: 5, featuresMaskSize: 3, numFrameMasks: 4, framesMaskSize: 20, maxFramesMaskFraction: 0.3 });
      const two = crCopies(one, augment, new Random(seed));
      expect(crCopies(one, augment, new Random(seed)).inputs).toEqual(two.inputs);
      const half = one.inputs.length;
      let alike = 0;
      let differing = 0;
      for (let i = 0; i < half; i++) {
        if (two.inputs[i] === two.inputs[half + i]) alike++;
        else differing++;
      }
      expect(alike).toBeGreaterThan(0.2 * half);
      expect(differing).toBeGreaterThan(0);
      // A mask takes the mean of its row, which both copies share.
      for (let row = 0; row < rows; row++) {
        const [a, b] = [0, half].map((start) => two.inputs.subarray(start + row * frames * bins, start + (row + 1) * frames * bins)) as [Float32Array, Float32Array];
        const mean = mostFrequent(a);
        expect(a.every((value, at) => value === b[at] || value === mean || b[at] === mean)).toBe(true);
      }
    }),
    { numRuns: 20 },
  );
});

function mostFrequent(values: Float32Array): number {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].reduce((most, one) => (one[1] > most[1] ? one : most))[0];
}
