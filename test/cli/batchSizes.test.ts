import { expect, test } from "vitest";
import { main } from "../../src/cli/main.ts";

const tiny = [
  "--feature-dim=24 --sample-rate=8000 --num-encoder-layers=1,1 --downsampling-factor=1,2 --encoder-dim=48,64 --encoder-unmasked-dim=48,64 --feedforward-dim=64 --num-heads=2",
  "--query-head-dim=8 --value-head-dim=8 --pos-dim=16 --cnn-module-kernel=7 --front-end-channels=4,8,8 --decoder-dim=32 --joiner-dim=32 --vocab-size=40 --use-ctc=1",
].flatMap((line) => line.split(" "));

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const streams = { stdout: { write: (text: string) => Boolean((stdout += text)) }, stderr: { write: (text: string) => Boolean((stderr += text)) } };
  const code = await main(["batch-sizes", ...args, ...tiny], streams as unknown as NonNullable<Parameters<typeof main>[1]>);
  return { code, stdout, stderr };
}

test("prints the profile and a line to paste", async () => {
  const { code, stdout, stderr } = await run("-b", "[1,2]", "-t", "0.2", "-s", "4", "--memory-limit", "60M");
  expect(stderr).not.toContain("serac: ");
  expect(code).toBe(0);
  const [, bins, sizes] = /^The final profile is:\n\tbucket_duration_bins=\[([\d.,]+)\]\n\tbucket_batch_size=\[([\d,]+)\]\n$/.exec(stdout) ?? [];
  expect([
    bins,
    sizes
      ?.split(",")
      .map(Number)
      .every((size) => size > 0),
  ]).toEqual(["1,2", true]);
  expect(stderr).toMatch(/searching within 60\.0 MB of tensors, float32\nbucket 2 s: 200 frames, 24 tokens\n {2}4 fits \([\d.]+ MB\)\n/);
  expect(stderr).toContain(`'train_ds.bucket_duration_bins=[${bins}]' 'train_ds.bucket_batch_size=[${sizes}]'`);
});

test("2-D buckets as JSON", async () => {
  const { stdout, code } = await run("--buckets", "[[1,5],[1,20],[2,20]]", "--threshold", "0.3", "--memory-limit", "50M", "--json");
  expect(code).toBe(0);
  const profile = JSON.parse(stdout) as { bucket_duration_bins: number[][]; bucket_batch_size: number[] };
  expect(profile.bucket_duration_bins).toEqual([
    [1, 5],
    [1, 20],
    [2, 20],
  ]);
  expect(profile.bucket_batch_size).toHaveLength(3);
});

test("what does not fit at all, and flags that are none, end with what to do", async () => {
  const none = await run("-b", "[1,30]", "-s", "2", "--memory-limit", "14M");
  expect(none.code).toBe(1);
  expect(none.stderr).toMatch(/bucket 30 s: a batch of a single utterance of this length does not fit \[BATCH_SIZE_NONE\]/);
  expect((await run("-b", "[1,two]")).stderr).toMatch(/--buckets is \[1,two\], expected numbers, or pairs/);
  expect((await run("-b", "[2,1]")).stderr).toContain("expected ascending order [SAMPLER_BINS]");
  expect((await run("--memory-limit", "much")).stderr).toContain('--memory-limit is "much", expected bytes');
});
