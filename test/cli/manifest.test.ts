/** The commands of `serac manifest`, as they are typed. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { main } from "../../src/cli/main.ts";
import { packageRoot } from "../../src/util/paths.ts";
import { corpus } from "../data/manifest/corpus.ts";

const { folder, manifest, wav, lines } = corpus();
for (const name of ["a", "b", "c", "d"]) wav(`${name}.wav`);
const train = manifest(
  "train.jsonl",
  ["a", "b", "c", "d"].map((name, i) => ({ audio_filepath: `${name}.wav`, duration: 1, text: `word ${i}`, speaker: `s${i % 2}`, lang: "en" })),
);

async function serac(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const code = await main(["manifest", ...args], { stdout: { write: (text: string) => (stdout += text) }, stderr: { write: (text: string) => (stderr += text) } });
  return { code, stdout, stderr };
}

/** In a process of its own, with something on standard input. */
function piped(input: string, ...args: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(packageRoot, "bin", "serac"), "manifest", ...args], { cwd: folder });
    let stdout = "";
    let stderr = "";
    child.stdout.on("data", (data) => (stdout += data));
    child.stderr.on("data", (data) => (stderr += data));
    child.on("close", (code) => resolve({ code, stdout, stderr }));
    child.stdin.end(input);
  });
}

describe("check", () => {
  test("ends with 0 where nothing is wrong, with 1 and its place where something is", async () => {
    const good = await serac("check", train);
    expect(good).toMatchObject({ code: 0, stdout: expect.stringContaining("nothing wrong found") });
    expect(good.stderr).toContain("serac tar --manifest-path");
    const path = manifest("bad.jsonl", [
      { audio_filepath: "a.wav", duration: 1 },
      { audio_filepath: "gone.wav", duration: 1, text: "x" },
    ]);
    const bad = await serac("check", path);
    expect(bad.code).toBe(1);
    expect(bad.stdout).toContain(`${path}:2: no such file`);
    expect(bad.stdout).toContain("[missingAudio]");
    expect(bad.stderr).toContain("--fix");
    const json = await serac("check", path, "--json");
    expect(json.code).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({
      errors: 1,
      warnings: 1,
      kinds: [
        { kind: "missingAudio", count: 1 },
        { kind: "emptyText", count: 1 },
      ],
    });
    const fixed = await serac("check", path, "--fix", join(folder, "mended.jsonl"));
    expect(fixed.code).toBe(0); // all errors are mended
    expect(lines(join(folder, "mended.jsonl"))).toHaveLength(1);
    expect(lines(join(folder, "mended.changes.jsonl"))).toHaveLength(1);
  });
});

test("stats shows hours, words and a histogram; --json has it all", async () => {
  const { code, stdout } = await serac("stats", train);
  expect(code).toBe(0);
  expect(stdout).toMatch(/utterances +4\n/);
  expect(stdout).toMatch(/words +8, 5 different/);
  expect(stdout).toContain("█");
  expect(stdout).toMatch(/speakers \(2\)\n {2}s0/);
  expect(JSON.parse((await serac("stats", train, "--json")).stdout)).toMatchObject({ utterances: 4, seconds: 4, languages: { en: { utterances: 4 } } });
});

test("filter writes what fulfils every condition", async () => {
  const out = join(folder, "f.jsonl");
  const result = await serac("filter", train, "--where", "speaker = s0 and not text ~ 2", "--max-duration", "1", "-o", out, "--json");
  expect(JSON.parse(result.stdout)).toMatchObject({ kept: 1, dropped: 3 });
  expect(lines(out)).toEqual(lines(train).slice(0, 1));
  await serac("filter", train, "--speaker", "s0", "--lang", "en", "--invert", "-o", out);
  expect(lines(out)).toEqual([1, 3].map((i) => lines(train)[i]));
  expect(await serac("filter", train, "--where", "duration >")).toMatchObject({ code: 2, stderr: expect.stringContaining("CONFIG_BAD_VALUE") });
});

test("split, sample and merge", async () => {
  const split = await serac("split", train, "--parts", "train=rest,valid=0.5", "--by", "speaker", "--out-dir", join(folder, "parts"));
  expect(split.code).toBe(0);
  expect(split.stdout.split("\n").map((line) => line.split("  ").slice(1).join(" "))).toEqual([
    "2 utterances 0.001 h 1 different speaker",
    "2 utterances 0.001 h 1 different speaker",
    "",
  ]);
  const merged = join(folder, "merged.jsonl");
  await serac("merge", join(folder, "parts", "{train,valid}.jsonl"), "-o", merged);
  const parsed = (path: string): object[] =>
    lines(path)
      .sort()
      .map((line) => JSON.parse(line) as object);
  expect(parsed(merged)).toEqual(parsed(train));
  await serac("sample", train, "-n", "2", "-o", merged);
  expect(lines(merged)).toHaveLength(2);
  expect(await serac("split", train, "--parts", "a")).toMatchObject({ code: 2, stderr: expect.stringContaining("NAME=SIZE") });
  expect((await serac("split", train, "--parts", "a=1h,b=25%,c=2", "--out-dir", join(folder, "parts"), "--json")).stdout).toContain('"left":{"utterances":0');
});

test("convert tells what it wrote and what was lost", async () => {
  const cuts = join(folder, "cuts.jsonl.gz");
  expect(await serac("convert", train, cuts)).toMatchObject({ code: 0, stderr: expect.stringContaining("wrote 4 utterances as lhotse") });
  const back = await serac("convert", cuts, join(folder, "back.jsonl"), "--paths", "relative", "--json");
  expect(JSON.parse(back.stdout)).toMatchObject({ from: "lhotse", to: "nemo", utterances: 4, losses: [] });
  expect(lines(join(folder, "back.jsonl")).map((line) => JSON.parse(line))).toEqual(lines(train).map((line) => JSON.parse(line)));
});

test("standard input and output", async () => {
  const text = readFileSync(train, "utf8");
  const stats = await piped(text, "stats", "-", "--json");
  expect(JSON.parse(stats.stdout)).toMatchObject({ utterances: 4 });
  const sample = await piped(`{bad\n${text}`, "sample", "-", "--count", "3", "--skip-bad-lines");
  expect(sample.code).toBe(0);
  expect(sample.stdout.trim().split("\n")).toHaveLength(3);
  expect(sample.stderr).toContain("stdin:1:2");
  const bad = await piped("{bad\n", "filter", "-");
  expect(bad).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("stdin:1:2") });
  const check = await piped(text, "check", "-", "--json");
  expect(JSON.parse(check.stdout)).toMatchObject({ errors: 0, manifests: ["stdin"] });
});
