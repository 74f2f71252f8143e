/** Consistency regularisation of CTC. */
import { arange, type Tensor, tensor } from "../torch/index.ts";
import { ShapeError } from "../util/errors.ts";
import { expectShape } from "./lattice.ts";

/** Options of {@link crCtcLoss}. */
export interface CrCtcLossOptions {
  /** (2 N, T, V) of log_softmax: two differently masked copies of every utterance, n and n + N. */
  logProbs: Tensor;
  /** Frames of the 2 N rows. */
  lengths: readonly number[];
}

/**
 * How much the frame distributions of the two copies of every utterance differ: the Kullback-Leibler divergence of each from the other,
 * which is held fixed as its teacher. Summed over both directions, the frames inside `lengths` and the classes.
 * icefall halves this, as all losses over the doubled batch.
 * Source: CR-CTC (arXiv 2410.05101); icefall zipformer/model.py.
 * @returns ()
 * @throws ShapeError SHAPE_MISMATCH
 */
export function crCtcLoss({ logProbs, lengths }: CrCtcLossOptions): Tensor {
  expectShape("logProbs", logProbs, [
    ["2 N", lengths.length],
    ["T", null],
    ["V", null],
  ]);
  const rows = lengths.length;
  if (rows % 2 !== 0) throw new ShapeError("SHAPE_MISMATCH", { message: `logProbs has ${rows} rows; two copies of a batch have an even number` });
  const { device } = logProbs;
  const teacher = logProbs.detach().roll([rows / 2], [0]);
  const divergence = teacher.exp().mul(teacher.sub(logProbs)).sum([2]); // (2 N, T)
  const ends = tensor(lengths, { dtype: "int64", device }).view([-1, 1]);
  const padded = arange(0, logProbs.size(1), { device }).view([1, -1]).ge(ends);
  return divergence.maskedFill(padded, 0).sum();
}
