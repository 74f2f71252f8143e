/** The transducer loss of a full joiner, at the cells that pruning kept. */
import { arange, full, ops, type Tensor } from "../torch/index.ts";
import { ConfigError, ShapeError } from "../util/errors.ts";
import { checkRnntType, expectShape, type LatticeOptions, type Reduction, reduce, transducerLattice } from "./lattice.ts";
import { symbolsAtRanges } from "./pruning.ts";

/** Options of {@link prunedTransducerLoss}. */
export interface PrunedLossOptions extends LatticeOptions {
  /** (N, T, R, V) the joiner's output, unnormalised; float32 or float64. */
  logits: Tensor;
  /** (N, S) int64 symbols, padded with any valid one. */
  symbols: Tensor;
  /** (N, T, R) int64 of getRnntPruneRanges. */
  ranges: Tensor;
  /** The blank; 0 unless given. */
  terminationSymbol?: number;
  /** "sum" unless given. */
  reduction?: Reduction;
  /** Hybrid autoregressive transducer: blank is a Bernoulli of its own, symbols share the rest (arXiv 2003.07705). Needs blank 0. False unless given. */
  useHatLoss?: boolean;
}

/**
 * Transducer loss over the kept cells; the others have probability 0.
 * Source: k2's rnnt_loss_pruned; Pruned RNN-T (arXiv 2206.13236).
 * @returns () or, unreduced, (N)
 * @throws ShapeError SHAPE_MISMATCH; ConfigError CONFIG_BAD_VALUE when useHatLoss meets a blank other than 0
 */
export function prunedTransducerLoss(options: PrunedLossOptions): Tensor {
  const { logits, symbols, ranges, boundary, rnntType = "regular", delayPenalty = 0, terminationSymbol: blank = 0, reduction = "sum", useHatLoss = false } = options;
  checkRnntType(rnntType);
  expectShape("logits", logits, [
    ["N", null],
    ["T", null],
    ["R", null],
    ["V", null],
  ]);
  const [batch, frames, range] = logits.shape as [number, number, number, number];
  expectShape("ranges", ranges, [
    ["N", batch],
    ["T", frames],
    ["R", range],
  ]);
  expectShape("symbols", symbols, [
    ["N", batch],
    ["S", null],
  ]);
  expectShape("boundary", boundary, [
    ["N", batch],
    ["4", 4],
  ]);
  if (logits.dtype !== "float32" && logits.dtype !== "float64") {
    throw new ShapeError("SHAPE_MISMATCH", { message: `logits are ${logits.dtype}`, fix: "give them as float32, outside of autocast" });
  }
  if (useHatLoss && blank !== 0) throw new ConfigError("CONFIG_BAD_VALUE", { message: `the HAT loss needs blank 0, not ${blank}` });

  const following = symbolsAtRanges(symbols, ranges, blank);
  const [symbolProbs, blankProbs] = useHatLoss ? hatLogProbs(logits, following) : ops.pickLogProbs(logits, following, blank);
  return prunedLatticeLoss({ symbolProbs, blankProbs, symbols, ranges, boundary, rnntType, delayPenalty, reduction });
}

/** Options of {@link prunedLatticeLoss}. */
export interface PrunedLatticeOptions extends LatticeOptions, Pick<PrunedLossOptions, "symbols" | "ranges" | "reduction"> {
  /** (N, T, R) log-probability of the symbol that follows each kept cell. */
  symbolProbs: Tensor;
  /** (N, T, R) log-probability of blank there. */
  blankProbs: Tensor;
}

/**
 * {@link prunedTransducerLoss} of log-probabilities that are there already, as `Joiner.logProbsAt` finds them.
 * @returns () or, unreduced, (N)
 */
export function prunedLatticeLoss({ symbolProbs, blankProbs, symbols, ranges, reduction = "sum", ...lattice }: PrunedLatticeOptions): Tensor {
  const [batch, frames] = ranges.shape as [number, number, number];
  const rows = symbols.size(1) + 1;
  const nowhere = full([batch, frames, rows], Number.NEGATIVE_INFINITY, { dtype: symbolProbs.dtype, device: symbolProbs.device });
  const px = nowhere
    .scatter(2, ranges, symbolProbs)
    .transpose(1, 2)
    .slice(1, 0, rows - 1); // (N, S, T)
  const py = nowhere.scatter(2, ranges, blankProbs).transpose(1, 2); // (N, S + 1, T)
  return reduce(transducerLattice(px, py, lattice).scores.neg(), reduction);
}

/** Options of {@link rnntLoss}. */
export type RnntLossOptions = Omit<PrunedLossOptions, "ranges">;

/**
 * Transducer loss over all cells.
 * @param options `logits` is (N, T, S+1, V)
 * @throws as {@link prunedTransducerLoss}
 */
export function rnntLoss(options: RnntLossOptions): Tensor {
  const { logits, symbols } = options;
  expectShape("logits", logits, [
    ["N", null],
    ["T", null],
    ["S + 1", symbols.size(1) + 1],
    ["V", null],
  ]);
  const [batch, frames, rows] = logits.shape as [number, number, number, number];
  const ranges = arange(0, rows, { device: logits.device }).expand([batch, frames, rows]);
  return prunedTransducerLoss({ ...options, ranges });
}

function hatLogProbs(logits: Tensor, following: Tensor): [symbols: Tensor, blanks: Tensor] {
  const blank = logits.select(3, 0);
  const symbols = logits.gather(3, following.unsqueeze(3)).squeeze(3);
  const rest = logits.slice(3, 1).logsumexp([3]);
  return [symbols.sub(rest).add(blank.neg().logSigmoid()), blank.logSigmoid()];
}
