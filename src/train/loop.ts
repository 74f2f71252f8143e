/** Training: epochs of batches, validation, checkpoints. Source: icefall zipformer/train.py. */
import { createHash } from "node:crypto";
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LoaderState, SpeechBatch } from "../data/index.ts";
import { makeWritableFolder } from "../formats/atomic.ts";
import {
  AsrModel,
  asrModelOptions,
  batchPath,
  disposeCheckpoint,
  epochPath,
  modelOptions,
  readTokenizer,
  removeOldCheckpoints,
  saveCheckpoint,
  savedEpochs,
  startAverage,
  updateAverage,
} from "../models/index.ts";
import { Eden, ScaledAdam } from "../optim/index.ts";
import { errorRate, SentencePiece } from "../text/index.ts";
import { autocast, checkDevice, Generator, scope, setThreads, type Tensor } from "../torch/index.ts";
import { ConfigError, TrainError } from "../util/errors.ts";
import { canonicalName, parseOptions } from "../util/options.ts";
import { Random } from "../util/random.ts";
import { adjustedBatchCount, batchLoss } from "./loss.ts";
import { addLosses, type LossSums, perFrame, showLosses, sumLosses } from "./metrics.ts";
import { checkTrainOptions, type TrainOptions, type TrainOptionsInput, trainOptions } from "./options.ts";
import type { ReplicaState } from "./replicaState.ts";
import { type Part, Replicas, splitBatch } from "./replicas.ts";
import { checkpointOf, loadResumable, type RunParts, restoreParts, savedPlace } from "./runState.ts";
import { TrainData, type TrainEpoch } from "./trainData.ts";
import { type Validation, validate } from "./validate.ts";

/** Who is told how training goes. */
export interface TrainReporter {
  /** A line worth reading. */
  say(line: string): void;
  /** How far the epoch is: batches done of all, where that is known, and what to show beside. */
  progress?(done: number, total: number | undefined, note: string): void;
}

/** What training came to. */
export interface TrainResult {
  /** The last checkpoint written. */
  checkpoint: string;
  epochs: number;
  updates: number;
  validLoss: number | undefined;
  /** Word error rate of the last validation that computed it, 0 to 1 and more. */
  validWer: number | undefined;
  /** True when training was asked to stop before its end. */
  interrupted: boolean;
}

const silent: TrainReporter = { say: () => {} };

/**
 * Trains a model and writes epoch-N.pt files to `expDir`.
 * @param signal aborting it saves a checkpoint and returns
 * @throws ConfigError for options; ManifestError, TrainError for data; CheckpointError on resuming
 */
export async function train(input: TrainOptionsInput, { signal, report = silent }: { signal?: AbortSignal; report?: TrainReporter } = {}): Promise<TrainResult> {
  const options = checkTrainOptions(parseOptions(trainOptions, input));
  const given = new Set(Object.entries(input).flatMap(([name, value]) => (value === undefined ? [] : [canonicalName(name)])));
  const trainer = await Trainer.start(options, given, report);
  return trainer.run(signal);
}

/** A run from the start would replace the epochs of an earlier one. @throws TrainError TRAIN_EXISTS */
function refuseToOverwrite(expDir: string): void {
  const epochs = savedEpochs(expDir);
  const [last] = epochs;
  if (last === undefined) return;
  throw new TrainError("TRAIN_EXISTS", {
    at: expDir,
    message: `it holds ${epochs.length} epochs of an earlier run`,
    fix: `go on with --start-epoch ${last + 1}, or give another --exp-dir`,
  });
}

/** What lives as long as training does. */
class Trainer {
  private readonly options: TrainOptions;
  private readonly report: TrainReporter;
  private readonly tokenizer: Tokens;
  private readonly data: TrainData;
  private readonly parts: RunParts;
  private average: Map<string, Tensor>;
  private replicas: Replicas | undefined;
  private replicaStates: readonly ReplicaState[] | undefined;

  private epoch: number;
  private batches: TrainEpoch | undefined;
  /** Where the data stood in the checkpoint that the run goes on from. */
  private saved: { state: LoaderState; batchesDone: number } | undefined;
  private b = 0;
  private total: LossSums | undefined;
  private bestValidLoss: number | undefined;
  private bestValidEpoch: number | undefined;
  private lastWer: number | undefined;
  private lastValidLoss: number | undefined;

  static async start(options: TrainOptions, given: ReadonlySet<string>, report: TrainReporter): Promise<Trainer> {
    checkDevice(options.device);
    const share = Math.max(1, Math.floor(options.threads / options.replicas));
    if (options.threads > 0 || options.replicas > 1) setThreads(share);
    const tokenizer = new Tokens(readTokenizer(options.bpeModel), options.bpeModel);
    const data = await TrainData.open({ options, given, tokenizer: tokenizer.model, tokenizerKey: tokenizer.key, say: (line) => report.say(line) }, (text) => tokenizer.of(text));
    try {
      return new Trainer({ ...options, maxDuration: data.train.data.batchSeconds }, report, tokenizer, data);
    } catch (error) {
      await data.close();
      throw error;
    }
  }

  private constructor(options: TrainOptions, report: TrainReporter, tokenizer: Tokens, data: TrainData) {
    this.options = options;
    this.report = report;
    this.tokenizer = tokenizer;
    this.data = data;
    makeWritableFolder(options.expDir);
    if (options.startEpoch === 1 && options.startBatch === 0) refuseToOverwrite(options.expDir);
    const shape = Object.fromEntries(Object.keys(modelOptions).map((name) => [name, options[name as keyof TrainOptions]]));
    const config = { ...parseOptions(modelOptions, shape), vocabSize: tokenizer.model.vocabSize, blankId: 0, sampleRate: options.sampleRate };
    const generator = new Generator(options.seed, { device: options.device });
    const model = scope(() => new AsrModel({ ...asrModelOptions(config), generator: new Generator(options.seed) }));
    if (options.device !== "cpu") model.to({ device: options.device });
    report.say(`model: ${model.parameterCount.toLocaleString("en")} parameters, vocabulary of ${config.vocabSize}`);
    const optimizer = new ScaledAdam([...model.namedParameters()], { lr: options.baseLr, clippingScale: 2, log: (line) => report.say(line) });
    const scheduler = new Eden(optimizer, { lrBatches: options.lrBatches, lrEpochs: options.lrEpochs, warmupStart: options.recipe === "2026" ? 0.1 : 0.5 });
    this.parts = { config, model, optimizer, scheduler, generator, random: new Random(options.seed), tokenizerBytes: tokenizer.bytes };
    this.average = new Map();
    this.epoch = options.startEpoch;
    if (options.startBatch > 0) this.resume(batchPath(options.expDir, options.startBatch));
    else if (options.startEpoch > 1) this.resume(epochPath(options.expDir, options.startEpoch - 1));
    if (this.average.size === 0) this.average = startAverage(model);
    writeFileSync(join(options.expDir, "options.json"), `${JSON.stringify(options, null, 2)}\n`);
  }

  private resume(path: string): void {
    const checkpoint = loadResumable(path, this.parts.config, this.options);
    const { state } = checkpoint;
    this.average = restoreParts(this.parts, checkpoint, this.options.device);
    this.replicaStates = state.replicas;
    this.b = state.batchIdxTrain;
    this.setBatchCount();
    this.epoch = state.batchesDone > 0 ? state.epoch : state.epoch + 1;
    if (!state.random && this.options.startBatch > 0) {
      this.epoch = state.epoch;
      this.report.say(`${path} is icefall's: its place in the epoch and its random numbers cannot be taken over, so epoch ${this.epoch} starts at its beginning`);
    }
    if (this.epoch > this.options.numEpochs)
      throw new ConfigError("CONFIG_BAD_VALUE", {
        message: `${path} is of epoch ${state.epoch}, behind --num-epochs ${this.options.numEpochs}: there is nothing to train`,
        fix: `give --num-epochs ${this.epoch} or more`,
      });
    this.saved = savedPlace(state);
    this.bestValidLoss = state.bestValidLoss;
    this.bestValidEpoch = state.bestValidEpoch;
    disposeCheckpoint(checkpoint);
    this.report.say(`resumed from ${path}: epoch ${this.epoch}, ${this.b} updates done`);
  }

  async run(signal: AbortSignal | undefined): Promise<TrainResult> {
    const { replicas, threads } = this.options;
    if (replicas > 1) {
      const share = Math.max(1, Math.floor(threads / replicas));
      this.replicas = new Replicas(replicas - 1, { model: this.parts.model, config: this.parts.config, options: this.options, threads: share, states: this.replicaStates });
    }
    try {
      return await this.epochs(signal);
    } finally {
      await this.replicas?.close();
      await this.data.close();
      this.dispose();
    }
  }

  private async epochs(signal: AbortSignal | undefined): Promise<TrainResult> {
    const { numEpochs, expDir } = this.options;
    let path = "";
    let interrupted = false;
    for (; this.epoch <= numEpochs; this.epoch++) {
      const finished = await this.trainEpoch(signal);
      if (!finished) {
        interrupted = signal?.aborted ?? false;
        path = batchPath(expDir, this.b);
        await this.save(path);
        this.report.say(`saved ${path}; to go on: --start-batch ${this.b}`);
        break;
      }
      await this.validateNow(this.options.werInterval > 0 && (this.epoch % this.options.werInterval === 0 || this.epoch === numEpochs));
      path = epochPath(expDir, this.epoch);
      await this.save(path, true);
    }
    await this.batches?.close();
    for (const line of this.data.train.leftOut.lines()) this.report.say(`left out while training: ${line}`);
    return { checkpoint: path, epochs: this.epoch - (path.includes("checkpoint-") ? 0 : 1), updates: this.b, validLoss: this.lastValidLoss, validWer: this.lastWer, interrupted };
  }

  private dispose(): void {
    for (const tensor of this.average.values()) tensor.dispose();
    this.parts.optimizer.dispose();
    this.parts.model.dispose();
  }

  /** @returns false when training shall stop in the middle of the epoch */
  private async trainEpoch(signal: AbortSignal | undefined): Promise<boolean> {
    const { options, epoch } = this;
    const { model, random, generator, scheduler } = this.parts;
    scheduler.stepEpoch(epoch - 1);
    const batches = await this.data.epoch(epoch, this.batches, this.saved);
    let trained = this.saved?.batchesDone ?? 0;
    this.saved = undefined;
    this.batches = batches;
    model.train({ random, generator });
    const started = performance.now();
    let audioSeconds = 0;
    for (;;) {
      if (!batches.atEnd && (signal?.aborted || (options.maxSteps > 0 && this.b >= options.maxSteps))) return false;
      const batch = await batches.next();
      if (!batch) break;
      const sums = await this.step(batch);
      trained++;
      audioSeconds += batch.audioSeconds;
      this.total = addLosses(this.total, sums, 1 - 1 / options.resetInterval);
      const { done, total } = batches;
      const rate = audioSeconds / ((performance.now() - started) / 1000);
      this.report.progress?.(done, total, `epoch ${epoch}/${options.numEpochs}, loss ${perFrame(this.total).loss?.toPrecision(4)}, ${rate.toFixed(0)} s of audio/s`);
      if (this.b % options.logInterval === 0) this.log(batch, sums, rate);
      if (this.b % options.saveEveryN === 0) {
        await this.save(batchPath(options.expDir, this.b));
        removeOldCheckpoints(options.expDir, options.keepLastK);
      }
      if (done % options.validInterval === 0 && !batches.atEnd) {
        await this.validateNow(false);
        model.train({ random, generator });
      }
      await new Promise((resume) => setImmediate(resume)); // Ctrl-C is only seen when the event loop turns
    }
    if (trained === 0) throw this.data.train.noneUsable();
    return true;
  }

  private async step(batch: SpeechBatch): Promise<LossSums> {
    const { options } = this;
    const { model, optimizer, scheduler } = this.parts;
    this.checkBins(batch);
    if (this.b % 10 === 0) this.setBatchCount();
    this.b++;
    const y = batch.cuts.map((cut) => this.tokenizer.of(cut.text));
    const [own, ...others] = splitBatch(batch, y, options.replicas) as [Part, ...Part[]];
    const running = this.replicas?.run(others, { b: this.b, batchCount: adjustedBatchCount(this.b - 1, options) });
    running?.catch(() => {}); // awaited below
    let sums = scope(() => {
      const { loss, sums } = autocast({ device: options.device, enabled: options.useBf16 }, () => batchLoss(model, own.inputs, own.y, options, this.b));
      if (Number.isFinite(sums.loss)) loss.backward();
      return sums;
    });
    for (const part of (await running)?.() ?? []) sums = sumLosses(sums, part);
    if (!Number.isFinite(sums.loss)) this.refuse(batch, sums);
    scope(() => {
      scheduler.stepBatch(this.b);
      optimizer.step();
      optimizer.zeroGrad();
      if (this.b % options.averagePeriod === 0) updateAverage(this.average, model, { batchIdxTrain: this.b, averagePeriod: options.averagePeriod });
    });
    return sums;
  }

  private setBatchCount(): void {
    this.parts.model.setBatchCount(adjustedBatchCount(this.b, this.options));
  }

  private refuse(batch: SpeechBatch, sums: LossSums): never {
    const path = join(this.options.expDir, "bad-batch.jsonl");
    writeFileSync(path, batch.cuts.map((cut) => `${JSON.stringify({ id: cut.id, origin: cut.origin, duration: cut.duration, text: cut.text })}\n`).join(""));
    throw new TrainError("TRAIN_LOSS_NOT_FINITE", {
      at: `update ${this.b}`,
      message: `the loss is ${sums.loss} (${showLosses(sums)}) in a batch with ${batch.cuts
        .slice(0, 3)
        .map((cut) => cut.origin)
        .join(", ")}; all of it is listed in ${path}`,
      fix: "look at these utterances; if they are sound, lower --base-lr",
    });
  }

  /** Stored features may have another number of bins than the model takes. */
  private checkBins({ bins, cuts }: SpeechBatch): void {
    if (bins === this.options.featureDim) return;
    throw new ConfigError("CONFIG_BAD_VALUE", {
      at: cuts[0]?.origin,
      message: `the stored features have ${bins} bins, and --feature-dim is ${this.options.featureDim}`,
      fix: `give --feature-dim ${bins}, or compute them anew: --on-the-fly-feats 1`,
    });
  }

  private log(batch: SpeechBatch, sums: LossSums, rate: number): void {
    const { epoch } = this;
    const { lr } = this.parts.scheduler;
    const total = this.total as LossSums;
    this.report.say(
      `Epoch ${epoch}, batch ${this.batches?.done}, loss[${showLosses(sums)}], tot_loss[${showLosses(total)}], batch size: ${batch.cuts.length}, lr: ${lr.toExponential(2)}`,
    );
    this.writeMetrics({ kind: "train", epoch, batch: this.b, lr, audioSecondsPerSecond: rate, ...perFrame(total) });
  }

  private writeMetrics(values: Record<string, unknown>): void {
    appendFileSync(join(this.options.expDir, "metrics.jsonl"), `${JSON.stringify(values)}\n`);
  }

  private async validateNow(wer: boolean): Promise<Validation | undefined> {
    const batches = await this.data.validation();
    const { valid } = this.data;
    if (!batches || !valid) return undefined;
    this.parts.model.eval();
    const before = valid.leftOut.total;
    const validation = await validate(this.parts.model, batches, this.tokenizer.model, this.options, { b: this.b, wer });
    if (valid.leftOut.total > before) for (const line of valid.leftOut.lines()) this.report.say(`left out of validation: ${line}`);
    const { sums, errors } = validation;
    if (sums.frames === 0) {
      // The audio was there when training began: what was learnt is kept.
      const path = batchPath(this.options.expDir, this.b);
      await this.save(path);
      this.report.say(`saved ${path}; to go on: --start-batch ${this.b}`);
      throw valid.noneUsable();
    }
    const loss = perFrame(sums).loss as number;
    this.lastValidLoss = loss;
    if (this.bestValidLoss === undefined || loss < this.bestValidLoss) {
      this.bestValidLoss = loss;
      this.bestValidEpoch = this.epoch;
    }
    const wordErrorRate = errors && errorRate(errors);
    if (wordErrorRate !== undefined) this.lastWer = wordErrorRate;
    this.report.say(`Epoch ${this.epoch}, validation: ${showLosses(sums)}${errors ? `WER ${wordErrorRate === undefined ? "-" : (100 * wordErrorRate).toFixed(2)} %` : ""}`);
    this.writeMetrics({ kind: "valid", epoch: this.epoch, batch: this.b, ...perFrame(sums), ...(wordErrorRate === undefined ? {} : { wer: wordErrorRate }) });
    return validation;
  }

  /** @param complete true at the end of an epoch */
  private async save(path: string, complete = false): Promise<void> {
    const replicas = await this.replicas?.states();
    const { epoch, batches, data, bestValidLoss, bestValidEpoch } = this;
    const loader = complete && !data.train.data.infinite ? undefined : batches?.state();
    scope(() => {
      const place = { epoch, batchesDone: complete ? 0 : (batches?.done ?? 0), batchIdxTrain: this.b, bestValidLoss, bestValidEpoch, replicas, loader };
      saveCheckpoint(path, checkpointOf(this.parts, this.average, place, this.options));
    });
  }
}

/** The tokenizer, with the ids of texts that came before. */
class Tokens {
  readonly model: SentencePiece;
  readonly bytes: Uint8Array;
  /** Names it in indices of manifests. */
  readonly key: string;
  private readonly known = new Map<string, number[]>();

  constructor(bytes: Uint8Array, path: string) {
    this.bytes = bytes;
    this.key = `bpe-${createHash("sha256").update(bytes).digest("hex").slice(0, 12)}`;
    this.model = SentencePiece.fromBytes(bytes, path);
  }

  of(text: string): number[] {
    let ids = this.known.get(text);
    if (!ids) {
      ids = Array.from(this.model.encode(text));
      this.known.set(text, ids);
    }
    return ids;
  }
}
