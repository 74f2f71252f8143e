/** What a run was made with, for its log and its files. Source: icefall/env.py. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describeLibtorch } from "../torch/index.ts";
import { packageRoot } from "../util/paths.ts";

function git(...args: string[]): string | undefined {
  try {
    return execFileSync("git", ["-C", packageRoot, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return undefined; // no git, or no checkout: an installed package has its version
  }
}

/** Versions, the state of the checkout where there is one, the machine. */
export function envInfo(): Record<string, string | boolean> {
  const { version } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string };
  const { version: libtorch, blas } = describeLibtorch();
  const isCheckout = git("rev-parse", "--show-toplevel") === packageRoot;
  const sha = isCheckout ? git("rev-parse", "HEAD") : undefined;
  return {
    "serac-version": version,
    "node-version": process.version,
    "torch-version": libtorch,
    blas: blas.map((one) => one.split("|")[1] ?? one).join("; "),
    ...(sha === undefined ? {} : { "serac-git-sha1": sha, "serac-git-clean": git("status", "--porcelain") === "" }),
    hostname: hostname(),
  };
}
