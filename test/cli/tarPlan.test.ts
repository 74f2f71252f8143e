import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { main } from "../../src/cli/main.ts";
import { simpleShards, writeDataset } from "../data/tarred/corpus.ts";

const folder = mkdtempSync(join(tmpdir(), "serac-plan-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let stdout = "";
  let stderr = "";
  const streams = { stdout: { write: (text: string) => Boolean((stdout += text)) }, stderr: { write: (text: string) => Boolean((stderr += text)) } };
  const code = await main(args, streams as unknown as NonNullable<Parameters<typeof main>[1]>);
  return { code, stdout, stderr };
}

test("serac tar plan says what each rank reads, and fails where one would run out first", async () => {
  const { tars, manifests } = writeDataset(folder, simpleShards([4, 4, 1]));
  const world = ["--manifest", manifests, "--tars", tars, "--world-size", "3", "--batch-size", "2"];
  const scatter = await run("tar", "plan", ...world);
  expect(scatter.code).toBe(1);
  expect(scatter.stdout).toMatch(/rank 2: 1 shards, 1 utterances, 1 steps\n/);
  expect(scatter.stdout).toMatch(/warning: rank 2 runs out after 1 steps, rank 0 has 2: training that waits for all ranks would hang/);
  const even = await run("tar", "plan", ...world, "--tarred_shard_strategy", "even", "--json");
  expect(even.code).toBe(0);
  expect(JSON.parse(even.stdout)).toMatchObject({ equalSteps: true, utterances: 9, ranks: [{ steps: 2 }, { steps: 2 }, { steps: 2 }], warnings: [] });
});
