import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { pythonRound } from "../../src/cli/bins.ts";
import { main } from "../../src/cli/main.ts";
import { trainBpe } from "../../src/text/index.ts";
import { PythonRandom } from "../../src/util/pythonRandom.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-bins-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "train.jsonl");
const model = join(folder, "bpe.model");

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const streams = { stdout: { write: (text: string) => Boolean((stdout += text)) }, stderr: { write: (text: string) => Boolean((stderr += text)) } };
  const code = await main(["bins", ...args], streams as unknown as NonNullable<Parameters<typeof main>[1]>);
  return { code, stdout, stderr };
}

beforeAll(async () => {
  const draw = new PythonRandom(1);
  const words = ["one", "two", "three", "four", "five", "six", "seven"];
  const lines = Array.from({ length: 500 }, (_, i) => {
    const duration = Math.round(1000 * (0.5 + 12 * draw.random() ** 2)) / 1000;
    const text = Array.from({ length: Math.ceil(duration * (1 + 2 * draw.random())) }, () => words[draw.below(7)]).join(" ");
    return JSON.stringify({ audio_filepath: `${i}.wav`, duration, text, lang: i % 2 === 0 ? "en" : "de" });
  });
  writeFileSync(path, `${lines.join("\n")}\n`);
  await trainBpe({ input: words.flatMap((word) => [word, `${word} ${word}`]), outPath: model, vocabSize: 18, type: "char", hardVocabLimit: false });
});

test("prints what estimate_duration_bins.py prints, and both conventions", async () => {
  const { code, stdout, stderr } = await run(path, "-b", "5", "-l", "1", "-u", "10");
  expect(code).toBe(0);
  const [note, used, use, ...options] = stdout.trimEnd().split("\n");
  expect(note).toMatch(/^Note: we discarded \d+\/500 \(\d+\.\d\d%\) utterances due to min\/max duration filtering\.$/);
  expect(used).toMatch(/^Used \d+ examples for the estimation\.$/);
  expect(use).toBe("Use the following options in your config:");
  expect(options[0]).toBe("\tnum_buckets=5");
  const bins = JSON.parse((options[1] as string).replace("\tbucket_duration_bins=", "")) as number[];
  expect(bins.length).toBe(4);
  expect(bins).toEqual([...bins].sort((a, b) => a - b));
  expect(options[2]).toMatch(/^\tmax_duration=\d+\.\d+$/);
  expect(stderr).toMatch(/4 inner edges, for 5 buckets of batch_duration\. With bucket_batch_size bins are upper bounds/);
});

test("-q prints the bins alone; --json gives the same numbers; gzip and -n are read in order", async () => {
  const quiet = await run(path, "-b", "4", "-q");
  expect(quiet.stdout).toMatch(/^\[[\d.]+,[\d.]+,[\d.]+\]\n$/);
  const json = JSON.parse((await run(path, "-b", "4", "--json")).stdout) as { bucket_duration_bins: number[]; upper_bounds: number[]; examples: number };
  expect(json.bucket_duration_bins).toEqual(JSON.parse(quiet.stdout));
  expect(json.upper_bounds.slice(0, 3)).toEqual(json.bucket_duration_bins);
  expect(json.examples).toBe(500);
  const { readFileSync } = await import("node:fs");
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path)));
  expect((await run(`${path}.gz`, "-b", "4", "-q")).stdout).toBe(quiet.stdout);
  expect(JSON.parse((await run(path, "-b", "4", "-n", "100", "--json")).stdout)).toMatchObject({ examples: 100 });
});

test("with a tokenizer: 2-D bins as estimate_duration_bins_2d.py prints them", async () => {
  const { code, stdout } = await run(path, "-b", "4", "-s", "2", "-t", model);
  expect(code).toBe(0);
  expect(stdout).toMatch(/\tuse_bucketing=1\n\tnum_buckets=4\n\tbucket_duration_bins=\[(\[\d+\.\d{3},\d+\],?){4,8}\]\n/);
  const { bucket_duration_bins: bins, max_tps: rates } = JSON.parse((await run(path, "-b", "4", "-s", "2", "-t", model, "--json")).stdout) as {
    bucket_duration_bins: [number, number][];
    max_tps: number[];
  };
  expect(rates.length).toBe(bins.length);
  for (let i = 1; i < bins.length; i++) {
    const [[d0, t0], [d1, t1]] = [bins[i - 1], bins[i]] as [[number, number], [number, number]];
    expect(d1 > d0 || (d1 === d0 && t1 > t0)).toBe(true);
  }
  expect(new Set(bins.map(([duration]) => duration)).size).toBe(4);
});

test("prompts add their tokens; several tokenizers need a language each", async () => {
  const plain = JSON.parse((await run(path, "-b", "2", "-s", "1", "-t", model, "--json")).stdout) as { bucket_duration_bins: [number, number][] };
  const prompted = JSON.parse((await run(path, "-b", "2", "-s", "1", "-t", model, "-f", "canary", "--json")).stdout) as { bucket_duration_bins: [number, number][] };
  prompted.bucket_duration_bins.forEach(([, tokens], i) => expect(tokens).toBeGreaterThanOrEqual((plain.bucket_duration_bins[i]?.[1] as number) + 1));
  const two = await run(path, "-b", "2", "-t", `${model},${model}`);
  expect(two.code).toBe(2);
  expect(two.stderr).toMatch(/2 tokenizers and 0 languages/);
  expect((await run(path, "-b", "2", "-t", `${model},${model}`, "-a", "en,de", "-q")).code).toBe(0);
  expect((await run(path, "-b", "2", "-t", model, "-f", "nothing")).stderr).toMatch(/--prompt-format is nothing, expected canary or canary2/);
});

test("an input_cfg, KEY=VALUE and lists with weights are read as NeMo reads them", async () => {
  const config = join(folder, "input_cfg.yaml");
  writeFileSync(config, `- type: nemo\n  manifest_filepath: ${path}\n`);
  const plain = (await run(path, "-b", "4", "-q")).stdout;
  for (const input of [config, `manifest_filepath=${path}`, `[[${path}]]`]) expect((await run(input, "-b", "4", "-q")).stdout).toBe(plain);
  expect((await run(`[[${path},0.5],[${path},0.5]]`, "-b", "4", "--json")).stdout).toMatch(/"examples":1000/);
  expect((await run(config, "-b", "4", "-t", model, "-q")).stdout).toBe((await run(path, "-b", "4", "-t", model, "-q")).stdout);
});

test("more buckets than utterances is an error", async () => {
  const { code, stderr } = await run(path, "-b", "600");
  expect(code).toBe(2);
  expect(stderr).toMatch(/600 buckets for 500 utterances \[SAMPLER_BINS\]/);
});

test("numbers are rounded as Python rounds them", () => {
  expect([0.015625, 1.000005, 2.5, 3, 1.23456789, 0.000015].map((value) => pythonRound(value, 5))).toEqual(["0.01562", "1.00001", "2.5", "3.0", "1.23457", "2e-05"]);
});
