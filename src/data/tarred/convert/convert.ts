/**
 * Makes tarred datasets: what NeMo's convert_to_tarred_audio_dataset.py makes, equal byte for byte where it stores files as they are.
 * A conversion that was ended in any way goes on when it is called again; no file of a dataset is ever half written under its name.
 */
import { createHash, randomInt } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileError, makeFolder, removeQuietly, removeTemporaries, writeAtomically, writeFileAtomic, writeFully } from "../../../formats/atomic.ts";
import { ConfigError, ManifestError } from "../../../util/errors.ts";
import { parseOptions } from "../../../util/options.ts";
import { packageRoot } from "../../../util/paths.ts";
import { NameTable } from "./check.ts";
import { estimateDurationBins } from "./durationBins.ts";
import { selectRows } from "./entries.ts";
import type { Job } from "./jobs.ts";
import { isIntact, Journal, targetInUse } from "./journal.ts";
import type { TarredDatasetConfig, TarredDatasetMetadata } from "./metadata.ts";
import { type ConvertInput, type ConvertOptions, convertOptions } from "./options.ts";
import { divide, divideByShardSize, orderRows, sortByDuration } from "./order.ts";
import { type ConversionPlan, dropRows, planConversion } from "./plan.ts";
import { JobPool, threadsOf } from "./pool.ts";
import { type DatasetRecord, readRecord, writeRecord } from "./record.ts";
import type { ShardResult, ShardSettings } from "./shard.ts";

/** Who is told what happens. */
export interface ConvertListener {
  /** A line of talk. */
  say?: (line: string) => void;
  /** How many entries there are to write, before the first is. */
  begin?: (entries: number) => void;
  /** How many entries more are written. */
  entries?: (count: number) => void;
  /** A shard is finished and recorded. */
  shard?: (result: ShardResult) => void;
  signal?: AbortSignal;
}

/** What a conversion came to. */
export interface ConvertReport {
  target: string;
  /** Bounds of the bucket, where there is more than one. */
  minDuration: number | null;
  maxDuration: number | null;
  /** Lines that passed the filters, and their seconds. */
  kept: number;
  keptSeconds: number;
  filtered: number;
  filteredSeconds: number;
  /** Lines that are in no shard though they passed: the division's remainder, audio that cannot be read. */
  dropped: number;
  unreadable: number;
  /** Members that got another name than NeMo's, and utterances whose audio ends early. */
  renamed: number;
  short: number;
  shards: number;
  entriesPerShard: number;
  /** Entries that were written; 0 for a dry run. */
  written: number;
  /** Shards that an earlier run had finished. */
  resumed: number;
  seed: number | null;
  bins: number[];
}

/** serac's own version. */
export const version = (): string => (JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string }).version;
const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/** What the dataset's shards start from: nothing, or an earlier version. */
export interface Base {
  /** The version that is made. */
  version: number;
  /** Number of the first new shard. */
  firstShard: number;
  /** Utterances of each new shard. */
  perShard: number;
  /** Lines of the manifest before the new ones. */
  manifest: string | undefined;
  metadata: TarredDatasetMetadata;
}

/** @returns checked options. @throws ConfigError CONFIG_BAD_VALUE */
export function readOptions(input: ConvertInput): ConvertOptions {
  const options = parseOptions(convertOptions, input as Record<string, unknown>);
  const bad = (message: string) => new ConfigError("CONFIG_BAD_VALUE", { message });
  if (options.maxDuration === undefined) throw bad("--max_duration is missing, expected a number (NeMo's script wants it too)");
  if (options.minDuration !== undefined && options.minDuration >= options.maxDuration)
    throw bad(`--min_duration ${options.minDuration} is not below --max_duration ${options.maxDuration}: nothing could pass`);
  if (options.workers === 0) throw bad("--workers is 0, expected -1 or a number of threads");
  if (options.keepFilesTogether && !options.shuffle) throw bad("--keep_files_together only changes how is shuffled: it needs --shuffle");
  if (options.targetDir.includes("://"))
    throw bad(`--target_dir ${options.targetDir} is a store, which cannot be written to; write to a folder and copy it, for example with: ais put`);
  if (options.writeMetadata) return options;
  if (options.manifestPath === undefined) throw bad("--manifest_path is missing, expected manifests");
  if (options.concatManifestPaths !== undefined) {
    if (options.bucketsNum > 1) throw bad("--buckets_num cannot be more than 1 where a dataset is appended to");
    if (options.metadataPath === undefined) throw bad("--metadata_path is missing: appending needs the metadata.yaml of the dataset");
    if (options.manifestPath.length > 1) throw bad("--manifest_path names more than one manifest: give that of the tarred dataset");
  } else if (options.numShards === undefined) throw bad("--num_shards is missing, expected a whole number of 1 or more");
  if (options.bucketsNum > 1 && options.minDuration === undefined) throw bad("--buckets_num needs --min_duration, because buckets divide the range from it to --max_duration");
  return options;
}

/** The configuration as metadata.yaml has it. */
function configOf(options: ConvertOptions, numShards: number): TarredDatasetConfig {
  return {
    num_shards: numShards,
    shuffle: options.shuffle,
    max_duration: options.maxDuration ?? null,
    min_duration: options.minDuration ?? null,
    shuffle_seed: options.shuffleSeed ?? null,
    sort_in_shards: options.sortInShards,
    slice_with_offset: options.sliceWithOffset,
    shard_manifests: options.shardManifests,
    keep_files_together: options.keepFilesTogether,
    force_codec: options.forceCodec ?? null,
    force_sampling_rate: options.forceSamplingRate ?? null,
    use_lhotse: false,
    use_bucketing: false,
    num_buckets: null,
    bucket_duration_bins: null,
  };
}

/** Writes default_metadata.yaml. @returns its path */
export async function writeDefaultMetadata(input: ConvertInput): Promise<string> {
  const options = readOptions({ ...input, writeMetadata: true });
  const { datasetTime, printMetadata } = await import("./metadata.ts");
  const path = join(options.targetDir, "default_metadata.yaml");
  const config = configOf(options, options.numShards ?? -1);
  writeFileAtomic(
    path,
    printMetadata({ created_datetime: datasetTime(), version: 0, num_samples_per_shard: null, is_concatenated_manifest: false, dataset_config: config, history: [] }),
  );
  return path;
}

/** True for files that a dataset's own shards and manifests are. */
const shardFile = /^audio_(\d+)\.tar$/;
const shardManifest = /^manifest_(\d+)\.json$/;

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Removes what an overwritten dataset had more of. */
function removeBeyond(folder: string, pattern: RegExp, limit: number): void {
  for (const name of filesIn(folder)) {
    const id = pattern.exec(name)?.[1];
    if (id !== undefined && Number(id) >= limit) removeQuietly(join(folder, name));
  }
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

class Conversion {
  private readonly options: ConvertOptions;
  private readonly listener: ConvertListener;
  private readonly pool: JobPool;
  private readonly base: Base | undefined;
  private readonly target: string;
  private readonly journal: Journal;

  constructor(options: ConvertOptions, listener: ConvertListener, pool: JobPool, base?: Base) {
    this.options = options;
    this.listener = listener;
    this.pool = pool;
    this.base = base;
    this.target = options.targetDir;
    this.journal = new Journal(options.targetDir);
  }

  private say(line: string): void {
    this.listener.say?.(line);
  }

  private tarPath = (shard: number): string => join(this.target, `audio_${shard}.tar`);

  private manifestPath(shard: number): string {
    return this.options.shardManifests ? join(this.target, "sharded_manifests", `manifest_${shard}.json`) : join(this.journal.folder, `manifest_${shard}.json`);
  }

  private async readPlan(paths: readonly string[]): Promise<ConversionPlan> {
    const { minDuration, maxDuration, sliceWithOffset, dryRun, keepFilesTogether } = this.options;
    const { signal } = this.listener;
    const spool = dryRun ? undefined : (index: number) => this.journal.spool(index);
    return planConversion(paths, {
      minDuration,
      maxDuration,
      needOffset: sliceWithOffset,
      groups: keepFilesTogether && !dryRun ? "file" : undefined,
      spool,
      digests: !dryRun,
      signal,
    });
  }

  private sizes(count: number): { sizes: number[]; dropped: number } {
    const { numShards = 1, keepRemainder } = this.options;
    return this.base ? divideByShardSize(count, this.base.perShard, keepRemainder) : divide(count, numShards, keepRemainder);
  }

  /** The audio of all planned lines: is it there, and do names meet. Parts of the plan are looked at by all threads. */
  private async check(plan: ConversionPlan): Promise<{ plan: ConversionPlan; unreadable: number; bytes: number; distinct: string[] }> {
    const step = Math.max(500, Math.min(50_000, Math.ceil(plan.count / (2 * threadsOf(this.options.workers)))));
    const parts = Math.ceil(plan.count / step);
    const found: { bad: { row: number; why: string }[]; hashes: Uint32Array }[] = [];
    let bytes = 0;
    function* jobs(): Generator<Extract<Job, { kind: "check" }> & { part: number }> {
      for (let part = 0; part < parts; part++) {
        const rows = Uint32Array.from({ length: Math.min(step, plan.count - part * step) }, (_, i) => part * step + i);
        yield { kind: "check", part, rows: selectRows(plan, rows) };
      }
    }
    await this.pool.run(
      jobs(),
      (result, { part }) => {
        found[part] = { bad: result.bad.map(({ row, why }) => ({ row: row + part * step, why })), hashes: result.hashes };
        bytes += result.bytes;
      },
      undefined,
      this.listener.signal,
    );
    const names = new NameTable();
    for (const { hashes } of found) names.add(hashes);
    const bad = found.flatMap((part) => part.bad);
    if (bad.length > 0) {
      const shown = bad.slice(0, 5).map(({ why }) => `  ${why}`);
      if (bad.length > shown.length) shown.push(`  and ${bad.length - shown.length} more`);
      const text = `the audio of ${bad.length} of ${plan.count} lines cannot be tarred:\n${shown.join("\n")}\n`;
      if (this.options.onlyManifests) this.say(text.trimEnd());
      else if (this.options.skipUnreadable) this.say(`left out: ${text.trimEnd()}`);
      else
        throw new ManifestError("TARRED_AUDIO", {
          at: plan.manifests.map(({ path }) => path).join(","),
          message: text,
          fix: "mend these lines, or leave them out with --skip_unreadable",
        });
    }
    const drop = this.options.skipUnreadable && !this.options.onlyManifests ? bad.map(({ row }) => row) : [];
    return { plan: dropRows(plan, drop), unreadable: drop.length, bytes, distinct: names.distinct };
  }

  private checkSpace(bytes: number): void {
    const { onlyManifests, forceCodec, sliceWithOffset } = this.options;
    if (onlyManifests) return;
    const { bavail, bsize } = statfsSync(this.target);
    const free = bavail * bsize;
    // What is encoded anew can become smaller or larger: only a copy's size is known before.
    if (bytes <= free) return;
    if (forceCodec !== undefined || sliceWithOffset)
      this.say(`The sources take ${megabytes(bytes)}, and the target's disk has ${megabytes(free)} left: the tar files may not fit.`);
    else
      throw new ManifestError("TARRED_NO_SPACE", {
        at: this.target,
        message: `the tar files take ${megabytes(bytes)}, and the disk has ${megabytes(free)} left`,
        fix: "free space, or choose a --target_dir on another disk",
      });
  }

  /** Settings and inputs as text: the same text, the same dataset. */
  private identity(plan: ConversionPlan): string {
    const { targetDir: _, workers: __, overwrite: ___, dryRun: ____, ...settings } = this.options;
    const inputs = plan.manifests.map(({ sha256, bytes, path }) => ({ path, sha256, bytes }));
    return createHash("sha256")
      .update(JSON.stringify({ settings, inputs, first: this.base?.firstShard ?? 0, perShard: this.base?.perShard ?? null }))
      .digest("hex");
  }

  /** @returns the record of the dataset where it was made whole, from the same inputs and settings, and its tar files have their sizes */
  private findComplete(identity: string): DatasetRecord | undefined {
    const number = this.base?.version ?? 0;
    const record = this.options.overwrite ? undefined : readRecord(this.target, number);
    if (record?.identity !== identity || !existsSync(join(this.target, number === 0 ? "metadata.yaml" : `metadata_version_${number}.yaml`))) return undefined;
    return record.shards.every(({ tar, bytes }) => statSync(join(this.target, tar), { throwIfNoEntry: false })?.size === bytes) ? record : undefined;
  }

  /** Looks what the target holds. @returns shards that need not be made again, and the seed they were made with */
  private prepareTarget(identity: string): { done: Map<number, ShardResult>; seed: number | null | undefined } {
    const { overwrite, shuffle, shuffleSeed } = this.options;
    const firstShard = this.base?.firstShard ?? 0;
    const earlier = this.journal.read();
    if (earlier !== undefined) {
      if (earlier.head.identity === identity) {
        for (const folder of [this.target, join(this.target, "sharded_manifests")]) removeTemporaries(folder);
        return { done: new Map(earlier.shards.map((one) => [one.shard, one])), seed: earlier.head.seed };
      }
      if (!overwrite) throw targetInUse(this.target, "the folder holds an unfinished conversion with other settings or inputs");
    } else if (!overwrite) {
      const taken = filesIn(this.target).find((name) => {
        const id = shardFile.exec(name)?.[1];
        if (id !== undefined) return Number(id) >= firstShard;
        return this.base ? name === `metadata_version_${this.base.version}.yaml` : name === "metadata.yaml" || name === "tarred_audio_manifest.json";
      });
      if (taken !== undefined) throw targetInUse(this.target, `the folder holds a tarred dataset already (${taken})`);
    }
    const seed = shuffle ? (shuffleSeed ?? randomInt(2 ** 32)) : null;
    this.journal.begin({ format: 1, identity, seed });
    return { done: new Map(), seed };
  }

  async run(paths: readonly string[]): Promise<ConvertReport> {
    const { options, listener, base } = this;
    if (!options.dryRun) {
      try {
        makeFolder(this.target);
      } catch (error) {
        throw fileError(this.target, "write", error);
      }
    }
    const planned = await this.readPlan(paths);
    const { count, keptSeconds, filteredCount, filteredSeconds } = planned;
    const before = this.sizes(count);
    const report: ConvertReport = {
      target: this.target,
      minDuration: options.minDuration ?? null,
      maxDuration: options.maxDuration ?? null,
      kept: count,
      keptSeconds,
      filtered: filteredCount,
      filteredSeconds,
      dropped: before.dropped,
      unreadable: 0,
      renamed: 0,
      short: 0,
      shards: before.sizes.length,
      entriesPerShard: before.sizes.at(-1) ?? 0,
      written: 0,
      resumed: 0,
      seed: null,
      bins: [],
    };
    this.sayFigures(report);
    if (options.dryRun) return report;
    if (count === 0) {
      if (!this.journal.exists) this.journal.remove();
      if (options.bucketsNum > 1) {
        this.say("No utterance falls into this bucket: nothing was written.");
        return report;
      }
      throw new ManifestError("TARRED_EMPTY", {
        at: paths.join(","),
        message: `none of ${filteredCount} utterances passes the filters (at least ${options.minDuration ?? 0} s, below ${options.maxDuration} s)`,
        fix: "correct --min_duration and --max_duration",
      });
    }
    if (before.sizes.length === 0)
      throw new ManifestError("TARRED_EMPTY", {
        at: paths.join(","),
        message: `${count} utterances do not fill a shard of ${base?.perShard}`,
        fix: "add --keep_remainder for a smaller shard",
      });

    const identity = this.identity(planned);
    const complete = this.findComplete(identity);
    if (complete !== undefined) {
      this.say("The dataset is complete already: nothing was written (--overwrite makes it again).");
      this.journal.remove();
      return { ...report, dropped: complete.leftOut.remainder, unreadable: complete.leftOut.unreadable, renamed: complete.renamed, resumed: report.shards, seed: complete.seed };
    }
    const { done, seed } = this.prepareTarget(identity);
    const checked = await this.check(planned);
    const { plan, distinct } = checked;
    this.checkSpace(checked.bytes);
    if (plan.count === 0) throw new ManifestError("TARRED_EMPTY", { at: paths.join(","), message: "no utterance has audio that can be read" });
    const { sizes, dropped } = this.sizes(plan.count);
    const first = base?.firstShard ?? 0;
    Object.assign(report, { unreadable: checked.unreadable, dropped, shards: sizes.length, entriesPerShard: sizes.at(-1) ?? 0, seed });
    if (!base && sizes.length < (options.numShards ?? 1)) this.say(`There are fewer utterances than shards: ${sizes.length} shards with one utterance each are written.`);
    if (dropped > 0) this.say(`${dropped} utterances are left over and dropped, so that all shards have as many; --keep_remainder keeps them.`);

    const order = orderRows(plan, options.shuffle ? (seed as number) : undefined);
    const settings: ShardSettings = {
      sliceWithOffset: options.sliceWithOffset,
      forceCodec: options.forceCodec,
      forceSamplingRate: options.forceSamplingRate,
      onlyManifests: options.onlyManifests,
      deterministicHeaders: options.deterministicHeaders,
      named: false,
      distinct,
    };
    const results: ShardResult[] = [];
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const kept = new Float64Array(total);
    const pending: { shard: number; rows: Uint32Array }[] = [];
    let at = 0;
    for (const [i, size] of sizes.entries()) {
      const rows = order.subarray(at, at + size);
      if (options.sortInShards) sortByDuration(rows, plan.durations);
      for (let k = 0; k < size; k++) kept[at + k] = plan.durations[rows[k] as number] as number;
      at += size;
      const shard = first + i;
      const old = done.get(shard);
      if (old !== undefined && isIntact(old, this.tarPath(shard), this.manifestPath(shard))) results.push(old);
      else pending.push({ shard, rows });
    }
    report.resumed = results.length;
    if (results.length > 0) this.say(`Going on: ${results.length} of ${sizes.length} shards are finished already.`);
    listener.begin?.(pending.reduce((sum, { rows }) => sum + rows.length, 0));
    const makeJob = ({ shard, rows }: { shard: number; rows: Uint32Array }): Extract<Job, { kind: "shard" }> => ({
      kind: "shard",
      shard,
      rows: selectRows(plan, rows),
      settings,
      tarPath: this.tarPath(shard),
      temporaryTar: join(this.journal.folder, `audio_${shard}.tar.part`),
      manifestPath: this.manifestPath(shard),
      temporaryManifest: join(this.journal.folder, `manifest_${shard}.json.part`),
    });
    function* jobs() {
      for (const one of pending) yield makeJob(one);
    }
    try {
      await this.pool.run(
        jobs(),
        (result) => {
          results.push(result);
          this.journal.add(result);
          listener.shard?.(result);
        },
        listener.entries,
        listener.signal,
      );
      results.sort((a, b) => a.shard - b.shard);
      report.written = total;
      report.renamed = results.reduce((sum, { renamed }) => sum + renamed, 0);
      report.short = results.reduce((sum, { short }) => sum + short, 0);
      if (report.renamed > 0) this.say(`${report.renamed} members have other names than NeMo's script gives: without that, two files would have had one name.`);
      if (report.short > 0) this.say(`${report.short} utterances end before offset + duration, for instance ${results.find(({ short }) => short > 0)?.shortExample}`);
      await this.finish(plan, report, results, kept, identity);
    } catch (error) {
      if (results.length > 0) this.say(`${results.length} of ${sizes.length} shards are finished: the same command goes on from there.`);
      throw error;
    }
    return report;
  }

  private sayFigures(report: ConvertReport): void {
    const all = report.kept + report.filtered;
    const rows: [string, string][] = [
      ["Min duration", report.minDuration === null ? "none" : `${report.minDuration} s`],
      ["Max duration", `${report.maxDuration} s`],
      ["Entries after filtration", `${report.kept} / ${all}`],
      ["Duration after filtration", `${report.keptSeconds.toFixed(2)} / ${(report.keptSeconds + report.filteredSeconds).toFixed(2)} s`],
      ["Shards", String(report.shards)],
      ["Entries per shard", String(report.entriesPerShard)],
      ["Remainder entries", `${report.dropped}${report.dropped > 0 ? " (dropped; --keep_remainder keeps them)" : ""}`],
    ];
    for (const [name, value] of rows) this.say(`  ${`${name}:`.padEnd(28)}${value}`);
  }

  /** The aggregate manifest, the record, and last metadata.yaml: where it is, the dataset is whole. */
  private async finish(plan: ConversionPlan, report: ConvertReport, results: readonly ShardResult[], kept: Float64Array, identity: string): Promise<void> {
    const { options, base, target } = this;
    const number = base?.version ?? 0;
    const aggregate = join(target, number === 0 ? "tarred_audio_manifest.json" : `tarred_audio_manifest_version_${number}.json`);
    writeAtomically(aggregate, (fd) => {
      if (base?.manifest !== undefined) writeFully(fd, Buffer.from(base.manifest, "utf8"));
      for (const { shard } of results) writeFully(fd, readFileSync(this.manifestPath(shard)));
    });
    if (options.overwrite && !base) {
      removeBeyond(target, shardFile, options.onlyManifests ? 0 : results.length);
      removeBeyond(join(target, "sharded_manifests"), shardManifest, options.shardManifests ? results.length : 0);
    }
    const { datasetTime, printMetadata } = await import("./metadata.ts");
    const config = configOf(options, report.shards);
    let metadata: TarredDatasetMetadata = {
      created_datetime: datasetTime(),
      version: 0,
      num_samples_per_shard: Math.floor(report.written / report.shards),
      is_concatenated_manifest: false,
      dataset_config: config,
      history: [],
    };
    if (base) {
      const { history, ...old } = base.metadata;
      const { shuffle, max_duration, min_duration, shuffle_seed, sort_in_shards, shard_manifests, force_sampling_rate } = config;
      const now = { ...old.dataset_config, shuffle, max_duration, min_duration, shuffle_seed, sort_in_shards, shard_manifests, force_sampling_rate };
      metadata = {
        ...metadata,
        version: base.version,
        num_samples_per_shard: base.perShard,
        is_concatenated_manifest: true,
        dataset_config: { ...now, num_shards: base.firstShard + report.shards },
        history: [...history, old],
      };
    } else if (options.bucketsNum <= 1) {
      const lengths = await this.binLengths(aggregate, kept);
      const buckets = Math.min(options.dynamicBucketsNum, lengths.length);
      if (buckets < options.dynamicBucketsNum) this.say(`Bins are estimated for ${buckets} buckets: there are only ${lengths.length} utterances.`);
      if (buckets > 1) {
        report.bins = estimateDurationBins(lengths, buckets);
        Object.assign(config, { use_lhotse: true, use_bucketing: true, num_buckets: buckets, bucket_duration_bins: report.bins });
      }
    }
    const previous = base ? readRecord(target, base.version - 1) : undefined;
    const { manifestPath: _, targetDir: __, ...settings } = options;
    const record: DatasetRecord = {
      format: 1,
      serac: version(),
      created: new Date().toISOString(),
      version: number,
      identity,
      settings,
      seed: report.seed,
      inputs: plan.manifests.map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 })),
      entries: report.written,
      leftOut: { filtered: report.filtered, remainder: report.dropped, unreadable: report.unreadable },
      renamed: report.renamed,
      shards: [
        ...(previous?.shards ?? []),
        ...results.flatMap(({ shard, tar, entries }) => (tar ? [{ shard, tar: `audio_${shard}.tar`, sha256: tar.sha256, bytes: tar.bytes, members: tar.members, entries }] : [])),
      ],
    };
    writeRecord(target, record);
    writeFileAtomic(join(target, number === 0 ? "metadata.yaml" : `metadata_version_${number}.yaml`), printMetadata(metadata));
    this.journal.remove();
  }

  /** NeMo estimates from the manifest, leaving out lines with _skipme. */
  private async binLengths(aggregate: string, kept: Float64Array): Promise<Float64Array> {
    const { size } = statSync(aggregate);
    // Only a manifest that may hold the key is read again.
    if (size < 1 << 28 && readFileSync(aggregate).includes('"_skipme"')) return binDurations(aggregate);
    return kept;
  }
}

/** The reports of all datasets that a call makes: one, or one for each bucket. */
export async function convertToTarred(input: ConvertInput, listener: ConvertListener = {}): Promise<ConvertReport[]> {
  const options = readOptions(input);
  const threads = options.dryRun ? 1 : Math.min(threadsOf(options.workers), Math.max(1, options.numShards ?? Number.POSITIVE_INFINITY));
  const pool = new JobPool(threads);
  try {
    const paths = options.manifestPath as readonly string[];
    if (options.concatManifestPaths !== undefined) {
      const { readBase } = await import("./concat.ts");
      const base = await readBase(options, listener);
      const inherited = { ...options, sliceWithOffset: options.sliceWithOffset || base.metadata.dataset_config.slice_with_offset };
      const codec = base.metadata.dataset_config.force_codec;
      if (codec !== null && inherited.forceCodec === undefined) inherited.forceCodec = codec as ConvertOptions["forceCodec"];
      return [await new Conversion(inherited, listener, pool, base).run(options.concatManifestPaths)];
    }
    if (options.bucketsNum === 1) return [await new Conversion(options, listener, pool).run(paths)];
    const reports: ConvertReport[] = [];
    const low = options.minDuration as number;
    const width = ((options.maxDuration as number) - low) / options.bucketsNum;
    for (let i = 0; i < options.bucketsNum; i++) {
      const minDuration = low + i * width;
      // The last one also takes what is exactly as long as the upper bound.
      const maxDuration = minDuration + width + (i === options.bucketsNum - 1 ? 1e-5 : 0);
      const targetDir = join(options.targetDir, `bucket${i + 1}`);
      listener.say?.(`Bucket ${i + 1}, ${targetDir}:`);
      reports.push(await new Conversion({ ...options, minDuration, maxDuration, targetDir }, listener, pool).run(paths));
    }
    return reports;
  } finally {
    await pool.close();
  }
}
