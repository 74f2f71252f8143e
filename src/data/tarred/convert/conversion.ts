/** One conversion from manifests to a dataset in one folder. What an ended run finished is kept; no file is ever half written under its name. */
import { createHash, randomInt } from "node:crypto";
import { join } from "node:path";
import { ManifestError } from "../../../util/errors.ts";
import { checkAudio, checkSpace } from "./checkAudio.ts";
import type { Base } from "./concat.ts";
import { selectRows } from "./entries.ts";
import { finishDataset } from "./finish.ts";
import type { Job } from "./jobs.ts";
import { removeFolder } from "./journal.ts";
import { type ConvertOptions, encodes } from "./options.ts";
import { type Division, divide, divideByShardSize, orderRows, sortByDuration } from "./order.ts";
import { type ConversionPlan, planConversion } from "./plan.ts";
import { type JobPool, threadsOf } from "./pool.ts";
import { type ConvertListener, type ConvertReport, figures } from "./report.ts";
import type { ShardResult, ShardSettings } from "./shard.ts";
import { Target } from "./target.ts";

/** What a conversion works with. */
export interface ConversionContext {
  options: ConvertOptions;
  listener: ConvertListener;
  pool: JobPool;
  /** The dataset that is appended to. */
  base?: Base;
}

/**
 * Makes a dataset, or says with `dryRun` what it would be.
 * @throws ManifestError TARRED_*; FormatError of reading and writing; an AbortError where the listener's signal ended it
 */
export async function runConversion(paths: readonly string[], context: ConversionContext): Promise<ConvertReport> {
  const { options, base, listener } = context;
  const target = new Target(options, base);
  if (options.dryRun) {
    const report = firstReport(await readPlan(paths, context, target), context);
    for (const line of figures(report)) listener.say?.(line);
    return report;
  }
  target.make();
  const lock = target.journal.lock();
  try {
    return await convert(paths, context, target);
  } finally {
    if (!target.journal.exists) target.journal.remove(); // nothing is finished: what was read goes too
    lock.release();
    removeFolder(target.journal.folder);
  }
}

function readPlan(paths: readonly string[], { options, listener }: ConversionContext, target: Target): Promise<ConversionPlan> {
  const { minDuration, maxDuration, sliceWithOffset, dryRun, keepFilesTogether } = options;
  return planConversion(paths, {
    minDuration,
    maxDuration,
    needOffset: sliceWithOffset,
    groups: keepFilesTogether && !dryRun ? "file" : undefined,
    spool: dryRun ? undefined : (index) => target.journal.spool(index),
    digests: !dryRun,
    signal: listener.signal,
  });
}

function divisionOf(count: number, { options: { numShards = 1, keepRemainder }, base }: ConversionContext): Division {
  return base ? divideByShardSize(count, base.perShard, keepRemainder) : divide(count, numShards, keepRemainder);
}

/** What is known before the audio is looked at. */
function firstReport({ count, keptSeconds, filteredCount, filteredSeconds }: ConversionPlan, context: ConversionContext): ConvertReport {
  const { options } = context;
  const { sizes, dropped } = divisionOf(count, context);
  return {
    target: options.targetDir,
    minDuration: options.minDuration ?? null,
    maxDuration: options.maxDuration ?? null,
    kept: count,
    keptSeconds,
    filtered: filteredCount,
    filteredSeconds,
    dropped,
    unreadable: 0,
    renamed: 0,
    short: 0,
    shards: sizes.length,
    entriesPerShard: sizes.at(-1) ?? 0,
    written: 0,
    resumed: 0,
    seed: null,
    bins: [],
  };
}

/** @throws ManifestError TARRED_EMPTY where there is nothing to fill a shard with */
function refuseNothing(at: string, { kept, filtered, shards }: ConvertReport, { options, base }: ConversionContext): void {
  if (kept === 0)
    throw new ManifestError("TARRED_EMPTY", {
      at,
      message: `none of ${filtered} utterances passes the filters (at least ${options.minDuration ?? 0} s, below ${options.maxDuration} s)`,
      fix: "correct --min_duration and --max_duration",
    });
  if (shards === 0)
    throw new ManifestError("TARRED_EMPTY", { at, message: `${kept} utterances do not fill a shard of ${base?.perShard}`, fix: "add --keep_remainder for a smaller shard" });
}

/** A thread takes longer to start than this much work takes to be done without it. */
const worthThreads = 0.25;

/** About how long the shards take: for a line and its file, for copying and hashing, for encoding. */
const secondsOf = ({ count, keptSeconds }: ConversionPlan, bytes: number, encoded: boolean): number => count * 5e-5 + (encoded ? keptSeconds * 5e-4 : bytes / 7e8);

/** Settings and inputs as text: the same text, the same dataset. */
function identityOf({ manifests }: ConversionPlan, { options, base }: ConversionContext): string {
  const { targetDir: _, workers: __, overwrite: ___, dryRun: ____, ...settings } = options;
  const inputs = manifests.map(({ sha256, bytes, path }) => ({ path, sha256, bytes }));
  return createHash("sha256")
    .update(JSON.stringify({ settings, inputs, first: base?.firstShard ?? 0, perShard: base?.perShard ?? null }))
    .digest("hex");
}

async function convert(paths: readonly string[], context: ConversionContext, target: Target): Promise<ConvertReport> {
  const { options, base, listener, pool } = context;
  const say = (line: string): void => listener.say?.(line);
  const planned = await readPlan(paths, context, target);
  const report = firstReport(planned, context);
  for (const line of figures(report)) say(line);
  if (planned.count === 0 && options.bucketsNum > 1) {
    say("No utterance falls into this bucket: nothing was written.");
    return report;
  }
  refuseNothing(paths.join(","), report, context);
  const identity = identityOf(planned, context);
  const complete = target.findComplete(identity);
  if (complete !== undefined) {
    say("The dataset is complete already: nothing was written (--overwrite makes it again).");
    target.journal.remove();
    return { ...report, dropped: complete.leftOut.remainder, unreadable: complete.leftOut.unreadable, renamed: complete.renamed, resumed: report.shards, seed: complete.seed };
  }
  target.refuseOthers(identity);
  const { plan, unreadable, leftOut, bytes, distinct } = await checkAudio(planned, pool, options, listener);
  checkSpace(bytes, options, listener.say);
  if (secondsOf(plan, bytes, encodes(options)) > worthThreads) pool.start();
  if (plan.count === 0) throw new ManifestError("TARRED_EMPTY", { at: paths.join(","), message: "no utterance has audio that can be read" });
  const { sizes, dropped } = divisionOf(plan.count, context);
  const { done, seed } = target.begin({ identity, leftOut }, () => (options.shuffle ? (options.shuffleSeed ?? randomInt(2 ** 32)) : null));
  Object.assign(report, { unreadable, dropped, shards: sizes.length, entriesPerShard: sizes.at(-1) ?? 0, seed });
  if (!base && sizes.length < (options.numShards ?? 1)) say(`There are fewer utterances than shards: ${sizes.length} shards with one utterance each are written.`);
  if (dropped > 0) say(`${dropped} utterances are left over and dropped, so that all shards have as many; --keep_remainder keeps them.`);

  const shards = planShards(plan, sizes, target.firstShard, options, seed);
  const results = await writeShards(shards, plan, distinct, done, context, target, report);
  const durations = new Float64Array(report.written);
  let at = 0;
  for (const { rows } of shards) for (let i = 0; i < rows.length; i++) durations[at++] = plan.durations[rows[i] as number] as number;
  finishDataset({ options, base, target, report, results, inputs: plan.manifests, durations, identity }, listener.say);
  return report;
}

/** A shard by its rows of the plan. */
interface PlannedShard {
  shard: number;
  rows: Uint32Array;
}

/** @param seed of the shuffle; null leaves the manifest's order */
function planShards(plan: ConversionPlan, sizes: readonly number[], first: number, { sortInShards }: ConvertOptions, seed: number | null): PlannedShard[] {
  const order = orderRows(plan, seed ?? undefined);
  let at = 0;
  return sizes.map((size, i) => {
    const rows = order.subarray(at, at + size);
    if (sortInShards) sortByDuration(rows, plan.durations);
    at += size;
    return { shard: first + i, rows };
  });
}

/** Writes the shards that are not done, and records each in the journal. @returns the results of all of them in order; completes `report` */
async function writeShards(
  shards: readonly PlannedShard[],
  plan: ConversionPlan,
  distinct: readonly string[],
  done: readonly ShardResult[],
  { options, listener, pool }: ConversionContext,
  target: Target,
  report: ConvertReport,
): Promise<ShardResult[]> {
  const say = (line: string): void => listener.say?.(line);
  const numbers = new Set(shards.map(({ shard }) => shard));
  const results = done.filter(({ shard }) => numbers.has(shard));
  const finished = new Set(results.map(({ shard }) => shard));
  const pending = shards.filter(({ shard }) => !finished.has(shard));
  report.resumed = results.length;
  if (results.length > 0) say(`Going on: ${results.length} of ${shards.length} shards are finished already.`);
  const entriesOf = (some: readonly PlannedShard[]): number => some.reduce((sum, { rows }) => sum + rows.length, 0);
  listener.begin?.(entriesOf(pending));
  const { sliceWithOffset, forceCodec, forceSamplingRate, onlyManifests, deterministicHeaders } = options;
  const settings: ShardSettings = {
    sliceWithOffset,
    forceCodec,
    forceSamplingRate,
    onlyManifests,
    deterministicHeaders,
    encoders: threadsOf(options.workers),
    named: false,
    distinct,
  };
  function* jobs(): Generator<Extract<Job, { kind: "shard" }>> {
    for (const { shard, rows } of pending)
      yield {
        kind: "shard",
        shard,
        rows: selectRows(plan, rows),
        settings,
        tarPath: target.tar(shard),
        temporaryTar: join(target.journal.folder, `audio_${shard}.tar.part`),
        manifestPath: target.manifest(shard),
        temporaryManifest: join(target.journal.folder, `manifest_${shard}.json.part`),
      };
  }
  const onResult = (result: ShardResult): void => {
    results.push(result);
    target.journal.add(result);
    listener.shard?.(result);
  };
  try {
    await pool.run(jobs(), onResult, { onEntries: listener.entries, signal: listener.signal });
  } catch (error) {
    if (results.length > 0) say(`${results.length} of ${shards.length} shards are finished: the same command goes on from there.`);
    throw error;
  }
  results.sort((a, b) => a.shard - b.shard);
  report.written = entriesOf(shards);
  report.renamed = results.reduce((sum, { renamed }) => sum + renamed, 0);
  report.short = results.reduce((sum, { short }) => sum + short, 0);
  if (report.renamed > 0) say(`${report.renamed} members have other names than NeMo's script gives: without that, two files would have had one name.`);
  if (report.short > 0) say(`${report.short} utterances end before offset + duration, for instance ${results.find(({ short }) => short > 0)?.shortExample}`);
  return results;
}
