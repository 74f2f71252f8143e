/**
 * The largest batch of each bucket, found by trying: NeMo's OOMptimizer. What a try is, is the caller's.
 * Source: NeMo, scripts/speech_recognition/oomptimizer.py (behaviour).
 */
import { ConfigError, TrainError } from "../../util/errors.ts";

/** Utterances of at most so many seconds, or of seconds and tokens. */
export type BatchBucket = number | readonly [seconds: number, tokens: number];

/** How to search. */
export interface SearchOptions {
  /** The first batch size that is tried. */
  startBatchSize: number;
  /** Ends once the least that failed is at most this share above the most that fitted. */
  threshold: number;
}

/** The size of the largest batch of a bucket that fitted. */
export interface BucketSize {
  bucket: BatchBucket;
  batchSize: number;
}

/** Python's round(): ties go to the even number. */
const roundHalfEven = (x: number): number => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

const secondsOf = (bucket: BatchBucket): number => (typeof bucket === "number" ? bucket : bucket[0]);

/** "12.5 s", "12.5 s and 80 tokens" */
export const showBucket = (bucket: BatchBucket): string => (typeof bucket === "number" ? `${bucket} s` : `${bucket[0]} s and ${bucket[1]} tokens`);

/** One bucket's search: sizes are doubled until one fails, halved until one fits, then what lies between is halved. */
export class SizeSearch {
  /** The size to try next. */
  size: number;
  private readonly threshold: number;
  private fits: number | undefined;
  private fails: number | undefined;

  constructor({ startBatchSize, threshold }: SearchOptions) {
    this.size = startBatchSize;
    this.threshold = threshold;
  }

  /** How far apart the two ends are, as a share of the one that failed; undefined while there is only one. */
  get gap(): number | undefined {
    return this.fits === undefined || this.fails === undefined ? undefined : (this.fails - this.fits) / this.fails;
  }

  /**
   * Takes in how the try went.
   * @returns the result once it is known; 0 where not even one utterance fits
   */
  record(fitted: boolean): number | undefined {
    if (fitted) this.fits = this.size;
    else this.fails = this.size;
    const { fits, fails } = this;
    if (fits === undefined) {
      if (this.size === 1) return 0;
      this.size = Math.max(1, roundHalfEven(this.size / 2));
      return undefined;
    }
    if (fails === undefined) {
      this.size *= 2;
      return undefined;
    }
    if ((fails - fits) / fails <= this.threshold || fails - fits <= 1) return fits;
    this.size = roundHalfEven((fits + fails) / 2);
    return undefined;
  }
}

/**
 * Finds the batch size of each bucket, the longest first, since later ones start from twice the last result.
 * @param fits tries a batch; its errors other than running out of memory are its own to throw
 * @param onTry told of each try
 * @returns ascending, as the buckets
 * @throws ConfigError SAMPLER_BINS for buckets that are not ascending; TrainError BATCH_SIZE_NONE where not even one utterance fits
 */
export async function findBatchSizes(
  buckets: readonly BatchBucket[],
  options: SearchOptions,
  fits: (bucket: BatchBucket, batchSize: number) => Promise<boolean> | boolean,
  onTry: (bucket: BatchBucket, batchSize: number, fitted: boolean, gap: number | undefined) => void = () => {},
): Promise<BucketSize[]> {
  checkBuckets(buckets);
  if (!(Number.isInteger(options.startBatchSize) && options.startBatchSize >= 1 && options.threshold >= 0 && options.threshold < 1))
    throw new ConfigError("CONFIG_BAD_VALUE", {
      message: `the start batch size is ${options.startBatchSize} and the threshold ${options.threshold}, expected a whole number from 1 and a share from 0 to 1`,
    });
  const found: BucketSize[] = [];
  let start = options.startBatchSize;
  for (const bucket of [...buckets].reverse()) {
    const search = new SizeSearch({ ...options, startBatchSize: start });
    let result: number | undefined;
    while (result === undefined) {
      const { size } = search;
      const fitted = await fits(bucket, size);
      result = search.record(fitted);
      onTry(bucket, size, fitted, search.gap);
    }
    if (result === 0)
      throw new TrainError("BATCH_SIZE_NONE", {
        at: `bucket ${showBucket(bucket)}`,
        message: "a batch of a single utterance of this length does not fit",
        fix: "leave such utterances out (a lower last bucket, and max_duration), allow more memory, or train a smaller model",
      });
    found.unshift({ bucket, batchSize: result });
    start = 2 * result;
  }
  return found;
}

function checkBuckets(buckets: readonly BatchBucket[]): void {
  const bad = (message: string, fix: string): never => {
    throw new ConfigError("SAMPLER_BINS", { message, fix });
  };
  if (buckets.length === 0) bad("there is no bucket", "give the upper bound of each: serac bins prints them");
  if (buckets.some((bucket) => (typeof bucket === "number") !== (typeof buckets[0] === "number"))) bad("some buckets have tokens and others have none", "give pairs, or numbers");
  buckets.forEach((bucket, i) => {
    const parts = typeof bucket === "number" ? [bucket] : bucket;
    if (!parts.every((part) => part > 0 && part < Number.POSITIVE_INFINITY)) bad(`bucket ${i + 1} is ${showBucket(bucket)}, expected numbers above 0`, "give upper bounds");
    const before = buckets[i - 1];
    if (before === undefined) return;
    const ascends =
      secondsOf(bucket) > secondsOf(before) || (secondsOf(bucket) === secondsOf(before) && typeof bucket !== "number" && bucket[1] > (before as readonly number[])[1]!);
    if (!ascends) bad(`bucket ${i + 1} is ${showBucket(bucket)} after ${showBucket(before)}, expected ascending order`, "sort the buckets");
  });
}

/** Neighbours with the same batch size become one, up to the longer one's bound; 2-D buckets stay as they are. */
export function mergeBuckets(sizes: readonly BucketSize[]): BucketSize[] {
  const merged: BucketSize[] = [];
  for (const one of sizes) {
    const last = merged.at(-1);
    if (last && typeof one.bucket === "number" && last.batchSize === one.batchSize) merged[merged.length - 1] = one;
    else merged.push(one);
  }
  return merged;
}
