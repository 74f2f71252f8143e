import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { main } from "../../src/cli/main.ts";
import { disposeCheckpoint, loadCheckpoint } from "../../src/models/index.ts";
import { type TrainOptionsInput, train } from "../../src/train/index.ts";
import { archive } from "../formats/tar/archives.ts";
import { toneCorpus } from "./tones.ts";

let folder: string;
let options: TrainOptionsInput;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "serac-train-tarred-"));
  options = await toneCorpus(folder);
  // The same utterances as a tarred dataset of two shards, as NeMo lays it out; the entry of one has no member.
  for (const [name, shards] of [
    ["train", 2],
    ["test", 1],
  ] as const) {
    const lines = readFileSync(join(folder, `${name}.jsonl`), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { audio_filepath: string });
    mkdirSync(join(folder, `${name}-tarred/sharded_manifests`), { recursive: true });
    for (let shard = 0; shard < shards; shard++) {
      const mine = lines.slice(Math.floor((shard * lines.length) / shards), Math.floor(((shard + 1) * lines.length) / shards));
      const flat = (path: string): string => path.replace("/", "_");
      writeFileSync(
        join(folder, `${name}-tarred/audio_${shard}.tar`),
        archive(mine.map(({ audio_filepath: path }) => ({ name: flat(path), data: readFileSync(join(folder, path)) }))),
      );
      const entries = mine.map((line) => ({ ...line, audio_filepath: flat(line.audio_filepath), shard_id: shard }));
      if (name === "train" && shard === 1) entries.push({ ...(entries[0] as (typeof entries)[number]), audio_filepath: "gone.wav" });
      writeFileSync(join(folder, `${name}-tarred/sharded_manifests/manifest_${shard}.json`), entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
    }
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The parameters of a checkpoint, flat. */
function parameters(path: string): Map<string, number[]> {
  const checkpoint = loadCheckpoint(path);
  const values = new Map(Array.from(checkpoint.model, ([key, tensor]) => [key, tensor.toArray()]));
  disposeCheckpoint(checkpoint);
  return values;
}

test("training from tars gives the very model that training from files gives, and says what has no member", async () => {
  const files = await train({ ...options, expDir: join(folder, "files"), numEpochs: 1, werInterval: 1 });
  const said: string[] = [];
  const tars = await train(
    {
      ...options,
      trainManifest: [join(folder, "train-tarred/sharded_manifests/manifest__OP_0..1_CL_.json")],
      trainTarredAudioFilepaths: [join(folder, "train-tarred/audio__OP_0..1_CL_.tar")],
      validManifest: [join(folder, "test-tarred/sharded_manifests/manifest_0.json")],
      validTarredAudioFilepaths: [join(folder, "test-tarred/audio_0.tar")],
      expDir: join(folder, "tars"),
      numEpochs: 1,
      werInterval: 1,
    },
    { report: { say: (line) => said.push(line) } },
  );
  expect(said).toContainEqual(expect.stringMatching(/^training data: 96 utterances/));
  expect(said).toContainEqual(expect.stringMatching(/^left out: 1 entries whose audio is in no tar \(first: .*manifest_1\.json:49\)/));
  expect(tars.updates).toBe(files.updates);
  expect(tars.updates).toBeGreaterThan(5);
  expect(tars.validLoss).toBe(files.validLoss);
  expect(parameters(tars.checkpoint)).toEqual(parameters(files.checkpoint));

  let printed = "";
  const stream = { write: (text: string) => Boolean((printed += text)) };
  const args = [
    "decode",
    "--checkpoint",
    tars.checkpoint,
    "--manifest",
    join(folder, "test-tarred/sharded_manifests/manifest_0.json"),
    "--tarred-audio-filepaths",
    join(folder, "test-tarred/audio_0.tar"),
  ];
  const code = await main([...args, "--res-dir", join(folder, "res"), "--json"], { stdout: stream, stderr: { write: () => true } } as unknown as NonNullable<
    Parameters<typeof main>[1]
  >);
  expect(code).toBe(0);
  expect(JSON.parse(printed)).toMatchObject({ utterances: 16, leftOut: 0 });
});
