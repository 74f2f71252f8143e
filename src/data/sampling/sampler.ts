/**
 * Samplers: which utterances make a batch. They look at durations alone, give every rank as many steps, and go on after a restart with exactly
 * the batches that remain.
 */
import { ConfigError, ManifestError } from "../../util/errors.ts";
import { LeftOut } from "../filter.ts";
import { type BatchSampler, BatchStream, type SamplerState } from "./batchStream.ts";
import { type Buckets, type DurationBins, makeBuckets } from "./bins.ts";
import { chooseBins, smallBuffer } from "./chooseBins.ts";
import { ColumnSource } from "./columnSource.ts";
import { epochGroups, type SavedEpoch } from "./epochGroups.ts";
import { Feed } from "./feed.ts";
import { Filling } from "./limits.ts";
import type { GroupMaker } from "./ranks.ts";
import { type SamplerOptions, type SamplerSettings, settingsOf } from "./samplerOptions.ts";
import type { EpochOptions, ItemSource, Json, StreamPosition } from "./source.ts";

/**
 * Makes a sampler. Everything that can be known before training is looked at here.
 * @throws ConfigError CONFIG_BAD_VALUE, SAMPLER_BINS, SAMPLER_TOO_LONG, SAMPLER_TOO_FEW; ManifestError SAMPLER_EMPTY, MANIFEST_BAD_DURATION; SeracError of reading
 */
export async function createSampler<T>(source: ItemSource<T>, options: SamplerOptions): Promise<Sampler<T>> {
  const settings = settingsOf(options);
  if (source.length === Number.POSITIVE_INFINITY && (settings.kind === "static" || settings.kind === "simple"))
    throw endless(source.name, `a ${settings.kind} sampler looks at all utterances first`);
  const leftOut = new LeftOut();
  const bins = await chooseBins(source, settings);
  const sampler = new Sampler(source, settings, bins, leftOut);
  await sampler.check();
  return sampler;
}

const endless = (name: string, why: string): ConfigError =>
  new ConfigError("CONFIG_BAD_VALUE", { at: name, message: `${why}, and this source has no end`, fix: "use the kinds bucketing or dynamic, or a finite source (force_finite)" });

const oneBucket: Buckets = { count: 1, needsTokens: false, refusal: "", place: () => 0 };

/** A sampler over a source. */
export class Sampler<T> implements BatchSampler<T> {
  readonly source: ItemSource<T>;
  /** The bins in use: inner edges, or upper bounds where they are 2-D or have batch sizes; undefined without buckets. */
  readonly bins: DurationBins | undefined;
  /** Items that no batch takes, by reason: as the items were read, or beforehand where all of them are known. */
  readonly leftOut: LeftOut;
  /** What a person should know of these settings. */
  readonly warnings: readonly string[];
  private readonly settings: SamplerSettings;
  private readonly buckets: Buckets;
  /** Each rank reads its own part of the source. */
  private readonly divided: boolean;

  constructor(source: ItemSource<T>, settings: SamplerSettings, bins: DurationBins | undefined, leftOut: LeftOut) {
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

  private groups(epoch: number, saved: SavedEpoch | undefined): Promise<GroupMaker> {
    const { settings, source, buckets, divided, leftOut } = this;
    return epochGroups({ settings, source, buckets, divided, leftOut, openFeed: (...feed) => this.feed(...feed) }, epoch, saved);
  }
}
