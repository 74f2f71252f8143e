/**
 * Batches ready for training, prepared ahead by threads: decoded, resampled, augmented, made into features, collated and masked.
 * Which thread prepares what, and how far ahead, changes nothing in them. No more batches are prepared than may wait, so a slow consumer costs no memory.
 */
import { availableParallelism } from "node:os";
import { SpecAugment, type SpecAugmentOptions } from "../../audio/index.ts";
import { ConfigError, SeracError } from "../../util/errors.ts";
import { receiveError } from "../../util/sentError.ts";
import { LeftOut } from "../filter.ts";
import type { BatchSampler, EpochBatches, SampledBatch, SamplerState } from "../sampling/index.ts";
import type { SourceCut } from "../sources/cut.ts";
import { playedOf } from "../sources/sound.ts";
import { numFrames } from "../sources/times.ts";
import { checkSupervisions, frameShift, type SpeechBatch, segmentOf, speechBatch, supervisionsOf } from "./batch.ts";
import type { Job, JobResult } from "./job.ts";
import type { PlayedCut } from "./played.ts";
import { RenderPool } from "./pool.ts";
import { byDuration, type CutTransform, streamOf } from "./transforms.ts";

/** What happens to utterances that cannot be used: the first one ends it; or they are left out and counted, and "warn" says so for each. */
export type BadUtterancePolicy = "throw" | "skip" | "warn";

/** How batches are prepared. */
export interface LoaderOptions {
  /** Hz to which audio is resampled; 16,000 by default. */
  sampleRate?: number;
  /** 80 by default. */
  numMelBins?: number;
  /** What happens to cuts before they are rendered, in this order. */
  cutTransforms?: readonly CutTransform[];
  /** Warps and masks; none where absent. */
  specAugment?: SpecAugmentOptions | undefined;
  /** Seeds augmentation, together with the epoch and the utterance's id. */
  seed?: number;
  /** Threads; 0 renders in this thread, with Node's for decoding and features. One for each core but one by default. */
  workers?: number;
  /** Threads of another loader, to be shared with it; `workers` is not read then, and `close` leaves them. */
  pool?: RenderPool;
  /** Batches that are prepared or wait, at most; two for each thread, and at least 3, by default. */
  prefetch?: number;
  /** "throw" by default. */
  onBad?: BadUtterancePolicy;
  /** A filter of cuts as they will be played; one for which it throws is left out and counted, whatever `onBad` says. `frames` are those of its features. */
  check?: (cut: PlayedCut, frames: number) => void;
  /** Told of each utterance that is left out. */
  onLeftOut?: (error: SeracError, cut: SourceCut) => void;
  /** Where warnings go: to standard error by default. */
  onWarning?: (message: string) => void;
}

/** Where a loader stands in an epoch: plain JSON. */
export interface LoaderState {
  version: 1;
  settings: { readonly [name: string]: string | number };
  sampler: SamplerState;
  /** What was left out before: reason, count, example. */
  leftOut: readonly (readonly [string, number, string])[];
}

const toStandardError = (message: string): void => void process.stderr.write(`serac: ${message}\n`);

/** Prepares the batches of a sampler. */
export class Loader {
  readonly sampler: BatchSampler<SourceCut>;
  readonly pool: RenderPool;
  /** Batches that are prepared or wait, at most. */
  readonly prefetch: number;
  readonly onBad: BadUtterancePolicy;
  readonly onWarning: (message: string) => void;
  readonly sampleRate: number;
  readonly numMelBins: number;
  private readonly transforms: readonly CutTransform[];
  private readonly check: LoaderOptions["check"];
  readonly onLeftOut: LoaderOptions["onLeftOut"];
  private readonly ownsPool: boolean;
  private readonly specAugment: Required<SpecAugmentOptions> | undefined;
  private readonly seed: number;

  /** @throws ConfigError CONFIG_BAD_VALUE */
  constructor(
    sampler: BatchSampler<SourceCut>,
    {
      sampleRate = 16_000,
      numMelBins = 80,
      cutTransforms = [],
      specAugment,
      seed = 0,
      pool,
      workers = pool?.size ?? Math.max(1, availableParallelism() - 1),
      prefetch = Math.max(3, 2 * workers),
      onBad = "throw",
      check,
      onLeftOut,
      onWarning = toStandardError,
    }: LoaderOptions = {},
  ) {
    const whole = (name: string, value: number, least: number): void => {
      if (!Number.isSafeInteger(value) || value < least)
        throw new ConfigError("CONFIG_BAD_VALUE", { at: "loader", message: `${name} is ${value}, expected a whole number from ${least}` });
    };
    whole("workers", workers, 0);
    whole("prefetch", prefetch, 1);
    whole("sampleRate", sampleRate, 1);
    whole("numMelBins", numMelBins, 1);
    whole("seed", seed, Number.MIN_SAFE_INTEGER);
    if (!["throw", "skip", "warn"].includes(onBad)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "loader", message: `onBad is ${String(onBad)}, expected throw, skip or warn` });
    this.sampler = sampler;
    this.sampleRate = sampleRate;
    this.numMelBins = numMelBins;
    this.transforms = cutTransforms;
    this.specAugment = specAugment && new SpecAugment(specAugment).options;
    this.seed = seed;
    this.prefetch = prefetch;
    this.onBad = onBad;
    this.onWarning = onWarning;
    this.check = check;
    this.onLeftOut = onLeftOut;
    this.ownsPool = pool === undefined;
    this.pool = pool ?? new RenderPool(workers);
  }

  /** The batches of an epoch from 0. @throws SeracError of reading */
  async epoch(epoch: number): Promise<LoadedEpoch> {
    return new LoadedEpoch(this, await this.sampler.epoch(epoch));
  }

  /**
   * Goes on within an epoch, with exactly the batches that were not given yet; the number of threads and of batches ahead may be others.
   * @throws ConfigError SAMPLER_BAD_STATE, SAMPLER_SOURCE_CHANGED
   */
  async resume(state: LoaderState): Promise<LoadedEpoch> {
    const bad = (message: string, fix = "start the epoch again"): never => {
      throw new ConfigError("SAMPLER_BAD_STATE", { at: this.sampler.source.name, message, fix });
    };
    if (typeof state !== "object" || state === null || state.version !== 1 || typeof state.settings !== "object" || state.settings === null || !Array.isArray(state.leftOut))
      bad("the state to go on from is none of this version's loaders");
    const mine = this.settings();
    for (const name of Object.keys({ ...mine, ...state.settings }))
      if (mine[name] !== state.settings[name])
        bad(`${name} is ${mine[name] ?? "not given"}, and was ${state.settings[name] ?? "not given"} when the state was saved`, "give the same settings, or start the epoch again");
    return new LoadedEpoch(this, await this.sampler.resume(state.sampler), state.leftOut);
  }

  /** What the content of batches depends on, beyond the sampler. */
  settings(): { readonly [name: string]: string | number } {
    const { sampleRate, numMelBins, seed, specAugment, transforms } = this;
    return { sampleRate, numMelBins, seed, cutTransforms: transforms.map(({ name }) => name).join("; "), ...(specAugment ? { specAugment: JSON.stringify(specAugment) } : {}) };
  }

  /** The cuts of a batch as they will sound, longest first; `onError` gets those that cannot be used. */
  plan(cuts: readonly SourceCut[], { epoch, step }: { epoch: number; step: number }, onError: (error: SeracError, cut: SourceCut, filtered: boolean) => void): PlayedCut[] {
    // A source without end comes by again within an epoch, and shall sound otherwise then.
    const pass = this.passOf(step);
    const passes = (cut: PlayedCut, look: (cut: PlayedCut) => void, filtered = false): boolean => {
      try {
        look(cut);
        return true;
      } catch (error) {
        if (!(error instanceof SeracError)) throw error;
        onError(error, cut, filtered);
        return false;
      }
    };
    let planned: PlayedCut[] = byDuration(cuts.filter((cut) => passes(cut, checkSupervisions)));
    this.transforms.forEach((transform, i) => {
      planned = transform.apply(planned, { sampleRate: this.sampleRate, random: (cut) => streamOf(this.seed, epoch, pass, i, cut.id) });
    });
    const { check } = this;
    if (check) planned = planned.filter((cut) => passes(cut, () => check(cut, numFrames(cut.duration, frameShift, this.sampleRate)), true));
    return byDuration(planned);
  }

  /**
   * A batch by itself, as an epoch gives it, whose order and counts do not know of it: what cannot be used is left out without a word.
   * @returns undefined where nothing of it can be used
   */
  async batchOf(sampled: SampledBatch<SourceCut>, epoch: number): Promise<SpeechBatch | undefined> {
    const { cuts, result } = await this.prepare(sampled, epoch);
    return result && result.frames > 0 ? speechBatch(cuts, result, this.sampleRate, { epoch, step: sampled.step }) : undefined;
  }

  /** Plans and renders a batch. */
  async prepare(batch: SampledBatch<SourceCut>, epoch: number): Promise<PreparedBatch> {
    const { step } = batch;
    const place = { epoch, step };
    const errors: PreparedBatch["errors"] = [];
    const cuts = this.plan(await batch.load(), place, (error, cut, filtered) => errors.push({ error, cut, filtered }));
    const result = cuts.length === 0 ? undefined : await this.pool.render(this.job(cuts, place), (row) => nameOf(cuts[row] as PlayedCut));
    return { step, errors, cuts, result };
  }

  private passOf(step: number): number {
    return this.sampler.source.length === Number.POSITIVE_INFINITY ? step : 0;
  }

  /** The work of a batch. */
  job(cuts: readonly PlayedCut[], { epoch, step }: { epoch: number; step: number }): Job {
    const { sampleRate, numMelBins, specAugment, seed } = this;
    const pass = this.passOf(step);
    return {
      sampleRate,
      numMelBins,
      specAugment,
      rows: cuts.map((cut) => ({
        played: playedOf(cut),
        seed: `${seed}\n${epoch}\n${pass}\n${cut.id}`,
        segments: supervisionsOf(cut).map((one) => segmentOf(one, sampleRate)),
      })),
    };
  }

  /** Ends the threads; an epoch that was not read to its end gives an error then. */
  async close(): Promise<void> {
    if (this.ownsPool) await this.pool.close();
  }
}

/** A batch that is prepared. */
export interface PreparedBatch {
  step: number;
  /** What could not be used before rendering. */
  errors: { error: SeracError; cut: SourceCut; filtered: boolean }[];
  cuts: PlayedCut[];
  result: JobResult | undefined;
}

/** The batches of one epoch. */
export class LoadedEpoch implements AsyncIterable<SpeechBatch> {
  readonly epoch: number;
  /** Utterances that were left out so far, by reason. */
  readonly leftOut = new LeftOut();
  private readonly loader: Loader;
  private readonly stream: EpochBatches<SourceCut>;
  private readonly ahead: Promise<PreparedBatch | undefined>[] = [];
  /** Steps whose batches were given, or passed over. */
  private given: number;
  private drawing: Promise<unknown> = Promise.resolve();
  private over = false;
  private failure: unknown;

  constructor(loader: Loader, stream: EpochBatches<SourceCut>, leftOut: LoaderState["leftOut"] = []) {
    this.loader = loader;
    this.stream = stream;
    this.epoch = stream.epoch;
    this.given = stream.step;
    for (const [reason, count, example] of leftOut) this.leftOut.counts.set(reason, { count, example });
  }

  /** Batches are drawn one after the other, and rendered at the same time. */
  private prepare(): void {
    const drawn = this.drawing.then(() => this.stream.next());
    this.drawing = drawn.catch(() => undefined);
    const prepared = drawn.then((batch) => batch && this.loader.prepare(batch, this.epoch));
    prepared.catch(() => undefined); // reported when its turn comes
    this.ahead.push(prepared);
  }

  /**
   * @returns the next batch; undefined at the end of the epoch
   * @throws SeracError of the first utterance that cannot be used, under the policy "throw"; AudioError LOADER_THREAD_DIED; what the source throws.
   * It is thrown again then: the epoch does not go on, and its state stays before that batch
   */
  async next(): Promise<SpeechBatch | undefined> {
    if (this.failure !== undefined) throw this.failure;
    try {
      return await this.take();
    } catch (error) {
      this.failure = error;
      throw error;
    }
  }

  private async take(): Promise<SpeechBatch | undefined> {
    while (!this.over) {
      while (this.ahead.length < this.loader.prefetch) this.prepare();
      const prepared = await this.ahead.shift();
      if (!prepared) {
        this.end();
        break;
      }
      const { step, errors, cuts, result } = prepared;
      for (const { error, cut, filtered } of errors) this.bad(error, cut, filtered);
      result?.rows.forEach((row, i) => {
        const cut = cuts[i] as PlayedCut;
        if (typeof row !== "number") this.bad(receiveError(row, nameOf(cut)), cut);
      });
      this.given = step + 1;
      if (result && result.frames > 0) return speechBatch(cuts, result, this.loader.sampleRate, { epoch: this.epoch, step });
    }
    return undefined;
  }

  private bad(error: Error, cut: SourceCut, filtered = false): void {
    const { onBad, onWarning } = this.loader;
    if ((onBad === "throw" && !filtered) || !(error instanceof SeracError)) throw error;
    this.leftOut.add(`for ${error.code}`, nameOf(cut));
    this.loader.onLeftOut?.(error, cut);
    if (onBad === "warn") onWarning(error.message);
  }

  /** The summary at the end of the epoch: a line for each reason. */
  private end(): void {
    this.over = true;
    if (this.leftOut.total > 0) this.loader.onWarning(`epoch ${this.epoch}: ${this.leftOut.total} utterances were left out: ${this.leftOut.lines().join("; ")}`);
  }

  /** Steps of the epoch, where they are known beforehand. */
  get steps(): number | undefined {
    return this.stream.steps;
  }

  /** Utterances that the epoch leaves out because their batches would not be full, where that is known beforehand. */
  get dropped(): number | undefined {
    return this.stream.dropped;
  }

  /** Steps done: batches that were given or passed over. */
  get step(): number {
    return this.given;
  }

  /** Where the epoch stands behind the batch that `next` gave last. */
  state(): LoaderState {
    return {
      version: 1,
      settings: this.loader.settings(),
      sampler: this.stream.stateAt(this.given),
      leftOut: Array.from(this.leftOut.counts, ([reason, { count, example }]) => [reason, count, example] as const),
    };
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<SpeechBatch> {
    try {
      for (let batch = await this.next(); batch; batch = await this.next()) yield batch;
    } finally {
      await this.close();
    }
  }

  /** Leaves the epoch; what is being prepared is waited for and thrown away. */
  async close(): Promise<void> {
    const before = this.over;
    this.over = true;
    await Promise.allSettled(this.ahead.splice(0));
    if (!before) await this.stream.close();
  }
}

/** How messages call an utterance. */
function nameOf({ id, origin }: PlayedCut): string {
  return origin === "" || origin === id ? id : `${origin} (${id})`;
}
