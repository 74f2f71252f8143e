import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { loadManifest } from "../../src/data/index.ts";
import { Recognizer } from "../../src/decode/index.ts";
import { serializeWav } from "../../src/formats/index.ts";
import { averagedCheckpoint, disposeCheckpoint, loadCheckpoint } from "../../src/models/index.ts";
import { liveTensors } from "../../src/torch/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { Random } from "../../src/util/random.ts";
import { speak, toneCorpus } from "./tones.ts";

let folder: string;
let options: TrainOptionsInput;
const exp = (name: string): string => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-train-"));
  options = await toneCorpus(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The parameters of a checkpoint, flat. */
function parameters(path: string): Map<string, number[]> {
  const checkpoint = loadCheckpoint(path);
  const values = new Map(Array.from(checkpoint.model, ([key, tensor]) => [key, tensor.toArray()]));
  disposeCheckpoint(checkpoint);
  return values;
}

/** Batches of any size give the same texts, and none of several utterances has more padded seconds than allowed. */
async function batchesWithin(recognizer: Recognizer, manifests: string[]): Promise<void> {
  const cuts = await loadManifest(manifests);
  const search = vi.spyOn(recognizer as unknown as { search(items: { frames: number }[]): unknown }, "search");
  const texts: Record<string, string>[] = [];
  for (const maxDuration of [0.1, 3, 1000]) {
    search.mockClear();
    const found: Record<string, string> = {};
    for await (const { cut, transcript } of recognizer.transcribeCuts(cuts, { maxDuration })) found[cut.id] = transcript.text;
    texts.push(found);
    const batches = search.mock.calls.map(([items]) => ({ size: items.length, seconds: (Math.max(...items.map(({ frames }) => frames)) * items.length) / 100 }));
    expect(batches.reduce((sum, { size }) => sum + size, 0)).toBe(cuts.length);
    expect(batches.every(({ size, seconds }) => size === 1 || seconds <= maxDuration)).toBe(true);
    expect(batches.length).toBe(maxDuration === 0.1 ? cuts.length : maxDuration === 1000 ? 1 : batches.length);
  }
  search.mockRestore();
  expect(texts[1]).toEqual(texts[0]);
  expect(texts[2]).toEqual(texts[0]);
}

describe("training end to end", () => {
  test("learns three words and transcribes a voice of its own, from manifests to text", async () => {
    const before = liveTensors();
    const said: string[] = [];
    const result = await train({ ...options, expDir: exp("learn"), numEpochs: 24, werInterval: 24 }, { report: { say: (line) => said.push(line) } });
    expect(result).toMatchObject({ epochs: 24, interrupted: false, checkpoint: join(exp("learn"), "epoch-24.pt") });
    expect(result.validWer).toBeLessThanOrEqual(0.15);
    expect(said.some((line) => line.startsWith("training data: 96 utterances"))).toBe(true);
    const metrics = readFileSync(join(exp("learn"), "metrics.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(metrics.filter((m) => m.kind === "valid")).toHaveLength(25); // after the first batch, and after every epoch

    const averaged = (): ReturnType<typeof loadCheckpoint> => averagedCheckpoint(exp("learn"), { epoch: 24, avg: 8, useAveragedModel: true });
    const recognizer = Recognizer.fromCheckpoint(averaged());
    const wav = join(folder, "own.wav");
    writeFileSync(wav, serializeWav({ sampleRate: 8000, channels: [speak(["low", "top", "mid"], new Random(99))] }, { format: "pcm16" }));
    const transcript = await recognizer.transcribe(wav);
    expect(transcript.text).toBe("low top mid");
    expect(transcript.duration).toBeCloseTo(1.3, 5);
    const times = transcript.tokens.map((token) => token.time);
    expect([...times].sort((a, b) => a - b)).toEqual(times);
    expect(times.every((time) => time >= 0 && time <= 1.3)).toBe(true);

    // Another rate, two channels; a sound too short for a frame.
    const samples = speak(["mid", "low"], new Random(5));
    expect((await recognizer.transcribeSamples(samples, 8000)).text).toBe("mid low");
    expect((await recognizer.transcribeSamples(new Float32Array(100), 8000)).text).toBe("");
    expect((await recognizer.transcribeSamples(new Float32Array(0), 16000)).text).toBe("");
    await batchesWithin(recognizer, options.validManifest as string[]);
    recognizer.dispose();

    const ctc = Recognizer.fromCheckpoint(averaged(), { method: "ctc-greedy-search" });
    expect((await ctc.transcribe(wav)).text).toBe("low top mid");
    ctc.dispose();

    const last = Recognizer.load(result.checkpoint);
    expect((await last.transcribe(wav)).tokens.length).toBeGreaterThan(0);
    last.dispose();
    expect(liveTensors()).toBe(before);
  });

  test("resuming after an epoch, and in its middle, gives the run that was not interrupted", async () => {
    await train({ ...options, expDir: exp("whole"), numEpochs: 3, speedPerturb: true, enableSpecAug: true, saveEveryN: 5 });
    const whole = parameters(join(exp("whole"), "epoch-3.pt"));

    await train({ ...options, expDir: exp("halves"), numEpochs: 2, speedPerturb: true, enableSpecAug: true, saveEveryN: 5 });
    await train({ ...options, expDir: exp("halves"), numEpochs: 3, startEpoch: 3, speedPerturb: true, enableSpecAug: true, saveEveryN: 5 });
    expect(parameters(join(exp("halves"), "epoch-3.pt"))).toEqual(whole);

    const middle = readdirSync(exp("whole")).filter((name) => name.startsWith("checkpoint-"));
    expect(middle.length).toBeGreaterThan(1);
    cpSync(join(exp("whole"), "checkpoint-5.pt"), join(exp("middle"), "checkpoint-5.pt"), { recursive: true });
    await train({ ...options, expDir: exp("middle"), numEpochs: 3, startBatch: 5, speedPerturb: true, enableSpecAug: true, saveEveryN: 5 });
    expect(parameters(join(exp("middle"), "epoch-3.pt"))).toEqual(whole);
  });

  test("aborting saves a checkpoint to go on from, and keepLastK old ones remain", async () => {
    const controller = new AbortController();
    let updates = 0;
    const result = await train(
      { ...options, expDir: exp("abort"), saveEveryN: 5, keepLastK: 1 },
      {
        signal: controller.signal,
        report: {
          say: () => {},
          progress: () => {
            if (++updates === 11) controller.abort();
          },
        },
      },
    );
    expect(result).toMatchObject({ interrupted: true, updates: 11, checkpoint: join(exp("abort"), "checkpoint-11.pt") });
    expect(
      readdirSync(exp("abort"))
        .filter((name) => name.startsWith("checkpoint-"))
        .sort(),
    ).toEqual(["checkpoint-10.pt", "checkpoint-11.pt"]);
    expect(readdirSync(exp("abort")).some((name) => name.includes(".tmp"))).toBe(false);
  });

  test("maxSteps stops", async () => {
    expect(await train({ ...options, expDir: exp("steps"), maxSteps: 3 })).toMatchObject({ updates: 3, interrupted: false });
  });
});

describe("options of a run", () => {
  const metricsOf = (name: string): { kind: string; epoch: number; batch: number; loss: number; wer?: number }[] =>
    readFileSync(join(exp(name), "metrics.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));

  test("intervals: losses are logged, validated and scored as often as asked", async () => {
    await train({ ...options, expDir: exp("intervals"), numEpochs: 4, logInterval: 3, validInterval: 4, werInterval: 2 });
    const metrics = metricsOf("intervals");
    const valid = metrics.filter((m) => m.kind === "valid");
    const ends = [1, 2, 3, 4].map((epoch) => Math.max(...valid.filter((m) => m.epoch === epoch).map((m) => m.batch)));
    const logged = ends.flatMap((end, i) =>
      Array.from({ length: end - (ends[i - 1] ?? 0) }, (_, batchIdx) => batchIdx).flatMap((batchIdx) => (batchIdx % 3 === 0 ? [(ends[i - 1] ?? 0) + batchIdx + 1] : [])),
    );
    expect(metrics.filter((m) => m.kind === "train").map((m) => m.batch)).toEqual(logged);
    for (const epoch of [1, 2, 3, 4]) {
      const at = (e: number): number[] => valid.filter((m) => m.epoch === e).map((m) => m.batch);
      const before = epoch === 1 ? 0 : Math.max(...at(epoch - 1));
      const inEpoch = at(epoch).map((batch) => batch - before);
      const end = inEpoch.at(-1) as number;
      const within = Array.from({ length: end - 1 }, (_, batchIdx) => batchIdx).filter((batchIdx) => batchIdx % 4 === 0 && (batchIdx > 0 || epoch === 1));
      expect(inEpoch).toEqual([...within.map((batchIdx) => batchIdx + 1), end]);
    }
    expect(valid.filter((m) => m.wer !== undefined).map((m) => m.epoch)).toEqual([2, 4]);
  });

  test("bfloat16: the loss falls, the parameters stay float32, and the seed decides", async () => {
    const run = async (name: string, seed: number) => {
      await train({ ...options, expDir: exp(name), numEpochs: 3, useBf16: true, logInterval: 4, seed });
      return metricsOf(name)
        .filter((m) => m.kind === "valid")
        .map((m) => m.loss);
    };
    const losses = await run("bf16", 1);
    expect(losses[2]).toBeLessThan(losses[0] as number);
    const checkpoint = loadCheckpoint(join(exp("bf16"), "epoch-3.pt"));
    expect(new Set(Array.from(checkpoint.model.values(), (tensor) => tensor.dtype))).toEqual(new Set(["float32"]));
    disposeCheckpoint(checkpoint);
    expect(await run("bf16-again", 1)).toEqual(losses);
    expect(await run("bf16-other", 2)).not.toEqual(losses);
  });
});

describe("bad input", () => {
  test("unusable audio is left out and counted, and the others are trained on", async () => {
    const good = readFileSync(join(folder, "train.jsonl"), "utf8").trim().split("\n").slice(0, 8);
    writeFileSync(join(folder, "noise.wav"), "this is no audio");
    writeFileSync(join(folder, "empty.wav"), "");
    const nan = new Float32Array(8000).fill(Number.NaN);
    writeFileSync(join(folder, "nan.wav"), serializeWav({ sampleRate: 8000, channels: [nan] }, { format: "float32" }));
    const bad = ["missing.wav", "noise.wav", "empty.wav", "nan.wav"].map((name) => JSON.stringify({ audio_filepath: name, duration: 1, text: "low" }));
    const wrongDuration = JSON.stringify({ audio_filepath: "train/0.wav", duration: 19, text: "low mid top ".repeat(30).trim() });
    const lines = [
      ...good,
      ...bad,
      wrongDuration,
      "{ not json",
      JSON.stringify({ audio_filepath: "train/0.wav", duration: 1, text: "ünknown" }),
      JSON.stringify({ audio_filepath: "train/0.wav", duration: 0.15, text: "low mid top low mid top" }),
    ];
    writeFileSync(join(folder, "bad.jsonl"), lines.join("\n"));
    const said: string[] = [];
    const result = await train(
      { ...options, trainManifest: [join(folder, "bad.jsonl")], validManifest: undefined, expDir: exp("bad"), numEpochs: 1 },
      { report: { say: (line) => said.push(line) } },
    );
    expect(result.updates).toBeGreaterThan(0);
    const text = said.join("\n");
    expect(text).toContain("left out: 1 unusable lines: JSONL_BAD_LINE");
    expect(text).toContain("1 with characters that the tokenizer does not know");
    expect(text).toContain("1 with more tokens than frames");
    const counted = said.filter((line) => line.startsWith("left out while training:")).map((line) => Number(/: (\d+) /.exec(line)?.[1]));
    expect(counted.reduce((a, b) => a + b, 0)).toBe(5);
    expect(text).toContain("1 unusable audio: AUDIO_LENGTH");
  });

  test("nothing to train on, no tokenizer, a wrong option: an error that says what to do", async () => {
    await expect(train({ ...options, expDir: exp("none"), minUtterance: 15 })).rejects.toMatchObject({ code: "TRAIN_NO_DATA" });
    await expect(train({ ...options, expDir: exp("none"), bpeModel: join(folder, "no.model") })).rejects.toMatchObject({ code: "CHECKPOINT_MISSING" });
    await expect(train({ ...options, expDir: exp("none"), useCtc: false, useTransducer: false })).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE" });
    await expect(train({ ...options, maxduration: 3 } as TrainOptionsInput)).rejects.toThrow(/did you mean maxDuration/i);
    expect(existsSync(exp("none"))).toBe(false);
  });

  test("a checkpoint of another architecture names what differs; a damaged one says so", async () => {
    await train({ ...options, expDir: exp("other"), numEpochs: 1 });
    await expect(train({ ...options, expDir: exp("other"), numEpochs: 1 })).rejects.toMatchObject({ code: "TRAIN_EXISTS", fix: expect.stringContaining("--start-epoch 2") });
    await expect(train({ ...options, expDir: exp("other"), numEpochs: 2, startEpoch: 2, joinerDim: 40 })).rejects.toThrow(
      /joiner\.encoder_proj\.weight is \(32, 64\), the model's is \(40, 64\)/,
    );
    const path = join(exp("other"), "epoch-1.pt");
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.subarray(0, bytes.length - 100));
    expect(() => loadCheckpoint(path)).toThrow(expect.objectContaining({ code: "CHECKPOINT_BAD" }));
    expect(() => loadCheckpoint(join(folder, "test", "0.wav"))).toThrow(expect.objectContaining({ code: "CHECKPOINT_BAD" }));
    expect(() => loadCheckpoint(join(folder, "nothing"))).toThrow(expect.objectContaining({ code: "CHECKPOINT_MISSING" }));
  });
});
