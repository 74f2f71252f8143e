import { choice, integer, number, strings } from "../util/options.ts";
import { command } from "./command.ts";

const strategies = ["scatter", "replicate", "even", "repeat"] as const;

/** `serac tar plan`: what ranks and workers would read of a tarred dataset, before training. */
export const tarPlan = command({
  name: "tar plan",
  summary: "Say before training what each rank would read of a tarred dataset",
  description:
    "Reads manifests and the headers of all tars, no audio. Exit code 1 where some rank would run out of batches before the others.\nWithout --manifest the tars are WebDataset's, which hold their texts themselves.",
  examples: [
    "serac tar plan --manifest 'tarred/sharded_manifests/manifest_{0..63}.json' --tars 'tarred/audio_{0..63}.tar' --world-size 8 --num-workers 4 --batch-size 32",
    "serac tar plan --manifest tarred/tarred_audio_manifest.json --tars 'tarred/audio_{0..63}.tar' --world-size 6 --tarred-shard-strategy even --json",
  ],
  options: {
    manifest: strings({ unit: "files", help: "manifests: one for all tars, or one for each" }),
    tars: strings({ required: true, unit: "files", help: "tar files of the dataset" }),
    worldSize: integer({ default: 1, min: 1, help: "ranks that train together" }),
    numWorkers: integer({ default: 1, min: 1, help: "loaders of each rank" }),
    batchSize: integer({ default: 1, min: 1, help: "utterances of a batch" }),
    tarredShardStrategy: choice(strategies, { default: "scatter", help: "scatter and replicate are NeMo's; under even and repeat no rank runs out first" }),
    minDuration: number({ unit: "seconds", help: "leave out shorter utterances" }),
    maxDuration: number({ unit: "seconds", help: "leave out longer utterances" }),
  },
  async run({ tarredShardStrategy: strategy, manifest, tars, minDuration, maxDuration, ...world }, out) {
    const { describePlan, openTarred, planShards } = await import("../data/tarred/index.ts");
    const { shards, report } = await openTarred({ manifest, tars, minDuration, maxDuration, onDamaged: "skip", onWarning: (line) => out.say(line) });
    const plan = planShards(
      shards.map(({ path, items }) => ({ path, utterances: items.length })),
      { strategy, ...world },
    );
    if (out.json) {
      const { shares, ...rest } = plan;
      out.print(JSON.stringify({ ...rest, shares, findings: Object.fromEntries(report.findings), notes: report.notes }));
    } else {
      for (const line of report.lines()) out.print(line);
      for (const line of describePlan(plan)) out.print(line);
    }
    return plan.equalSteps ? 0 : 1;
  },
});
