/** serac decode on manifests that cannot be recognised or scored as they are. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { decode } from "../../src/cli/decode.ts";
import { Output } from "../../src/cli/output.ts";
import { train } from "../../src/train/index.ts";
import { ManifestError } from "../../src/util/errors.ts";
import { toneCorpus } from "../train/tones.ts";

let folder: string;
let checkpoint: string;
const at = (name: string): string => join(folder, name);
const line = (name: string, text?: string): string => JSON.stringify({ audio_filepath: at(name), duration: 1, text });

/** Decodes manifests with the results in a folder of their own. */
async function run(resDir: string, ...manifests: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const streams = { stdout: { write: (text: string) => Boolean((stdout += text)) }, stderr: { write: (text: string) => Boolean((stderr += text)) } };
  const parsed = decode.parse(["--checkpoint", checkpoint, "--manifest", manifests.join(","), "--res-dir", resDir]);
  const code = await parsed.run(new Output({ streams: streams as unknown as ConstructorParameters<typeof Output>[0]["streams"] }));
  return { code, stdout, stderr };
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-decode-"));
  const options = await toneCorpus(folder);
  ({ checkpoint } = await train({ ...options, validManifest: undefined, expDir: at("exp"), numEpochs: 1 }));
  writeFileSync(at("empty.wav"), "");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("a manifest of which nothing can be recognised is an error with the reasons, and no results", async () => {
  writeFileSync(at("none.jsonl"), `${line("empty.wav", "low")}\nnot json\n${line("missing.wav", "top")}\n${line("empty.wav", "mid")}\n`);
  const error = (await run(at("none"), at("none.jsonl")).catch((thrown: unknown) => thrown)) as ManifestError;
  expect(error).toBeInstanceOf(ManifestError);
  expect(error.code).toBe("SOURCE_EMPTY");
  for (const reason of ["1 unusable lines: JSONL_BAD_LINE (first: @2", "2 unusable audio: AUDIO_EMPTY (first: @1)", "1 unusable audio: AUDIO_MISSING (first: @3)"])
    expect(error.message).toContain(reason.replace("@", `${at("none.jsonl")}:`));
  expect(readdirSync(at("none"))).toEqual([]);
  writeFileSync(at("blank.jsonl"), "");
  await expect(run(at("none"), at("blank.jsonl"))).rejects.toMatchObject({ code: expect.stringMatching(/_EMPTY$/) });
});

test("without any reference the texts are written and the rate is a dash", async () => {
  writeFileSync(at("unknown.jsonl"), `${line("test/0.wav")}\n${line("test/1.wav", "")}\n`);
  const { code, stdout, stderr } = await run(at("unknown"), at("unknown.jsonl"));
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\[unknown-greedy_search\] %WER - \[\d+ \/ 0, /);
  expect(stderr).toContain("unknown: no line has a reference text, so there is no word error rate");
  const files = readdirSync(at("unknown"));
  expect(files).toHaveLength(3);
  for (const file of files) expect(readFileSync(join(at("unknown"), file), "utf8"), file).not.toMatch(/inf|nan/i);
});

test("some utterances without a reference are told apart", async () => {
  writeFileSync(at("some.jsonl"), `${line("test/0.wav")}\n${line("test/1.wav", "low")}\n`);
  const { stdout, stderr } = await run(at("some"), at("some.jsonl"));
  expect(stdout).toMatch(/%WER [\d.]+% \[\d+ \/ 1, /);
  expect(stderr).toContain("some: 1 utterances have no reference text");
});

test("manifests whose results would have one name are refused, and so is a folder that cannot be made", async () => {
  mkdirSync(at("b"));
  for (const name of ["te.jsonl", "b/te.jsonl.gz"]) writeFileSync(at(name), "");
  await expect(run(at("same"), at("te.jsonl"), at("b/te.jsonl.gz"))).rejects.toMatchObject({ code: "CONFIG_BAD_VALUE", message: expect.stringContaining(at("b/te.jsonl.gz")) });
  expect(existsSync(at("same"))).toBe(false);
  await expect(run(at("empty.wav"), at("te.jsonl"))).rejects.toMatchObject({ code: "FILE_UNWRITABLE" });
});
