/**
 * The batches of lhotse's DynamicCutSampler: the stream through a shuffle buffer, cut where the limit is nearly reached.
 * Source: lhotse 1.33, dataset/sampling/dynamic.py and utils.py (streaming_shuffle; behaviour).
 */
import type { PythonRandom, PythonRandomState } from "../../util/pythonRandom.ts";
import type { BatchMaker, ItemBatch } from "./batchMaker.ts";
import type { Feed } from "./feed.ts";
import type { Filling } from "./limits.ts";
import type { Json } from "./source.ts";

/** How lhotse reads. */
export interface LhotseDynamicOptions {
  shuffle: boolean;
  /** Items in the shuffle buffer. */
  bufferSize: number;
  dropLast: boolean;
}

interface Item {
  ref: number;
  duration: number;
}

/** The end of the stream. */
const nothing: Item = { ref: Number.NaN, duration: Number.NaN };
const blockSize = 512;

interface SavedStream {
  random: PythonRandomState;
  buffer: { refs: number[]; durations: number[] };
  starting: boolean;
  rest: number;
  over: boolean;
  incoming: { refs: number[]; durations: number[] };
}

/** An epoch of it. */
export class LhotseDynamic implements BatchMaker {
  private readonly feed: Feed;
  private readonly filling: Filling;
  private readonly random: PythonRandom;
  private readonly options: LhotseDynamicOptions;
  private refs: number[] = [];
  private durations: number[] = [];
  /** The buffer is not full yet. */
  private starting = true;
  /** Items of the buffer that were given after the stream's end. */
  private rest = 0;
  private over = false;
  /** Read, and not given yet. */
  private readonly incoming = { refs: [] as number[], durations: [] as number[], head: 0 };

  constructor(feed: Feed, filling: Filling, random: PythonRandom, options: LhotseDynamicOptions, saved?: SavedStream) {
    this.feed = feed;
    this.filling = filling;
    this.random = random;
    this.options = options;
    if (saved) {
      random.restore(saved.random);
      this.refs = [...saved.buffer.refs];
      this.durations = [...saved.buffer.durations];
      this.starting = saved.starting;
      this.rest = saved.rest;
      this.over = saved.over;
      this.incoming.refs.push(...saved.incoming.refs);
      this.incoming.durations.push(...saved.incoming.durations);
    }
  }

  private readonly put = (_: number, ref: number, duration: number): void => {
    this.incoming.refs.push(ref);
    this.incoming.durations.push(duration);
  };

  private get waiting(): number {
    return this.incoming.refs.length - this.incoming.head;
  }

  /** Reads on, so that `take` finds the two items that it may need. */
  private async readAhead(): Promise<void> {
    const { incoming } = this;
    incoming.refs.splice(0, incoming.head);
    incoming.durations.splice(0, incoming.head);
    incoming.head = 0;
    await this.feed.fill(blockSize, this.put);
  }

  /** The next item of the stream; `nothing` at its end. */
  private read(): Item {
    const { incoming } = this;
    if (this.waiting === 0) return nothing;
    const at = incoming.head++;
    return { ref: incoming.refs[at] as number, duration: incoming.durations[at] as number };
  }

  private keep({ ref, duration }: Item): void {
    this.refs.push(ref);
    this.durations.push(duration);
  }

  /** The next item of the shuffled stream, as far as it was read; undefined where more must be read first. */
  private take(): Item | undefined {
    const { shuffle, bufferSize } = this.options;
    const { refs, durations, feed } = this;
    for (;;) {
      if (this.waiting < 2 && !feed.ended) return undefined;
      const item = this.read();
      if (!shuffle) return item;
      if (item === nothing) break;
      if (refs.length < bufferSize) {
        const second = this.read();
        if (second !== nothing) this.keep(second);
      }
      let out = item;
      if (refs.length > 0) {
        const k = this.random.below(refs.length);
        out = { ref: refs[k] as number, duration: durations[k] as number };
        refs[k] = item.ref;
        durations[k] = item.duration;
      }
      if (this.starting && refs.length < bufferSize) {
        this.keep(out);
        continue;
      }
      this.starting = false;
      return out;
    }
    if (this.rest === refs.length) return nothing;
    const at = this.rest++;
    return { ref: refs[at] as number, duration: durations[at] as number };
  }

  async next(): Promise<ItemBatch | undefined> {
    if (this.over) return undefined;
    const { filling } = this;
    const batch: ItemBatch = { refs: [], durations: [], bucket: 0, repeated: 0 };
    filling.start(0);
    do {
      let item = this.take();
      for (; item === undefined; item = this.take()) await this.readAhead();
      if (item === nothing) {
        this.over = true;
        return batch.refs.length > 0 && !this.options.dropLast ? batch : undefined;
      }
      filling.add(item.duration);
      batch.refs.push(item.ref);
      batch.durations.push(item.duration);
    } while (!filling.isFull);
    return batch;
  }

  mark(): () => Json {
    const { refs, durations, starting, rest, over, incoming } = this;
    const state = {
      feed: this.feed.state(),
      random: this.random.state(),
      buffer: { refs: [...refs], durations: [...durations] },
      starting,
      rest,
      over,
      incoming: { refs: incoming.refs.slice(incoming.head), durations: incoming.durations.slice(incoming.head) },
    };
    return () => state;
  }

  close(): Promise<void> {
    return this.feed.close();
  }
}
