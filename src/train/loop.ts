/** Training: epochs of batches, validation, checkpoints. Source: icefall zipformer/train.py. */
import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Batch, type Cut, LeftOut, loadBatches } from "../data/index.ts";
import { makeWritableFolder } from "../formats/atomic.ts";
import {
  AsrModel,
  asrModelOptions,
  batchPath,
  type Checkpoint,
  disposeCheckpoint,
  epochPath,
  loadCheckpoint,
  type ModelConfig,
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
import { autocast, checkDevice, Generator, keep, scope, setThreads, type Tensor } from "../torch/index.ts";
import { CheckpointError, ConfigError, TrainError } from "../util/errors.ts";
import { parseOptions } from "../util/options.ts";
import { Random } from "../util/random.ts";
import { describeCuts, epochBatches, leaveOutUnusable, noUsableAudio, prepareCuts, requireUsable, specAugmentOf } from "./data.ts";
import { adjustedBatchCount, batchLoss } from "./loss.ts";
import { addLosses, type LossSums, perFrame, showLosses, sumLosses } from "./metrics.ts";
import { flattenState, unflattenState } from "./optimizerState.ts";
import { checkTrainOptions, type TrainOptions, type TrainOptionsInput, trainOptions } from "./options.ts";
import { modulesState, type ReplicaState, restoreModules } from "./replicaState.ts";
import { type Part, Replicas, splitBatch } from "./replicas.ts";
import { type Validation, validate } from "./validate.ts";

/** Who is told how training goes. */
export interface TrainReporter {
  /** A line worth reading. */
  say(line: string): void;
  /** How far the epoch is: batches done of all, and what to show beside. */
  progress?(done: number, total: number, note: string): void;
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
  const trainer = await Trainer.start(options, report);
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
  private readonly tokenizerBytes: Uint8Array;
  private readonly tokenizer: SentencePiece;
  private readonly config: ModelConfig;
  private readonly trainCuts: readonly Cut[];
  private readonly validCuts: readonly Cut[] | undefined;
  private readonly generator: Generator;
  private readonly random: Random;
  private readonly model: AsrModel;
  private readonly optimizer: ScaledAdam;
  private readonly scheduler: Eden;
  private average: Map<string, Tensor>;
  private replicas: Replicas | undefined;
  private replicaStates: readonly ReplicaState[] | undefined;
  private readonly tokens = new Map<string, number[]>();
  private readonly unusable = new LeftOut();
  private readonly unusableInValidation = new LeftOut();

  private epoch: number;
  private batchesDone = 0;
  private b = 0;
  private total: LossSums | undefined;
  private bestValidLoss: number | undefined;
  private bestValidEpoch: number | undefined;
  private lastWer: number | undefined;
  private lastValidLoss: number | undefined;

  static async start(options: TrainOptions, report: TrainReporter): Promise<Trainer> {
    checkDevice(options.device);
    const share = Math.max(1, Math.floor(options.threads / options.replicas));
    if (options.threads > 0 || options.replicas > 1) setThreads(share);
    const tokenizerBytes = readTokenizer(options.bpeModel);
    const tokenizer = SentencePiece.fromBytes(tokenizerBytes, options.bpeModel);
    const say = (line: string): void => report.say(line);
    const prepared = await prepareCuts({ manifests: options.trainManifest, tars: options.trainTarredAudioFilepaths, say }, tokenizer, options);
    report.say(`training data: ${describeCuts(prepared)}`);
    for (const line of prepared.leftOut.lines()) report.say(`left out: ${line}`);
    let validCuts: Cut[] | undefined;
    if (options.validManifest) {
      const valid = await prepareCuts({ manifests: options.validManifest, tars: options.validTarredAudioFilepaths, say }, tokenizer, options);
      report.say(`validation data: ${describeCuts(valid)}`);
      for (const line of valid.leftOut.lines()) report.say(`left out of validation: ${line}`);
      await requireUsable(valid.cuts, options.validManifest, tokenizer, options);
      validCuts = valid.cuts;
    }
    return new Trainer(options, report, tokenizerBytes, tokenizer, prepared.cuts, validCuts);
  }

  private constructor(
    options: TrainOptions,
    report: TrainReporter,
    tokenizerBytes: Uint8Array,
    tokenizer: SentencePiece,
    trainCuts: readonly Cut[],
    validCuts: readonly Cut[] | undefined,
  ) {
    this.options = options;
    this.report = report;
    this.tokenizerBytes = tokenizerBytes;
    this.tokenizer = tokenizer;
    this.trainCuts = trainCuts;
    this.validCuts = validCuts;
    makeWritableFolder(options.expDir);
    if (options.startEpoch === 1 && options.startBatch === 0) refuseToOverwrite(options.expDir);
    const shape = Object.fromEntries(Object.keys(modelOptions).map((name) => [name, options[name as keyof TrainOptions]]));
    this.config = { ...parseOptions(modelOptions, shape), vocabSize: tokenizer.vocabSize, blankId: 0, sampleRate: options.sampleRate };
    this.generator = new Generator(options.seed, { device: options.device });
    this.random = new Random(options.seed);
    this.model = scope(() => new AsrModel({ ...asrModelOptions(this.config), generator: new Generator(options.seed) }));
    if (options.device !== "cpu") this.model.to({ device: options.device });
    report.say(`model: ${this.model.parameterCount.toLocaleString("en")} parameters, vocabulary of ${tokenizer.vocabSize}`);
    this.optimizer = new ScaledAdam([...this.model.namedParameters()], { lr: options.baseLr, clippingScale: 2, log: (line) => report.say(line) });
    this.scheduler = new Eden(this.optimizer, { lrBatches: options.lrBatches, lrEpochs: options.lrEpochs, warmupStart: options.recipe === "2026" ? 0.1 : 0.5 });
    this.average = new Map();
    this.epoch = options.startEpoch;
    if (options.startBatch > 0) this.resume(batchPath(options.expDir, options.startBatch));
    else if (options.startEpoch > 1) this.resume(epochPath(options.expDir, options.startEpoch - 1));
    if (this.average.size === 0) this.average = startAverage(this.model);
    writeFileSync(join(options.expDir, "options.json"), `${JSON.stringify(options, null, 2)}\n`);
  }

  private resume(path: string): void {
    const checkpoint = loadCheckpoint(path, { bpeModel: this.options.bpeModel, sampleRate: this.options.sampleRate });
    const { state } = checkpoint;
    if (!state) throw new CheckpointError("CHECKPOINT_BAD", { at: path, message: "it was saved for recognition only: there is no state to go on from" });
    for (const [name, flag] of [
      ["sampleRate", "--sample-rate"],
      ["featureDim", "--feature-dim"],
    ] as const)
      if (checkpoint.config[name] !== this.config[name])
        throw new CheckpointError("CHECKPOINT_MISMATCH", {
          at: path,
          message: `it was trained on features of ${flag} ${checkpoint.config[name]}, not ${this.config[name]}`,
          fix: `give ${flag} ${checkpoint.config[name]}`,
        });
    this.model.loadStateDict(checkpoint.model);
    this.optimizer.loadStateDict(unflattenState({ tensors: checkpoint.optimizer, numbers: state.optimizer }));
    this.scheduler.loadStateDict(state.scheduler);
    if (checkpoint.generator) this.generator.restore(checkpoint.generator);
    if (state.random) this.random.restore(state.random);
    restoreModules(this.model, state.modules);
    this.replicaStates = state.replicas;
    this.average = new Map(Array.from(checkpoint.modelAvg ?? [], ([key, tensor]) => [key, keep(tensor.to({ dtype: "float64", device: this.options.device }))]));
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
    this.batchesDone = state.batchesDone;
    this.bestValidLoss = state.bestValidLoss;
    this.bestValidEpoch = state.bestValidEpoch;
    disposeCheckpoint(checkpoint);
    this.report.say(`resumed from ${path}: epoch ${this.epoch}, ${this.b} updates done`);
  }

  async run(signal: AbortSignal | undefined): Promise<TrainResult> {
    const { replicas, threads } = this.options;
    if (replicas > 1) {
      const share = Math.max(1, Math.floor(threads / replicas));
      this.replicas = new Replicas(replicas - 1, { model: this.model, config: this.config, options: this.options, threads: share, states: this.replicaStates });
    }
    try {
      return await this.epochs(signal);
    } finally {
      await this.replicas?.close();
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
      this.batchesDone = 0;
      path = epochPath(expDir, this.epoch);
      await this.save(path);
    }
    for (const line of this.unusable.lines()) this.report.say(`left out while training: ${line}`);
    return { checkpoint: path, epochs: this.epoch - (path.includes("checkpoint-") ? 0 : 1), updates: this.b, validLoss: this.lastValidLoss, validWer: this.lastWer, interrupted };
  }

  private dispose(): void {
    for (const tensor of this.average.values()) tensor.dispose();
    this.optimizer.dispose();
    this.model.dispose();
  }

  /** @returns false when training shall stop in the middle of the epoch */
  private async trainEpoch(signal: AbortSignal | undefined): Promise<boolean> {
    const { options, epoch } = this;
    this.scheduler.stepEpoch(epoch - 1);
    const batches = await epochBatches(this.trainCuts, options, epoch);
    this.model.train({ random: this.random, generator: this.generator });
    const specAugment = specAugmentOf(options);
    const started = performance.now();
    let audioSeconds = 0;
    const loader = loadBatches(batches.slice(this.batchesDone), {
      sampleRate: options.sampleRate,
      featureDim: options.featureDim,
      specAugment,
      seed: options.seed * 8191 + epoch,
      start: this.batchesDone,
      ...leaveOutUnusable(this.unusable, (text) => this.tokensOf(text), options.useCtc),
    });
    for await (const batch of loader) {
      if (signal?.aborted || (options.maxSteps > 0 && this.b >= options.maxSteps)) return false;
      const sums = await this.step(batch);
      audioSeconds += batch.audioSeconds;
      this.total = addLosses(this.total, sums, 1 - 1 / options.resetInterval);
      this.batchesDone = batch.place + 1;
      const rate = audioSeconds / ((performance.now() - started) / 1000);
      this.report.progress?.(
        this.batchesDone,
        batches.length,
        `epoch ${epoch}/${options.numEpochs}, loss ${perFrame(this.total).loss?.toPrecision(4)}, ${rate.toFixed(0)} s of audio/s`,
      );
      if (this.b % options.logInterval === 0) this.log(batch, sums, rate);
      if (this.b % options.saveEveryN === 0) {
        await this.save(batchPath(options.expDir, this.b));
        removeOldCheckpoints(options.expDir, options.keepLastK);
      }
      if (this.batchesDone % options.validInterval === 0 && this.batchesDone < batches.length) {
        await this.validateNow(false);
        this.model.train({ random: this.random, generator: this.generator });
      }
      await new Promise((resume) => setImmediate(resume)); // Ctrl-C is only seen when the event loop turns
    }
    if (batches.length === 0)
      throw new TrainError("TRAIN_NO_DATA", {
        at: options.trainManifest.join(", "),
        message: `epoch ${epoch} has no batch: none is full`,
        fix: "lower --max-duration or leave out --drop-last",
      });
    if (this.batchesDone === 0) throw noUsableAudio(options.trainManifest, batches.flat().length, this.unusable);
    return true;
  }

  private async step(batch: Batch): Promise<LossSums> {
    const { options } = this;
    if (this.b % 10 === 0) this.setBatchCount();
    this.b++;
    const y = batch.cuts.map((cut) => this.tokensOf(cut.text));
    const [own, ...others] = splitBatch(batch, y, options.replicas) as [Part, ...Part[]];
    const running = this.replicas?.run(others, { b: this.b, batchCount: adjustedBatchCount(this.b - 1, options) });
    running?.catch(() => {}); // awaited below
    let sums = scope(() => {
      const { loss, sums } = autocast({ device: options.device, enabled: options.useBf16 }, () => batchLoss(this.model, own.inputs, own.y, options, this.b));
      if (Number.isFinite(sums.loss)) loss.backward();
      return sums;
    });
    for (const part of (await running)?.() ?? []) sums = sumLosses(sums, part);
    if (!Number.isFinite(sums.loss)) this.refuse(batch, sums);
    scope(() => {
      this.scheduler.stepBatch(this.b);
      this.optimizer.step();
      this.optimizer.zeroGrad();
      if (this.b % options.averagePeriod === 0) updateAverage(this.average, this.model, { batchIdxTrain: this.b, averagePeriod: options.averagePeriod });
    });
    return sums;
  }

  private setBatchCount(): void {
    this.model.setBatchCount(adjustedBatchCount(this.b, this.options));
  }

  private refuse(batch: Batch, sums: LossSums): never {
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

  private tokensOf(text: string): number[] {
    let ids = this.tokens.get(text);
    if (!ids) {
      ids = Array.from(this.tokenizer.encode(text));
      this.tokens.set(text, ids);
    }
    return ids;
  }

  private log(batch: Batch, sums: LossSums, rate: number): void {
    const { epoch } = this;
    const lr = this.scheduler.lr;
    const total = this.total as LossSums;
    this.report.say(
      `Epoch ${epoch}, batch ${this.batchesDone}, loss[${showLosses(sums)}], tot_loss[${showLosses(total)}], batch size: ${batch.cuts.length}, lr: ${lr.toExponential(2)}`,
    );
    this.writeMetrics({ kind: "train", epoch, batch: this.b, lr, audioSecondsPerSecond: rate, ...perFrame(total) });
  }

  private writeMetrics(values: Record<string, unknown>): void {
    appendFileSync(join(this.options.expDir, "metrics.jsonl"), `${JSON.stringify(values)}\n`);
  }

  private async validateNow(wer: boolean): Promise<Validation | undefined> {
    if (!this.validCuts) return undefined;
    this.model.eval();
    const leftOut = this.unusableInValidation;
    const before = leftOut.total;
    const validation = await validate(this.model, this.validCuts, this.tokenizer, this.options, { b: this.b, wer, leftOut });
    if (leftOut.total > before) for (const line of leftOut.lines()) this.report.say(`left out of validation: ${line}`);
    const { sums, errors } = validation;
    if (sums.frames === 0) {
      // The audio was there when training began: what was learnt is kept.
      const path = batchPath(this.options.expDir, this.b);
      await this.save(path);
      this.report.say(`saved ${path}; to go on: --start-batch ${this.b}`);
      throw noUsableAudio(this.options.validManifest ?? [], this.validCuts.length, leftOut);
    }
    const loss = perFrame(sums).loss as number;
    this.lastValidLoss = loss;
    if (this.bestValidLoss === undefined || loss < this.bestValidLoss) {
      this.bestValidLoss = loss;
      this.bestValidEpoch = this.epoch;
    }
    const wordErrorRate = errors && errorRate(errors);
    if (wordErrorRate !== undefined) this.lastWer = wordErrorRate;
    this.report.say(`Epoch ${this.epoch}, validation: ${showLosses(sums)}${errors ? `, WER ${wordErrorRate === undefined ? "-" : (100 * wordErrorRate).toFixed(2)} %` : ""}`);
    this.writeMetrics({ kind: "valid", epoch: this.epoch, batch: this.b, ...perFrame(sums), ...(wordErrorRate === undefined ? {} : { wer: wordErrorRate }) });
    return validation;
  }

  private async save(path: string): Promise<void> {
    const replicas = await this.replicas?.states();
    scope(() => {
      const { tensors, numbers } = flattenState(this.optimizer.stateDict());
      const checkpoint: Checkpoint = {
        config: this.config,
        state: {
          epoch: this.epoch,
          batchesDone: this.batchesDone,
          batchIdxTrain: this.b,
          bestValidLoss: this.bestValidLoss,
          bestValidEpoch: this.bestValidEpoch,
          random: this.random.state(),
          modules: modulesState(this.model),
          replicas,
          optimizer: numbers,
          scheduler: this.scheduler.stateDict(),
          averagePeriod: this.options.averagePeriod,
          options: { ...this.options },
        },
        model: this.model.stateDict(),
        modelAvg: this.average,
        optimizer: tensors,
        generator: this.generator.state(),
        tokenizer: this.tokenizerBytes,
      };
      saveCheckpoint(path, checkpoint);
    });
  }
}
