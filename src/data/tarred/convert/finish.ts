/** The end of a conversion: the manifest of all shards, the record, and last metadata.yaml: where it is, the dataset is whole. */
import { readFileSync, statSync } from "node:fs";
import { writeAtomically, writeFileAtomic, writeFully } from "../../../formats/atomic.ts";
import { estimateDurationBins } from "../../durationBins.ts";
import type { Base } from "./concat.ts";
import { type Buckets, describeAppended, describeNew } from "./describe.ts";
import { tarName } from "./files.ts";
import { datasetTime, printMetadata } from "./metadata.ts";
import type { ConvertOptions } from "./options.ts";
import type { PlannedManifest } from "./plan.ts";
import { type DatasetRecord, readRecord, seracVersion, writeRecord } from "./record.ts";
import type { ConvertListener, ConvertReport } from "./report.ts";
import type { ShardResult } from "./shard.ts";
import type { Target } from "./target.ts";

/** What was made. */
export interface Made {
  options: ConvertOptions;
  base: Base | undefined;
  target: Target;
  report: ConvertReport;
  /** In the order of the shards. */
  results: readonly ShardResult[];
  inputs: readonly PlannedManifest[];
  /** Of the written entries, in any order. */
  durations: Float64Array;
  identity: string;
}

/** Lines that NeMo's bins are estimated from: all but those with a true _skipme. */
function binDurations(aggregate: string): Float64Array {
  const durations: number[] = [];
  for (const line of readFileSync(aggregate, "utf8").split("\n")) {
    if (line === "") continue;
    let entry: { duration?: unknown; _skipme?: unknown };
    try {
      entry = JSON.parse(line);
    } catch {
      continue; // NaN and the like: not a length
    }
    if (typeof entry.duration === "number" && !entry._skipme) durations.push(entry.duration);
  }
  return Float64Array.from(durations);
}

/** Buckets for metadata.yaml, as NeMo's script estimates them; undefined where there would be one alone. */
function bucketsOf({ options, target, durations }: Made, say: ConvertListener["say"]): Buckets | undefined {
  if (options.bucketsNum > 1) return undefined;
  const { aggregate } = target;
  // Only a manifest that may hold the key is read again.
  const mayskip = statSync(aggregate).size < 1 << 28 && readFileSync(aggregate).includes('"_skipme"');
  const lengths = mayskip ? binDurations(aggregate) : durations;
  const count = Math.min(options.dynamicBucketsNum, lengths.length);
  if (count < options.dynamicBucketsNum) say?.(`Bins are estimated for ${count} buckets: there are only ${lengths.length} utterances.`);
  return count > 1 ? { count, bins: estimateDurationBins(lengths, count) } : undefined;
}

function recordOf({ options, base, target, report, results, inputs, identity }: Made): DatasetRecord {
  const { manifestPath: _, targetDir: __, ...settings } = options;
  const previous = base ? readRecord(target.folder, base.version - 1) : undefined;
  return {
    format: 1,
    serac: seracVersion(),
    created: new Date().toISOString(),
    version: target.version,
    identity,
    settings,
    seed: report.seed,
    inputs: inputs.map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 })),
    entries: report.written,
    leftOut: { filtered: report.filtered, remainder: report.dropped, unreadable: report.unreadable },
    renamed: report.renamed,
    shards: [
      ...(previous?.shards ?? []),
      ...results.flatMap(({ shard, tar, entries }) => (tar ? [{ shard, tar: tarName(shard), sha256: tar.sha256, bytes: tar.bytes, members: tar.members, entries }] : [])),
    ],
  };
}

/** Completes `made.report`. @throws FormatError FILE_UNWRITABLE */
export function finishDataset(made: Made, say: ConvertListener["say"]): void {
  const { options, base, target, report, results } = made;
  writeAtomically(target.aggregate, (fd) => {
    if (base) writeFully(fd, Buffer.from(base.manifest, "utf8"));
    for (const { shard } of results) writeFully(fd, readFileSync(target.manifest(shard)));
  });
  if (options.overwrite && !base) target.removeSurplus(results.length);
  const buckets = base ? undefined : bucketsOf(made, say);
  report.bins = buckets?.bins ?? [];
  writeRecord(target.folder, recordOf(made));
  const { shards, written } = report;
  const metadata = base ? describeAppended(options, base, shards, datasetTime()) : describeNew(options, { shards, perShard: Math.floor(written / shards) }, buckets, datasetTime());
  writeFileAtomic(target.metadata, printMetadata(metadata));
  target.journal.remove();
}
