/**
 * The batches of training and of validation: loaded ahead by threads, the same whatever their number, gone on with from a checkpoint to the next batch.
 * What cannot be used is left out and counted, each utterance once.
 */
import {
  encoderFrames,
  LeftOut,
  type LoadedEpoch,
  Loader,
  type LoaderState,
  minFeatureFrames,
  neededFrames,
  type PessimisticBatches,
  type PlayedCut,
  pessimisticBatches,
  RenderPool,
  type SampledBatch,
  type SourceCut,
  type SpeechBatch,
} from "../data/index.ts";
import { ConfigError, type SeracError, TrainError } from "../util/errors.ts";
import { specAugmentOf } from "./augment.ts";
import { describeData, describeTokens } from "./dataStatistics.ts";
import { openTrainData, openValidData } from "./openData.ts";
import { type OpenContext, type OpenedData, spareFramesOf } from "./openedData.ts";
import type { TrainOptions } from "./options.ts";

/** The event loop turns once a step while training, and a batch takes a few turns from its manifest's lines to its features. */
const batchesAhead = 8;

/** Loads the batches of opened data. */
class DataLoader {
  readonly data: OpenedData;
  /** What loading left out, in all epochs. */
  readonly leftOut = new LeftOut();
  private readonly loader: Loader;

  private constructor(data: OpenedData, loader: (leftOut: LeftOut) => Loader) {
    this.data = data;
    this.loader = loader(this.leftOut);
  }

  static async create(data: OpenedData, { options, say }: OpenContext, tokensOf: (text: string) => ArrayLike<number>, pool: RenderPool, isTraining: boolean): Promise<DataLoader> {
    const { sampler, warnings, leftOut: unsampled } = await data.createSampler();
    for (const warning of warnings) say(warning);
    for (const line of unsampled.lines()) say(`left out: ${line}`);
    return new DataLoader(
      data,
      (leftOut) =>
        new Loader(sampler, {
          sampleRate: options.sampleRate,
          numMelBins: options.featureDim,
          cutTransforms: data.transforms,
          specAugment: isTraining ? specAugmentOf(options)?.options : undefined,
          seed: data.seed,
          pool,
          prefetch: Math.max(batchesAhead, 2 * options.numWorkers),
          onBad: options.onBad === "throw" ? "throw" : "skip",
          check: enoughFrames(tokensOf, options),
          onLeftOut(error, cut) {
            leftOut.addOnce(reasonOf(error), cut.origin);
            if (options.onBad === "warn") say(error.message);
          },
          // The counts of a validation are said by who validates.
          onWarning: isTraining ? say : () => {},
        }),
    );
  }

  epoch(epoch: number): Promise<LoadedEpoch> {
    return this.loader.epoch(epoch);
  }

  resume(state: LoaderState): Promise<LoadedEpoch> {
    return this.loader.resume(state);
  }

  /** The batches of an epoch that are likeliest to exhaust memory, of the first so many; the epoch and its counts do not know of it. */
  pessimistic(epoch: number, batches: number | undefined): Promise<PessimisticBatches<SourceCut>> {
    return this.loader.sampler.epoch(epoch).then((stream) => pessimisticBatches(stream, { batches }));
  }

  /** A batch by itself. @returns undefined where nothing of it can be used */
  batchOf(sampled: SampledBatch<SourceCut>, epoch: number): Promise<SpeechBatch | undefined> {
    return this.loader.batchOf(sampled, epoch);
  }

  /** The error for data of which the audio of no utterance can be used. */
  noneUsable(): TrainError {
    const { data, leftOut } = this;
    return new TrainError("TRAIN_NO_DATA", {
      at: data.name,
      message: `the audio of none of the ${data.durations.length} utterances can be used: ${leftOut.lines().join("; ")}`,
      fix: "run serac manifest check, which names each file that cannot be used",
    });
  }
}

/** Stored features may have another number of bins than the model takes. @throws ConfigError CONFIG_BAD_VALUE */
export function checkBins({ bins, cuts }: SpeechBatch, { featureDim }: Pick<TrainOptions, "featureDim">): void {
  if (bins === featureDim) return;
  throw new ConfigError("CONFIG_BAD_VALUE", {
    at: cuts[0]?.origin,
    message: `the stored features have ${bins} bins, and --feature-dim is ${featureDim}`,
    fix: `give --feature-dim ${bins}, or compute them anew: --on-the-fly-feats 1`,
  });
}

const tooFewFrames = "TRAIN_TOO_FEW_FRAMES";

/** Refuses cuts that have fewer frames, as they are played, than their transcripts need: their CTC loss would be infinite. */
function enoughFrames(tokensOf: (text: string) => ArrayLike<number>, options: TrainOptions): (cut: PlayedCut, frames: number) => void {
  const spare = spareFramesOf(options);
  return (cut, frames) => {
    if (frames >= minFeatureFrames && encoderFrames(frames) >= neededFrames(tokensOf(cut.text), options.useCtc, spare)) return;
    throw new TrainError(tooFewFrames, {
      at: cut.origin,
      message: `more tokens than frames, as it is played: ${cut.duration.toFixed(2)} s`,
      fix: "leave it out, or play it slower",
    });
  };
}

function reasonOf({ code }: SeracError): string {
  if (code === tooFewFrames) return "with more tokens than frames, as they are played";
  return `unusable ${code.startsWith("CUT") ? "cuts" : code.startsWith("FEATURES") ? "features" : "audio"}: ${code}`;
}

/** The data of a run. */
export class TrainData {
  readonly train: DataLoader;
  readonly valid: DataLoader | undefined;
  private readonly pool: RenderPool;
  private readonly options: TrainOptions;
  private readonly say: (line: string) => void;
  private toldDropped = false;

  private constructor({ options, say }: OpenContext, pool: RenderPool, train: DataLoader, valid: DataLoader | undefined) {
    this.options = options;
    this.say = say;
    this.pool = pool;
    this.train = train;
    this.valid = valid;
  }

  /**
   * Opens all data, says what it is, and makes sure that validation will not fail after an epoch of training.
   * @throws what opening throws; TrainError TRAIN_NO_DATA; ConfigError for a source without end and no limit
   */
  static async open(context: OpenContext, tokensOf: (text: string) => ArrayLike<number>): Promise<TrainData> {
    const { options, say } = context;
    const train = await openTrainData(context);
    say(`training data: ${describeData(train)}`);
    const tokens = describeTokens(train);
    if (tokens) say(`training data: ${tokens}`);
    for (const line of train.leftOut.lines()) say(`left out: ${line}`);
    if (train.infinite && options.limitTrainBatches === 0)
      throw new ConfigError("CONFIG_BAD_VALUE", {
        at: train.name,
        message: "the training data has no end: sources of a mixture, tars and Shar folders begin again",
        fix: "say how many batches are an epoch (--limit-train-batches N), or read each utterance once (force_finite: true)",
      });
    const valid = await openValidData(context, train.batchSeconds);
    if (valid) {
      say(`validation data: ${describeData(valid)}`);
      for (const line of valid.leftOut.lines()) say(`left out of validation: ${line}`);
    }
    const pool = new RenderPool(options.numWorkers);
    try {
      const data = new TrainData(
        context,
        pool,
        await DataLoader.create(train, context, tokensOf, pool, true),
        valid && (await DataLoader.create(valid, context, tokensOf, pool, false)),
      );
      await data.requireUsable();
      return data;
    } catch (error) {
      await pool.close();
      throw error;
    }
  }

  /** Looks for an utterance to validate on; stops at the first batch that has one. */
  private async requireUsable(): Promise<void> {
    if (!this.valid) return;
    const epoch = await this.valid.epoch(0);
    const batch = await epoch.next();
    await epoch.close();
    if (!batch) throw this.valid.noneUsable();
    this.valid.leftOut.clear(); // counted when validation comes by
  }

  /** The batches of an epoch from 1, or from where `state` was saved. A source without end goes on where the epoch before ended. */
  async epoch(epoch: number, before: TrainEpoch | undefined, saved: { state: LoaderState; batchesDone: number } | undefined): Promise<TrainEpoch> {
    const { limitTrainBatches: limit } = this.options;
    if (saved) return new TrainEpoch(await this.train.resume(saved.state), { limit, done: saved.batchesDone });
    if (this.train.data.infinite && before) return new TrainEpoch(before.loaded, { limit, done: 0 });
    await before?.close();
    const opened = new TrainEpoch(await this.train.epoch(epoch), { limit, done: 0 });
    if (opened.total === 0)
      throw new TrainError("TRAIN_NO_DATA", {
        at: this.train.data.name,
        message: `epoch ${epoch} has no batch: none is full`,
        fix: "lower --max-duration or --num-buckets, or train on batches that are not full: --drop-last 0",
      });
    this.sayDropped(opened);
    return opened;
  }

  /** Says once what --drop-last costs. */
  private sayDropped({ loaded: { dropped = 0 } }: TrainEpoch): void {
    if (dropped > 0 && !this.toldDropped) this.say(`left out of each epoch: ${dropped} utterances in batches that are not full (--drop-last 0 trains on them)`);
    this.toldDropped = true;
  }

  /** The batches of validation, in order. */
  async validation(): Promise<LoadedEpoch | undefined> {
    return this.valid?.epoch(0);
  }

  close(): Promise<void> {
    return this.pool.close();
  }
}

/** An epoch of training: all batches of a finite source, or so many of one without end. */
export class TrainEpoch {
  readonly loaded: LoadedEpoch;
  /** Batches of the epoch, where that is known beforehand. */
  readonly total: number | undefined;
  private readonly first: number;
  private readonly limited: boolean;

  constructor(loaded: LoadedEpoch, { limit, done }: { limit: number; done: number }) {
    this.loaded = loaded;
    this.limited = limit > 0;
    this.first = loaded.step - done;
    this.total = limit === 0 ? loaded.steps : Math.min(limit, loaded.steps ?? limit);
  }

  /** Batches that were trained on, or passed over because nothing in them could be used. */
  get done(): number {
    return this.loaded.step - this.first;
  }

  /** True behind the last batch, as far as that is known beforehand. */
  get atEnd(): boolean {
    return this.total !== undefined && this.done >= this.total;
  }

  /** @returns the next batch; undefined at the end */
  async next(): Promise<SpeechBatch | undefined> {
    return this.limited && this.atEnd ? undefined : this.loaded.next();
  }

  /** Where the loader stands behind the batch that `next` gave last. */
  state(): LoaderState {
    return this.loaded.state();
  }

  /** Leaves a finite epoch, which may have been cut short. */
  close(): Promise<void> {
    return this.loaded.close();
  }
}
