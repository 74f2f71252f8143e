/** The draws of a mixture: streams that are open, each by its weight, and the state by which drawing goes on. Source: lhotse, lazy.py (LazyIteratorMultiplexer, LazyInfiniteApproximateMultiplexer). */
import { ConfigError, ManifestError } from "../../util/errors.ts";
import { PythonRandom, type PythonRandomState } from "../../util/pythonRandom.ts";
import type { EpochOptions, ItemBlock, ItemSource, ItemStream, Json, StreamPosition } from "../sampling/index.ts";

const blockSize = 1024;

/** What is mixed. */
export interface Mixed {
  name: string;
  sources: readonly ItemSource<unknown>[];
  weights: readonly number[];
  infinite: boolean;
  maxOpenStreams: number | undefined;
}

/** A place from which items are drawn, and the stream that is open there. */
interface Slot {
  source: number;
  /** How often its source was opened before in this epoch, in any slot. */
  pass: number;
  stream: ItemStream;
  /** Items of the stream that were read and not given yet. */
  block: { refs: Float64Array; durations: Float64Array; tokens: Float64Array | undefined } | undefined;
  /** The stream's state before `block`, and how many of the block were given. */
  before: Json;
  used: number;
  count: number;
  /** Items that this opening gave: none at all would never end. */
  given: number;
  ended: boolean;
}

interface SlotState {
  source: number;
  pass: number;
  before: Json;
  used: number;
  given: number;
  ended: boolean;
}

interface State {
  random: PythonRandomState;
  passes: number[];
  slots: SlotState[];
}

/** The sum of the first weights, for draws as Python's choices() makes them. */
class Draw {
  private readonly sums: number[] = [];
  private readonly indices: number[] = [];

  constructor(weights: readonly number[], active: (index: number) => boolean) {
    let sum = 0;
    weights.forEach((weight, i) => {
      if (!active(i)) return;
      sum += weight;
      this.sums.push(sum);
      this.indices.push(i);
    });
  }

  get empty(): boolean {
    return this.sums.length === 0;
  }

  next(random: PythonRandom): number {
    const { sums, indices } = this;
    const last = sums.length - 1;
    const x = random.random() * (sums[last] as number);
    let low = 0;
    let high = last;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x < (sums[middle] as number)) high = middle;
      else low = middle + 1;
    }
    return indices[low] as number;
  }
}

const isPromise = <V>(value: V | Promise<V>): value is Promise<V> => value instanceof Promise;

/** An epoch of a mixture. */
export class MuxStream implements ItemStream {
  private readonly mixed: Mixed;
  private readonly options: EpochOptions;
  private readonly random: PythonRandom;
  private readonly passes: number[];
  private slots: Slot[] = [];
  private draw: Draw | undefined;
  private readonly block: ItemBlock;
  /** The slot that was drawn and has not given its item yet. */
  private drawn: number | undefined;
  /** Whether the sources count tokens: all of them, or none. */
  private counted: boolean | undefined;

  constructor(mixed: Mixed, options: EpochOptions, seed: number) {
    this.mixed = mixed;
    this.options = options;
    const own = seed + options.epoch;
    // Readers of a mixture without end draw for themselves; those of a finite one each draw from their parts.
    this.random = new PythonRandom(mixed.infinite && options.share ? own + 100_003 * options.share.index : own);
    this.passes = mixed.sources.map(() => 0);
    this.block = { count: 0, refs: new Float64Array(blockSize), durations: new Float64Array(blockSize), tokens: undefined };
  }

  /** Which items an opening of a source gives. */
  private epochOf(source: number, pass: number): EpochOptions {
    const { epoch, share, ...rest } = this.options;
    if (!this.mixed.infinite) return this.options;
    const length = this.mixed.sources[source]?.length;
    const divided = share && (length === undefined || length >= share.count) ? { share } : {};
    // Another order each time it begins; readers that cannot divide it read it in orders of their own.
    const seed = share && !divided.share ? this.options.seed + 100_003 * (share.index + 1) : this.options.seed;
    return { ...rest, seed, epoch: epoch * 1_000_003 + pass, ...divided };
  }

  private openSlot(source: number, pass: number): Slot | Promise<Slot> {
    const opened = (this.mixed.sources[source] as ItemSource<unknown>).open(this.epochOf(source, pass));
    const make = (stream: ItemStream): Slot => ({ source, pass, stream, block: undefined, before: stream.state(), used: 0, count: 0, given: 0, ended: false });
    return isPromise(opened) ? opened.then(make) : make(opened);
  }

  private nextPass(source: number): number {
    const pass = this.passes[source] as number;
    this.passes[source] = pass + 1;
    return pass;
  }

  /** Opens what is missing at the start. */
  private start(): undefined | Promise<void> {
    const { sources, weights, maxOpenStreams } = this.mixed;
    const count = maxOpenStreams === undefined ? sources.length : Math.min(maxOpenStreams, sources.length);
    const all = new Draw(weights, () => true);
    while (this.slots.length < count) {
      const source = maxOpenStreams === undefined ? this.slots.length : all.next(this.random);
      const slot = this.openSlot(source, this.nextPass(source));
      if (isPromise(slot))
        return slot.then((one) => {
          this.slots.push(one);
          return this.start();
        });
      this.slots.push(slot);
    }
    this.renewDraw();
    return undefined;
  }

  private renewDraw(): void {
    const { weights } = this.mixed;
    this.draw = new Draw(
      this.slots.map(({ source }) => weights[source] as number),
      (i) => !(this.slots[i] as Slot).ended,
    );
  }

  read(most: number): ItemBlock | undefined | Promise<ItemBlock | undefined> {
    this.block.count = 0;
    if (!this.draw) {
      const starting = this.start();
      if (starting) return starting.then(() => this.fill(most));
    }
    return this.fill(most);
  }

  private fill(most: number): ItemBlock | undefined | Promise<ItemBlock | undefined> {
    const { block, mixed, random } = this;
    const sources = mixed.sources.length;
    const stop = Math.min(most, blockSize);
    while (block.count < stop) {
      const draw = this.draw as Draw;
      if (draw.empty) break;
      this.drawn ??= draw.next(random);
      const slot = this.slots[this.drawn] as Slot;
      if (slot.used < slot.count) {
        const from = slot.block as NonNullable<Slot["block"]>;
        block.refs[block.count] = (from.refs[slot.used] as number) * sources + slot.source;
        block.durations[block.count] = from.durations[slot.used] as number;
        if (from.tokens) (block.tokens as Float64Array)[block.count] = from.tokens[slot.used] as number;
        block.count++;
        slot.used++;
        slot.given++;
        this.drawn = undefined;
        continue;
      }
      const waiting = this.refill(slot);
      if (waiting) return waiting.then(() => this.fill(most));
    }
    return block.count === 0 ? undefined : block;
  }

  /** Reads the next items of a slot, or what comes when its stream has ended. */
  private refill(slot: Slot): undefined | Promise<void> {
    slot.before = slot.stream.state();
    const read = slot.stream.read(blockSize);
    return isPromise(read) ? read.then((block) => this.take(slot, block)) : this.take(slot, read);
  }

  private take(slot: Slot, block: ItemBlock | undefined): undefined | Promise<void> {
    slot.used = 0;
    if (block) {
      const { count, refs, durations, tokens } = block;
      this.counted ??= tokens !== undefined;
      if (this.counted !== (tokens !== undefined))
        throw new ConfigError("CONFIG_BAD_VALUE", { at: this.mixed.sources[slot.source]?.name, message: "tokens are counted for some sources of the mixture only" });
      if (tokens) this.block.tokens ??= new Float64Array(blockSize);
      slot.block = { refs: refs.slice(0, count), durations: durations.slice(0, count), tokens: tokens?.slice(0, count) };
      slot.count = count;
      return undefined;
    }
    slot.count = 0;
    slot.block = undefined;
    if (!this.mixed.infinite) {
      slot.ended = true;
      this.drawn = undefined; // another draw, as lhotse's
      this.renewDraw();
      return undefined;
    }
    if (slot.given === 0)
      throw new ManifestError("SOURCE_EMPTY", {
        at: this.mixed.sources[slot.source]?.name,
        message: "the source gave no utterance, so that reading it again and again would never end",
        fix: "check its filters; a source of fewer utterances than there are readers cannot be divided",
      });
    return this.reopen(slot);
  }

  private reopen(slot: Slot): undefined | Promise<void> {
    const { weights, maxOpenStreams } = this.mixed;
    const index = this.slots.indexOf(slot);
    const source = maxOpenStreams === undefined ? slot.source : new Draw(weights, () => true).next(this.random);
    const opened = this.openSlot(source, this.nextPass(source));
    const put = (one: Slot): undefined => {
      this.slots[index] = one;
      if (maxOpenStreams !== undefined) this.renewDraw();
      return undefined;
    };
    return isPromise(opened) ? opened.then(put) : put(opened);
  }

  state(): Json {
    return {
      random: this.random.state() as unknown as Json,
      passes: [...this.passes], // a state is kept while the stream goes on
      slots: this.slots.map(({ source, pass, before, used, given, ended }) => ({ source, pass, before, used, given, ended })),
    };
  }

  /** Opens the slots where they stood, and passes over what they had given of the blocks at hand. */
  async restore({ state, held }: StreamPosition): Promise<this> {
    const { sources, name } = this.mixed;
    const { random, passes, slots } = readState(state, name, sources.length);
    this.random.restore(random);
    passes.forEach((pass, i) => (this.passes[i] = pass));
    const count = sources.length;
    for (const { source, pass, before, used, given, ended } of slots) {
      const child = sources[source] as ItemSource<unknown>;
      const own = held.filter((ref) => ref % count === source).map((ref) => Math.floor(ref / count));
      const stream = await child.open(this.epochOf(source, pass), { state: before, held: own });
      const slot: Slot = { source, pass, stream, block: undefined, before, used: 0, count: 0, given: given - used, ended };
      this.slots.push(slot);
      const keep = new Set(own);
      let left = used;
      while (left > 0) {
        if (slot.used === slot.count) await this.refill(slot);
        if (slot.count === 0)
          throw new ConfigError("SAMPLER_SOURCE_CHANGED", { at: child.name, message: "it ends earlier than it did when the state was saved", fix: "start the next epoch" });
        const step = Math.min(left, slot.count - slot.used);
        const passed = (slot.block as NonNullable<Slot["block"]>).refs.subarray(slot.used, slot.used + step).filter((ref) => !keep.has(ref));
        if (passed.length > 0) child.release(passed);
        slot.used += step;
        slot.given += step;
        left -= step;
      }
    }
    if (slots.length > 0) this.renewDraw();
    return this;
  }

  async close(): Promise<void> {
    for (const { stream } of this.slots) await stream.close();
  }
}

function readState(state: Json, name: string, sources: number): State {
  const bad = (): never => {
    throw new ConfigError("SAMPLER_BAD_STATE", { at: name, message: "the state to go on from is not one of this mixture's", fix: "start the epoch again" });
  };
  if (typeof state !== "object" || state === null || !("random" in state)) return bad();
  const { random, passes, slots } = state as unknown as State;
  if (!Array.isArray(random) || random.length !== 625 || !Array.isArray(passes) || passes.length !== sources || !Array.isArray(slots)) return bad();
  for (const slot of slots) if (!(slot.source >= 0 && slot.source < sources && slot.used >= 0)) return bad();
  return { random, passes, slots };
}
