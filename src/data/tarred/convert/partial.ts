/**
 * Tar files for some shards of a dataset of which only the manifests were made: for jobs that share the work.
 * Source: NeMo, partial_conversion_to_tarred_audio_dataset.py; with or without slices, and with lists of shards as its page promises.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { ConfigError, ManifestError } from "../../../util/errors.ts";
import { selectRows } from "./entries.ts";
import { shardManifestName, tarName } from "./files.ts";
import { isIntact, targetInUse } from "./journal.ts";
import { encodes, type TarCodec } from "./options.ts";
import { planConversion } from "./plan.ts";
import { JobPool, poolSize, threadsOf } from "./pool.ts";
import { type DatasetRecord, seracVersion } from "./record.ts";
import type { ConvertListener } from "./report.ts";
import type { ShardJob, ShardResult, ShardSettings } from "./shard.ts";
import { Workplace } from "./workplace.ts";

export interface PartialOptions {
  /** The manifest of all shards, made with `onlyManifests`. */
  tarredManifestFilepath: string;
  /** Beside the manifest by default. */
  outputDir?: string | undefined;
  /** "all", "3", "0:3" (without 3), "0,2,5", or several of these with commas between. */
  shardsToTar?: string;
  /** Beside the manifest by default. */
  datasetMetadataFilepath?: string | undefined;
  numWorkers?: number;
  deterministicHeaders?: boolean;
  overwrite?: boolean;
}

export interface PartialReport {
  shards: number;
  entries: number;
  /** Shards that were there already, whole. */
  skipped: number;
}

/** @returns the shards that a text names, in order. @throws ConfigError CONFIG_BAD_VALUE */
export function parseShards(text: string, known: readonly number[]): number[] {
  if (text.trim() === "all") return [...known];
  const bad = (message: string) =>
    new ConfigError("CONFIG_BAD_VALUE", { message: `--shards_to_tar: ${message}`, fix: 'write "all", a number, a range "0:3" (without 3), or several with commas between' });
  const wanted = new Set<number>();
  for (const part of text.split(",")) {
    const range = /^\s*(\d*)\s*:\s*(\d*)\s*$/.exec(part);
    if (range) {
      const from = range[1] ? Number(range[1]) : 0;
      const to = range[2] ? Number(range[2]) : Number.POSITIVE_INFINITY;
      for (const id of known) if (id >= from && id < to) wanted.add(id);
    } else if (/^\s*\d+\s*$/.test(part)) {
      const id = Number(part);
      if (!known.includes(id)) throw bad(`there is no shard ${id}`);
      wanted.add(id);
    } else throw bad(`"${part}" names no shards`);
  }
  if (wanted.size === 0) throw bad(`"${text}" names no shard of this dataset`);
  return [...wanted].sort((a, b) => a - b);
}

/** Makes the tar files. Each is recorded when it is finished, so that an ended run goes on. */
export async function tarShards(options: PartialOptions, listener: ConvertListener = {}): Promise<PartialReport> {
  const { readMetadata } = await import("./readMetadata.ts");
  const { tarredManifestFilepath: path, shardsToTar = "all", numWorkers = -1, overwrite = false } = options;
  const folder = dirname(path);
  const target = options.outputDir ?? folder;
  const { dataset_config: config } = readMetadata(options.datasetMetadataFilepath ?? join(folder, "metadata.yaml"));
  const plan = await planConversion([path], { groups: "shard", digests: true, signal: listener.signal });
  const byShard = new Map<number, number[]>();
  for (const [row, id] of (plan.groups as Uint32Array).entries()) if (byShard.get(id)?.push(row) === undefined) byShard.set(id, [row]);
  const known = [...byShard.keys()].sort((a, b) => a - b);
  if (known.length === 0) throw new ManifestError("TARRED_EMPTY", { at: path, message: "the manifest has no entries" });
  const chosen = parseShards(shardsToTar, known);
  const settings: ShardSettings = {
    sliceWithOffset: config.slice_with_offset,
    forceCodec: (config.force_codec ?? undefined) as TarCodec | undefined,
    forceSamplingRate: config.force_sampling_rate ?? undefined,
    onlyManifests: false,
    deterministicHeaders: options.deterministicHeaders ?? false,
    encoders: threadsOf(numWorkers),
    named: true,
    distinct: [],
  };
  const newRecord = (): DatasetRecord => {
    const fresh = { serac: seracVersion(), created: new Date().toISOString(), version: 0, identity: "", settings: {}, seed: null, renamed: 0 };
    return { format: 1, ...fresh, inputs: [], entries: plan.count, leftOut: { filtered: 0, remainder: 0, unreadable: 0 }, shards: [] };
  };
  const workplace = new Workplace(target, newRecord);
  try {
    const shards = chooseUnmade(chosen, target, workplace, overwrite);
    const entriesOf = (list: readonly number[]): number => list.reduce((sum, shard) => sum + (byShard.get(shard)?.length ?? 0), 0);
    function* jobs(): Generator<ShardJob & { kind: "shard" }> {
      for (const shard of shards) {
        workplace.begin(shard);
        yield {
          kind: "shard",
          shard,
          rows: selectRows(plan, Uint32Array.from(byShard.get(shard) as number[])),
          settings,
          tarPath: join(target, tarName(shard)),
          temporaryTar: join(workplace.folder, `${tarName(shard)}.part`),
          manifestPath: join(workplace.folder, shardManifestName(shard)),
          temporaryManifest: join(workplace.folder, `${shardManifestName(shard)}.part`),
        };
      }
    }
    const onResult = (result: ShardResult): void => {
      const { shard, tar, entries } = result;
      if (tar !== undefined) workplace.finish({ shard, tar: tarName(shard), sha256: tar.sha256, bytes: tar.bytes, members: tar.members, entries });
      listener.shard?.(result);
    };
    listener.begin?.(entriesOf(shards));
    const pool = new JobPool(poolSize(numWorkers, shards.length, encodes(settings)));
    pool.start();
    try {
      await pool.run(jobs(), onResult, { onEntries: listener.entries, signal: listener.signal });
    } finally {
      await pool.close();
    }
    return { shards: shards.length, entries: entriesOf(shards), skipped: chosen.length - shards.length };
  } finally {
    workplace.leave();
  }
}

/** Shards without a tar file, or with one that a killed job left. @throws ManifestError TARRED_EXISTS for a tar file that is none of ours */
function chooseUnmade(chosen: readonly number[], target: string, { record, abandoned }: Workplace, overwrite: boolean): number[] {
  return chosen.filter((shard) => {
    const path = join(target, tarName(shard));
    if (overwrite || !existsSync(path)) return true;
    const known = record.shards.find((one) => one.shard === shard);
    if (known && isIntact({ tar: known, manifestBytes: 0 }, path, undefined)) return false;
    if (abandoned.has(shard)) return true;
    throw targetInUse(path, "there is a tar file of this name, which was not made here or has changed");
  });
}
