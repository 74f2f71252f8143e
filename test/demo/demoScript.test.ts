import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { packageRoot } from "../../src/util/paths.ts";

test.each([
  ["DATA=/nowhere", "/nowhere/train.jsonl is missing"],
  ["DATA=", "nothing is given for 'DATA='"],
  ["EPOCHS=abc", "EPOCHS is 'abc'"],
  ["EPOCHS=0", "EPOCHS is '0'"],
  ["HOURS=0", "HOURS is '0'"],
  ["HOURS=1.2.3", "HOURS is '1.2.3'"],
  ["SEED=-1", "SEED is '-1'"],
  ["FOO=1", "does not know 'FOO=1'"],
])("%s is refused before anything is done", (argument, message) => {
  const { status, stderr } = spawnSync("bash", [join(packageRoot, "scripts", "demo.sh"), argument], { encoding: "utf8" });
  expect(status).toBe(2);
  expect(stderr).toContain(message);
  expect(stderr.trim().split("\n")).toHaveLength(1);
});
