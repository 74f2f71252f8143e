import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { createSampler, type SamplerOptions } from "../../../src/data/sampling/index.ts";
import { PythonRandom } from "../../../src/util/pythonRandom.ts";
import { drain, type Item, source } from "./corpus.ts";

interface Case {
  options: SamplerOptions;
  batches: number;
  items: number;
  sha256: string;
}

/** Recorded from lhotse by scripts/interop/sampling.sh. */
const golden = JSON.parse(readFileSync(new URL("../../golden/sampling/lhotse.json", import.meta.url), "utf8")) as {
  count: number;
  epochs: number[];
  cases: Record<string, Case>;
  few: Case & { count: number };
};

/** Python's round(): halves to even. */
const round = (x: number): number => {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low % 2) : Math.round(x);
};

/** The corpus of scripts/interop/sampling.py. */
function corpus(count: number): Item[] {
  const draw = new PythonRandom(42);
  return Array.from({ length: count }, (_, i) => {
    const duration = round((0.5 + 29.5 * draw.random() ** 2) * 1000) / 1000;
    return { id: String(i), duration, tokens: round(duration * (1 + 5 * draw.random())) };
  });
}

async function digest(items: readonly Item[], options: SamplerOptions, epochs: readonly number[]): Promise<Omit<Case, "options">> {
  const steps: number[][][] = [];
  for (const epoch of epochs)
    for (let rank = 0; rank < (options.worldSize ?? 1); rank++) {
      const sampler = await createSampler(source(items), { ...options, numBuckets: options.numBuckets ?? 10, mode: "lhotse", rank });
      steps.push((await drain(await sampler.epoch(epoch))).map(({ refs }) => [...refs]));
    }
  return {
    batches: steps.flat().length,
    items: steps.flat(2).length,
    sha256: createHash("sha256").update(JSON.stringify(steps)).digest("hex"),
  };
}

describe("lhotse's own batches, for the same cuts and settings", () => {
  const items = corpus(golden.count);
  test.each(Object.entries(golden.cases))("%s", async (_, { options, ...expected }) => {
    expect(await digest(items, options, golden.epochs)).toEqual(expected);
  });

  test("fewer cuts at the end than ranks: some are repeated", async () => {
    const { options, count, ...expected } = golden.few;
    expect(await digest(corpus(count), options, [0])).toEqual(expected);
  });
});
