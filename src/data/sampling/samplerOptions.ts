/** How samplers are asked for: one set of options for all kinds and both modes, with lhotse's defaults. */
import { ConfigError } from "../../util/errors.ts";
import type { DurationBins } from "./bins.ts";
import type { ItemBounds } from "./columnSource.ts";
import type { TooLongPolicy } from "./feed.ts";
import { type BatchLimits, checkLimits } from "./limits.ts";

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

/** Options with their defaults. */
export type SamplerSettings = Required<Omit<SamplerOptions, keyof BatchLimits | "durationBins" | "maxTps" | "bounds">> & SamplerOptions;

/** Options with what is not given filled in. @throws ConfigError CONFIG_BAD_VALUE for what is out of range, or does not go together */
export function settingsOf(options: SamplerOptions): SamplerSettings {
  const settings: SamplerSettings = { ...defaults, ...withoutUndefined(options) };
  checkSettings(settings);
  return settings;
}

function withoutUndefined(options: SamplerOptions): SamplerOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

function checkSettings(settings: SamplerSettings): void {
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
