/**
 * Tar files for some shards of a dataset of which only the manifests were made: for jobs that share the work.
 * Source: NeMo, partial_conversion_to_tarred_audio_dataset.py; with or without slices, and with lists of shards as its page promises.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileError, makeFolder } from "../../../formats/atomic.ts";
import { ConfigError, ManifestError } from "../../../util/errors.ts";
import { type ConvertListener, version } from "./convert.ts";
import { selectRows } from "./entries.ts";
import { isIntact, targetInUse, workFolderName } from "./journal.ts";
import type { TarCodec } from "./options.ts";
import { planConversion } from "./plan.ts";
import { JobPool, threadsOf } from "./pool.ts";
import { type DatasetRecord, readRecord, writeRecord } from "./record.ts";
import type { ShardJob, ShardSettings } from "./shard.ts";

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
  const { readMetadata } = await import("./metadata.ts");
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
  const work = join(target, workFolderName, `shards-${process.pid}`);
  try {
    makeFolder(work);
  } catch (error) {
    throw fileError(target, "write", error);
  }
  const settings: ShardSettings = {
    sliceWithOffset: config.slice_with_offset,
    forceCodec: (config.force_codec ?? undefined) as TarCodec | undefined,
    forceSamplingRate: config.force_sampling_rate ?? undefined,
    onlyManifests: false,
    deterministicHeaders: options.deterministicHeaders ?? false,
    named: true,
    distinct: [],
  };
  const record = (): DatasetRecord => {
    const fresh = { serac: version(), created: new Date().toISOString(), version: 0, identity: "", settings: {}, seed: null, renamed: 0 };
    return readRecord(target, 0) ?? { format: 1, ...fresh, inputs: [], entries: plan.count, leftOut: { filtered: 0, remainder: 0, unreadable: 0 }, shards: [] };
  };
  const makeJob = (shard: number): ShardJob & { kind: "shard" } => ({
    kind: "shard",
    shard,
    rows: selectRows(plan, Uint32Array.from(byShard.get(shard) as number[])),
    settings,
    tarPath: join(target, `audio_${shard}.tar`),
    temporaryTar: join(work, `audio_${shard}.tar.part`),
    manifestPath: join(work, `manifest_${shard}.json`),
    temporaryManifest: join(work, `manifest_${shard}.json.part`),
  });
  const shards: number[] = [];
  const earlier = record().shards;
  for (const shard of chosen) {
    const tarPath = join(target, `audio_${shard}.tar`);
    if (!existsSync(tarPath) || overwrite) shards.push(shard);
    else {
      const known = earlier.find((one) => one.shard === shard);
      const whole = known && isIntact({ tar: known, manifestBytes: 0 }, tarPath, undefined);
      if (!whole) throw targetInUse(tarPath, "there is a tar file of this name, which was not made here or has changed");
    }
  }
  const entriesOf = (list: readonly number[]): number => list.reduce((sum, shard) => sum + (byShard.get(shard)?.length ?? 0), 0);
  listener.begin?.(entriesOf(shards));
  const pool = new JobPool(Math.min(threadsOf(numWorkers), Math.max(1, shards.length)));
  function* jobs() {
    for (const shard of shards) yield makeJob(shard);
  }
  try {
    await pool.run(
      jobs(),
      (result) => {
        const { shard, tar, entries } = result;
        if (tar === undefined) return;
        const now = record();
        const others = now.shards.filter((one) => one.shard !== shard);
        now.shards = [...others, { shard, tar: `audio_${shard}.tar`, sha256: tar.sha256, bytes: tar.bytes, members: tar.members, entries }].sort((a, b) => a.shard - b.shard);
        writeRecord(target, now);
        listener.shard?.(result);
      },
      listener.entries,
      listener.signal,
    );
  } finally {
    await pool.close();
    const { rmSync, rmdirSync } = await import("node:fs");
    rmSync(work, { recursive: true, force: true });
    try {
      rmdirSync(join(target, workFolderName)); // where no other job works in it
    } catch {
      // another one does
    }
  }
  return { shards: shards.length, entries: entriesOf(shards), skipped: chosen.length - shards.length };
}
