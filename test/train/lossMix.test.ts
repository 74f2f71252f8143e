/** Losses in every mix: each that icefall's rules allow trains, each that they do not is refused in words before anything is read or written. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { disposeCheckpoint, loadCheckpoint } from "../../src/models/index.ts";
import { liveTensors } from "../../src/torch/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { transducerScales } from "../../src/train/loss.ts";
import { toneCorpus } from "./tones.ts";

interface Mix {
  useTransducer: boolean;
  useCtc: boolean;
  useAttentionDecoder: boolean;
  useCrCtc: boolean;
  enableSpecAug: boolean;
}

const both = [false, true];
const mixes: Mix[] = both.flatMap((useTransducer) =>
  both.flatMap((useCtc) =>
    both.flatMap((useAttentionDecoder) => both.flatMap((useCrCtc) => both.map((enableSpecAug) => ({ useTransducer, useCtc, useAttentionDecoder, useCrCtc, enableSpecAug })))),
  ),
);
const names: Record<keyof Mix, string> = { useTransducer: "transducer", useCtc: "CTC", useAttentionDecoder: "attention", useCrCtc: "CR-CTC", enableSpecAug: "SpecAugment" };
const nameOf = (mix: Mix): string =>
  Object.entries(names)
    .flatMap(([key, name]) => (mix[key as keyof Mix] ? [name] : []))
    .join(", ") || "nothing";

/** What icefall's asserts forbid: the words of the refusal, or undefined. */
function refusal({ useTransducer, useCtc, useCrCtc, enableSpecAug }: Mix): RegExp | undefined {
  if (!useTransducer && !useCtc) return /neither --use-transducer nor --use-ctc is on/;
  if (useCrCtc && !useCtc) return /--use-cr-ctc needs --use-ctc 1/;
  if (useCrCtc && enableSpecAug) return /--use-cr-ctc masks each copy by itself.*--enable-spec-aug 0/i;
  return undefined;
}
const legal = mixes.filter((mix) => !refusal(mix));
const illegal = mixes.filter(refusal);

let folder: string;
let options: TrainOptionsInput;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-mix-"));
  const attention = { attentionDecoderDim: 32, attentionDecoderAttentionDim: 32, attentionDecoderNumHeads: 2, attentionDecoderNumLayers: 1, attentionDecoderFeedforwardDim: 32 };
  options = { ...(await toneCorpus(folder)), ...attention, validManifest: undefined, numEpochs: 1, maxSteps: 2, logInterval: 1 };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("both sides are looked at", () => {
  expect([legal.length, illegal.length]).toEqual([16, 16]);
});

describe("trains two steps", () => {
  test.each(legal.map((mix): [string, Mix] => [nameOf(mix), mix]))("%s", async (name, mix) => {
    const before = liveTensors();
    const { useTransducer, useCtc, useAttentionDecoder, useCrCtc } = mix;
    const expDir = join(folder, name.replaceAll(", ", "-"));
    const scales = useTransducer ? { ctcLossScale: 0.3, attentionDecoderLossScale: 0.4 } : { ctcLossScale: 0.1, attentionDecoderLossScale: 0.9 };
    const result = await train({ ...options, ...mix, ...scales, crLossScale: 0.5, expDir });
    expect(result.updates).toBe(2);
    const [first, second] = readFileSync(join(expDir, "metrics.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, number>) as [Record<string, number>, Record<string, number>];
    const transducer = transducerScales(1, { warmStep: options.warmStep as number, simpleLossScale: 0.5 });
    const weights: Record<string, number> = {
      ...(useTransducer ? { simple_loss: transducer.simple, pruned_loss: transducer.pruned } : {}),
      ...(useCtc ? { ctc_loss: useTransducer || useAttentionDecoder ? scales.ctcLossScale : 1 } : {}), // alone it counts fully, as icefall has it
      ...(useCrCtc ? { cr_loss: 0.5 } : {}),
      ...(useAttentionDecoder ? { attn_decoder_loss: scales.attentionDecoderLossScale } : {}),
    };
    for (const losses of [first, second]) {
      expect(Object.keys(losses).filter((key) => key.endsWith("_loss"))).toEqual(Object.keys(weights));
      for (const key of ["loss", ...Object.keys(weights)]) expect(losses[key], key).toBeGreaterThan(0);
    }
    expect(first.loss).toBeCloseTo(
      Object.entries(weights).reduce((sum, [key, weight]) => sum + weight * (first[key] as number), 0),
      4,
    );
    const checkpoint = loadCheckpoint(result.checkpoint);
    const parts = new Set([...checkpoint.model.keys()].map((key) => key.split(".")[0]));
    expect([parts.has("joiner"), parts.has("ctc_output"), parts.has("attention_decoder")]).toEqual([useTransducer, useCtc, useAttentionDecoder]);
    expect(checkpoint.config).toMatchObject({ useTransducer, useCtc, useAttentionDecoder });
    disposeCheckpoint(checkpoint);
    expect(liveTensors()).toBe(before);
  });
});

describe("is refused", () => {
  const refused = async (more: TrainOptionsInput, words: RegExp): Promise<void> => {
    const expDir = join(folder, "never");
    await expect(train({ ...options, trainManifest: ["none.jsonl"], expDir, ...more })).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE", message: expect.stringMatching(words) });
    expect(existsSync(expDir)).toBe(false);
  };

  test.each(illegal.map((mix): [string, Mix] => [nameOf(mix), mix]))("%s", async (_, mix) => {
    await refused(mix, refusal(mix) as RegExp);
  });

  test("CTC and attention without a transducer whose weights do not sum to 1", async () => {
    const mix = { useTransducer: false, useCtc: true, useAttentionDecoder: true };
    await refused({ ...mix, ctcLossScale: 0.2, attentionDecoderLossScale: 0.7 }, /--ctc-loss-scale \(0\.2\) and --attention-decoder-loss-scale \(0\.7\) must sum to 1/);
  });
});
