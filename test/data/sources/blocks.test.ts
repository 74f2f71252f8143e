import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { blocksLoaderOptionsOf, createBlocksSampler, Loader, openBlocks, openSources, parseConfig, type SourceCut } from "../../../src/data/index.ts";
import { cutOf, newFolder, rate, wave } from "../loading/corpus.ts";

const folder = newFolder();
afterAll(() => rmSync(folder, { recursive: true }));
const manifests: string[] = [];
for (const name of ["a", "b"]) {
  const cuts: SourceCut[] = [];
  for (let i = 0; i < 6; i++) cuts.push(await cutOf(folder, `${name}${i}`, wave((0.3 + 0.1 * i) * rate, i)));
  manifests.push(join(folder, `${name}.jsonl`));
  writeFileSync(manifests.at(-1) as string, cuts.map(({ audioPath, duration, text }) => `${JSON.stringify({ audio_filepath: audioPath, duration, text })}\n`).join(""));
}
const yaml = (extra = "", more = ""): string => `
multi_config: true
seed: 1
shard_seed: 2
shuffle: false
num_workers: 0
${extra}
speech:
  manifest_filepath: ${manifests[0]}
  batch_size: 2
  pad_min_duration: 1
noise:
  manifest_filepath: ${manifests[1]}
  batch_size: 3
${more}`;
const block = (extra?: string, more?: string) => parseConfig(yaml(extra, more), "train.yaml");
const quiet = { onWarning: () => {} };

test("each config batches and augments its own cuts, and batches come together as the fusion says", async () => {
  for (const [fusion, steps] of [
    ["round_robin", 5],
    ["randomized_round_robin", 5],
    ["zip", 2],
  ] as const) {
    const opened = await openBlocks(block(`sampler_fusion: ${fusion}`), quiet);
    const loader = new Loader(await createBlocksSampler(opened), await blocksLoaderOptionsOf(opened));
    let count = 0;
    for await (const batch of await loader.epoch(0)) {
      count++;
      for (const { block: name, duration } of batch.cuts) {
        // One config pads, the other does not.
        if (name === "speech") expect(duration).toBe(1);
        else expect(duration).toBeLessThan(0.9);
      }
      const names = new Set(batch.cuts.map((cut) => cut.block));
      expect(names.size).toBe(fusion === "zip" ? 2 : 1);
      expect(batch.cuts.length).toBe(fusion === "zip" ? 5 : names.has("speech") ? 2 : 3);
    }
    expect(count).toBe(steps);
    await loader.close();
  }
});

test("a loader goes on within fused batches", async () => {
  const make = async () => {
    const opened = await openBlocks(block("sampler_fusion: randomized_round_robin\nsampler_weights: {speech: 1, noise: 2}"), quiet);
    return new Loader(await createBlocksSampler(opened), await blocksLoaderOptionsOf(opened));
  };
  const loader = await make();
  const epoch = await loader.epoch(1);
  await epoch.next();
  await epoch.next();
  const state = JSON.parse(JSON.stringify(epoch.state()));
  const rest = [];
  for await (const batch of epoch) rest.push(batch);
  const again = await make();
  const resumed = [];
  for await (const batch of await again.resume(state)) resumed.push(batch);
  expect(resumed).toEqual(rest);
  expect(rest.length).toBe(3);
  await Promise.all([loader.close(), again.close()]);
});

test.each<[string, string, string, RegExp]>([
  ["a fusion that is none", "sampler_fusion: mix", "", /^train\.yaml:7: sampler_fusion is "mix", expected/],
  ["weights that lack a config", "sampler_weights: {speech: 1}", "", /^train\.yaml:7: sampler_weights has no weight for noise.*MIX_BAD_WEIGHT/],
  ["weights of what is none", "sampler_weights: {speech: 1, noise: 1, music: 1}", "", /names music, and there is no such config/],
  ["a key of the configs beside them", "batch_size: 3", "", /^train\.yaml:7: unknown key batch_size/],
  ["rates that differ", "", "  sample_rate: 8000\n", /^train\.yaml:\d+: sample_rate is 8000 for noise and 16000 for speech/],
])("%s is an error that says so", async (_, extra, more, message) => {
  const all = async () => blocksLoaderOptionsOf(await openBlocks(block(extra, more), quiet));
  await expect(all()).rejects.toThrow(message);
});

test("what must stand beside multi_config, and that one source cannot be made of it", async () => {
  await expect(openBlocks(parseConfig(yaml().replace("shard_seed: 2", ""), "train.yaml"), quiet)).rejects.toThrow(/lacks shard_seed/);
  await expect(openBlocks({ multi_config: true, seed: 1, shard_seed: 1, shuffle: true })).rejects.toThrow(/holds no config/);
  await expect(openSources({ multi_config: true, manifest_filepath: manifests[0] as string }, quiet)).rejects.toThrow(
    /multi_config is true, so that this block holds several configs/,
  );
});
