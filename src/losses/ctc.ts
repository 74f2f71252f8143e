/** Connectionist temporal classification. */
import { ctcLoss as atenCtcLoss, fromTypedArray, type Tensor } from "../torch/index.ts";
import { ShapeError } from "../util/errors.ts";
import { expectShape, type Reduction } from "./lattice.ts";

/** Options of {@link ctcLoss}. */
export interface CtcLossOptions {
  /** (T, N, V) of log_softmax. */
  logProbs: Tensor;
  /** Frames of every utterance. */
  lengths: readonly number[];
  /** Symbols of every utterance, without blanks; may be empty. */
  targets: readonly ArrayLike<number>[];
  /** 0 unless given. */
  blank?: number;
  /** "sum" unless given; "mean" is over the utterances, not divided by their lengths. */
  reduction?: Reduction;
  /**
   * Count an utterance that has more symbols than frames as 0, without a gradient. Otherwise its loss is infinite and its gradient not a number:
   * icefall's setting, which leaves such utterances out beforehand. False unless given.
   */
  zeroInfinity?: boolean;
}

/**
 * -log of the probability of all frame labellings that collapse to the targets.
 * Source: torch's ctc_loss as icefall calls it: summed over the utterances, blank 0, infinite losses kept.
 * @returns () or, unreduced, (N)
 * @throws ShapeError SHAPE_MISMATCH when numbers of utterances, lengths or symbols do not fit logProbs
 */
export function ctcLoss({ logProbs, lengths, targets, blank = 0, reduction = "sum", zeroInfinity = false }: CtcLossOptions): Tensor {
  expectShape("logProbs", logProbs, [
    ["T", null],
    ["N", lengths.length],
    ["V", null],
  ]);
  const [frames, batch, vocabulary] = logProbs.shape as [number, number, number];
  if (targets.length !== batch) throw new ShapeError("SHAPE_MISMATCH", { message: `there are ${batch} utterances but ${targets.length} lists of targets` });
  // libtorch's loops trust these numbers.
  lengths.forEach((length, n) => {
    if (!Number.isInteger(length) || length < 1 || length > frames) {
      throw new ShapeError("SHAPE_MISMATCH", { message: `utterance ${n} has ${length} frames; logProbs has ${frames}, and 1 is the least` });
    }
  });
  const flat = BigInt64Array.from(targets.flatMap((ids, n) => Array.from(ids, (id) => checkedSymbol(id, n, { vocabulary, blank }))));
  const ids = fromTypedArray(flat, [flat.length], { device: logProbs.device });
  const targetLengths = targets.map((t) => t.length);
  const losses = atenCtcLoss(logProbs, ids, [...lengths], targetLengths, blank, reduction === "sum" ? 2 : 0, zeroInfinity);
  return reduction === "mean" ? losses.mean() : losses;
}

function checkedSymbol(id: number, utterance: number, { vocabulary, blank }: { vocabulary: number; blank: number }): bigint {
  if (Number.isInteger(id) && id >= 0 && id < vocabulary && id !== blank) return BigInt(id);
  throw new ShapeError("SHAPE_MISMATCH", {
    message: `utterance ${utterance} has the symbol ${id}; symbols are integers from 0 to ${vocabulary - 1} other than the blank, ${blank}`,
  });
}
