/** Training: epochs of batches, validation, checkpoints. Source: icefall zipformer/train.py. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LoaderState, SpeechBatch } from "../data/index.ts";
import { batchPath, disposeCheckpoint, epochPath, saveCheckpoint, startAverage, updateAverage } from "../models/index.ts";
import { checkDevice, peakBytes, scope, setThreads, type Tensor } from "../torch/index.ts";
import { ConfigError, placed, SeracError } from "../util/errors.ts";
import { parseOptions } from "../util/options.ts";
import { BadBatches, describeBatch } from "./badBatches.ts";
import { givenNames, withConfig } from "./configFile.ts";
import { Diagnostics } from "./diagnostics.ts";
import { envInfo } from "./envInfo.ts";
import { GradScaleWatch } from "./gradScale.ts";
import { InfCheck } from "./infCheck.ts";
import { refuseSeveralProcesses } from "./launch.ts";
import { reportBatch, reportValidation } from "./lossReports.ts";
import { isNoMemory, noMemoryFor, scanForOomBatches } from "./memoryScan.ts";
import { addLosses, type LossSums, perFrame } from "./metrics.ts";
import { type OpenRun, openRun } from "./openRun.ts";
import { checkTrainOptions, type TrainOptions, type TrainOptionsInput, trainOptions } from "./options.ts";
import type { ReplicaState } from "./replicaState.ts";
import { Replicas } from "./replicas.ts";
import type { RunLog } from "./runLog.ts";
import { RunSaver } from "./runSaver.ts";
import { checkpointOf, loadResumable, makeParts, type RunParts, restoreParts, savedPlace } from "./runState.ts";
import type { Tokens } from "./tokens.ts";
import { checkBins, type TrainData, type TrainEpoch } from "./trainData.ts";
import { type GradientWatch, Updater } from "./updater.ts";
import { validate } from "./validate.ts";

/** How far an epoch is. */
export interface TrainProgress {
  epoch: number;
  numEpochs: number;
  /** Batches of the epoch, those that were passed over included. */
  done: number;
  /** Batches of the epoch, where that is known. */
  total: number | undefined;
  /** Per frame, of about the last --reset-interval batches. */
  loss: number;
  /** Seconds of audio a second, since the epoch began or was gone on with. */
  audioRate: number;
  /** The most bytes that CPU tensors held so far; undefined on other devices. */
  peakBytes: number | undefined;
}

/** Who is told how training goes. */
export interface TrainReporter {
  /** A line worth reading. */
  say(line: string): void;
  /** How far the epoch is, after every batch. */
  progress?(progress: TrainProgress): void;
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
  /** Lines of --print-diagnostics, after which nothing was saved. */
  diagnostics?: string[] | undefined;
}

const silent: TrainReporter = { say: () => {} };

/**
 * Trains a model and writes epoch-N.pt files to `expDir`.
 * @param signal aborting it saves a checkpoint and returns
 * @throws ConfigError for options; ManifestError, TrainError for data; CheckpointError on resuming
 */
export async function train(input: TrainOptionsInput, { signal, report }: { signal?: AbortSignal; report?: TrainReporter } = {}): Promise<TrainResult> {
  const all = withConfig(input, trainOptions);
  return runTraining(checkTrainOptions(parseOptions(trainOptions, all)), { given: givenNames(all), signal, report });
}

/** How a run is made. */
export interface RunContext {
  /** Names of the options that were given, not left to their defaults. */
  given: ReadonlySet<string>;
  signal?: AbortSignal | undefined;
  report?: TrainReporter | undefined;
  /** Changes a model that is new, before its average begins; not called when a run goes on. */
  prepare?: ((parts: RunParts, tokens: Tokens, say: (line: string) => void) => void) | undefined;
}

/** Trains with checked options. @throws as `train` */
export async function runTraining(options: TrainOptions, { given, signal, report = silent, prepare }: RunContext): Promise<TrainResult> {
  refuseSeveralProcesses();
  const trainer = await Trainer.start(options, given, report, prepare);
  return trainer.run(signal);
}

/** Batches over which --print-diagnostics looks. */
const diagnosedBatches = 6;

/** What lives as long as training does. */
class Trainer {
  private readonly options: TrainOptions;
  private readonly report: TrainReporter;
  private readonly log: RunLog;
  private readonly open: OpenRun;
  private readonly tokens: Tokens;
  private readonly data: TrainData;
  private readonly parts: RunParts;
  private readonly saver: RunSaver;
  private readonly bad: BadBatches;
  private readonly gradScale: GradScaleWatch;
  private readonly watches: (GradientWatch & { close(): void })[] = [];
  private diagnostics: Diagnostics | undefined;
  private average: Map<string, Tensor>;
  private replicas: Replicas | undefined;
  private replicaStates: readonly ReplicaState[] | undefined;
  private updater: Updater | undefined;

  private epoch: number;
  private batches: TrainEpoch | undefined;
  /** Where the data stood in the checkpoint that the run goes on from. */
  private saved: { state: LoaderState; batchesDone: number } | undefined;
  /** Batches that the checkpoint has behind it. */
  private resumedFrom = 0;
  /** True where the validation behind the last batch was broken off, and is still to be made. */
  private validationDue = false;
  /** The checkpoint to go on from, where this epoch has nothing to save yet. */
  private goesOn: { path: string; flag: string } | undefined;
  private total: LossSums | undefined;
  private readonly best = { trainLoss: Number.POSITIVE_INFINITY, trainEpoch: -1, validLoss: Number.POSITIVE_INFINITY, validEpoch: -1 };
  private lastWer: number | undefined;
  private lastValidLoss: number | undefined;

  static async start(options: TrainOptions, given: ReadonlySet<string>, report: TrainReporter, prepare: RunContext["prepare"]): Promise<Trainer> {
    checkDevice(options.device);
    const share = Math.max(1, Math.floor(options.threads / options.replicas));
    if (options.threads > 0 || options.replicas > 1) setThreads(share);
    const run = await openRun(options, given, (line) => report.say(line));
    try {
      return new Trainer(run, report, prepare);
    } catch (error) {
      run.log.note(String(error), "WARNING");
      await run.close();
      throw error;
    }
  }

  private constructor(run: OpenRun, report: TrainReporter, prepare: RunContext["prepare"]) {
    const { options, log, tokens, data } = run;
    this.open = run;
    this.options = options;
    this.report = report;
    this.log = log;
    this.tokens = tokens;
    this.data = data;
    const say = (line: string): void => log.say(line);
    const env = envInfo();
    log.note(JSON.stringify({ ...options, env_info: env }));
    this.parts = makeParts(options, tokens, { say, env });
    this.saver = new RunSaver(options.expDir, say);
    this.bad = new BadBatches(options.expDir, { limit: options.maxBadBatches, say });
    this.gradScale = new GradScaleWatch(this.parts.scaler, options.recipe, (first) => this.onSmallScale(first));
    this.average = new Map();
    this.epoch = options.startEpoch;
    try {
      this.begin(prepare);
      writeFileSync(join(options.expDir, "options.json"), `${JSON.stringify({ ...options, envInfo: env }, null, 2)}\n`);
    } catch (error) {
      this.dispose();
      throw error;
    }
  }

  /** Goes on from a checkpoint, or begins anew. */
  private begin(prepare: RunContext["prepare"]): void {
    const { options, parts, log } = this;
    const { startBatch, startEpoch } = options;
    if (startBatch > 0) this.resume(batchPath(options.expDir, startBatch), `--start-batch ${startBatch}`);
    else if (startEpoch > 1) this.resume(epochPath(options.expDir, startEpoch - 1), `--start-epoch ${startEpoch}`);
    else prepare?.(parts, this.tokens, (line) => log.say(line));
    if (this.average.size === 0) this.average = startAverage(parts.model);
    if (options.infCheck) this.watches.push(new InfCheck(parts.model, (line) => log.say(line, "WARNING")));
    if (!options.printDiagnostics) return;
    this.diagnostics = new Diagnostics(parts.model);
    this.watches.push(this.diagnostics);
  }

  /** @param flag the one that named it */
  private resume(path: string, flag: string): void {
    const checkpoint = loadResumable(path, this.parts.config, this.options);
    const { state } = checkpoint;
    try {
      this.average = restoreParts(this.parts, checkpoint, this.options.device);
    } catch (error) {
      throw error instanceof SeracError ? placed(error, path) : error;
    } finally {
      disposeCheckpoint(checkpoint);
    }
    if (checkpoint.optimizer.size === 0 && state.batchIdxTrain > 0) this.log.say(`${path} holds no state of the optimiser: its moments begin anew`, "WARNING");
    this.replicaStates = state.replicas;
    this.resumedFrom = state.batchIdxTrain;
    this.epoch = state.batchesDone > 0 ? state.epoch : state.epoch + 1;
    if (!state.random && this.options.startBatch > 0) {
      this.epoch = state.epoch;
      this.log.say(`${path} is icefall's: its place in the epoch and its random numbers cannot be taken over, so epoch ${this.epoch} starts at its beginning`);
    }
    if (this.epoch > this.options.numEpochs)
      throw new ConfigError("CONFIG_BAD_VALUE", {
        message: `${path} is of epoch ${state.epoch}, behind --num-epochs ${this.options.numEpochs}: there is nothing to train`,
        fix: `give --num-epochs ${this.epoch} or more`,
      });
    this.saved = savedPlace(state);
    const { bestTrainLoss, bestTrainEpoch, bestValidLoss, bestValidEpoch, extra } = state;
    Object.assign(this.best, {
      ...(bestTrainLoss === undefined ? {} : { trainLoss: bestTrainLoss, trainEpoch: bestTrainEpoch ?? -1 }),
      ...(bestValidLoss === undefined ? {} : { validLoss: bestValidLoss, validEpoch: bestValidEpoch ?? -1 }),
    });
    this.total = extra?.["totalLoss"] as LossSums | undefined;
    this.validationDue = extra?.["validationDue"] === true;
    // A run may have been killed between an epoch's file and the copies of it.
    const isEpochs = state.batchesDone === 0 && state.random !== undefined && path === epochPath(this.options.expDir, state.epoch) && path.endsWith(".pt");
    if (isEpochs) this.saver.copyBest(path, { bestTrain: bestTrainEpoch === state.epoch, bestValid: bestValidEpoch === state.epoch });
    this.goesOn = { path, flag };
    this.log.say(`resumed from ${path}: epoch ${this.epoch}, ${state.batchIdxTrain} updates done`);
  }

  /** Batches trained on since the start of training. */
  private get b(): number {
    return this.updater?.b ?? this.resumedFrom;
  }

  async run(signal: AbortSignal | undefined): Promise<TrainResult> {
    const { replicas, threads } = this.options;
    if (replicas > 1) {
      const share = Math.max(1, Math.floor(threads / replicas));
      this.replicas = new Replicas(replicas - 1, { model: this.parts.model, config: this.parts.config, options: this.options, threads: share, states: this.replicaStates });
    }
    const { options, parts, tokens, bad, watches } = this;
    this.updater = new Updater({ options, parts, tokens, replicas: this.replicas, bad, watches }, this.resumedFrom);
    try {
      if (options.scanForOomBatches && !options.printDiagnostics) await this.scan(signal);
      return await this.epochs(signal);
    } catch (error) {
      this.log.note(String(error), "WARNING");
      throw error;
    } finally {
      for (const watch of this.watches.reverse()) watch.close();
      await this.replicas?.close();
      await this.saver.close();
      this.dispose();
      await this.open.close();
    }
  }

  /** Tries the largest batches of the epoch that comes first. */
  private scan(signal: AbortSignal | undefined): Promise<void> {
    const { options, data, parts, epoch, log } = this;
    parts.model.train({ random: parts.random, generator: parts.generator });
    return scanForOomBatches({ options, data, updater: this.updater as Updater, epoch, say: (line) => log.say(line) }, signal);
  }

  private dispose(): void {
    for (const tensor of this.average.values()) tensor.dispose();
    this.parts.optimizer.dispose();
    this.parts.model.dispose();
  }

  private async epochs(signal: AbortSignal | undefined): Promise<TrainResult> {
    const { options, best } = this;
    const { numEpochs } = options;
    let path = "";
    let interrupted = false;
    for (; this.epoch <= numEpochs; this.epoch++) {
      const finished = await this.trainEpoch(signal);
      if (this.diagnostics && finished) return { ...this.result(path), diagnostics: this.diagnostics.lines() };
      if (!finished) {
        interrupted = signal?.aborted ?? false;
        path = await this.leave();
        break;
      }
      const loss = this.total && (perFrame(this.total).loss as number);
      if (loss !== undefined && loss < best.trainLoss) Object.assign(best, { trainLoss: loss, trainEpoch: this.epoch });
      const wer = options.werInterval > 0 && (this.epoch % options.werInterval === 0 || this.epoch === numEpochs);
      if (!(await this.validateNow(wer, signal))) {
        interrupted = true;
        path = await this.leave(); // behind the last batch: going on begins with the validation
        break;
      }
      path = await this.save({ complete: true });
      this.goesOn = { path, flag: `--start-epoch ${this.epoch + 1}` };
    }
    await this.batches?.close();
    await this.saver.settled();
    for (const line of this.data.train.leftOut.lines()) this.log.say(`left out while training: ${line}`);
    if (this.bad.total > 0) this.log.say(`left out while training: ${this.bad.total} batches whose loss or gradients were not finite, listed in ${this.bad.path}`);
    this.log.note("Done!");
    return { ...this.result(path), interrupted };
  }

  /** Saves what an epoch that is left in its middle has learnt, and says how to go on. @returns the checkpoint; "" where nothing was learnt yet */
  private async leave(): Promise<string> {
    if ((this.batches?.done ?? 0) > 0 && !this.diagnostics) {
      const path = await this.save({ prune: false });
      this.goesOn = { path, flag: `--start-batch ${this.b}` };
    }
    await this.saver.settled();
    const { goesOn } = this;
    this.log.say(goesOn ? `saved ${goesOn.path}; to go on: ${goesOn.flag}` : "stopped before the first update: there is nothing to go on from");
    return goesOn?.path ?? "";
  }

  private result(checkpoint: string): TrainResult {
    const epochs = this.epoch - (checkpoint.includes("checkpoint-") ? 0 : 1);
    return { checkpoint, epochs, updates: this.b, validLoss: this.lastValidLoss, validWer: this.lastWer, interrupted: false };
  }

  /** @returns false when training shall stop in the middle of the epoch */
  private async trainEpoch(signal: AbortSignal | undefined): Promise<boolean> {
    const { options, epoch, log } = this;
    const { model, random, generator, scheduler } = this.parts;
    const updater = this.updater as Updater;
    scheduler.stepEpoch(epoch - 1);
    log.scalars({ "train/epoch": epoch }, updater.b);
    const batches = await this.data.epoch(epoch, this.batches, this.saved);
    let trained = this.saved?.batchesDone ?? 0;
    if (trained === 0) this.total = undefined; // as there, an epoch's loss is its own
    this.saved = undefined;
    this.batches = batches;
    model.train({ random, generator });
    const started = performance.now();
    let audioSeconds = 0;
    let saveIsDue = false;
    for (;;) {
      const stop = signal?.aborted || (options.maxSteps > 0 && updater.b >= options.maxSteps);
      if (!batches.atEnd && stop && updater.isWhole) return false;
      if (this.validationDue) {
        await this.validateNow(false, signal); // of the batch behind which the run was stopped
        model.train({ random, generator });
        this.validationDue = false;
      }
      const batch = await this.nextOf(batches);
      if (!batch) break;
      checkBins(batch, options);
      const { done } = batches;
      const batchIdx = done - 1; // as icefall counts them
      const sums = await this.update(batch, batchIdx);
      trained++;
      audioSeconds += batch.audioSeconds;
      if (sums) this.total = addLosses(this.total, sums, 1 - 1 / options.resetInterval);
      const rate = audioSeconds / ((performance.now() - started) / 1000);
      this.tellProgress(rate);
      if (this.diagnostics && done >= diagnosedBatches) return true;
      this.gradScale.afterBatch(batchIdx);
      if (sums && batchIdx % options.logInterval === 0) this.logBatch(batch, sums, rate, batchIdx);
      // As icefall, from the first batch on: so validation data that cannot be used is met at once. The end of an epoch stands for the first batch of the next.
      if (batchIdx % options.validInterval === 0 && !batches.atEnd && (batchIdx > 0 || epoch === 1) && !this.diagnostics) {
        this.validationDue = !(await this.validateNow(false, signal));
        model.train({ random, generator });
      }
      // Behind all that this batch changes: a run that goes on finds the scale and the records of the one that did not stop.
      saveIsDue ||= updater.b % options.saveEveryN === 0;
      if (saveIsDue && updater.isWhole) {
        await this.save();
        saveIsDue = false;
      }
      await new Promise((resume) => setImmediate(resume)); // Ctrl-C is only seen when the event loop turns
    }
    updater.apply();
    if (trained === 0) throw this.data.train.noneUsable();
    return true;
  }

  private tellProgress(audioRate: number): void {
    const { report, batches, total: sums, epoch, options } = this;
    if (!report.progress || !batches || !sums) return;
    const { done, total } = batches;
    const peak = options.device === "cpu" ? peakBytes() : undefined;
    report.progress({ epoch, numEpochs: options.numEpochs, done, total, loss: perFrame(sums).loss as number, audioRate, peakBytes: peak });
  }

  /** The next batch. Where the data cannot be read any more, what was learnt is kept. */
  private async nextOf(batches: TrainEpoch): Promise<SpeechBatch | undefined> {
    try {
      return await batches.next();
    } catch (error) {
      this.updater?.apply();
      await this.leave().catch((other: unknown) => this.log.say(`what was learnt could not be saved: ${other instanceof Error ? other.message : String(other)}`, "WARNING"));
      throw error;
    }
  }

  /** One batch. What fails is kept to be looked at: the model, and which utterances were in the batch. */
  private async update(batch: SpeechBatch, batchIdx: number): Promise<LossSums | undefined> {
    const { options, parts } = this;
    const updater = this.updater as Updater;
    try {
      const sums = await updater.step(batch, batchIdx);
      if (updater.b % options.averagePeriod === 0) updateAverage(this.average, parts.model, { batchIdxTrain: updater.b, averagePeriod: options.averagePeriod });
      return sums;
    } catch (error) {
      if (isNoMemory(error)) throw noMemoryFor(batch, error, options, `update ${updater.b}`);
      this.saveBadModel("");
      const path = join(options.expDir, "bad-batch.jsonl");
      try {
        writeFileSync(path, describeBatch(batch, { update: updater.b }));
      } catch (other) {
        this.log.say(`${path} could not be written: ${other instanceof Error ? other.message : String(other)}`, "WARNING"); // what failed first matters more
      }
      this.log.say(`update ${updater.b} failed: the model is in ${join(options.expDir, "bad-model-0.pt")}, its utterances are listed in ${path}`, "WARNING");
      throw error;
    }
  }

  /** Parameters alone, to be looked at. */
  private saveBadModel(suffix: string): void {
    const { config, model, tokenizerBytes: tokenizer } = this.parts;
    const path = join(this.options.expDir, `bad-model${suffix}-0.pt`);
    try {
      scope(() => saveCheckpoint(path, { config, state: undefined, model: model.stateDict(), modelAvg: undefined, optimizer: new Map(), generator: undefined, tokenizer }));
    } catch (error) {
      this.log.say(`${path} could not be written: ${error instanceof Error ? error.message : String(error)}`, "WARNING");
    }
  }

  private onSmallScale(first: boolean): void {
    const { options, log } = this;
    if (first) {
      this.saveBadModel("-first-warning");
      if (options.recipe === "2026" && !options.infCheck) this.watches.push(new InfCheck(this.parts.model, (line) => log.say(line, "WARNING")));
    }
    log.say(`Grad scale is small: ${this.parts.scaler.factor}`, "WARNING");
  }

  private logBatch(batch: SpeechBatch, sums: LossSums, rate: number, batchIdx: number): void {
    const { epoch, b, log } = this;
    const { scheduler, scaler } = this.parts;
    const gradScale = scaler.enabled ? scaler.factor : undefined;
    reportBatch(log, { epoch, batchIdx, b, batchSize: batch.cuts.length, lr: scheduler.lr, gradScale, rate, sums, total: this.total as LossSums });
  }

  /** @returns false where it was broken off, because training shall stop */
  private async validateNow(wer: boolean, signal: AbortSignal | undefined): Promise<boolean> {
    const { log, best } = this;
    const batches = await this.data.validation();
    const { valid } = this.data;
    if (!batches || !valid) return true;
    log.note("Computing validation loss");
    this.parts.model.eval();
    const before = valid.leftOut.total;
    const validation = await validate(this.parts.model, batches, this.tokens.model, this.options, { b: this.b, wer, signal });
    if (!validation) return false;
    if (valid.leftOut.total > before) for (const line of valid.leftOut.lines()) log.say(`left out of validation: ${line}`);
    const { sums, notFinite, errors } = validation;
    if (notFinite > 0) log.say(`left out of validation: ${notFinite} batches whose loss is not finite`, "WARNING");
    if (sums.frames === 0) {
      await this.leave(); // the audio was there when training began: what was learnt is kept
      throw valid.noneUsable();
    }
    const loss = perFrame(sums).loss as number;
    this.lastValidLoss = loss;
    if (loss < best.validLoss) Object.assign(best, { validLoss: loss, validEpoch: this.epoch });
    this.lastWer = reportValidation(log, { epoch: this.epoch, b: this.b, device: this.options.device, sums, errors }) ?? this.lastWer;
    return true;
  }

  /**
   * @param options.complete true at the end of an epoch
   * @param options.prune false keeps all older files: of an epoch that is left in its middle
   */
  private async save({ complete = false, prune = true }: { complete?: boolean; prune?: boolean } = {}): Promise<string> {
    const replicas = await this.replicas?.states();
    const { epoch, batches, data, best, b } = this;
    const loader = complete && !data.train.data.infinite ? undefined : batches?.state();
    const known = (loss: number): number | undefined => (Number.isFinite(loss) ? loss : undefined);
    const place = {
      epoch,
      batchesDone: complete ? 0 : (batches?.done ?? 0),
      batchIdxTrain: b,
      bestTrainLoss: known(best.trainLoss),
      bestTrainEpoch: best.trainEpoch,
      bestValidLoss: known(best.validLoss),
      bestValidEpoch: best.validEpoch,
      replicas,
      loader,
      totalLoss: this.total,
      validationDue: this.validationDue,
    };
    return scope(() =>
      this.saver.save(
        checkpointOf(this.parts, this.average, place, this.options),
        complete
          ? { kind: "epoch", epoch, bestTrain: best.trainEpoch === epoch, bestValid: best.validEpoch === epoch }
          : { kind: "batch", batch: b, keep: prune ? this.options.keepLastK : Number.POSITIVE_INFINITY },
      ),
    );
  }
}
