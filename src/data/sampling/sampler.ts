/**
 * Samplers: which utterances make a batch. They look at durations alone, give every rank as many steps, and go on after a restart with exactly
 * the batches that remain.
 */
import { ConfigError, ManifestError } from "../../util/errors.ts";
import { PythonRandom } from "../../util/pythonRandom.ts";
import { Random } from "../../util/random.ts";
import { estimateDurationBins } from "../durationBins.ts";
import { LeftOut } from "../filter.ts";
import { heldRefs, type ItemBatch } from "./batchMaker.ts";
import { type Buckets, type DurationBins, makeBuckets } from "./bins.ts";
import { ColumnSource, type ItemBounds } from "./columnSource.ts";
import { Feed, ItemList, type TooLongPolicy } from "./feed.ts";
import { LhotseBucketing } from "./lhotseBucketing.ts";
import { LhotseDynamic } from "./lhotseDynamic.ts";
import { LhotseSimple, LhotseStatic } from "./lhotseEager.ts";
import { type BatchLimits, checkLimits, Filling } from "./limits.ts";
import { type GroupMaker, LhotseRanks, SeracRanks } from "./ranks.ts";
import { SeracBucketing } from "./seracBucketing.ts";
import { SeracPlanned } from "./seracPlanned.ts";
import type { EpochOptions, ItemSource, Json, StreamPosition } from "./source.ts";

/** lhotse's samplers by what they do: SimpleCutSampler, DynamicCutSampler, DynamicBucketingSampler, BucketingSampler. */
export const samplerKinds = ["simple", "dynamic", "bucketing", "static"] as const;
export type SamplerKind = (typeof samplerKinds)[number];

/** How to make batches. What is not given is lhotse's default, where lhotse has one. */
export interface SamplerOptions extends BatchLimits {
  /**
   * bucketing: batches of like duration from a stream. static: the same, planned for the whole epoch, so that its steps are known.
   * dynamic: batches from a stream as it comes, through a shuffle buffer. simple: the same after shuffling everything.
   */
  kind?: SamplerKind;
  /** "lhotse" gives lhotse's own batches for the same cuts and settings; "serac" keeps the limits and mends what is odd. */
  mode?: "serac" | "lhotse";
  /** Buckets of equal total duration, where no bins are given. */
  numBuckets?: number;
  /** 1-D or 2-D bins. With `bucketBatchSize`, and for 2-D bins, they are upper bounds; otherwise inner edges. */
  durationBins?: DurationBins | undefined;
  /** Items from which bins are estimated. */
  numCutsForBinsEstimate?: number;
  /** 2-D bins: false lets items with many tokens go to buckets of longer audio. */
  strict2d?: boolean;
  /** 2-D bins, strict: most tokens a second, one for all or one for each bin. */
  maxTps?: number | readonly number[] | undefined;
  /** Items that are held: in all buckets together, or in the shuffle buffer. */
  bufferSize?: number;
  shuffle?: boolean;
  /** Leaves out batches that are not full at the end of an epoch. */
  dropLast?: boolean;
  /** Any whole number. */
  seed?: number;
  rank?: number;
  worldSize?: number;
  /** lhotse mode: ranks draw from like buckets. Always so in serac mode. */
  syncBuckets?: boolean;
  /** Utterances outside of these bounds are left out. In lhotse mode this is `sampler.filter`: bins are estimated before it. */
  bounds?: ItemBounds | undefined;
  /** What happens to an utterance that is over the limits by itself. lhotse mode: a batch of its own. */
  tooLong?: TooLongPolicy;
}

/** A step of this rank. */
export interface SampledBatch<T> {
  /** The place of the step in its epoch, from 0. */
  step: number;
  refs: readonly number[];
  /** Seconds, in the order of `refs`. */
  durations: readonly number[];
  bucket: number;
  /** How many items, at the end, are in another batch too. */
  repeated: number;
  /** The whole items. */
  load(): Promise<T[]>;
}

/** Where an epoch stands, for checkpoints: plain JSON, the same on all ranks unless the source is divided among them. */
export interface SamplerState {
  version: 1;
  settings: { readonly [name: string]: Json };
  source: string;
  epoch: number;
  /** Steps done when `groups` was taken. */
  step: number;
  /** Steps done since then: they are drawn again and passed over. */
  skip: number;
  groups: Json;
}

const defaults = {
  kind: "bucketing",
  mode: "serac",
  numBuckets: 30,
  numCutsForBinsEstimate: 10_000,
  strict2d: true,
  bufferSize: 20_000,
  shuffle: false,
  dropLast: false,
  seed: 0,
  rank: 0,
  worldSize: 1,
  syncBuckets: true,
  tooLong: "throw",
} as const;

type Settings = Required<Omit<SamplerOptions, keyof BatchLimits | "durationBins" | "maxTps" | "bounds">> & SamplerOptions;

/**
 * Makes a sampler. Everything that can be known before training is looked at here.
 * @throws ConfigError CONFIG_BAD_VALUE, SAMPLER_BINS, SAMPLER_TOO_LONG, SAMPLER_TOO_FEW; ManifestError SAMPLER_EMPTY, MANIFEST_BAD_DURATION; SeracError of reading
 */
export async function createSampler<T>(source: ItemSource<T>, options: SamplerOptions): Promise<Sampler<T>> {
  const settings: Settings = { ...defaults, ...withoutUndefined(options) };
  checkSettings(settings);
  if (source.length === Number.POSITIVE_INFINITY && (settings.kind === "static" || settings.kind === "simple"))
    throw endless(source.name, `a ${settings.kind} sampler looks at all utterances first`);
  const leftOut = new LeftOut();
  const bins = await binsFor(source, settings);
  const sampler = new Sampler(source, settings, bins, leftOut);
  await sampler.check();
  return sampler;
}

const endless = (name: string, why: string): ConfigError =>
  new ConfigError("CONFIG_BAD_VALUE", { at: name, message: `${why}, and this source has no end`, fix: "use the kinds bucketing or dynamic, or a finite source (force_finite)" });

function withoutUndefined(options: SamplerOptions): SamplerOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function checkSettings(settings: Settings): void {
  checkLimits(settings);
  const counts = ["numBuckets", "numCutsForBinsEstimate", "bufferSize", "worldSize"] as const;
  for (const name of counts)
    if (!Number.isInteger(settings[name]) || settings[name] < 1)
      throw new ConfigError("CONFIG_BAD_VALUE", { message: `${name} is ${settings[name]}, expected a whole number of 1 or more` });
  const { rank, worldSize, seed, kind, bucketBatchSize, durationBins } = settings;
  if (!Number.isInteger(rank) || rank < 0 || rank >= worldSize) throw new ConfigError("CONFIG_BAD_VALUE", { message: `rank is ${rank}, expected 0 to ${worldSize - 1}` });
  if (!Number.isSafeInteger(seed)) throw new ConfigError("CONFIG_BAD_VALUE", { message: `seed is ${seed}, expected a whole number` });
  const buckets = kind === "bucketing" || kind === "static";
  if (bucketBatchSize && (!buckets || durationBins === undefined))
    throw new ConfigError("CONFIG_BAD_VALUE", { message: "batch sizes of buckets are given without bins", fix: "give the upper bound of each bucket, and a bucketing sampler" });
}

const oneBucket: Buckets = { count: 1, needsTokens: false, refusal: "", place: () => 0 };

/** The bins that are given, or an estimate of them; undefined where the sampler has no buckets. */
async function binsFor<T>(source: ItemSource<T>, settings: Settings): Promise<DurationBins | undefined> {
  const { kind, mode, durationBins, numBuckets, numCutsForBinsEstimate, seed, bounds } = settings;
  if (kind === "simple" || kind === "dynamic" || (kind === "static" && mode === "lhotse")) return undefined;
  if (durationBins) return durationBins;
  if (numBuckets === 1) return [];
  const lhotse = mode === "lhotse";
  const durations = await someDurations(source, { count: numCutsForBinsEstimate, seed, shuffle: !lhotse, bounds: lhotse ? undefined : bounds });
  if (lhotse && durations.length < numBuckets)
    throw new ConfigError("SAMPLER_BINS", { at: source.name, message: `${numBuckets} buckets for ${durations.length} utterances`, fix: "ask for fewer buckets, or give bins" });
  if (durations.length < 2) return [];
  const bins = estimateDurationBins(durations, Math.min(numBuckets, durations.length));
  return lhotse ? bins : bins.filter((bin, i) => bin !== bins[i - 1]);
}

/** Durations of some items: the first ones, or some at random where the source can shuffle. */
async function someDurations(
  source: ItemSource<unknown>,
  {
    count,
    seed,
    shuffle,
    bounds: { minDuration = 0, maxDuration = Number.POSITIVE_INFINITY } = {},
  }: { count: number; seed: number; shuffle: boolean; bounds: ItemBounds | undefined },
): Promise<Float64Array> {
  const stream = await source.open({ epoch: 0, seed, shuffle });
  const durations: number[] = [];
  try {
    while (durations.length < count) {
      const block = await stream.read(count - durations.length);
      if (!block) break;
      for (let i = 0; i < block.count; i++) {
        const duration = block.durations[i] as number;
        if (duration >= minDuration && duration <= maxDuration) durations.push(duration);
      }
      source.release(block.refs.slice(0, block.count));
    }
  } finally {
    await stream.close();
  }
  return Float64Array.from(durations);
}

/** A buffer that holds less than a batch for each bucket gives batches that are not full, all through the epoch. */
function smallBuffer({ kind, bufferSize, maxDuration }: Settings, bins: DurationBins | undefined): string[] {
  if (kind !== "bucketing" || !bins || bins.length === 0 || maxDuration === undefined) return [];
  const mean = bins.reduce<number>((sum, bin) => sum + (typeof bin === "number" ? bin : bin[0]), 0) / bins.length;
  const held = (bufferSize * mean) / (bins.length + 1);
  if (held >= maxDuration) return [];
  return [
    `${bufferSize} utterances in ${bins.length + 1} buckets are about ${held.toFixed(0)} s in each, less than the ${maxDuration} s of a batch: batches will not be full; hold more utterances`,
  ];
}

/** A sampler over a source. */
export class Sampler<T> {
  readonly source: ItemSource<T>;
  /** The bins in use: inner edges, or upper bounds where they are 2-D or have batch sizes; undefined without buckets. */
  readonly bins: DurationBins | undefined;
  /** Items that no batch takes, by reason: as the items were read, or beforehand where all of them are known. */
  readonly leftOut: LeftOut;
  /** What a person should know of these settings. */
  readonly warnings: readonly string[];
  private readonly settings: Settings;
  private readonly buckets: Buckets;
  /** Each rank reads its own part of the source. */
  private readonly divided: boolean;

  constructor(source: ItemSource<T>, settings: Settings, bins: DurationBins | undefined, leftOut: LeftOut) {
    this.source = source;
    this.settings = settings;
    this.bins = bins;
    this.leftOut = leftOut;
    this.buckets = bins
      ? makeBuckets(bins, { convention: settings.bucketBatchSize ? "bounds" : "edges", strict: settings.strict2d, maxTps: settings.maxTps }, settings.bucketBatchSize)
      : oneBucket;
    this.divided = source.length === Number.POSITIVE_INFINITY && source.divisible && settings.worldSize > 1;
    this.warnings = smallBuffer(settings, bins);
  }

  /** Buckets that batches are drawn from. */
  get bucketCount(): number {
    return this.buckets.count;
  }

  /** Looks for what would stop training later. */
  async check(): Promise<void> {
    const { source, settings } = this;
    const known = source instanceof ColumnSource;
    const leftOut = known ? this.leftOut : new LeftOut();
    const feed = await this.feed({ epoch: 0, seed: settings.seed, shuffle: false }, leftOut);
    try {
      let count = 0;
      await feed.fill(known ? Number.POSITIVE_INFINITY : 1, (_, ref) => {
        count++;
        source.release([ref]);
      });
      if (count === 0)
        throw new ManifestError("SAMPLER_EMPTY", {
          at: source.name,
          message: leftOut.total === 0 ? "there is no utterance" : `no utterance is left: ${leftOut.lines().join("; ")}`,
          fix: leftOut.total === 0 ? "check that the right file is named" : "widen the bounds, or look at the durations: serac manifest stats",
        });
      if (known && count < settings.worldSize)
        throw new ConfigError("SAMPLER_TOO_FEW", { at: source.name, message: `${count} utterances for ${settings.worldSize} ranks`, fix: "train on fewer ranks, or on more data" });
    } finally {
      await feed.close();
    }
  }

  private async feed(options: EpochOptions, leftOut: LeftOut, position?: StreamPosition): Promise<Feed> {
    const { settings, source, buckets } = this;
    const { bounds, mode, tooLong } = settings;
    const stream = await source.open(options, position);
    return new Feed(source, stream, { bounds, buckets, filling: new Filling(settings), tooLong: mode === "lhotse" ? "alone" : tooLong, leftOut });
  }

  /** The batches of an epoch from 0: the same for the same seed and epoch. @throws SeracError of reading */
  async epoch(epoch: number): Promise<BatchStream<T>> {
    if (!Number.isInteger(epoch) || epoch < 0) throw new ConfigError("CONFIG_BAD_VALUE", { message: `epoch is ${epoch}, expected a whole number from 0` });
    return new BatchStream(this, await this.groups(epoch, undefined), this.rankOf(), { epoch, step: 0 });
  }

  /** All batches of an epoch, loaded: for sources that are in memory. @throws SeracError of reading */
  async wholeEpoch(epoch: number): Promise<T[][]> {
    if (this.source.length === Number.POSITIVE_INFINITY) throw endless(this.source.name, "all batches of an epoch are asked for");
    const batches: Promise<T[]>[] = [];
    for await (const batch of await this.epoch(epoch)) batches.push(batch.load());
    return Promise.all(batches);
  }

  /**
   * Goes on within an epoch: with exactly the batches that were not given yet.
   * @throws ConfigError SAMPLER_BAD_STATE, SAMPLER_SOURCE_CHANGED
   */
  async resume(state: SamplerState): Promise<BatchStream<T>> {
    this.fits(state);
    const { epoch, step, skip } = state;
    const groups = await this.groups(epoch, state.groups as unknown as SavedEpoch);
    const stream = new BatchStream(this, groups, this.rankOf(), { epoch, step });
    await stream.passOver(skip);
    return stream;
  }

  private rankOf(): number {
    return this.divided ? 0 : this.settings.rank;
  }

  private fits(state: SamplerState): void {
    const bad = (message: string, fix = "start the epoch again"): never => {
      throw new ConfigError("SAMPLER_BAD_STATE", { at: this.source.name, message, fix });
    };
    if (typeof state !== "object" || state === null || state.version !== 1) bad("the state to go on from is none of this version's samplers");
    const whole = (value: unknown): boolean => typeof value === "number" && Number.isInteger(value) && value >= 0;
    if (!whole(state.epoch) || !whole(state.step) || !whole(state.skip) || typeof state.groups !== "object" || typeof state.settings !== "object" || state.settings === null)
      bad("the state to go on from is damaged");
    const mine = this.description();
    for (const name of Object.keys({ ...mine, ...state.settings })) {
      const saved = JSON.stringify(state.settings[name]);
      const now = JSON.stringify(mine[name]);
      if (saved !== now) bad(`${name} is ${now ?? "not given"}, and was ${saved ?? "not given"} when the state was saved`, "give the same settings, or start the epoch again");
    }
    const source = this.source.fingerprint();
    if (state.source !== source)
      throw new ConfigError("SAMPLER_SOURCE_CHANGED", {
        at: this.source.name,
        message: `the data is not what it was when the state was saved, in step ${state.step + state.skip} of epoch ${state.epoch}`,
        fix: "put the data back as it was, or start an epoch anew",
      });
  }

  /** What batches depend on. */
  description(): { readonly [name: string]: Json } {
    const { rank, bounds, ...settings } = this.settings;
    const values: Record<string, unknown> = {
      ...settings,
      durationBins: this.bins,
      minDuration: bounds?.minDuration,
      maxUtterance: bounds?.maxDuration,
      ...(this.divided ? { rank } : {}),
    };
    return JSON.parse(JSON.stringify(values)) as { readonly [name: string]: Json };
  }

  private async groups(epoch: number, saved: SavedEpoch | undefined): Promise<GroupMaker> {
    const { settings, source, leftOut } = this;
    const { seed, shuffle, mode, kind, rank, dropLast, bufferSize } = settings;
    const worldSize = this.divided ? 1 : settings.worldSize;
    const lhotse = mode === "lhotse";
    const position = saved?.maker?.feed ? { state: saved.maker.feed.stream, held: heldRefs(saved) } : undefined;
    const share = this.divided ? { index: rank, count: settings.worldSize } : undefined;
    const feed = await this.feed({ epoch, seed, shuffle: shuffle && !lhotse, share }, source instanceof ColumnSource ? new LeftOut() : leftOut, position);
    if (saved?.maker?.feed) feed.restore(saved.maker.feed);
    const filling = new Filling(settings);
    const eager = kind === "simple" || kind === "static";
    const items = new ItemList();
    if (eager) await feed.fill(Number.POSITIVE_INFINITY, (bucket, ref, duration) => items.push(bucket, ref, duration));
    if (lhotse) {
      const list = { refs: items.refs.subarray(0, items.length), durations: items.durations.subarray(0, items.length) };
      if (kind === "static") return new LhotseStatic(list, filling, { ...settings, worldSize, epoch }, saved as never);
      const random = new PythonRandom(seed + epoch);
      const maker =
        kind === "simple"
          ? new LhotseSimple(list, filling, { seed: seed + epoch, shuffle, dropLast }, saved?.maker as never)
          : kind === "dynamic"
            ? new LhotseDynamic(feed, filling, random, { shuffle, bufferSize, dropLast }, saved?.maker as never)
            : new LhotseBucketing(
                feed,
                filling,
                random,
                { ...settings, worldSize, buckets: this.buckets.count + (settings.bucketBatchSize || this.buckets.needsTokens ? 1 : 0) }, // lhotse has one more, always empty
                saved?.maker as never,
              );
      return new LhotseRanks(maker, worldSize, dropLast);
    }
    const random = new Random(seed).fork(epoch);
    const buckets = this.buckets.count;
    const maker = eager
      ? new SeracPlanned(feed, items, filling, random, { buckets, shuffle, dropLast, worldSize }, saved?.maker as never)
      : new SeracBucketing(feed, filling, random, { buckets, bufferSize, shuffle, dropLast, worldSize }, saved?.maker as never);
    return new SeracRanks(maker, { worldSize, dropLast, name: source.name }, saved as never);
  }
}

/** What the parts of an epoch save, as far as the sampler looks into it. */
interface SavedEpoch {
  maker?: { feed?: { stream: Json; ended: boolean; passed: number } };
}

/** How many marks are kept for `stateAt`, and how many steps lie between them. */
const marks = 16;
const stepsBetween = 256;

/** The batches of one rank in one epoch. */
export class BatchStream<T> implements AsyncIterable<SampledBatch<T>> {
  readonly epoch: number;
  /** Steps given so far, those before a restart included. */
  step: number;
  private readonly sampler: Sampler<T>;
  private readonly groups: GroupMaker;
  private readonly rank: number;
  private readonly past: { step: number; mark: () => Json }[] = [];

  constructor(sampler: Sampler<T>, groups: GroupMaker, rank: number, { epoch, step }: { epoch: number; step: number }) {
    this.sampler = sampler;
    this.groups = groups;
    this.rank = rank;
    this.epoch = epoch;
    this.step = step;
  }

  /** @returns the next batch of this rank; undefined at the end of the epoch, on all ranks at the same step */
  async next(): Promise<SampledBatch<T> | undefined> {
    if (this.step % stepsBetween === 0 && this.past.at(-1)?.step !== this.step) this.remember();
    const group = await this.groups.next();
    if (!group) {
      await this.groups.close();
      return undefined;
    }
    const { source } = this.sampler;
    const mine = group[this.rank] as ItemBatch;
    const kept = group.some((batch) => batch.repeated > 0) ? new Set(mine.refs) : undefined;
    for (const batch of group) if (batch !== mine) source.release(kept ? batch.refs.filter((ref) => !kept.has(ref)) : batch.refs);
    const { refs, durations, bucket, repeated } = mine;
    return { step: this.step++, refs, durations, bucket, repeated, load: () => source.load(refs) };
  }

  /** Draws batches that were given before a restart. */
  async passOver(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const batch = await this.next();
      if (!batch) throw new ConfigError("SAMPLER_BAD_STATE", { at: this.sampler.source.name, message: "the state lies behind the end of its epoch", fix: "start the next epoch" });
      this.sampler.source.release(batch.refs);
    }
  }

  private remember(): void {
    this.past.push({ step: this.step, mark: this.groups.mark() });
    if (this.past.length > marks) this.past.shift();
  }

  /** Where the epoch stands behind the batch that `next` gave last. */
  state(): SamplerState {
    return this.stateOf({ step: this.step, mark: this.groups.mark() }, 0);
  }

  private stateOf({ step, mark }: { step: number; mark: () => Json }, skip: number): SamplerState {
    const { sampler, epoch } = this;
    return { version: 1, settings: sampler.description(), source: sampler.source.fingerprint(), epoch, step, skip, groups: mark() };
  }

  /**
   * Where the epoch stood behind an earlier step: for loaders, which draw batches ahead of those that were trained on.
   * @param step steps that were trained on, at most 3,840 before the last that was drawn
   */
  stateAt(step: number): SamplerState {
    if (step === this.step) return this.state();
    const base = this.past.filter((one) => one.step <= step).at(-1);
    if (!base || step > this.step) throw new ConfigError("SAMPLER_BAD_STATE", { message: `step ${step} is not among the last ones`, fix: "save the state more often" });
    return this.stateOf(base, step - base.step);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<SampledBatch<T>> {
    for (let batch = await this.next(); batch; batch = await this.next()) yield batch;
  }

  /** Closes what is open, where an epoch is left before its end. Batches that were given can still be loaded. */
  async close(): Promise<void> {
    this.sampler.source.release(heldRefs(this.groups.mark()()));
    await this.groups.close();
  }
}
