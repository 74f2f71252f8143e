import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openSources, type SourceCut, sourceFeatures, sourceSamples, writeSharFolder } from "../../../src/data/sources/index.ts";

const golden = JSON.parse(readFileSync(new URL("../../golden/shar.json", import.meta.url), "utf8")) as { files: Record<string, string> };
const folder = mkdtempSync(join(tmpdir(), "serac-writeshar-"));
afterAll(() => rmSync(folder, { recursive: true }));
beforeAll(() => {
  mkdirSync(join(folder, "theirs"));
  for (const [name, bytes] of Object.entries(golden.files)) writeFileSync(join(folder, "theirs", name), Buffer.from(bytes, "base64"));
});

async function cutsOf(path: string, extra: object = {}): Promise<SourceCut[]> {
  const { source } = await openSources({ shar_path: path, force_finite: true, ...extra }, { onWarning: () => {} });
  return source.load(Array.from({ length: source.length as number }, (_, i) => i));
}

test("what is written is read back: samples, features, texts, custom values, in shards of the size asked for", async () => {
  const theirs = await cutsOf(join(folder, "theirs"));
  for (const [name, recording, features] of [
    ["flac", "flac", "lilcom"],
    ["wav", "wav", "numpy"],
  ] as const) {
    const path = join(folder, name);
    expect(await writeSharFolder(path, theirs, { recording, features, shardSize: 2 })).toBe(3);
    expect(readdirSync(path)).toHaveLength(6);
    const ours = await cutsOf(path);
    for (const [i, cut] of ours.entries()) {
      const other = theirs[i] as SourceCut;
      expect(cut).toMatchObject({ id: other.id, duration: other.duration, text: other.text, speaker: other.speaker, lang: other.lang, custom: other.custom });
      expect(await sourceSamples(cut, 16000)).toEqual(await sourceSamples(other, 16000));
      const options = { sampleRate: 16000, numMelBins: 8 };
      const [a, b] = [await sourceFeatures(cut, options), await sourceFeatures(other, options)];
      expect(a.frames).toBe(b.frames);
      a.data.forEach((value, k) => expect(Math.abs(value - (b.data[k] as number))).toBeLessThan(2 ** -5));
    }
  }
});

test("speed copies are stored as they sound, without the features of the original", async () => {
  const [, , fast] = await cutsOf(join(folder, "theirs"), { perturb_speed: true });
  const path = join(folder, "fast");
  await writeSharFolder(path, [fast as SourceCut], { features: "lilcom" });
  const [back] = await cutsOf(path);
  expect(back).toMatchObject({ id: "c0_sp1.1", speed: 1 });
  expect((await sourceSamples(back as SourceCut, 16000)).length).toBe((await sourceSamples(fast as SourceCut, 16000)).length);
  expect(back?.features).toBeUndefined();
});

test("folders with shards and ids that come twice are refused, and what is half written goes", async () => {
  const cuts = await cutsOf(join(folder, "theirs"));
  await expect(writeSharFolder(join(folder, "theirs"), cuts)).rejects.toThrow(/MANIFEST_OUTPUT_EXISTS/);
  const path = join(folder, "twice");
  await expect(writeSharFolder(path, [cuts[0], cuts[0]] as SourceCut[])).rejects.toThrow(/the id c0 comes twice.*CUT_BAD/);
  expect(readdirSync(path)).toEqual([]);
});
