import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { main } from "../../src/cli/main.ts";
import { corpus, newFolder } from "../data/tarred/convert/corpus.ts";

async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  let out = "";
  let err = "";
  const code = await main(args, { stdout: { write: (text: string) => (out += text) }, stderr: { write: (text: string) => (err += text) } });
  return { code, out, err };
}

describe("serac tar", () => {
  test("takes NeMo's spelling of flags, and says what it will do before and did after", async () => {
    const folder = newFolder();
    const manifest = corpus(folder, 10);
    const flags = [
      `--manifest_path=${manifest}`,
      `--target_dir=${folder}/t`,
      "--num_shards=3",
      "--max_duration",
      "20.0",
      "--shuffle",
      "--shuffle_seed=1",
      "--sort_in_shards",
      "--workers=1",
    ];
    const dry = await run("tar", ...flags, "--dry_run");
    expect(dry).toMatchObject({ code: 0, out: "10 utterances, 0.00 h, would go into 3 shards; 1 would be dropped\n" });
    expect(dry.err).toMatch(/Entries after filtration: +10 \/ 10\n.*Shards: +3\n.*Entries per shard: +3\n.*Remainder entries: +1/s);
    const made = await run("tar", ...flags);
    expect(made).toMatchObject({ code: 0, out: `${folder}/t: 9 utterances in 3 shards (1 dropped)\n` });
    expect(made.err).toContain(`serac tar verify ${folder}/t`);
    const verified = await run("tar", "verify", `${folder}/t`);
    expect(verified).toMatchObject({ code: 0, err: "" });
    expect(verified.out).toMatch(/^ok: 3 shards, 9 members, 9 entries/);
    expect(JSON.parse((await run("tar", "verify", `${folder}/t`, "--no-decode", "--json")).out)).toMatchObject({ ok: true, shards: 3 });
  });

  test("write_metadata writes NeMo's default_metadata.yaml and stops", async () => {
    const folder = newFolder();
    expect(
      (await run("tar", "--write_metadata", "--max_duration=16.7", "--min_duration=0.01", "--num_shards=8", "--shuffle", "--shuffle_seed=1", `--target_dir=${folder}`)).code,
    ).toBe(0);
    expect(readFileSync(join(folder, "default_metadata.yaml"), "utf8").replace(/^.*\n/, "")).toBe(`version: 0
num_samples_per_shard: null
is_concatenated_manifest: false
dataset_config:
  num_shards: 8
  shuffle: true
  max_duration: 16.7
  min_duration: 0.01
  shuffle_seed: 1
  sort_in_shards: false
  slice_with_offset: false
  shard_manifests: true
  keep_files_together: false
  force_codec: null
  force_sampling_rate: null
  use_lhotse: false
  use_bucketing: false
  num_buckets: null
  bucket_duration_bins: null
history: []
`);
  });

  test("shards takes the settings of NeMo's script as Hydra writes them", async () => {
    const folder = newFolder();
    const manifest = corpus(folder, 8);
    const flags = [`--manifest_path=${manifest}`, "--num_shards=4", "--max_duration=20", "--keep_files_together", "--workers=1"];
    const made = await run("tar", ...flags, `--target_dir=${folder}/t`, "--only_manifests");
    expect(made.code).toBe(0);
    expect(made.err).toContain("--keep_files_together has no effect without --shuffle"); // as in NeMo's script, which does not say so
    const settings = [`tarred_manifest_filepath=${folder}/t/tarred_audio_manifest.json`, `output_dir=${folder}/out`, "num_workers=1"];
    expect(await run("tar", "shards", ...settings, "shards_to_tar=1:3")).toMatchObject({ code: 0, out: "2 shards with 4 utterances\n" });
    expect(await run("tar", "shards", ...settings, 'shards_to_tar="all"', `dataset_metadata_filepath=${folder}/t/metadata.yaml`)).toMatchObject({
      code: 0,
      out: "2 shards with 4 utterances; 2 were there already\n",
    });
    expect((await run("tar", "shards", ...settings, "shards=1")).err).toMatch(/unknown option --shards.*shards-to-tar/s);
    await run("tar", ...flags, `--target_dir=${folder}/whole`);
    for (const shard of [0, 3]) expect(readFileSync(`${folder}/out/audio_${shard}.tar`).equals(readFileSync(`${folder}/whole/audio_${shard}.tar`))).toBe(true);
  });

  test("what is missing or makes no sense is said before anything is read", async () => {
    const attempt = async (...args: string[]) => {
      const { code, err } = await run("tar", ...args);
      expect(code).toBe(2);
      return err;
    };
    expect(await attempt("--manifest_path=x")).toMatch(/--max_duration is missing/);
    expect(await attempt("--max_duration=1", "--num_shards=1")).toMatch(/--manifest_path is missing/);
    expect(await attempt("--max_duration=1", "--manifest_path=x")).toMatch(/--num_shards is missing/);
    expect(await attempt("--max_duration=1", "--manifest_path=x", "--num_shards=0")).toMatch(/num-shards is "0"/);
    expect(await attempt("--max_duration=1", "--manifest_path=x", "--num_shards=1", "--workers=0")).toMatch(/--workers is 0/);
    expect(await attempt("--max_duration=1", "--manifest_path=x", "--num_shards=1", "--buckets_num=2")).toMatch(/--buckets_num needs --min_duration/);
    expect(await attempt("--max_duration=1", "--manifest_path=x", "--num_shards=1", "--force_codec=aac")).toMatch(/force-codec is "aac"/);
    expect(await attempt("--max_duration=1", "--manifest_path=x", "--num_shards=1", "more.json")).toMatch(/what is "more.json"/);
    expect((await run("tar", "verify")).code).toBe(2);
  });
});
