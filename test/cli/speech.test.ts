/** The commands that need libtorch, as they are typed: bpe train, train, decode, transcribe. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serializeWav } from "../../src/formats/index.ts";
import { describeLibtorch } from "../../src/torch/index.ts";
import { flagOf } from "../../src/util/options.ts";
import { packageRoot } from "../../src/util/paths.ts";
import { Random } from "../../src/util/random.ts";
import { speak, toneCorpus } from "../train/tones.ts";

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

let folder: string;
let trainFlags: string[];

/** Starts `bin/serac` in the corpus's folder; `seen` is called with all of stderr as it grows. */
function serac(args: readonly string[], seen: (stderr: string, child: ChildProcess) => void = () => {}): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(packageRoot, "bin", "serac"), ...args], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (data) => (stdout += data));
    child.stderr.on("data", (data) => seen((stderr += data), child));
    child.on("close", (code) => resolve({ code, stdout, stderr }));
  });
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-cli-"));
  const options = await toneCorpus(folder);
  trainFlags = Object.entries(options).flatMap(([name, value]) => [flagOf(name), Array.isArray(value) ? value.join(",") : String(value)]);
  const { code, stderr } = await serac(["train", ...trainFlags, "--exp-dir", "exp", "--num-epochs", "24", "--save_every_n", "50"]);
  expect(stderr).toContain("Next:");
  expect(code).toBe(0);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("decode", () => {
  test("scores a manifest and writes icefall's files", async () => {
    const { code, stdout } = await serac(["decode", "--exp-dir", "exp", "--epoch", "24", "--avg", "8", "--manifest", "test.jsonl"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^\[test-greedy_search\] %WER [\d.]+% \[\d+ \/ \d+, \d+ ins, \d+ del, \d+ sub \]\n$/);
    const files = readdirSync(join(folder, "exp", "greedy_search")).sort();
    expect(files).toEqual(["errs", "recogs", "wer-summary"].map((kind) => `${kind}-test-epoch-24_avg-8_use-averaged-model.txt`));
    expect(readFileSync(join(folder, "exp", "greedy_search", files[1] as string), "utf8").split("\n")[0]).toMatch(/^test\/0\.wav:\tref=\['(low|mid|top)'/);
  });

  test("--json, by the CTC head, from one checkpoint file; unusable audio is counted", async () => {
    writeFileSync(join(folder, "odd.jsonl"), `${readFileSync(join(folder, "test.jsonl"), "utf8")}{"audio_filepath": "missing.wav", "text": "low"}\nnot json\n`);
    const { code, stdout, stderr } = await serac([
      "decode",
      "--checkpoint",
      "exp/epoch-24.pt",
      "--manifest",
      "odd.jsonl",
      "--decoding-method",
      "ctc-greedy-search",
      "--res-dir",
      "res",
      "--json",
    ]);
    expect(code).toBe(0);
    const result = JSON.parse(stdout) as { set: string; method: string; utterances: number; leftOut: number; wer: number };
    expect(result).toMatchObject({ set: "odd", method: "ctc-greedy-search", utterances: 16, leftOut: 2 });
    expect(result.wer).toBeLessThanOrEqual(0.3);
    expect(stderr).toContain("left out: 1 unusable audio: AUDIO_MISSING");
    expect(stderr).toContain("left out: 1 unusable lines: JSONL_BAD_LINE");
  });

  test("one file and flags that choose among several contradict each other; --use-averaged-model alone averages over the last epoch", async () => {
    const file = await serac(["decode", "--checkpoint", "exp/epoch-24.pt", "--epoch", "24", "--avg", "8", "--manifest", "test.jsonl"]);
    expect(file).toMatchObject({ code: 2, stderr: expect.stringMatching(/--checkpoint exp\/epoch-24\.pt .*--epoch and --avg.*\[CONFIG_BAD_VALUE\]/) });
    const averaged = await serac(["decode", "--exp-dir", "exp", "--use-averaged-model", "1", "--manifest", "test.jsonl", "--res-dir", "res-averaged"]);
    expect(averaged.stderr).toContain("recogs-test-epoch-24_avg-1_use-averaged-model.txt");
  });

  test("no checkpoint, another head than the model has, a wrong flag", async () => {
    expect(await serac(["decode", "--exp-dir", "nowhere", "--manifest", "test.jsonl"])).toMatchObject({ code: 1, stderr: expect.stringContaining("CHECKPOINT_MISSING") });
    expect(await serac(["decode", "--exp-dir", "exp", "--epoch", "24", "--avg", "40", "--manifest", "test.jsonl"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("CHECKPOINT_BAD_AVERAGE"),
    });
    expect(await serac(["decode", "--manifst", "test.jsonl"])).toMatchObject({ code: 2, stderr: expect.stringMatching(/did you mean --manifest/i) });
  });
});

describe("average", () => {
  test("a file of averaged parameters decodes alone, as the epochs do; checkpoint-B files likewise", async () => {
    const epochs = await serac(["decode", "--exp-dir", "exp", "--epoch", "24", "--avg", "8", "--manifest", "test.jsonl"]);
    const made = await serac(["average", "--exp-dir", "exp", "--epoch", "24", "--avg", "8", "--json"]);
    expect(made).toMatchObject({ code: 0 });
    expect(JSON.parse(made.stdout)).toMatchObject({ path: "exp/epoch-24-avg-8.pt", epoch: 24, avg: 8, useAveragedModel: true });
    expect((await serac(["decode", "--checkpoint", "exp/epoch-24-avg-8.pt", "--manifest", "test.jsonl"])).stdout).toBe(epochs.stdout);
    expect(readdirSync(join(folder, "greedy_search"))).toContain("recogs-test-epoch-24-avg-8.txt");

    // --avg 1 is the average over the last epoch, as in icefall; without it the epoch's end is taken
    const one = await serac(["decode", "--exp-dir", "exp", "--epoch", "24", "--avg", "1", "--manifest", "test.jsonl", "--json"]);
    expect(JSON.parse(one.stdout)).toMatchObject({ recogs: join("exp", "greedy_search", "recogs-test-epoch-24_avg-1_use-averaged-model.txt") });
    for (const rest of [[], ["--avg", "1", "--use-averaged-model", "0"], ["--chunk-size", "16", "--left-context-frames", "64"]]) {
      const end = await serac(["decode", "--exp-dir", "exp", "--epoch", "24", ...rest, "--manifest", "test.jsonl", "--json"]);
      expect(JSON.parse(end.stdout), rest.join(" ")).toMatchObject({ recogs: join("exp", "greedy_search", "recogs-test-epoch-24_avg-1.txt") });
    }

    const saved = readdirSync(join(folder, "exp")).flatMap((name) => /^checkpoint-(\d+)\.pt$/.exec(name)?.[1] ?? []);
    expect(saved.length).toBeGreaterThan(1);
    const last = String(Math.max(...saved.map(Number)));
    const iter = await serac(["decode", "--exp-dir", "exp", "--iter", last, "--avg", "2", "--use-averaged-model", "0", "--manifest", "test.jsonl"]);
    expect(iter.code).toBe(0);
    expect(readdirSync(join(folder, "exp", "greedy_search"))).toContain(`recogs-test-iter-${last}_avg-2.txt`);
    const few = await serac(["average", "--exp-dir", "exp", "--iter", last, "--avg", "1000"]);
    expect(few).toMatchObject({ code: 1, stderr: expect.stringMatching(/needs 1001 checkpoint-B files.*CHECKPOINT_BAD_AVERAGE/) });
  });
});

describe("transcribe", () => {
  test("texts on stdout; files that cannot be used are named and the others still transcribed", async () => {
    const wav = (samples: Float32Array): Uint8Array => serializeWav({ sampleRate: 8000, channels: [samples] }, { format: "float32" });
    writeFileSync(join(folder, "said.wav"), wav(speak(["mid", "low"], new Random(3))));
    writeFileSync(join(folder, "short.wav"), wav(new Float32Array(80)));
    writeFileSync(join(folder, "none.wav"), wav(new Float32Array(0)));
    writeFileSync(join(folder, "nan.wav"), wav(new Float32Array(8000).fill(Number.NaN)));
    writeFileSync(join(folder, "big.wav"), wav(Float32Array.from({ length: 8000 }, (_, i) => (i % 3) * 1e30)));
    writeFileSync(join(folder, "text.flac"), "not audio");
    writeFileSync(join(folder, "empty.wav"), "");
    writeFileSync(join(folder, "cut.wav"), wav(speak(["mid", "low"], new Random(3))).subarray(0, 60));
    const files = ["said.wav", "short.wav", "missing.wav", "nan.wav", "big.wav", "text.flac", "empty.wav"];
    const { code, stdout, stderr } = await serac(["transcribe", "--exp-dir", "exp", "--avg", "8", ...files]);
    expect(code).toBe(1);
    expect(stdout).toBe("said.wav\tmid low\nshort.wav\t\n");
    for (const name of ["missing.wav", "nan.wav", "big.wav", "text.flac", "empty.wav"]) expect(stderr).toMatch(new RegExp(`${name}.*\\[AUDIO_`));

    const one = await serac(["transcribe", "--exp-dir", "exp", "--avg", "8", "--json", "said.wav"]);
    expect(one.code).toBe(0);
    const { text, tokens, duration } = JSON.parse(one.stdout) as { text: string; tokens: { piece: string; time: number }[]; duration: number };
    expect(text).toBe("mid low");
    expect(duration).toBeCloseTo(0.9, 5);
    expect(tokens.length).toBeGreaterThan(0);
    for (const name of ["none.wav", "cut.wav"]) {
      const { code: exit, stderr: said } = await serac(["transcribe", "--checkpoint", "exp/epoch-24.pt", name]);
      if (exit !== 0) expect(said).toMatch(/\[AUDIO_/);
      expect(said).not.toContain("    at ");
    }
  });
});

describe("train", () => {
  test("Ctrl-C saves, says how to go on, and exits with 130; so it goes on", async () => {
    let sent = false;
    const first = await serac(["train", ...trainFlags, "--exp-dir", "stop", "--num-epochs", "500", "--log-interval", "1"], (stderr, child) => {
      if (sent || !stderr.includes("Epoch 1, batch 3")) return;
      sent = true;
      child.kill("SIGINT");
    });
    expect(first.code).toBe(130);
    const batch = /to go on: --start-batch (\d+)/.exec(first.stderr)?.[1];
    expect(Number(batch)).toBeGreaterThanOrEqual(3);
    expect(readdirSync(join(folder, "stop"))).toContain(`checkpoint-${batch}.pt`);
    const second = await serac(["train", ...trainFlags, "--exp-dir", "stop", "--num-epochs", "500", "--start-batch", batch as string, "--max-steps", String(Number(batch) + 2)]);
    expect(second.code).toBe(0);
    expect(second.stderr).toContain(`resumed from stop/checkpoint-${batch}.pt`);
  });

  test.skipIf(describeLibtorch().cuda)("a device that is not there ends it before anything is read", async () => {
    const { code, stderr } = await serac(["train", ...trainFlags, "--device", "cuda", "--train-manifest", "none.jsonl", "--exp-dir", "never"]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^serac: CUDA is not there: .*\[TORCH_NO_DEVICE\]\. Use --device cpu.*\n$/);
    expect(readdirSync(folder)).not.toContain("never");
  });

  test.each([
    ["bpe train", (manifest: string) => ["bpe", "train", "--manifest", manifest, "--vocab-size", "18", "--out", "bad.model"]],
    ["train", (manifest: string) => ["train", ...trainFlags, "--train-manifest", manifest, "--exp-dir", "bad"]],
    ["decode", (manifest: string) => ["decode", "--exp-dir", "exp", "--manifest", manifest, "--res-dir", "bad"]],
  ])("%s counts the reasons where no line of a manifest can be used", async (_, args) => {
    writeFileSync(join(folder, "bad.jsonl"), '{"audio_filepath": "a.wav", "duration": "abc"}\n{"audio_filepath": "a.wav", "duration": -1}\n{"duration": 1}\n');
    const { code, stderr } = await serac(args("bad.jsonl"));
    expect(code).toBe(1);
    expect(stderr).toMatch(/2 (with|unusable lines:) MANIFEST_BAD_DURATION \(first: bad\.jsonl:1: "duration" is "abc"/);
    expect(stderr).toMatch(/1 (with|unusable lines:) MANIFEST_NO_AUDIO \(first: bad\.jsonl:3: no "audio_filepath"/);
    expect(stderr).not.toContain("    at ");
  });

  test("wrong values and missing files end with what to do", async () => {
    expect(await serac(["train", ...trainFlags, "--max-duration", "much"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--max-duration is "much", expected a number'),
    });
    expect(await serac(["train", ...trainFlags, "--train-manifest", "none.jsonl"])).toMatchObject({ code: 1, stderr: expect.stringContaining("FILE_MISSING") });
    expect(await serac(["train", ...trainFlags, "--bpe-model", "test.jsonl"])).toMatchObject({ code: 1, stderr: expect.stringMatching(/test\.jsonl: .*TEXT_NOT_A_MODEL/) });
    expect(await serac(["train", ...trainFlags, "--device", "gpu"])).toMatchObject({ code: 2, stderr: expect.stringContaining('--device is "gpu", expected') });
    expect(await serac(["bpe", "train", "--manifest", "train.jsonl", "--vocab-size", "5000", "--out", "big.model"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("TEXT_VOCAB_TOO_LARGE"),
    });
  });
});
