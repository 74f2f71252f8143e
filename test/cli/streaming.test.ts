/** serac decode and transcribe --streaming, on a causal model of made-up weights. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Command } from "../../src/cli/command.ts";
import { decode } from "../../src/cli/decode.ts";
import { Output } from "../../src/cli/output.ts";
import { transcribe } from "../../src/cli/transcribe.ts";
import { Recognizer, StreamingRecognizer } from "../../src/decode/index.ts";
import { serializeWav } from "../../src/formats/index.ts";
import { packageRoot } from "../../src/util/paths.ts";
import { causalCheckpoint, sampleRate, speechlike } from "../decode/causal.ts";

const chunks = ["--chunk-size", "8", "--left-context-frames", "16"];
let folder: string;
let checkpoint: string;
const at = (name: string): string => join(folder, name);
/** Files of some seconds, and what streams make of them. */
const recordings = [0.4, 2.1, 1.3].map((seconds, i) => ({ name: `${i}.wav`, samples: speechlike(seconds, i) }));
let texts: string[];

/** Runs a command, with the ends of its two streams. */
async function run(command: Command, ...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const streams = { stdout: { write: (text: string) => Boolean((stdout += text)) }, stderr: { write: (text: string) => Boolean((stderr += text)) } };
  const json = args.includes("--json");
  const parsed = command.parse(args.includes("--exp-dir") || args.includes("--checkpoint") ? args : ["--checkpoint", checkpoint, ...args]);
  const code = await parsed.run(new Output({ json, streams: streams as unknown as ConstructorParameters<typeof Output>[0]["streams"] }));
  return { code, stdout, stderr };
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-streaming-cli-"));
  checkpoint = at("epoch-1.pt");
  await causalCheckpoint(checkpoint);
  for (const { name, samples } of recordings) writeFileSync(at(name), serializeWav({ sampleRate, channels: [samples] }, { format: "float32" }));
  const recognizer = StreamingRecognizer.load(checkpoint, { chunkSize: 8, leftContextFrames: 16 });
  texts = recordings.map(({ samples }) => {
    const stream = recognizer.createStream();
    stream.accept(samples);
    stream.finish();
    recognizer.decode([stream]);
    return stream.text;
  });
  recognizer.dispose();
  expect(texts.every((text) => text.length > 0)).toBe(true);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("--max-sym-per-frame of greedy_search, in streams and not, is in the names of results; CTC takes no notice of it", async () => {
  const recognizer = Recognizer.load(checkpoint, { maxSymPerFrame: 3 });
  const { text: expected } = await recognizer.transcribe(at("1.wav"));
  recognizer.dispose();
  expect((await run(transcribe, "--max-sym-per-frame", "3", at("1.wav"))).stdout).toBe(`${expected}\n`);
  expect((await run(transcribe, at("1.wav"))).stdout).not.toBe(`${expected}\n`);
  const live = [...chunks, "--streaming", at("1.wav")];
  expect((await run(transcribe, "--max-sym-per-frame", "3", ...live)).stdout).not.toBe((await run(transcribe, ...live)).stdout);

  writeFileSync(at("one.jsonl"), JSON.stringify({ audio_filepath: "1.wav", duration: 2.1, text: "low mid" }));
  const flags = ["--manifest", at("one.jsonl"), "--res-dir", at("symbols"), "--max-sym-per-frame", "3"];
  await run(decode, ...flags);
  await run(decode, ...flags, "--exp-dir", folder, "--avg", "1", "--use-averaged-model", "0", ...chunks);
  await run(decode, ...flags, "--decoding-method", "ctc-greedy-search");
  const names = readdirSync(at("symbols")).filter((name) => name.startsWith("recogs"));
  expect(names.sort()).toEqual(["", "_avg-1_chunk-8_left-context-16_max-sym-per-frame-3", "_max-sym-per-frame-3"].map((suffix) => `recogs-one-epoch-1${suffix}.txt`));
  const hyp = /(?<=hyp=\[).*(?=\])/.exec(readFileSync(at(join("symbols", names[2] as string)), "utf8"))?.[0];
  expect(hyp?.replaceAll("'", "").replaceAll(", ", " ")).toBe(expected);
  await expect(run(transcribe, "--max-sym-per-frame", "0", at("1.wav"))).rejects.toThrow(/max-sym-per-frame/);
});

describe("decode --streaming", () => {
  test("gives what each stream alone gives, by however many at once, and counts what it cannot use", async () => {
    const lines = recordings.map(({ name, samples }) => JSON.stringify({ audio_filepath: name, duration: samples.length / sampleRate, text: "low mid" }));
    const missing = JSON.stringify({ audio_filepath: "missing.wav", duration: 1, text: "low" });
    writeFileSync(at("test.jsonl"), [lines[0], missing, ...lines.slice(1)].join("\n"));
    for (const streams of ["1", "2", "2000"]) {
      mkdirSync(at(`res${streams}`));
      const { code, stderr } = await run(decode, "--manifest", at("test.jsonl"), "--res-dir", at(`res${streams}`), "--streaming", ...chunks, "--num-decode-streams", streams);
      expect(code).toBe(0);
      expect(stderr).toContain("left out: 1 unusable audio: AUDIO_MISSING");
      const files = readdirSync(at(`res${streams}`)).sort();
      expect(files).toEqual(["errs", "recogs", "wer-summary"].map((kind) => `${kind}-test-epoch-1_chunk-8_left-context-16.txt`));
      const hyps = readFileSync(join(at(`res${streams}`), files[1] as string), "utf8").match(/(?<=hyp=\[).*(?=\])/g) as string[];
      expect(hyps.map((hyp) => hyp.replaceAll("'", "").replaceAll(", ", " "))).toEqual(texts);
    }
  });

  test("writes its results where streaming_decode.py does, and without it as decode.py names them", async () => {
    const common = ["--exp-dir", folder, "--epoch", "1", "--manifest", at("test.jsonl"), ...chunks];
    await run(decode, ...common, "--streaming");
    await run(decode, ...common);
    for (const dir of [join("streaming", "greedy_search"), "greedy_search"]) expect(readdirSync(at(dir))).toContain("recogs-test-epoch-1_avg-1_chunk-8_left-context-16.txt");
  });

  test("needs one chunk size, one left context and greedy search", async () => {
    const common = ["--manifest", at("test.jsonl"), "--res-dir", at("none"), "--streaming"];
    await expect(run(decode, ...common)).rejects.toThrow(/--chunk-size: --streaming needs one value/);
    await expect(run(decode, ...common, "--chunk-size", "8", "--left-context-frames", "16,32")).rejects.toThrow(/--left-context-frames: --streaming needs one value/);
    await expect(run(decode, ...common, "--chunk-size", "8", "--left-context-frames", "12")).rejects.toThrow(/leftContextFrames/);
    await expect(run(decode, ...common, ...chunks, "--decoding-method", "ctc-greedy-search")).rejects.toThrow(/no ctc-greedy-search.*greedy_search/);
    await causalCheckpoint(at("ctc.pt"), { useTransducer: false });
    await expect(run(decode, ...common, ...chunks, "--checkpoint", at("ctc.pt"))).rejects.toThrow(/no ctc-greedy-search.*Leave it out/);
  });
});

describe("transcribe --streaming", () => {
  test("gives what a stream gives, of files of any rate; bad files are named", async () => {
    const { code, stdout, stderr } = await run(transcribe, "--streaming", ...chunks, at("0.wav"), at("missing.wav"), at("2.wav"));
    expect(code).toBe(1);
    expect(stdout).toBe(`${at("0.wav")}\t${texts[0]}\n${at("2.wav")}\t${texts[2]}\n`);
    expect(stderr).toContain("AUDIO_MISSING");
    const [{ samples }] = recordings as [(typeof recordings)[number]];
    writeFileSync(at("slow.wav"), serializeWav({ sampleRate: sampleRate / 2, channels: [samples] }, { format: "float32" }));
    const json = JSON.parse((await run(transcribe, "--streaming", ...chunks, "--json", at("slow.wav"))).stdout) as { duration: number };
    expect(json.duration).toBe((2 * samples.length) / sampleRate);
  });

  test("of standard input shows text as it grows", async () => {
    const [, { samples }] = recordings as [unknown, (typeof recordings)[number]];
    const bytes = Buffer.from(Int16Array.from(samples, (x) => Math.round(32768 * x)).buffer);
    const child = spawn(process.execPath, [join(packageRoot, "bin", "serac"), "transcribe", "--checkpoint", checkpoint, "--streaming", ...chunks, "-"]);
    const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
    for (let i = 0; i < bytes.length; i += 3333) child.stdin.write(bytes.subarray(i, i + 3333)); // pieces that cut samples in two
    child.stdin.end();
    const [stdout, stderr, [code]] = await ended;
    expect(code).toBe(0);
    const shown = stderr.trim().split("\n");
    expect(shown.length).toBeGreaterThan(3);
    expect(stdout).toBe(`${shown.at(-1)}\n`);
    expect(shown[0]?.length).toBeLessThan(stdout.length / 2);
    expect(new Set(stdout.trim())).toEqual(new Set(texts[1])); // rounded to 16 bits, so not the very text
  });
});
