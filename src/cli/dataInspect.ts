/** `serac data inspect`: what a config will read, before training. */

import type { ConfigNode, Inspection } from "../data/index.ts";
import { boolean, integer, path, string } from "../util/options.ts";
import { command } from "./command.ts";
import { showHours } from "./manifestOptions.ts";
import type { Output } from "./output.ts";

export const dataInspect = command({
  name: "data inspect",
  summary: "Say what a YAML config will read: hours, shares, bins, padding, batches and steps",
  description:
    "CONFIG is an input_cfg, the keys of a train_ds, or a whole config of NeMo's. Overrides are written KEY=VALUE, as train_ds.batch_duration=300.\nReads manifests and headers of tars, no audio.",
  examples: ["serac data inspect train.yaml batch_duration=600 use_bucketing=true --world-size 8", "serac data inspect nemo.yaml --section model.validation_ds --json"],
  positional: { config: { help: "YAML file" }, overrides: { help: "KEY=VALUE", optional: true, many: true } },
  options: {
    section: string({ unit: "keys", help: "the block to read, as model.train_ds; found by itself where it has one of the usual names" }),
    worldSize: integer({ default: 1, min: 1, help: "ranks that train together" }),
    maxBatches: integer({ default: 20_000, min: 1, help: "batches to look at" }),
    bpeModel: path({ unit: "file", help: "SentencePiece model that counts tokens, for 2-D bins, min_tps and max_tps" }),
    skipBadLines: boolean({ default: false, help: "count lines that cannot be used, instead of stopping at the first" }),
  },
  async run({ config: file, overrides = [], section, worldSize, maxBatches, bpeModel, skipBadLines }, out) {
    const { blockNames, configBlock, configBlocks, inspectSources, isMultiConfig, nodeAt, openSources } = await import("../data/index.ts");
    const { block, section: found } = configBlock(file, { names: blockNames.train, overrides, section });
    const warnings: string[] = [];
    const onWarning = (line: string): void => {
      warnings.push(line);
      out.say(line);
    };
    let countTokens: ((text: string) => number) | undefined;
    let tokensKey: string | undefined;
    if (bpeModel !== undefined) {
      const { readFileSync } = await import("node:fs");
      const { createHash } = await import("node:crypto");
      const { SentencePiece } = await import("../text/index.ts");
      const bytes = readFileSync(bpeModel);
      const model = SentencePiece.fromBytes(bytes, bpeModel);
      countTokens = (text) => model.encode(text).length;
      tokensKey = `bpe-${createHash("sha256").update(bytes).digest("hex").slice(0, 12)}`;
    }
    const inspect = async (one: ConfigNode): Promise<Inspection> => {
      const progress = out.progress(undefined, "lines", "reading");
      const opened = await openSources(one, { countTokens, tokensKey, onBad: skipBadLines ? "skip" : "throw", onWarning, onProgress: (lines) => progress.update(lines) });
      progress.finish();
      const { batchSize, batchDuration, bucketBatchSize } = opened.config;
      const makesBatches = batchSize !== undefined || batchDuration !== undefined || bucketBatchSize !== undefined || nodeAt(one, "max_duration") !== undefined;
      return inspectSources(opened, { worldSize, maxBatches }, makesBatches);
    };
    if (isMultiConfig(block)) {
      const { fusion, weights, blocks } = configBlocks(block, onWarning);
      const all: { name: string; inspection: Inspection }[] = [];
      for (const { name, node } of blocks) all.push({ name, inspection: await inspect(node) });
      if (out.json) out.print(JSON.stringify({ fusion, weights, blocks: Object.fromEntries(all.map(({ name, inspection }) => [name, inspection])), warnings }));
      else
        for (const { name, inspection } of all) {
          out.print(`${name}${weights ? `, ${weights[name]} of the batches' weights` : ""} (${fusion})`);
          print(inspection, out);
        }
      return;
    }
    const inspection = await inspect(block);
    if (out.json) out.print(JSON.stringify({ ...inspection, warnings }));
    else {
      print(inspection, out);
      if (!inspection.batches) out.next(`serac data inspect ${file} ${found === "" ? "" : `${found}.`}batch_duration=600 ${found === "" ? "" : `${found}.`}use_bucketing=true`);
    }
  },
});

/** The lines of an inspection. */
function print(inspection: Inspection, out: Output): void {
  const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
  for (const { name, kind, at, utterances, hours, share, shareOfHours, passes, leftOut } of inspection.sources) {
    out.print(`${name}  (${kind}, ${at})`);
    out.print(`  ${utterances} utterances, ${showHours(hours * 3600)}`);
    if (inspection.infinite)
      out.print(
        `  share: ${percent(share)} of the utterances, ${percent(shareOfHours)} of the hours; each comes ${passes.toFixed(2)} times while ${inspection.utterances} are drawn`,
      );
    for (const { reason, count, example } of leftOut) out.print(`  left out: ${count} ${reason} (first: ${example})`);
  }
  out.print(
    `${inspection.sources.length} source${inspection.sources.length === 1 ? "" : "s"}: ${inspection.utterances} utterances, ${showHours(inspection.hours * 3600)}${inspection.infinite ? ", without end: sources begin again" : ""}`,
  );
  const { batches } = inspection;
  if (!batches) return;
  if (batches.bins) out.print(`${batches.buckets} buckets, bins: ${batches.bins.map((bin) => (typeof bin === "number" ? bin.toFixed(2) : `[${bin.join(", ")}]`)).join(", ")}`);
  out.print(
    `${batches.complete ? "an epoch has" : "looked at"} ${batches.steps} steps on each of ${batches.worldSize} rank${batches.worldSize === 1 ? "" : "s"}, ${batches.utterances} utterances`,
  );
  if (batches.repeated > 0) out.print(`${batches.repeated} utterances come twice, so that all ranks have as many steps`);
  out.print(
    `a batch has ${batches.utterancesPerBatch.least} to ${batches.utterancesPerBatch.most} utterances (${batches.utterancesPerBatch.mean.toFixed(1)} on average), ${batches.secondsPerBatch.mean.toFixed(1)} s with padding (at most ${batches.secondsPerBatch.most.toFixed(1)})`,
  );
  out.print(`padding: ${percent(batches.paddingRatio)}`);
  for (const { reason, count, example } of batches.leftOut) out.print(`left out: ${count} ${reason} (first: ${example})`);
}
