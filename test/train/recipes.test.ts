/** Where the seed's train.py and that of June 2026 differ. The scale of mixed precision: gradScale.test.ts; the weight of CR-CTC's loss: recipe.test.ts. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serializeWav } from "../../src/formats/index.ts";
import { disposeCheckpoint, loadCheckpoint, saveCheckpoint } from "../../src/models/index.ts";
import { SentencePiece } from "../../src/text/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { Random } from "../../src/util/random.ts";
import { toneCorpus } from "./tones.ts";

const recipes = ["seed", "2026"] as const;
let folder: string;
let options: TrainOptionsInput;
const exp = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-recipes-"));
  const { validManifest: _, ...rest } = await toneCorpus(folder);
  options = { ...rest, numEpochs: 1, logInterval: 1 };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("Eden's warm-up starts at half of the rate, as of June 2026 at a tenth, and is over after 500 batches", async () => {
  for (const [recipe, start] of [
    ["seed", 0.5],
    ["2026", 0.1],
  ] as const) {
    await train({ ...options, recipe, maxSteps: 2, lrEpochs: 100, expDir: exp(`eden-${recipe}`) });
    const rates = readFileSync(join(exp(`eden-${recipe}`), "metrics.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { lr: number }).lr);
    const expected = [1, 2].map((b) => (options.baseLr as number) * ((b / 7500) ** 2 + 1) ** -0.25 * (start + ((1 - start) * b) / 500));
    expect(rates).toBeAllClose(expected, { rtol: 1e-12, atol: 0 });
  }
});

describe("tokens against frames", () => {
  // T = ((frames - 7) // 2 + 1) // 2 at 100 frames a second
  const seconds = (encoderFrames: number): number => (4 * encoderFrames + 7) / 100;

  test.each(recipes)("%s: utterances are left out where T < tokens, as of June 2026 where T - 2 < tokens, which is looked at again as they are played", async (recipe) => {
    const text = "low mid top low mid";
    const tokens = SentencePiece.load(options.bpeModel as string).encode(text);
    const count = tokens.length;
    expect([...tokens].some((id, i) => id === tokens[i + 1])).toBe(false); // so CTC needs no blanks
    const random = new Random(3);
    mkdirSync(exp("short"), { recursive: true });
    const write = (name: string, spares: readonly number[]): string => {
      const lines = spares.map((spare, i) => {
        const duration = seconds(count + spare);
        const samples = Float32Array.from({ length: Math.round(duration * 8000) }, () => 0.1 * random.normal());
        writeFileSync(join(folder, "short", `${name}-${i}.wav`), serializeWav({ sampleRate: 8000, channels: [samples] }, { format: "pcm16" }));
        return JSON.stringify({ audio_filepath: `short/${name}-${i}.wav`, duration, text });
      });
      const path = join(folder, `${name}.jsonl`);
      writeFileSync(path, `${lines.join("\n")}\n`);
      return path;
    };
    const leftOut = async (manifest: string, more: TrainOptionsInput = {}): Promise<string[]> => {
      const said: string[] = [];
      await train({ ...options, recipe, trainManifest: [manifest], expDir: `${manifest}-${recipe}`, ...more }, { report: { say: (line) => said.push(line) } });
      return said.filter((line) => line.startsWith("left out")).map((line) => line.replace(/\(first: .*:(\d+)\)/, "$1"));
    };
    const needed = recipe === "2026" ? 2 : 0;
    const spares = [-1, 0, 1, 2, 3];
    const planned = spares.filter((spare) => spare < needed).length;
    expect(await leftOut(write("planned", spares))).toEqual([`left out: ${planned} with more tokens than frames 1`]);
    // What just fits does not when it is played faster; what has a tenth more does.
    const fits = Array.from({ length: 12 }, () => needed);
    const faster = await leftOut(write("played", fits), { speedPerturb: true });
    expect(faster).toEqual([expect.stringMatching(/^left out while training: [1-9]\d* with more tokens than frames, as they are played \d+$/)]);
    const roomy = fits.map(() => Math.ceil(0.1 * (count + needed)) + needed + 1);
    expect(await leftOut(write("roomy", roomy), { speedPerturb: true })).toEqual([]);
  });
});

test("at the first warning of a small scale June 2026's recipe looks for what is not finite, the seed's does not", async () => {
  const base: TrainOptionsInput = { ...options, useBf16: true };
  await train({ ...base, expDir: exp("start") });
  for (const recipe of recipes) {
    const dir = exp(`small-${recipe}`);
    mkdirSync(dir);
    const checkpoint = loadCheckpoint(join(exp("start"), "epoch-1.pt"));
    const state = checkpoint.state as NonNullable<typeof checkpoint.state>;
    saveCheckpoint(join(dir, "epoch-1.pt"), { ...checkpoint, state: { ...state, scaler: { ...(state.scaler as object), scale: 0.004 } as typeof state.scaler } });
    disposeCheckpoint(checkpoint);
    const said: string[] = [];
    // A rate beyond all measure: the model is not finite after one more update, and its losses neither.
    const run = train({ ...base, recipe, startEpoch: 2, numEpochs: 2, baseLr: 1e38, maxBadBatches: 2, expDir: dir }, { report: { say: (line) => said.push(line) } });
    await expect(run).rejects.toMatchObject({ code: "TRAIN_LOSS_NOT_FINITE" });
    expect(said.some((line) => line.startsWith("Grad scale is small"))).toBe(true);
    expect(said.some((line) => /^The sum of .* is not finite$/.test(line))).toBe(recipe === "2026");
  }
});
