import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { generate } from "../../src/torch/generate.ts";
import { describeLibtorch } from "../../src/torch/index.ts";
import { packageRoot } from "../../src/util/paths.ts";

test.runIf(describeLibtorch().version.startsWith("1.13."))(
  "the signatures in the repository are what the schemas of libtorch 1.13 give: else run scripts/generate-operators.sh",
  () => {
    for (const [name, text] of Object.entries(generate())) expect(text, name).toBe(readFileSync(join(packageRoot, "src", "torch", "generated", name), "utf8"));
  },
);
