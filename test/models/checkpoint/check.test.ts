/** Checkpoints that say something impossible of themselves, or of which two do not go together. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { memoryTensor, openPt, type PtDict, type PtValue, ptDict, writePt } from "../../../src/formats/index.ts";
import { averagedCheckpoint, disposeCheckpoint, loadCheckpoint, removeOldCheckpoints, saveCheckpoint } from "../../../src/models/index.ts";
import { liveTensors } from "../../../src/torch/index.ts";

let folder: string;
/** One of serac's own, as .pt and as safetensors. */
let own: string;
let safe: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "serac-check-"));
  const bpeModel = join(folder, "bpe.model");
  writeFileSync(bpeModel, "any bytes: loading does not look into them");
  own = join(folder, "epoch-1.pt");
  safe = join(folder, "own.safetensors");
  const checkpoint = loadCheckpoint(new URL("../../golden/icefall/icefall_checkpoint-6.pt", import.meta.url).pathname, { bpeModel });
  for (const path of [own, safe]) saveCheckpoint(path, checkpoint);
  disposeCheckpoint(checkpoint);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A dict in which the values below some keys are others. */
function changed(value: PtValue | undefined, [key, ...rest]: readonly string[], to: (before: PtValue | undefined) => PtValue | undefined): PtDict {
  const copy = ptDict({});
  for (const [name, item] of value as PtDict) copy.set(name, item);
  const now = rest.length > 0 ? changed(copy.get(key as string), rest, to) : to(copy.get(key as string));
  if (now === undefined) copy.delete(key as string);
  else copy.set(key as string, now);
  return copy;
}

/** Writes serac's own with other values. @returns its path */
function rewritten(name: string, ...changes: [keys: readonly string[], to: (before: PtValue | undefined) => PtValue | undefined][]): string {
  const file = openPt(own);
  const path = join(folder, name);
  writePt(
    path,
    changes.reduce((value, [keys, to]) => changed(value, keys, to), file.value as PtDict),
  );
  file.close();
  return path;
}

const json = (change: Record<string, unknown>) => (before: PtValue | undefined) => JSON.stringify({ ...JSON.parse(before as string), ...change });
const tensor = (dtype: "float32" | "float64", shape: number[]) => memoryTensor(dtype, shape, new Uint8Array(shape.reduce((a, b) => a * b, dtype === "float32" ? 4 : 8)));
const bias = "joiner.decoder_proj.bias";

test.each<[string, readonly string[], (before: PtValue | undefined) => PtValue | undefined, string, RegExp]>([
  ["no scheduler", ["scheduler"], () => undefined, "CHECKPOINT_BAD", /lacks scheduler or batch_idx_train/],
  ["a scheduler of texts", ["scheduler"], () => ptDict({ epoch: "a", batch: 3n }), "CHECKPOINT_BAD", /for scheduler/],
  ["no count of updates", ["batch_idx_train"], () => undefined, "CHECKPOINT_BAD", /lacks scheduler or batch_idx_train/],
  ["a state that is null", ["serac", "state"], () => "null", "CHECKPOINT_BAD", /its state of training is null/],
  ["a state that is a number", ["serac", "state"], () => "5", "CHECKPOINT_BAD", /its state of training is 5/],
  ["a state that is empty", ["serac", "state"], () => "{}", "CHECKPOINT_BAD", /for epoch/],
  ["an epoch that is a text", ["serac", "state"], json({ epoch: "one" }), "CHECKPOINT_BAD", /"one" for epoch/],
  ["fewer than no updates", ["serac", "state"], json({ batchIdxTrain: -5 }), "CHECKPOINT_BAD", /-5 for batchIdxTrain/],
  ["an average over no updates", ["serac", "state"], json({ averagePeriod: 0 }), "CHECKPOINT_BAD", /0 for averagePeriod/],
  ["random numbers of nowhere", ["serac", "state"], json({ random: {} }), "CHECKPOINT_BAD", /\{\} for random/],
  ["modules that remember nothing", ["serac", "state"], json({ modules: null }), "CHECKPOINT_BAD", /null for modules/],
  ["a description of other words", ["serac", "config"], json({ foo: 1 }), "CHECKPOINT_BAD", /unknown option foo/],
  ["channels that are a text", ["serac", "config"], json({ encoderDim: "x" }), "CHECKPOINT_BAD", /encoderDim is "x"/],
  ["a blank outside of the vocabulary", ["serac", "config"], json({ blankId: 9999 }), "CHECKPOINT_BAD", /token 9999 of 50/],
  ["a sampling rate that is a text", ["serac", "config"], json({ sampleRate: "x" }), "CHECKPOINT_BAD", /sampling rate of "x" Hz/],
  ["an average without a parameter", ["serac", "model_avg", bias], () => undefined, "CHECKPOINT_MISMATCH", /running average.*joiner\.decoder_proj\.bias is missing/],
  ["an average of another shape", ["serac", "model_avg", bias], () => tensor("float64", [2]), "CHECKPOINT_MISMATCH", /decoder_proj\.bias is \(2\), not \(36\)/],
  ["an average with one more", ["serac", "model_avg", "more"], () => tensor("float64", [2]), "CHECKPOINT_MISMATCH", /more is one more/],
])("%s: an error that says so, with the file's name", (name, keys, to, code, message) => {
  const before = liveTensors();
  const path = rewritten(`${name}.pt`, [keys, to]);
  expect(() => loadCheckpoint(path)).toThrow(expect.objectContaining({ code, message: expect.stringMatching(message), at: path }));
  expect(liveTensors()).toBe(before);
});

test.each([".pt", ".safetensors"])("flags that contradict a %s file are refused, those that agree are not", (extension) => {
  const path = extension === ".pt" ? own : safe;
  const load = (options: Parameters<typeof loadCheckpoint>[1]): void => disposeCheckpoint(loadCheckpoint(path, options));
  load({ given: { encoderDim: [24, 32, 40], numHeads: [4] }, sampleRate: 16000 });
  for (const given of [{ encoderDim: [24, 32, 48] }, { numHeads: [2] }, { causal: true }, { useCtc: false }])
    expect(() => load({ given })).toThrow(expect.objectContaining({ code: "CHECKPOINT_MISMATCH", message: expect.stringContaining("was given, but the checkpoint's is") }));
  expect(() => load({ sampleRate: 8000 })).toThrow(expect.objectContaining({ code: "CHECKPOINT_MISMATCH", message: expect.stringContaining("--sample-rate 16000, not 8000") }));
});

test("checkpoints of different models are not averaged: what differs is listed", () => {
  const short = (): PtValue => tensor("float32", [2]);
  rewritten("epoch-2.pt", [["model", bias], short], [["serac", "model_avg", bias], short]);
  rewritten("epoch-3.pt", [["model", "more"], short], [["serac", "model_avg", "more"], short]);
  const before = liveTensors();
  const average = (epoch: number, avg: number, useAveragedModel: boolean) => () => averagedCheckpoint(folder, { epoch, avg, useAveragedModel });
  expect(average(2, 2, false)).toThrow(expect.objectContaining({ code: "CHECKPOINT_MISMATCH", message: expect.stringContaining(`${bias} is (36), not (2)`) }));
  expect(average(2, 1, true)).toThrow(expect.objectContaining({ code: "CHECKPOINT_MISMATCH", message: expect.stringContaining(`${bias} is (36), not (2)`) }));
  expect(average(3, 3, false)).toThrow(expect.objectContaining({ code: "CHECKPOINT_MISMATCH" }));
  rmSync(join(folder, "epoch-2.pt"));
  rewritten("epoch-2.pt");
  expect(average(3, 2, false)).toThrow(expect.objectContaining({ code: "CHECKPOINT_MISMATCH", message: expect.stringContaining("more is missing") }));
  expect(liveTensors()).toBe(before);
});

test("old files are removed behind a run; what lies ahead of one that went on from an earlier checkpoint stays, and costs it none of its own", () => {
  const run = join(folder, "run");
  mkdirSync(run);
  for (const batch of [5, 10, 15, 20, 80, 90]) writeFileSync(join(run, `checkpoint-${batch}.pt`), "");
  removeOldCheckpoints(run, { newest: 20, keep: 2 });
  expect(readdirSync(run).sort()).toEqual(["checkpoint-15.pt", "checkpoint-20.pt", "checkpoint-80.pt", "checkpoint-90.pt"]);
  removeOldCheckpoints(run, { newest: 90, keep: 2 });
  expect(readdirSync(run).sort()).toEqual(["checkpoint-80.pt", "checkpoint-90.pt"]);
});
