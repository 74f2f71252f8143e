import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readAudio } from "../../../../src/audio/index.ts";
import { convertToTarred } from "../../../../src/data/tarred/convert/convert.ts";
import { parseShards, tarShards } from "../../../../src/data/tarred/convert/partial.ts";
import { readTar } from "../../../../src/formats/tar/index.ts";
import { corpus, newFolder, put, tree, wavBytes } from "./corpus.ts";

const linesOf = (path: string): Record<string, unknown>[] =>
  readFileSync(path, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
async function membersOf(path: string): Promise<Map<string, Buffer>> {
  const members = new Map<string, Buffer>();
  for await (const { name, data } of readTar(path)) members.set(name, data as Buffer);
  return members;
}

describe("audio that is encoded anew", () => {
  test("slices are the samples from floor(offset * rate) on, lossless in WAV and FLAC, named by offset and duration", async () => {
    const folder = newFolder();
    const source = put(join(folder, "a.b.wav"), wavBytes(2));
    const parts = [
      [0, 1],
      [0.5, 0.25],
      [1.00009, 0.1],
      [1e-5, 0.3],
      [1.5, 0.5],
      [0.5, 0.25],
    ] as const;
    const lines = parts.map(([offset, duration]) => `{"audio_filepath": "${source}", "offset": ${offset}, "duration": ${duration}, "text": "x"}`);
    const manifestPath = [put(join(folder, "m.json"), lines.join("\n"))];
    const samples = (await readAudio(source)).channels[0] as Float32Array;
    for (const forceCodec of [undefined, "flac", "wav"] as const) {
      const targetDir = join(folder, `t-${forceCodec}`);
      await convertToTarred({ manifestPath, targetDir, numShards: 1, maxDuration: 20, sliceWithOffset: true, forceCodec, workers: 1 });
      const members = await membersOf(join(targetDir, "audio_0.tar"));
      const base = source.slice(0, -4).replaceAll(/[/.]/g, "_");
      const extension = forceCodec === "flac" ? "flac" : "wav";
      const names = ["0_0_1_0", "0_5_0_25", "1_00009_0_1", "1e-05_0_0_3", "1_5_0_5", "0_5_0_25_dup1"].map((one) => `${base}_${one}.${extension}`);
      expect([...members.keys()]).toEqual(names);
      const entries = linesOf(join(targetDir, "tarred_audio_manifest.json"));
      expect(entries.map(({ audio_filepath }) => audio_filepath)).toEqual(names);
      expect(entries.map(({ source_audio_offset, offset }) => [source_audio_offset, offset])).toEqual(parts.map(([offset]) => [offset, undefined]));
      expect(Object.keys(entries[0] as object)).toEqual(["audio_filepath", "duration", "text", "source_audio_offset", "shard_id"]);
      for (const [i, [offset, duration]] of parts.entries()) {
        const start = Math.trunc(offset * 8000);
        const { channels } = await readAudio(members.get(names[i] as string) as Buffer);
        expect(channels[0]).toEqual(samples.slice(start, start + Math.trunc(duration * 8000)));
      }
    }
  });

  test("codecs and rates: each member decodes to its duration, in the manifest under its own extension", async () => {
    const folder = newFolder();
    const manifestPath = [corpus(folder, 6)];
    for (const forceCodec of ["wav", "flac", "ogg", "opus"] as const) {
      const targetDir = join(folder, forceCodec);
      await convertToTarred({ manifestPath, targetDir, numShards: 1, maxDuration: 20, forceCodec, forceSamplingRate: 16000, workers: 1 });
      const members = await membersOf(join(targetDir, "audio_0.tar"));
      for (const { audio_filepath, duration } of linesOf(join(targetDir, "tarred_audio_manifest.json"))) {
        expect(audio_filepath).toMatch(new RegExp(`\\.${forceCodec}$`));
        const { channels, sampleRate } = await readAudio(members.get(audio_filepath as string) as Buffer);
        expect(sampleRate).toBe(16000);
        expect((channels[0] as Float32Array).length / sampleRate).toBeCloseTo(duration as number, 1);
      }
    }
    // What has the codec and the rate already is stored as it is.
    await convertToTarred({ manifestPath, targetDir: join(folder, "same"), numShards: 1, maxDuration: 20, forceCodec: "wav", forceSamplingRate: 8000, workers: 1 });
    await convertToTarred({ manifestPath, targetDir: join(folder, "plain"), numShards: 1, maxDuration: 20, workers: 1 });
    expect(readFileSync(join(folder, "same", "audio_0.tar")).equals(readFileSync(join(folder, "plain", "audio_0.tar")))).toBe(true);
  });

  test.each([0, 0xffffffff])("WAV files of a pipe, whose size says %i, are cut and encoded to their end", async (size) => {
    const folder = newFolder();
    const bytes = Buffer.from(wavBytes(0.5));
    const { channels } = await readAudio(bytes);
    bytes.writeUInt32LE(size, 40);
    bytes.writeUInt32LE(size === 0 ? 36 : size, 4);
    const source = put(join(folder, "pipe.wav"), bytes);
    const manifestPath = [put(join(folder, "m.json"), `{"audio_filepath": "${source}", "duration": 0.5, "offset": 0.0, "text": "x"}\n`)];
    for (const [name, options] of [
      ["flac", { forceCodec: "flac" }],
      ["slice", { sliceWithOffset: true }],
      ["rate", { forceSamplingRate: 16000 }],
    ] as const) {
      const targetDir = join(folder, name);
      await convertToTarred({ manifestPath, targetDir, numShards: 1, maxDuration: 20, workers: 1, ...options });
      const [data] = (await membersOf(join(targetDir, "audio_0.tar"))).values();
      const audio = await readAudio(data as Buffer);
      if (name === "rate") expect(audio).toMatchObject({ sampleRate: 16000, channels: [{ length: 8000 }] });
      else expect(audio.channels).toEqual(channels);
    }
  });

  test("audio that cannot be decoded, or a part behind its end, is an error at its line and leaves no tar file", async () => {
    const folder = newFolder();
    const good = put(join(folder, "good.wav"), wavBytes(1));
    const bad = put(join(folder, "bad.wav"), "this is no audio at all, but some text of a few bytes");
    const attempt = (line: object) =>
      convertToTarred({
        manifestPath: [put(join(folder, "m.json"), `${JSON.stringify({ audio_filepath: good, offset: 0, duration: 0.5 })}\n${JSON.stringify(line)}\n`)],
        targetDir: join(folder, "t"),
        numShards: 1,
        maxDuration: 20,
        sliceWithOffset: true,
        workers: 1,
        overwrite: true,
      });
    await expect(attempt({ audio_filepath: bad, offset: 0, duration: 0.5 })).rejects.toThrow(/m\.json:2: .*bad\.wav: .*TARRED_AUDIO/s);
    await expect(attempt({ audio_filepath: good, offset: 3, duration: 0.5 })).rejects.toThrow(/m\.json:2: .*good\.wav: offset 3.* is at or after the end/s);
    const [report] = await attempt({ audio_filepath: good, offset: 0.75, duration: 0.5 });
    expect(report).toMatchObject({ short: 1, written: 2 });
  });
});

describe("shards of a dataset whose manifests were made first", () => {
  test("equal those of a conversion in one go, with and without slices, and in any order", async () => {
    const folder = newFolder();
    const manifest = corpus(folder, 12);
    const lines = linesOf(manifest).map((line, i) => JSON.stringify({ ...line, offset: 0.004 * i, duration: 0.05 }));
    const repeated = put(join(folder, "repeated.json"), `${readFileSync(manifest, "utf8")}${readFileSync(manifest, "utf8")}`);
    const cases = [
      { manifestPath: [repeated], shuffle: true, shuffleSeed: 1 },
      { manifestPath: [put(join(folder, "slices.json"), lines.join("\n"))], sliceWithOffset: true, forceCodec: "flac" },
    ] as const;
    for (const [i, one] of cases.entries()) {
      const options = { ...one, maxDuration: 20, numShards: 4, workers: 1 };
      await convertToTarred({ ...options, targetDir: join(folder, `whole${i}`) });
      const target = join(folder, `parts${i}`);
      await convertToTarred({ ...options, targetDir: target, onlyManifests: true });
      const manifestPath = join(target, "tarred_audio_manifest.json");
      expect(await tarShards({ tarredManifestFilepath: manifestPath, shardsToTar: "2:", numWorkers: 1 })).toMatchObject({ shards: 2, skipped: 0 });
      expect(await tarShards({ tarredManifestFilepath: manifestPath, numWorkers: 1 })).toMatchObject({ shards: 2, skipped: 2 });
      const whole = tree(join(folder, `whole${i}`));
      const parts = tree(target);
      for (let shard = 0; shard < 4; shard++) expect(parts[`audio_${shard}.tar`] === whole[`audio_${shard}.tar`], `audio_${shard}.tar`).toBe(true);
      expect(Object.keys(parts).sort()).toEqual(Object.keys(whole).sort());
      const sums = (files: Record<string, string>) => (JSON.parse(files["tarred_audio_record.json"] as string) as { shards: unknown }).shards;
      expect(sums(parts)).toEqual(sums(whole));
    }
  });

  test("are named by numbers, ranges and lists", () => {
    const known = [0, 1, 2, 5];
    expect(parseShards("all", known)).toEqual(known);
    expect(parseShards("0:2", known)).toEqual([0, 1]);
    expect(parseShards(":", known)).toEqual(known);
    expect(parseShards("5, 0", known)).toEqual([0, 5]);
    for (const text of ["", "x", "3", "7:9", "1;2", "-1"]) expect(() => parseShards(text, known), text).toThrow(/CONFIG_BAD_VALUE/);
  });
});

describe("appending to a dataset", () => {
  test("keeps its shards, adds whole ones, and writes the next version with its history", async () => {
    const folder = newFolder();
    const target = join(folder, "t");
    const manifest = corpus(folder, 8);
    await convertToTarred({ manifestPath: [manifest], targetDir: target, numShards: 2, maxDuration: 20, workers: 1 });
    const before = tree(target);
    const append = (version: number, manifests: string[], more = {}) =>
      convertToTarred({
        manifestPath: [join(target, version === 0 ? "tarred_audio_manifest.json" : `tarred_audio_manifest_version_${version}.json`)],
        metadataPath: join(target, version === 0 ? "metadata.yaml" : `metadata_version_${version}.yaml`),
        concatManifestPaths: manifests,
        targetDir: target,
        maxDuration: 20,
        workers: 1,
        ...more,
      });
    const [one] = await append(0, [manifest, manifest]);
    expect(one).toMatchObject({ shards: 4, dropped: 0, written: 16 });
    const after = tree(target);
    for (const [name, text] of Object.entries(before)) expect(after[name] === text, name).toBe(true);
    expect(linesOf(join(target, "tarred_audio_manifest_version_1.json")).map(({ shard_id }) => shard_id)).toEqual([0, 1, 2, 3, 4, 5].flatMap((id) => [id, id, id, id]));
    copyFileSync(manifest, join(folder, "five.json"));
    put(join(folder, "five.json"), readFileSync(manifest, "utf8").split("\n").slice(0, 5).join("\n"));
    const [two] = await append(1, [join(folder, "five.json")]);
    expect(two).toMatchObject({ shards: 1, dropped: 1, written: 4 });
    const yaml = readFileSync(join(target, "metadata_version_2.yaml"), "utf8");
    expect(yaml).toMatch(/^created_datetime: .*\nversion: 2\nnum_samples_per_shard: 4\nis_concatenated_manifest: true\ndataset_config:\n {2}num_shards: 7\n/);
    expect(
      [...yaml.matchAll(/^(- | {2})(version|created_datetime|dataset_config|num_samples_per_shard): ?(\d*)/gm)].map(([, , key, value]) =>
        key === "version" ? Number(value) : key,
      ),
    ).toEqual(["created_datetime", 0, "num_samples_per_shard", "dataset_config", "created_datetime", 1, "num_samples_per_shard", "dataset_config"]);
    const [three] = await append(2, [join(folder, "five.json")], { keepRemainder: true });
    expect(three).toMatchObject({ shards: 1, dropped: 0, written: 5 });
    put(join(folder, "three.json"), readFileSync(manifest, "utf8").split("\n").slice(0, 3).join("\n"));
    await expect(append(3, [join(folder, "three.json")])).rejects.toThrow(/TARRED_EMPTY.*keep_remainder/s);
    await expect(append(3, [manifest], { metadataPath: undefined })).rejects.toThrow(/metadata_path/);
  });
});
