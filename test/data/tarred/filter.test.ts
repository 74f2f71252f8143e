import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readAudio } from "../../../src/audio/index.ts";
import { convertToTarred } from "../../../src/data/tarred/convert/convert.ts";
import { filterTarred } from "../../../src/data/tarred/filter.ts";
import { readTar } from "../../../src/formats/tar/index.ts";
import { corpus, newFolder, put } from "./convert/corpus.ts";

test("the lines of a second manifest become a dataset of their own, with its values and the same samples, in NeMo's form and as Shar", async () => {
  const folder = newFolder();
  await convertToTarred({ manifestPath: [corpus(folder, 20)], targetDir: join(folder, "t"), numShards: 2, maxDuration: 20, workers: 1 });
  const manifest = join(folder, "t", "tarred_audio_manifest.json");
  const lines = readFileSync(manifest, "utf8").trimEnd().split("\n");
  const kept = lines.filter((_, i) => i % 3 === 0).map((line) => line.replace('"lang"', '"score": 1.0, "lang"'));
  const filtered = put(join(folder, "kept.json"), `${kept.join("\n")}\n{"audio_filepath": "stranger.wav", "duration": 1}\n`);
  const options = { manifestFilepath: manifest, tarredAudioFilepaths: join(folder, "t", "audio_{0..1}.tar"), filteredManifestFilepath: filtered, say: () => {} };
  const nemo = join(folder, "nemo");
  expect(await filterTarred({ ...options, outputDir: nemo, outputFormat: "nemo_tarred", shardSize: 3 })).toEqual({ kept: 7, shards: 3, missing: 1 });
  let i = 0;
  for (let shard = 0; shard < 3; shard++) {
    const entries = readFileSync(join(nemo, `manifest_${shard}.jsonl`), "utf8")
      .trimEnd()
      .split("\n");
    expect(entries.length).toBe(shard < 2 ? 3 : 1);
    let k = 0;
    for await (const { name, data } of readTar(join(nemo, `audio_${shard}.tar`))) {
      const source = JSON.parse(kept[i++] as string) as { audio_filepath: string; text: string; duration: number };
      expect(entries[k++]).toBe(`{"audio_filepath": "${name}", "duration": ${source.duration}, "text": "${source.text}", "score": 1.0, "lang": "en", "shard_id": ${shard}}`);
      expect(name).toBe(source.audio_filepath.replace(".wav", ".flac"));
      const number = Number(source.text.slice(6));
      expect((await readAudio(data as Buffer)).channels[0]).toEqual((await readAudio(join(folder, "audio", `s${number % 3}`, `u${number}.wav`))).channels[0]);
    }
  }
  const shar = join(folder, "shar");
  expect(await filterTarred({ ...options, outputDir: shar, shardSize: 5 })).toEqual({ kept: 7, shards: 2, missing: 1 });
  const names: string[] = [];
  for await (const { name } of readTar(join(shar, "recording.000000.tar"))) names.push(name);
  expect(names.filter((name) => name.endsWith(".flac")).length).toBe(5);
  expect(names.filter((name) => name.endsWith(".json")).length).toBe(5);
  await expect(filterTarred({ ...options, outputDir: shar })).rejects.toThrow(/TARRED_EXISTS/);
});
