/** Training steps on made-up batches, to see whether they fit into memory: the model, its losses, gradients, optimiser and running average are those of training. */
import { encoderFrames, featureFrames } from "../../data/index.ts";
import { AsrModel, asrModelOptions, type ModelConfig, startAverage } from "../../models/index.ts";
import { ScaledAdam } from "../../optim/index.ts";
import { autocast, Generator, keep, peakBytes, scope, type Tensor } from "../../torch/index.ts";
import { TorchError } from "../../util/errors.ts";
import { Random } from "../../util/random.ts";
import { batchLoss } from "../loss.ts";
import type { TrainOptions } from "../options.ts";
import type { BatchBucket } from "./search.ts";

/** As in NeMo's script: parameters hardly move. */
const learningRate = 1e-7;

/** What a batch of a bucket looks like. */
export interface BucketShape {
  /** Of features. */
  frames: number;
  tokens: number;
}

/** What a trial trains. */
export interface TrialOptions {
  config: ModelConfig;
  options: TrainOptions;
  /** Output tokens a second, for buckets of seconds alone. */
  ratio: number;
  /** Steps of a try, all of which have to fit: regularisers act by chance, and a step's memory varies by some percent with them. */
  steps: number;
  /** True holds a second copy of the parameters, as the exchange of gradients among processes does. */
  ddp: boolean;
}

/** Steps of one model. */
export class TrialStep {
  /** The most bytes that CPU tensors held in the last try. */
  peak = 0;
  private readonly trial: TrialOptions;
  private readonly model: AsrModel;
  private readonly optimizer: ScaledAdam;
  private readonly held: Tensor[];
  private readonly random: Random;
  private steps = 0;

  /** @throws TorchError TORCH_NO_MEMORY where not even the model and its optimiser fit */
  constructor(trial: TrialOptions) {
    this.trial = trial;
    const { config, options, ddp } = trial;
    this.random = new Random(options.seed);
    this.model = scope(() => new AsrModel({ ...asrModelOptions(config), generator: new Generator(options.seed) }));
    if (options.device !== "cpu") this.model.to({ device: options.device });
    this.optimizer = new ScaledAdam([...this.model.namedParameters()], { lr: learningRate });
    this.held = [...startAverage(this.model).values()];
    if (ddp) this.held.push(...scope(() => this.model.parameters().map((p) => keep(p.detach().to({ dtype: p.dtype, copy: true })))));
    this.model.train({ random: this.random, generator: new Generator(options.seed, { device: options.device }) });
    this.model.setBatchCount(0);
    this.step({ frames: 100, tokens: 1 }, 1); // the optimiser's state is made by its first step
  }

  /** Frames and tokens of a bucket's utterances: no more tokens than frames can hold, as training leaves the others out. */
  shapeOf(bucket: BatchBucket): BucketShape {
    const { config, ratio } = this.trial;
    const [seconds, tokens] = typeof bucket === "number" ? [bucket, Math.ceil(ratio * bucket)] : bucket;
    const frames = featureFrames(seconds, config.sampleRate);
    return { frames, tokens: Math.max(1, Math.min(tokens, encoderFrames(frames))) };
  }

  /** True where a batch of the bucket's longest utterances can be trained on. @throws TorchError for other faults than too little memory */
  fits(bucket: BatchBucket, batchSize: number): boolean {
    peakBytes({ reset: true });
    try {
      for (let i = 0; i < this.trial.steps; i++) this.step(this.shapeOf(bucket), batchSize);
      return true;
    } catch (error) {
      if (!(error instanceof TorchError) || error.code !== "TORCH_NO_MEMORY") throw error;
      this.optimizer.zeroGrad();
      return false;
    } finally {
      this.peak = peakBytes();
    }
  }

  private step({ frames, tokens }: BucketShape, batchSize: number): void {
    const { config, options } = this.trial;
    const { random, model, optimizer } = this;
    const inputs = new Float32Array(batchSize * frames * config.featureDim);
    for (let i = 0; i < inputs.length; i++) inputs[i] = random.uniform() * 8 - 12; // about where log mel energies are
    // No token follows itself, so that CTC needs no frame between two of them.
    const y = Array.from({ length: batchSize }, () => {
      let last = 0;
      return Array.from({ length: tokens }, () => (last = 1 + ((last + random.integer(0, Math.max(1, config.vocabSize - 2))) % (config.vocabSize - 1))));
    });
    const batch = { inputs, frames, bins: config.featureDim, inputLens: new Array<number>(batchSize).fill(frames) };
    scope(() => {
      const { loss } = autocast({ device: options.device, enabled: options.useBf16 }, () => batchLoss(model, batch, y, options, ++this.steps));
      loss.backward();
    });
    scope(() => {
      optimizer.step();
      optimizer.zeroGrad();
    });
  }

  /** Frees everything. */
  dispose(): void {
    for (const tensor of this.held) tensor.dispose();
    this.optimizer.dispose();
    this.model.dispose();
  }
}
