/**
 * How large a batch may be: seconds of padded audio, number of cuts, or a number for each bucket.
 * Source: lhotse, dataset/sampling/base.py (TimeConstraint) and dynamic_bucketing.py (FixedBucketBatchSizeConstraint).
 */
import { ConfigError } from "../../util/errors.ts";

/** Limits of a batch; all that are given hold. */
export interface BatchLimits {
  /** Seconds of a batch with its padding: cuts times the longest. lhotse's max_duration, NeMo's batch_duration. */
  maxDuration?: number | undefined;
  maxCuts?: number | undefined;
  /** Counts d + d * d / quadraticDuration for a cut of d seconds, for models whose cost grows with the square; 15 to 40 for attention. */
  quadraticDuration?: number | undefined;
  /** Counts the sum of the durations instead of cuts times the longest: for batches whose cuts are joined. */
  concatenateCuts?: boolean | undefined;
  /** Cuts of a batch for each bucket. */
  bucketBatchSize?: readonly number[] | undefined;
}

const isCount = (value: number): boolean => Number.isInteger(value) && value >= 1;

/** @throws ConfigError CONFIG_BAD_VALUE for limits that are none, or that hold nothing */
export function checkLimits({ maxDuration, maxCuts, quadraticDuration, bucketBatchSize }: BatchLimits): void {
  const bad = (message: string, fix?: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", { message, fix });
  };
  if (maxDuration === undefined && maxCuts === undefined && bucketBatchSize === undefined)
    bad("nothing limits a batch", "give the seconds of a batch, the number of its cuts, or a batch size for each bucket");
  if (maxDuration !== undefined && !(maxDuration > 0)) bad(`the seconds of a batch are ${maxDuration}, expected more than 0`);
  if (maxCuts !== undefined && !isCount(maxCuts)) bad(`the number of cuts in a batch is ${maxCuts}, expected a whole number of 1 or more`);
  if (quadraticDuration !== undefined && !(quadraticDuration > 0)) bad(`quadratic duration is ${quadraticDuration}, expected seconds above 0`);
  const size = bucketBatchSize?.find((one) => !isCount(one));
  if (size !== undefined) bad(`a batch size of a bucket is ${size}, expected whole numbers of 1 or more`);
}

/** A batch that is being filled, against its limits. */
export class Filling {
  /** Cuts in it. */
  count = 0;
  private readonly maxDuration: number;
  private readonly maxCuts: number;
  private readonly quadratic: number;
  private readonly sizes: readonly number[] | undefined;
  private readonly joined: boolean;
  private most = Number.POSITIVE_INFINITY;
  private longest = 0;
  private sum = 0;

  constructor({
    maxDuration = Number.POSITIVE_INFINITY,
    maxCuts = Number.POSITIVE_INFINITY,
    quadraticDuration = Number.POSITIVE_INFINITY,
    bucketBatchSize,
    concatenateCuts = false,
  }: BatchLimits) {
    this.maxDuration = maxDuration;
    this.maxCuts = maxCuts;
    this.quadratic = quadraticDuration;
    this.sizes = bucketBatchSize;
    this.joined = concatenateCuts;
  }

  /** Begins an empty batch of a bucket. */
  start(bucket: number): void {
    this.count = 0;
    this.longest = 0;
    this.sum = 0;
    this.most = this.sizes ? Math.min(this.maxCuts, this.sizes[bucket] ?? 1) : this.maxCuts;
  }

  /** What a cut of so many seconds counts. */
  cost(duration: number): number {
    return duration + (duration * duration) / this.quadratic;
  }

  /** True where not even a batch of this cut alone is within the limits. */
  tooLong(duration: number): boolean {
    return this.cost(duration) > this.maxDuration;
  }

  /** True where the batch stays within its limits with this cut in it. */
  fits(duration: number): boolean {
    if (this.count >= this.most) return false;
    const cost = this.cost(duration);
    return this.joined ? this.sum + cost <= this.maxDuration : (this.count + 1) * Math.max(this.longest, cost) <= this.maxDuration;
  }

  add(duration: number): void {
    const cost = this.cost(duration);
    this.count++;
    this.sum += cost;
    if (cost > this.longest) this.longest = cost;
  }

  /** True where no further cut can fit, or as lhotse says it: another one as long as the longest would exceed. */
  get isFull(): boolean {
    if (this.count >= this.most) return true;
    return this.joined ? this.sum > this.maxDuration : (this.count + 1) * this.longest > this.maxDuration;
  }

  /** True where the batch is over its limits, as batches of lhotse can be. */
  get isExceeded(): boolean {
    return this.count > this.most || (this.joined ? this.sum > this.maxDuration : this.count * this.longest > this.maxDuration);
  }
}
