/** The batches of one rank in one epoch, and the states by which it goes on after a restart. */
import { ConfigError } from "../../util/errors.ts";
import { heldRefs, type ItemBatch } from "./batchMaker.ts";
import type { GroupMaker } from "./ranks.ts";
import type { ItemSource, Json } from "./source.ts";

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
  /** Tells that they will not be loaded. */
  release(): void;
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

/** The batches of an epoch, one after another. */
export interface EpochBatches<T> extends AsyncIterable<SampledBatch<T>> {
  readonly epoch: number;
  /** Steps given so far, those before a restart included. */
  readonly step: number;
  /** Steps of the epoch, and items that it leaves out because their batches would not be full, where that is known beforehand. */
  readonly steps?: number | undefined;
  readonly dropped?: number | undefined;
  next(): Promise<SampledBatch<T> | undefined>;
  /** Where the epoch stands behind the batch that `next` gave last. */
  state(): SamplerState;
  /** Where it stood behind an earlier step. @throws ConfigError SAMPLER_BAD_STATE for one too long ago */
  stateAt(step: number): SamplerState;
  close(): Promise<void>;
}

/** What loaders take batches from: a sampler, or several as one. */
export interface BatchSampler<T> {
  readonly source: { readonly name: string; readonly length: number | undefined };
  epoch(epoch: number): Promise<EpochBatches<T>>;
  resume(state: SamplerState): Promise<EpochBatches<T>>;
}

/** The sampler of a stream, as far as the stream looks at it. */
export interface StreamOwner<T> {
  readonly source: ItemSource<T>;
  description(): { readonly [name: string]: Json };
}

/** How many marks are kept for `stateAt`, and how many steps lie between them. */
const marks = 16;
const stepsBetween = 256;

/** The batches of one rank in one epoch. */
export class BatchStream<T> implements EpochBatches<T> {
  readonly epoch: number;
  /** Steps given so far, those before a restart included. */
  step: number;
  private readonly sampler: StreamOwner<T>;
  private readonly groups: GroupMaker;
  private readonly rank: number;
  private readonly past: { step: number; mark: () => Json }[] = [];
  /** True while a batch is being drawn: the makers are ahead of `step` then, by as much as they have taken. */
  private drawing = false;

  constructor(sampler: StreamOwner<T>, groups: GroupMaker, rank: number, { epoch, step }: { epoch: number; step: number }) {
    this.sampler = sampler;
    this.groups = groups;
    this.rank = rank;
    this.epoch = epoch;
    this.step = step;
  }

  get steps(): number | undefined {
    return this.groups.steps;
  }

  get dropped(): number | undefined {
    return this.groups.dropped;
  }

  /** @returns the next batch of this rank; undefined at the end of the epoch, on all ranks at the same step */
  async next(): Promise<SampledBatch<T> | undefined> {
    // Also where it begins, which may be within an epoch.
    if ((this.step % stepsBetween === 0 || this.past.length === 0) && this.past.at(-1)?.step !== this.step) this.remember();
    let group: Awaited<ReturnType<GroupMaker["next"]>>;
    this.drawing = true;
    try {
      group = await this.groups.next();
    } finally {
      this.drawing = false; // in the same turn as the step is counted, or none was drawn
    }
    if (!group) {
      await this.groups.close();
      return undefined;
    }
    const { source } = this.sampler;
    const mine = group[this.rank] as ItemBatch;
    const kept = group.some((batch) => batch.repeated > 0) ? new Set(mine.refs) : undefined;
    for (const batch of group) if (batch !== mine) source.release(kept ? batch.refs.filter((ref) => !kept.has(ref)) : batch.refs);
    const { refs, durations, bucket, repeated } = mine;
    return { step: this.step++, refs, durations, bucket, repeated, load: () => source.load(refs), release: () => source.release(refs) };
  }

  /** Draws batches that were given before a restart. */
  async passOver(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const batch = await this.next();
      if (!batch) throw new ConfigError("SAMPLER_BAD_STATE", { at: this.sampler.source.name, message: "the state lies behind the end of its epoch", fix: "start the next epoch" });
      batch.release();
    }
  }

  private remember(): void {
    this.past.push({ step: this.step, mark: this.groups.mark() });
    if (this.past.length > marks) this.past.shift();
  }

  /** Where the epoch stands behind the batch that `next` gave last. */
  state(): SamplerState {
    return this.stateAt(this.step);
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
    if (step === this.step && !this.drawing) return this.stateOf({ step, mark: this.groups.mark() }, 0);
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
