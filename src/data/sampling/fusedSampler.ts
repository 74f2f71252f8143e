/**
 * Batches of several samplers, each with its own settings, as one: one after another, by weight, or one of each put together. NeMo's sampler_fusion and
 * lhotse's RoundRobinSampler and ZipSampler. Each sampler gives all ranks as many steps, and what is drawn depends on seed, epoch and step alone: so all ranks
 * draw from the same ones.
 */
import { ConfigError } from "../../util/errors.ts";
import { hashText } from "../../util/hash.ts";
import { Random } from "../../util/random.ts";
import type { BatchSampler, EpochBatches, SampledBatch, SamplerState } from "./batchStream.ts";
import type { Json } from "./source.ts";

/** How batches are put together. */
export const samplerFusions = ["round_robin", "randomized_round_robin", "zip"] as const;
export type SamplerFusion = (typeof samplerFusions)[number];

/** A sampler among others. */
export interface FusedPart<T> {
  /** Given to items that are loaded: see `mark`. */
  name: string;
  sampler: BatchSampler<T>;
  /** Its share of randomized batches; 1 by default. */
  weight?: number | undefined;
}

/** How to fuse. */
export interface FusionOptions<T> {
  fusion: SamplerFusion;
  seed?: number;
  /** Marks an item with the name of its part. */
  mark?: (item: T, name: string) => T;
}

/** Several samplers as one. An epoch of "zip" ends with the first of them, others when all have ended. */
export class FusedSampler<T> implements BatchSampler<T> {
  readonly source: { readonly name: string; readonly length: number | undefined };
  readonly parts: readonly FusedPart<T>[];
  readonly options: Required<FusionOptions<T>>;

  /** @throws ConfigError CONFIG_BAD_VALUE, MIX_BAD_WEIGHT */
  constructor(parts: readonly FusedPart<T>[], { fusion, seed = 0, mark = (item) => item }: FusionOptions<T>) {
    if (parts.length === 0) throw new ConfigError("CONFIG_BAD_VALUE", { at: "sampler_fusion", message: "there is no sampler to fuse", fix: "give at least one config" });
    const bad = parts.find(({ weight = 1 }) => !(weight > 0 && weight < Number.POSITIVE_INFINITY));
    if (bad) throw new ConfigError("MIX_BAD_WEIGHT", { at: bad.name, message: `the weight is ${bad.weight}, expected a number above 0`, fix: "leave out what shall not be read" });
    this.parts = parts;
    this.options = { fusion, seed, mark };
    const lengths = parts.map(({ sampler }) => sampler.source.length);
    const length = lengths.includes(undefined) ? undefined : (lengths as number[]).reduce((sum, one) => sum + one, 0);
    this.source = { name: parts.map(({ name }) => name).join(", "), length: lengths.includes(Number.POSITIVE_INFINITY) ? Number.POSITIVE_INFINITY : length };
  }

  /** The batches of an epoch from 0. @throws SeracError of reading */
  async epoch(epoch: number): Promise<EpochBatches<T>> {
    const streams = await Promise.all(this.parts.map(({ sampler }) => sampler.epoch(epoch)));
    return new FusedStream(this, streams, { epoch, step: 0, ended: streams.map(() => false), last: -1 });
  }

  /** Goes on within an epoch. @throws ConfigError SAMPLER_BAD_STATE, SAMPLER_SOURCE_CHANGED */
  async resume(state: SamplerState): Promise<EpochBatches<T>> {
    const groups = (state as { groups?: unknown } | null)?.groups as Partial<SavedFusion> | undefined;
    const settings = this.description();
    if (
      state?.version !== 1 ||
      JSON.stringify(state.settings) !== JSON.stringify(settings) ||
      groups?.parts?.length !== this.parts.length ||
      groups.ended?.length !== this.parts.length ||
      typeof groups.last !== "number"
    )
      throw new ConfigError("SAMPLER_BAD_STATE", {
        at: this.source.name,
        message: "the state to go on from is not one of these samplers'",
        fix: "give the same configs, fusion, weights and seed, or start the epoch again",
      });
    const saved = groups as SavedFusion;
    const streams = await Promise.all(this.parts.map(({ sampler }, i) => sampler.resume(saved.parts[i] as unknown as SamplerState)));
    return new FusedStream(this, streams, { epoch: state.epoch, step: state.step, ended: [...saved.ended], last: saved.last });
  }

  /** What batches depend on, beyond the parts. */
  description(): { readonly [name: string]: Json } {
    const { fusion, seed } = this.options;
    return { fusion, seed, parts: this.parts.map(({ name, weight = 1 }) => [name, weight]) };
  }
}

interface SavedFusion {
  parts: Json[];
  ended: boolean[];
  last: number;
}

class FusedStream<T> implements EpochBatches<T> {
  readonly epoch: number;
  step: number;
  private readonly sampler: FusedSampler<T>;
  private readonly streams: readonly EpochBatches<T>[];
  /** The step before which each part was found to have ended; infinite for those that go on. */
  private readonly endedAt: number[];
  /** Which part each step came from, since the stream was opened; and the step and the last part before that. */
  private readonly choices: number[] = [];
  private readonly from: { step: number; last: number };
  /** Steps of each part where this stream begins. */
  private readonly begins: readonly number[];
  private over = false;

  constructor(sampler: FusedSampler<T>, streams: readonly EpochBatches<T>[], at: { epoch: number; step: number; ended: readonly boolean[]; last: number }) {
    this.sampler = sampler;
    this.streams = streams;
    this.begins = streams.map(({ step }) => step);
    this.epoch = at.epoch;
    this.step = at.step;
    this.from = { step: at.step, last: at.last };
    this.endedAt = at.ended.map((ended) => (ended ? -1 : Number.POSITIVE_INFINITY));
  }

  async next(): Promise<SampledBatch<T> | undefined> {
    if (this.over) return undefined;
    const batch = this.sampler.options.fusion === "zip" ? await this.zipped() : await this.drawn();
    if (!batch) {
      this.over = true;
      await this.close();
    }
    return batch;
  }

  private async zipped(): Promise<SampledBatch<T> | undefined> {
    const batches = await Promise.all(this.streams.map((stream) => stream.next()));
    if (!batches.every((batch) => batch !== undefined)) return undefined;
    const all = batches as SampledBatch<T>[];
    return {
      step: this.step++,
      refs: all.flatMap(({ refs }) => refs),
      durations: all.flatMap(({ durations }) => durations),
      bucket: 0,
      repeated: all.reduce((sum, { repeated }) => sum + repeated, 0),
      load: async () => (await Promise.all(all.map((batch, i) => this.load(batch, i)))).flat(),
      release() {
        for (const batch of all) batch.release();
      },
    };
  }

  private async drawn(): Promise<SampledBatch<T> | undefined> {
    for (let attempt = 0; ; attempt++) {
      const part = this.choose(attempt);
      if (part === undefined) return undefined;
      const batch = await (this.streams[part] as EpochBatches<T>).next();
      if (!batch) {
        this.endedAt[part] = this.step;
        continue;
      }
      this.choices.push(part);
      return { ...batch, step: this.step++, load: () => this.load(batch, part) };
    }
  }

  private async load(batch: SampledBatch<T>, part: number): Promise<T[]> {
    const { parts, options } = this.sampler;
    return (await batch.load()).map((item) => options.mark(item, (parts[part] as FusedPart<T>).name));
  }

  /** The part that gives the next batch; undefined where all have ended. */
  private choose(attempt: number): number | undefined {
    const { parts, options } = this.sampler;
    const active = parts.map((_, i) => i).filter((i) => this.endedAt[i] === Number.POSITIVE_INFINITY);
    if (options.fusion === "round_robin") {
      const last = this.choices.at(-1) ?? this.from.last;
      return active.find((i) => i > last) ?? active[0];
    }
    const total = active.reduce((sum, i) => sum + ((parts[i] as FusedPart<T>).weight ?? 1), 0);
    const { high, low } = hashText([options.seed, this.epoch, this.step, attempt].join("\n"));
    let left = new Random(high).fork(low).uniform() * total;
    for (const i of active) {
      left -= (parts[i] as FusedPart<T>).weight ?? 1;
      if (left < 0) return i;
    }
    return active.at(-1);
  }

  state(): SamplerState {
    return this.stateAt(this.step);
  }

  stateAt(step: number): SamplerState {
    const { sampler, streams, choices, from } = this;
    if (step < from.step || step > this.step) throw new ConfigError("SAMPLER_BAD_STATE", { message: `step ${step} is not among the last ones`, fix: "save the state more often" });
    const before = choices.slice(0, step - from.step);
    const zip = sampler.options.fusion === "zip"; // each part is at the same step
    // Counted here: a stream may be ahead by a batch that is just being drawn.
    const parts = streams.map((stream, i) => stream.stateAt(zip ? step : (this.begins[i] as number) + before.filter((one) => one === i).length));
    const last = step === from.step ? from.last : (choices[step - from.step - 1] ?? from.last);
    const groups = { parts, ended: this.endedAt.map((ended) => ended < step), last };
    return {
      version: 1,
      settings: sampler.description(),
      source: parts.map(({ source }) => source).join(" "),
      epoch: this.epoch,
      step,
      skip: 0,
      groups: groups as unknown as Json,
    };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<SampledBatch<T>> {
    for (let batch = await this.next(); batch; batch = await this.next()) yield batch;
  }

  async close(): Promise<void> {
    await Promise.all(this.streams.map((stream) => stream.close()));
  }
}
