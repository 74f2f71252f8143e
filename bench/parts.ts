/**
 * Parts of a training step alone, forward and backward, beside the same composed of libtorch's operators, in turns: the front end, the transducer
 * loss (simple, ranges, pruned; 8 utterances, 250 frames, 60 symbols, 500 tokens), and ScaledAdam's update of all parameters.
 */
import { getRnntPruneRanges, prunedLatticeLoss, rnntLossSmoothed, symbolsAtRanges, transducerBoundary } from "../src/losses/index.ts";
import { Joiner } from "../src/models/index.ts";
import { ScaledAdam } from "../src/optim/index.ts";
import { Generator, noGrad, peakBytes, randint, randn, scope, setThreads, type Tensor } from "../src/torch/index.ts";
import { Random } from "../src/util/random.ts";
import { setting } from "./common/measure.ts";
import { ratio, spread, takeTurns } from "./common/turns.ts";
import { makeBatch, makeModel } from "./step/model.ts";

const rounds = 5;

function show(name: string, body: (round: number) => void): void {
  const peaks: number[] = [];
  const turns = takeTurns(rounds, (round) => {
    peakBytes({ reset: true });
    const base = peakBytes();
    const start = performance.now();
    body(round);
    const seconds = (performance.now() - start) / 1000;
    peaks.push(peakBytes() - base);
    return seconds;
  });
  const [composed, own] = peaks.slice(-2) as [number, number];
  console.log(
    `  ${name}: ${ratio(turns).toFixed(2)} times composed, peak ${(own / Math.max(1, composed)).toFixed(2)} of it; own ${spread(turns.own)}, composed ${spread(turns.composed)}`,
  );
}

function frontEnd(): void {
  const model = makeModel("S");
  const { x, xLens } = makeBatch();
  show("front end", (round) => {
    model.train({ random: new Random(round), generator: new Generator(round) });
    model.setBatchCount(5000);
    scope(() => model.encoderEmbed.forward(x, xLens).x.sum().backward());
  });
  model.dispose();
}

function transducerLoss(): void {
  const generator = new Generator(3);
  const [batch, frames, count, vocabulary, dim] = [8, 250, 60, 500, 512];
  const joiner = new Joiner({ encoderDim: 256, decoderDim: dim, joinerDim: dim, vocabSize: vocabulary, generator });
  const leaf = (shape: readonly number[]): Tensor => randn(shape, { generator }).requiresGrad_(true);
  const [am, lm, encoder, decoder] = [leaf([batch, frames, vocabulary]), leaf([batch, count + 1, vocabulary]), leaf([batch, frames, dim]), leaf([batch, count + 1, dim])];
  const symbols = randint(1, vocabulary, [batch, count], { generator });
  const boundary = transducerBoundary(new Array<number>(batch).fill(count), new Array<number>(batch).fill(frames));
  show("transducer loss", () => {
    scope(() => {
      const simple = rnntLossSmoothed({ lm, am, symbols, boundary, lmOnlyScale: 0.25, returnGrad: true });
      const ranges = noGrad(() => getRnntPruneRanges({ pxGrad: simple.pxGrad, pyGrad: simple.pyGrad, boundary, sRange: 5 }));
      const [symbolProbs, blankProbs] = joiner.logProbsAt(encoder, decoder, { ranges, symbols: symbolsAtRanges(symbols, ranges, 0), blank: 0 });
      const pruned = prunedLatticeLoss({ symbolProbs, blankProbs, symbols, ranges, boundary });
      simple.loss.mul(0.5).add(pruned).backward();
    });
    for (const t of [am, lm, encoder, decoder, ...joiner.parameters()]) t.grad = null;
  });
}

function optimizer(): void {
  const model = makeModel("S");
  const adam = new ScaledAdam([...model.namedParameters()], { lr: 0.001, clippingScale: 2 });
  const generator = new Generator(5);
  for (const parameter of model.parameters()) parameter.grad = randn(parameter.shape, { generator });
  show("optimiser step", () => void adam.step());
  adam.dispose();
  model.dispose();
}

console.log(setting());
for (const threads of [1, 2]) {
  setThreads(threads);
  console.log(`${threads} thread${threads > 1 ? "s" : ""}`);
  frontEnd();
  transducerLoss();
  optimizer();
}
