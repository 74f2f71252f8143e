import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { main } from "../../src/cli/main.ts";
import { simpleShards, writeDataset } from "../data/tarred/corpus.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-inspect-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (name: string): string => join(folder, name);

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const streams = { stdout: { write: (text: string) => Boolean((stdout += text)) }, stderr: { write: (text: string) => Boolean((stderr += text)) } };
  const code = await main(args, streams as unknown as NonNullable<Parameters<typeof main>[1]>);
  return { code, stdout, stderr };
}

/** A manifest of utterances of these durations. */
function manifest(name: string, durations: readonly number[]): string {
  writeFileSync(at(name), durations.map((duration, i) => `${JSON.stringify({ audio_filepath: `/no/${i}.wav`, duration, text: "a b" })}\n`).join(""));
  return at(name);
}

beforeAll(() => {
  manifest("one.jsonl", [1, 2, 3, 4, 5, 6, 7, 8, 30]);
  manifest("two.jsonl", [2, 2]);
  writeFileSync(
    at("nemo.yaml"),
    `model:
  train_ds:
    use_lhotse: true
    max_duration: 20
    input_cfg:
    - {type: nemo, manifest_filepath: ${at("one.jsonl")}, weight: 3}
    - {type: nemo, manifest_filepath: ${at("two.jsonl")}, weight: 1}
`,
  );
});

test("says hours, shares, padding and steps of a config without reading audio", async () => {
  const { code, stdout, stderr } = await run("data", "inspect", at("nemo.yaml"), "force_finite=true", "batch_duration=12", "--world-size", "2", "--json");
  expect(stderr).not.toContain("serac:");
  expect(code).toBe(0);
  const { sources, utterances, hours, infinite, batches, warnings } = JSON.parse(stdout) as Record<string, never> & { sources: object[]; batches: Record<string, number> };
  expect([utterances, infinite, warnings]).toEqual([10, false, []]);
  expect(hours).toBeCloseTo(40 / 3600);
  expect(sources[0]).toMatchObject({ kind: "nemo", utterances: 8, share: 0.8, leftOut: [{ reason: "longer than max_duration, 20 s", count: 1, example: `${at("one.jsonl")}:9` }] });
  expect(batches).toMatchObject({ worldSize: 2, complete: true, utterances: 10 });
  expect(batches["paddingRatio"]).toBeGreaterThanOrEqual(0);
  expect((batches as unknown as { secondsPerBatch: { most: number } }).secondsPerBatch.most).toBeLessThanOrEqual(12);
});

test("shares of mixtures without end, and how often utterances come", async () => {
  const { stdout } = await run("data", "inspect", at("nemo.yaml"), "model.train_ds.batch_size=4", "--max-batches", "5");
  expect(stdout).toMatch(
    /one\.jsonl {2}\(nemo, .*nemo\.yaml:6\)\n {2}8 utterances, 0\.010 h\n {2}share: 75\.0 % of the utterances, 87\.1 % of the hours; each comes 0\.94 times while 10 are drawn/,
  );
  expect(stdout).toContain("left out: 1 longer than max_duration, 20 s (first: ");
  expect(stdout).toMatch(/2 sources: 10 utterances, .* without end: sources begin again\nlooked at 5 steps on each of 1 rank, 20 utterances\na batch has 4 to 4 utterances/);
});

test("bins and batch sizes of buckets are taken from the config", async () => {
  writeFileSync(at("bins.yaml"), `- {type: nemo, manifest_filepath: ${at("one.jsonl")}}\n`);
  const { stdout } = await run("data", "inspect", at("bins.yaml"), "bucket_duration_bins=[4, 8]", "bucket_batch_size=[4, 2]");
  expect(stdout).toContain("2 buckets, bins: 4.00, 8.00");
  expect(stdout).toContain("an epoch has 3 steps");
  expect(stdout).toMatch(/left out: 1 .*one\.jsonl:9/);
  const two = await run("data", "inspect", at("bins.yaml"), "bucket_duration_bins=[[8, 1], [8, 9]]", "bucket_batch_size=[4, 2]");
  expect(two.code).toBe(2);
  expect(two.stderr).toMatch(/bucket_duration_bins.*|need a tokenizer to count tokens/);
});

test("without a batch size sources alone are told; tars too", async () => {
  const { tars, manifests } = writeDataset(folder, simpleShards([3, 2]));
  writeFileSync(at("tars.yaml"), `manifest_filepath: ${manifests}\ntarred_audio_filepaths: ${tars}\n`);
  const { code, stdout } = await run("data", "inspect", at("tars.yaml"), "force_finite=true");
  expect(code).toBe(0);
  expect(stdout).toContain("1 source: 5 utterances");
  expect(stdout).not.toContain("batch");
});

test("errors name file and line, and what to do", async () => {
  const wrong = await run("data", "inspect", at("nemo.yaml"), "batch_sise=4");
  expect(wrong.code).toBe(2);
  expect(wrong.stderr).toMatch(/unknown key model\.train_ds\.batch_sise.*Did you mean batch_size\?/);
  const section = await run("data", "inspect", at("nemo.yaml"), "--section", "model.validation_ds");
  expect(section.stderr).toMatch(/nemo\.yaml: there is no block model\.validation_ds/);
  writeFileSync(at("none.yaml"), "trainer: {}\n");
  expect((await run("data", "inspect", at("none.yaml"))).stderr).toMatch(/no block that names data/);
  writeFileSync(at("limit.yaml"), `manifest_filepath: ${at("one.jsonl")}\nmax_duration: 20\n`);
  expect((await run("data", "inspect", at("limit.yaml"))).stderr).toMatch(/limit\.yaml:2: .*max_duration is the longest utterance/);
});

test("several configs in one block are told one by one", async () => {
  writeFileSync(
    at("multi.yaml"),
    `train_ds:\n  multi_config: true\n  seed: 1\n  shard_seed: 1\n  shuffle: true\n  sampler_fusion: zip\n  a: {manifest_filepath: ${at("one.jsonl")}, batch_size: 2}\n  b: {manifest_filepath: ${at("two.jsonl")}, batch_size: 1}\n`,
  );
  const { code, stdout } = await run("data", "inspect", at("multi.yaml"), "--json");
  expect(code).toBe(0);
  const told = JSON.parse(stdout) as { fusion: string; blocks: Record<string, { utterances: number; batches: { steps: number } }> };
  expect(told).toMatchObject({ fusion: "zip", blocks: { a: { utterances: 9, batches: { steps: 5 } }, b: { utterances: 2, batches: { steps: 2 } } } });
  const text = await run("data", "inspect", at("multi.yaml"));
  expect(text.stdout).toMatch(/^a \(zip\)\n[\s\S]*\nb \(zip\)\n/);
});
