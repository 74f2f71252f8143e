/** The transducer loss of a joiner that only adds its two inputs: cheap enough for all cells, and the guide to which cells matter. */
import { full, isComposed, type Tensor } from "../torch/index.ts";
import { ShapeError } from "../util/errors.ts";
import { checkRnntType, expectShape, type LatticeOptions, type Reduction, reduce, transducerLattice } from "./lattice.ts";

/** Options of {@link rnntLossSmoothed}. */
export interface SmoothedLossOptions extends LatticeOptions {
  /** (N, S+1, V) the decoder's unnormalised log-probabilities; float32 or float64. */
  lm: Tensor;
  /** (N, T, V) the encoder's, of the same dtype. */
  am: Tensor;
  /** (N, S) int64 symbols, padded with any valid one. */
  symbols: Tensor;
  /** The blank; 0 unless given. */
  terminationSymbol?: number;
  /** Share of the probabilities by the decoder alone; icefall trains with 0.25. 0 unless given. */
  lmOnlyScale?: number;
  /** Share of the probabilities by the encoder alone; it makes the loss of an utterance depend on its batch. 0 unless given. */
  amOnlyScale?: number;
  /** "sum" unless given. */
  reduction?: Reduction;
  /** Whether `pxGrad` and `pyGrad` are needed. They come at no cost when gradients are recorded. False unless given. */
  returnGrad?: boolean;
}

/** A loss with the occupation of the lattice's steps, detached. */
export interface SmoothedLoss {
  /** () or, unreduced, (N). */
  loss: Tensor;
  /** (N, S, T+1), or (N, S, T) unless rnntType is regular. Only meaningful with `returnGrad`. */
  pxGrad: Tensor;
  /** (N, S+1, T). Only meaningful with `returnGrad`. */
  pyGrad: Tensor;
}

/** The smallest normal number of float32 and float64: keeps logarithms of sums finite. */
const tiny = (dtype: string): number => (dtype === "float64" ? 2.2250738585072014e-308 : 1.1754943508222875e-38);

/**
 * Transducer loss with log-probabilities normalise(am + lm), a share of them replaced by those of the encoder or the decoder alone.
 * An empty transcript (S = 0) costs its blanks.
 * Source: k2's rnnt_loss_smoothed; Pruned RNN-T (arXiv 2206.13236), section 3.
 * @throws ShapeError SHAPE_MISMATCH
 */
export function rnntLossSmoothed(options: SmoothedLossOptions): SmoothedLoss {
  const { lm, am, symbols, boundary, rnntType = "regular", delayPenalty = 0, reduction = "sum", returnGrad = false } = options;
  checkRnntType(rnntType);
  expectShape("am", am, [
    ["N", null],
    ["T", null],
    ["V", null],
  ]);
  const [batch, frames, vocabulary] = am.shape as [number, number, number];
  expectShape("symbols", symbols, [
    ["N", batch],
    ["S", null],
  ]);
  const count = symbols.size(1);
  expectShape("lm", lm, [
    ["N", batch],
    ["S + 1", count + 1],
    ["V", vocabulary],
  ]);
  expectShape("boundary", boundary, [
    ["N", batch],
    ["4", 4],
  ]);
  if (am.dtype !== lm.dtype || (am.dtype !== "float32" && am.dtype !== "float64")) {
    throw new ShapeError("SHAPE_MISMATCH", { message: `am is ${am.dtype} and lm ${lm.dtype}`, fix: "give both as float32, outside of autocast" });
  }
  const { px, py } = stepLogProbs(options, [batch, count, frames]);
  const { scores, pxGrad, pyGrad } = transducerLattice(px, py, { boundary, rnntType, delayPenalty, returnGrad });
  return { loss: reduce(scores.neg(), reduction), pxGrad, pyGrad };
}

/** px (N, S, T) and py (N, S+1, T). */
function stepLogProbs(
  { lm, am, symbols, terminationSymbol: blank = 0, ...options }: SmoothedLossOptions,
  [batch, count, frames]: readonly [number, number, number],
): { px: Tensor; py: Tensor } {
  const scale = (value = 0): number => (isComposed() && value === 0 ? 1e-20 : value); // the reference computes what has no share, too
  const [lmOnlyScale, amOnlyScale] = [scale(options.lmOnlyScale), scale(options.amOnlyScale)];
  // The largest values only guard against overflow and cancel out: no gradient needs to pass through them.
  const amMax = am.detach().amax([2], true); // (N, T, 1)
  const lmMax = lm.detach().amax([2], true); // (N, S + 1, 1)
  const amProbs = am.sub(amMax).exp();
  const lmProbs = lm.sub(lmMax).exp();
  const smallest = tiny(am.dtype);

  const norm = lmProbs.matmul(amProbs.transpose(1, 2)).add(smallest).log().add(lmMax).add(amMax.transpose(1, 2)); // (N, S + 1, T)
  const lmSymbols = lm.slice(1, 0, count).gather(2, symbols.unsqueeze(2)); // (N, S, 1)
  const lmBlank = lm.slice(2, blank, blank + 1); // (N, S + 1, 1)
  const amSymbols = am.gather(2, symbols.unsqueeze(1).expand([batch, frames, count])).transpose(1, 2); // (N, S, T)
  const amBlank = am.slice(2, blank, blank + 1).transpose(1, 2); // (N, 1, T)

  let px = amSymbols.add(lmSymbols).sub(norm.slice(1, 0, count));
  let py = amBlank.add(lmBlank).sub(norm);
  const both = 1 - lmOnlyScale - amOnlyScale;
  if (both !== 1) {
    px = px.mul(both);
    py = py.mul(both);
  }
  if (lmOnlyScale !== 0) {
    const lmNorm = lmProbs.sum([2], true).log().add(lmMax); // (N, S + 1, 1)
    px = px.add(lmSymbols.sub(lmNorm.slice(1, 0, count)).mul(lmOnlyScale));
    py = py.add(lmBlank.sub(lmNorm).mul(lmOnlyScale));
  }
  if (amOnlyScale !== 0) {
    // The prior of a symbol is its mean over all cells of the batch, padding included, as the reference has it.
    const prior = lmProbs
      .div(lmProbs.sum([2], true))
      .mean([0, 1])
      .add(smallest); // (V)
    const amNorm = amProbs.matmul(prior).log().unsqueeze(1).add(amMax.transpose(1, 2)); // (N, 1, T)
    const logPrior = prior.log();
    const symbolPrior = logPrior.unsqueeze(0).expand([batch, -1]).gather(1, symbols).unsqueeze(2); // (N, S, 1)
    px = px.add(amSymbols.add(symbolPrior).sub(amNorm).mul(amOnlyScale));
    py = py.add(
      amBlank
        .add(logPrior.slice(0, blank, blank + 1))
        .sub(amNorm)
        .mul(amOnlyScale)
        .expand([batch, count + 1, frames]),
    );
  }
  return { px, py };
}

/** A boundary (N, 4) of utterances with these numbers of symbols and frames. */
export function transducerBoundary(symbolCounts: readonly number[], frameCounts: readonly number[], { device }: { device?: string } = {}): Tensor {
  if (symbolCounts.length !== frameCounts.length) {
    throw new ShapeError("SHAPE_MISMATCH", { message: `${symbolCounts.length} numbers of symbols beside ${frameCounts.length} numbers of frames` });
  }
  const boundary = full([symbolCounts.length, 4], 0, { dtype: "int64" });
  const view = boundary.viewTypedArray() as BigInt64Array;
  symbolCounts.forEach((count, i) => {
    view[4 * i + 2] = BigInt(count);
    view[4 * i + 3] = BigInt(frameCounts[i] as number);
  });
  return device === undefined ? boundary : boundary.to({ device });
}
