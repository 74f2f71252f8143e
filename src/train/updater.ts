/** Updates of the parameters by batches: forward, backward, and every `accumGrad` batches a step of the optimiser. Source: icefall zipformer/train.py, train_one_epoch. */
import type { SpeechBatch } from "../data/index.ts";
import { autocast, scope } from "../torch/index.ts";
import type { BadBatches } from "./badBatches.ts";
import { adjustedBatchCount, batchLoss, scaled } from "./loss.ts";
import { type LossSums, sumLosses } from "./metrics.ts";
import type { TrainOptions } from "./options.ts";
import { modulesState, restoreModules } from "./replicaState.ts";
import { type Part, type Replicas, splitBatch } from "./replicas.ts";
import type { RunParts } from "./runState.ts";
import type { Tokens } from "./tokens.ts";

/** Looks at the gradients of every batch before they are used. */
export interface GradientWatch {
  afterBackward(): void;
}

/** What an updater works with. */
export interface UpdaterContext {
  options: TrainOptions;
  parts: RunParts;
  tokens: Tokens;
  replicas: Replicas | undefined;
  bad: BadBatches;
  /** Where they are, they see the gradients of this thread. */
  watches: readonly GradientWatch[];
}

export class Updater {
  private readonly context: UpdaterContext;
  /** Batches trained on since the start of training, those that were left out included. */
  b: number;
  /** What the model's schedules follow; see `adjustedBatchCount`. */
  private batchCount: number;
  /** Batches whose gradients wait for the optimiser's next step. */
  private waiting: SpeechBatch[] = [];

  constructor(context: UpdaterContext, b: number) {
    this.context = context;
    this.b = b;
    this.batchCount = adjustedBatchCount(b, context.options);
    context.parts.model.setBatchCount(this.batchCount);
  }

  /** True where no gradient waits: only here a checkpoint holds all that was learnt. */
  get isWhole(): boolean {
    return this.waiting.length === 0;
  }

  /** Schedules move at every tenth batch of an epoch, the first included; one that goes on in the middle has the count of the last that it did not see. */
  private moveSchedules(batchIdx: number): void {
    const count = adjustedBatchCount(this.b - (batchIdx % 10), this.context.options);
    if (count === this.batchCount) return;
    this.batchCount = count;
    this.context.parts.model.setBatchCount(count);
  }

  /**
   * Trains on a batch.
   * @param batchIdx batches of this epoch before it
   * @returns its losses; undefined where they are not finite and the batch was left out
   * @throws TrainError TRAIN_LOSS_NOT_FINITE, TRAIN_GRADIENTS_NOT_FINITE, TRAIN_REPLICA_FAILED
   */
  async step(batch: SpeechBatch, batchIdx: number): Promise<LossSums | undefined> {
    const { options, parts, bad } = this.context;
    this.moveSchedules(batchIdx);
    this.b++;
    const { b } = this;
    const sums = await this.backward(batch, b);
    parts.scheduler.stepBatch(b);
    if (!Number.isFinite(sums.loss)) {
      this.forget();
      bad.bad(batch, sums, b);
      return undefined;
    }
    this.waiting.push(batch);
    if (this.waiting.length >= options.accumGrad) this.apply();
    else bad.good();
    return sums;
  }

  /** Losses of a batch, and their gradients, which are added to those that wait; none where the losses are not finite. */
  private async backward(batch: SpeechBatch, b: number): Promise<LossSums> {
    const { options, parts, tokens, replicas, watches } = this.context;
    const { model, scaler, random } = parts;
    const y = batch.cuts.map((cut) => tokens.of(cut.text));
    const [own, ...others] = splitBatch(batch, y, options.replicas) as [Part, ...Part[]];
    const lossScale = scaler.factor / options.accumGrad;
    const running = replicas?.run(others, { b, batchCount: this.batchCount, lossScale });
    running?.catch(() => {}); // awaited below
    const cast = { device: options.device, enabled: options.useBf16 || options.useFp16, dtype: options.useFp16 ? "float16" : "bfloat16" } as const;
    let sums: LossSums;
    try {
      sums = scope(() => {
        const { loss, sums } = autocast(cast, () => batchLoss(model, own.inputs, own.y, options, b, random));
        if (Number.isFinite(sums.loss)) scaled(loss, lossScale).backward();
        return sums;
      });
    } finally {
      await running?.catch(() => {}); // a replica is never left in the middle of a batch
    }
    for (const part of (await running)?.() ?? []) sums = sumLosses(sums, part);
    scope(() => {
      for (const watch of watches) watch.afterBackward();
    });
    return sums;
  }

  /**
   * Forward and backward of a batch that is not trained on: parameters, counters, streams of random numbers and what modules remember are afterwards what they were.
   * @throws TorchError TORCH_NO_MEMORY, TrainError TRAIN_REPLICA_FAILED
   */
  async tryOut(batch: SpeechBatch): Promise<void> {
    const { parts, replicas } = this.context;
    const { model, generator, random } = parts;
    const before = { random: random.state(), generator: generator.state(), modules: modulesState(model), replicas: await replicas?.states() };
    try {
      await this.backward(batch, this.b + 1);
    } finally {
      this.forget();
      random.restore(before.random);
      generator.restore(before.generator);
      restoreModules(model, before.modules);
      if (before.replicas) await replicas?.restore(before.replicas);
    }
  }

  /**
   * Steps the optimiser by the gradients that wait, where there are some. Without those that are not finite: in mixed precision they are the scale's affair,
   * else their batches are named and counted.
   * @throws TrainError TRAIN_LOSS_NOT_FINITE when there are too many such batches, TRAIN_GRADIENTS_NOT_FINITE
   */
  apply(): void {
    const batches = this.waiting;
    if (batches.length === 0) return;
    const { parts, bad } = this.context;
    const { optimizer, scaler } = parts;
    this.waiting = [];
    scope(() => {
      scaler.step(optimizer);
      scaler.update();
      optimizer.zeroGrad();
    });
    if (scaler.enabled || optimizer.gradientsWereFinite) bad.good();
    else bad.badGradients(batches, this.b);
  }

  /** Gradients that are not finite would spoil those of good batches: all that wait go. */
  private forget(): void {
    this.context.parts.optimizer.zeroGrad();
    this.waiting = [];
  }
}
