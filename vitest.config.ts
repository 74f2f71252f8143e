import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { nativeFolder } from "./src/util/paths.ts";

/** The instructions that this CPU has beside those which serac's kernels use: none where the addon is not built. */
function otherIsas(): string[] {
  try {
    const script = "process.stdout.write(JSON.stringify(require(process.argv[1]).isas()))";
    return (
      JSON.parse(execFileSync(process.execPath, ["-e", script, join(nativeFolder, "serac_torch.node")], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })) as string[]
    ).slice(0, -1);
  } catch {
    return [];
  }
}

/** What looks at the numbers of every kernel: runs once more with each of the other sets of instructions. */
const kernels = [
  "test/torch/ops/**/*.test.ts",
  "test/nn/layers.test.ts",
  "test/models/zipformer.test.ts",
  "test/losses/**/*.test.ts",
  "test/optim/scaledAdam.test.ts",
  "test/train/trajectory.test.ts",
];

// In one process: their imports take longer than they do.
const lowered = (isa: string): TestProjectInlineConfiguration => ({ extends: true, test: { name: isa, include: kernels, env: { SERAC_ISA: isa }, isolate: false } });

export default defineConfig({
  test: {
    setupFiles: ["test/setup.ts"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    projects: [{ extends: true, test: { name: "serac", include: ["test/**/*.test.ts"] } }, ...otherIsas().map(lowered)],
  },
});
