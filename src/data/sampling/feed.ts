/** Items on their way from a source into a sampler: checked, and those that no batch can take left out and counted. */
import { ConfigError, internal } from "../../util/errors.ts";
import type { LeftOut } from "../filter.ts";
import { badDuration } from "../lineIndex/index.ts";
import type { Buckets } from "./bins.ts";
import type { ItemBounds } from "./columnSource.ts";
import type { Filling } from "./limits.ts";
import type { ItemSource, ItemStream, Json } from "./source.ts";

/** What happens to an item that is over the limits by itself: an error, left out and counted, or a batch of its own. */
export type TooLongPolicy = "throw" | "skip" | "alone";

/** What a feed looks at. */
export interface FeedOptions {
  bounds?: ItemBounds | undefined;
  buckets: Buckets;
  filling: Filling;
  tooLong: TooLongPolicy;
  leftOut: LeftOut;
}

/** @returns the error of an utterance that is over the limits by itself */
export function tooLongError(duration: number, cost: number, at: string): ConfigError {
  const counts = cost === duration ? "" : `, which counts ${Number(cost.toPrecision(6))} s with its square`;
  return new ConfigError("SAMPLER_TOO_LONG", {
    at,
    message: `the utterance has ${duration} s${counts}, more than a whole batch may have`,
    fix: "leave out longer utterances, or raise the seconds of a batch",
  });
}

/** Reads a stream item by item. */
export class Feed {
  /** True once the stream has ended. */
  ended = false;
  /** Items that passed. */
  passed = 0;
  private readonly source: ItemSource<unknown>;
  private readonly stream: ItemStream;
  private readonly options: FeedOptions;
  private readonly minDuration: number;
  private readonly maxDuration: number;

  constructor(source: ItemSource<unknown>, stream: ItemStream, options: FeedOptions) {
    this.source = source;
    this.stream = stream;
    this.options = options;
    this.minDuration = options.bounds?.minDuration ?? 0;
    this.maxDuration = options.bounds?.maxDuration ?? Number.POSITIVE_INFINITY;
  }

  /** Passes `count` items on to `put`; fewer where the stream ends. @throws SeracError for an item that cannot be used */
  async fill(count: number, put: (bucket: number, ref: number, duration: number, tokens: number) => void): Promise<void> {
    const { source, options, minDuration, maxDuration } = this;
    const { buckets, filling, tooLong } = options;
    let missing = count;
    while (missing > 0 && !this.ended) {
      const next = this.stream.read(missing);
      const block = next instanceof Promise ? await next : next;
      if (block === undefined) {
        this.ended = true;
        return;
      }
      const { refs, durations, tokens } = block;
      if (buckets.needsTokens && tokens === undefined)
        throw new ConfigError("CONFIG_BAD_VALUE", {
          at: source.name,
          message: "2-D bins need the tokens of each utterance, and this source does not count them",
          fix: "give a tokenizer",
        });
      for (let i = 0; i < block.count; i++) {
        const ref = refs[i] as number;
        const duration = durations[i] as number;
        const count = tokens ? (tokens[i] as number) : 0;
        if (!(duration > 0 && duration < Number.POSITIVE_INFINITY)) throw badDuration(duration, source.where(ref));
        if (duration < minDuration) this.leaveOut(`shorter than ${minDuration} s`, ref);
        else if (duration > maxDuration) this.leaveOut(`longer than ${maxDuration} s`, ref);
        else {
          const bucket = buckets.place(duration, count);
          if (bucket < 0) this.leaveOut(buckets.refusal, ref);
          else if (tooLong !== "alone" && filling.tooLong(duration)) {
            if (tooLong === "throw") throw tooLongError(duration, filling.cost(duration), source.where(ref));
            this.leaveOut("longer than a whole batch may be", ref);
          } else {
            missing--;
            this.passed++;
            put(bucket, ref, duration, count);
          }
        }
      }
    }
  }

  private leaveOut(reason: string, ref: number): void {
    this.options.leftOut.add(reason, this.source.where(ref));
    this.source.release([ref]);
  }

  state(): Json {
    return { stream: this.stream.state(), ended: this.ended, passed: this.passed };
  }

  /** Takes over the counters of a state; the stream was opened at its place. */
  restore(state: { ended: boolean; passed: number }): void {
    this.ended = state.ended;
    this.passed = state.passed;
  }

  async close(): Promise<void> {
    await this.stream.close();
  }
}

/** Refs, durations, tokens and buckets of items in flat memory: what eager samplers plan with. */
export class ItemList {
  length = 0;
  refs = new Float64Array(1024);
  durations = new Float64Array(1024);
  buckets = new Uint16Array(1024);

  push(bucket: number, ref: number, duration: number): void {
    if (this.length === this.refs.length) this.grow();
    const at = this.length++;
    this.refs[at] = ref;
    this.durations[at] = duration;
    this.buckets[at] = bucket;
  }

  private grow(): void {
    const size = this.length * 2;
    if (size > 2 ** 31) internal("too many items for an eager sampler");
    const refs = new Float64Array(size);
    const durations = new Float64Array(size);
    const buckets = new Uint16Array(size);
    refs.set(this.refs);
    durations.set(this.durations);
    buckets.set(this.buckets);
    this.refs = refs;
    this.durations = durations;
    this.buckets = buckets;
  }
}
