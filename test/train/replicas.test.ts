/** Training by several threads. They run compiled code: `npm run build:js` before. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { disposeCheckpoint, loadCheckpoint } from "../../src/models/index.ts";
import { liveTensors, noGrad, scope, shareTensors, takeTensors, tensor } from "../../src/torch/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { splitBatch } from "../../src/train/replicas.ts";
import { toneCorpus } from "./tones.ts";

let folder: string;
let options: TrainOptionsInput;
const exp = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-replicas-"));
  options = await toneCorpus(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function parameters(path: string): Map<string, number[]> {
  const checkpoint = loadCheckpoint(path);
  const values = new Map(Array.from(checkpoint.model, ([key, t]) => [key, t.toArray()]));
  disposeCheckpoint(checkpoint);
  return values;
}

describe("parts of a batch", () => {
  test("hold every row once, with its frames and tokens, padded no further than the longest of the part", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 12 }), fc.integer({ min: 1, max: 5 }), (lengths, count) => {
        const inputLens = [...lengths].sort((a, b) => b - a);
        const [frames, bins] = [inputLens[0] as number, 2];
        const inputs = new Float32Array(inputLens.length * frames * bins);
        inputLens.forEach((length, row) => inputs.fill(row + 1, row * frames * bins, (row * frames + length) * bins));
        const y = inputLens.map((_, row) => [row + 1]);
        const parts = splitBatch({ inputs, frames, bins, inputLens }, y, count);
        expect(parts.length).toBe(Math.min(count, inputLens.length));
        expect(parts.flatMap((part) => part.y.map(([id]) => id)).sort((a, b) => (a as number) - (b as number))).toEqual(inputLens.map((_, row) => row + 1));
        for (const { inputs: part, y: tokens } of parts) {
          expect(part.frames).toBe(Math.max(...part.inputLens));
          part.inputLens.forEach((length, i) => {
            const row = part.inputs.subarray(i * part.frames * bins, (i + 1) * part.frames * bins);
            const id = tokens[i]?.[0] as number;
            expect(length).toBe(inputLens[id - 1]);
            expect(Array.from(row)).toEqual(Array.from({ length: part.frames * bins }, (_, k) => (k < length * bins ? id : 0)));
          });
        }
      }),
    );
  });
});

describe("shared tensors", () => {
  test("are the same memory, and are taken once", () => {
    const before = liveTensors();
    scope(() => {
      const a = tensor([1, 2, 3]);
      const numbers = shareTensors([a, null]);
      const [b, none] = takeTensors(numbers);
      expect(none).toBeNull();
      noGrad(() => a.add_(1));
      expect(b?.toArray()).toEqual([2, 3, 4]);
      expect(() => takeTensors(numbers)).toThrow(/taken before/);
    });
    expect(liveTensors()).toBe(before);
  });
});

describe("replicas", () => {
  test("learn, give the same parameters run after run, and go on from a checkpoint as if they had not stopped", async () => {
    const before = liveTensors();
    const two = { ...options, replicas: 2, threads: 2 };
    const whole = await train({ ...two, expDir: exp("whole"), numEpochs: 2 });
    await train({ ...two, expDir: exp("again"), numEpochs: 2 });
    const half = await train({ ...two, expDir: exp("parts"), numEpochs: 1 });
    await train({ ...two, expDir: exp("parts"), numEpochs: 2, startEpoch: 2 });
    const [a, b, c] = ["whole", "again", "parts"].map((name) => parameters(join(exp(name), "epoch-2.pt")));
    expect(b).toEqual(a);
    expect(c).toEqual(a);
    expect(whole.validLoss as number).toBeLessThan(half.validLoss as number);
    expect(liveTensors()).toBe(before);
  });

  test("are refused on other devices", async () => {
    await expect(train({ ...options, expDir: exp("cuda"), replicas: 2, device: "cuda" })).rejects.toThrow(/--replicas 2 is for --device cpu/);
  });
});
