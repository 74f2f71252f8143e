/** The models, batches and steps that the benchmarks of speed share. */
import { asrLoss } from "../../src/losses/index.ts";
import { AsrModel, type AsrModelOptions } from "../../src/models/index.ts";
import { ScaledAdam } from "../../src/optim/index.ts";
import { autocast, Generator, randn, scope, type Tensor } from "../../src/torch/index.ts";
import { Random } from "../../src/util/random.ts";

/** Zipformer S and M as icefall's recipes name them, with a transducer and CTC over 500 tokens. */
export const sizes: Record<"S" | "M", AsrModelOptions> = {
  S: {
    vocabSize: 500,
    useCtc: true,
    numEncoderLayers: [2, 2, 2, 2, 2, 2],
    encoderDim: [192, 256, 256, 256, 256, 256],
    encoderUnmaskedDim: [192, 192, 192, 192, 192, 192],
    feedforwardDim: [512, 768, 768, 768, 768, 768],
  },
  M: { vocabSize: 500, useCtc: true },
};

/** 8 utterances of about 10 s. */
export interface StepBatch {
  /** (8, 1000, 80) */
  x: Tensor;
  xLens: number[];
  y: number[][];
  /** Seconds of audio. */
  seconds: number;
}

export function makeBatch(): StepBatch {
  const random = new Random(3);
  const xLens = Array.from({ length: 8 }, (_, i) => 1000 - 2 * i); // no two utterances are equally long, as in practice
  const y = xLens.map((_, i) => Array.from({ length: 60 - 3 * i }, () => 1 + Math.floor(random.uniform() * 499)));
  return { x: randn([8, 1000, 80], { generator: new Generator(1) }), xLens, y, seconds: xLens.reduce((sum, frames) => sum + frames / 100, 0) };
}

/** A model with random parameters, and nothing else left in memory. */
export function makeModel(size: "S" | "M"): AsrModel {
  let model: AsrModel | undefined;
  scope(() => {
    model = new AsrModel({ ...sizes[size], generator: new Generator(7) });
  });
  return model as AsrModel;
}

/** A model in training at batch count 5000, its optimiser, and what a step does. */
export class Trainee {
  readonly model: AsrModel;
  readonly optimizer: ScaledAdam;
  private readonly batch: StepBatch;

  constructor(size: "S" | "M", batch: StepBatch) {
    this.batch = batch;
    this.model = makeModel(size);
    this.optimizer = new ScaledAdam([...this.model.namedParameters()], { lr: 0.001, clippingScale: 2 });
    this.restart();
  }

  /** Draws from here on are those of a new run, so that modes that take turns make the same choices. */
  restart(seed = 5): void {
    this.model.train({ random: new Random(seed), generator: new Generator(seed) });
    this.model.setBatchCount(5000);
  }

  /** @returns seconds of the forward pass, the backward pass and the update, and the loss */
  step({ bf16 = false }: { bf16?: boolean } = {}): { forward: number; backward: number; update: number; loss: number } {
    const { model, optimizer, batch } = this;
    const times = [performance.now()];
    const loss = scope(() => {
      const total = autocast({ enabled: bf16 }, () => {
        const { simple, pruned, ctc } = asrLoss(model, { x: batch.x, xLens: batch.xLens, y: batch.y });
        return (simple as Tensor)
          .mul(0.5)
          .add(pruned as Tensor)
          .add((ctc as Tensor).mul(0.2));
      });
      times.push(performance.now());
      total.backward();
      times.push(performance.now());
      optimizer.step();
      optimizer.zeroGrad();
      times.push(performance.now());
      return total.item();
    });
    const [a, b, c, d] = times as [number, number, number, number];
    return { forward: (b - a) / 1000, backward: (c - b) / 1000, update: (d - c) / 1000, loss };
  }

  dispose(): void {
    this.optimizer.dispose();
    this.model.dispose();
  }
}
