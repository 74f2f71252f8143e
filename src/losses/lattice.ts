/** The transducer lattice: from log-probabilities of single steps to that of all paths. */
import { arange, constantPadNd, ops, type Tensor } from "../torch/index.ts";
import { ConfigError, ShapeError } from "../util/errors.ts";

/**
 * Which steps a path may take.
 * - regular: a symbol keeps the frame, blank moves to the next one.
 * - modified: a symbol moves to the next frame too, so at most one symbol a frame.
 * - constrained: modified, and a symbol's step also pays for the blank that follows it.
 */
export type RnntType = "regular" | "modified" | "constrained";

/** How the losses of the utterances are put together. */
export type Reduction = "none" | "sum" | "mean";

/** What all transducer losses take. */
export interface LatticeOptions {
  /** (N, 4) int64: first symbol, first frame, number of symbols, number of frames of every utterance. Beyond it nothing is read. */
  boundary: Tensor;
  /** "regular" unless given. */
  rnntType?: RnntType;
  /** Makes symbols at later frames dearer: log-probability lost per frame of delay. 0 unless given. Source: k2's delay penalty (arXiv 2211.00490). */
  delayPenalty?: number;
}

/** Scores of the utterances and how likely a path takes each step. */
export interface LatticeScores {
  /** (N) log-probability of all paths; differentiable. */
  scores: Tensor;
  /** As px: occupation of the symbol steps. Not differentiable. Only meaningful when asked for. */
  pxGrad: Tensor;
  /** As py: occupation of the blank steps. Not differentiable. Only meaningful when asked for. */
  pyGrad: Tensor;
}

/**
 * Sums over all paths: p[s, t] = logaddexp(p[s-1, t-d] + px[s-1, t-d], p[s, t-1] + py[s, t-1]), d = 0 when regular, else 1.
 * Source: k2's mutual_information_recursion; the paths' occupation counts are computed with the score and are its gradient.
 * @param px (N, S, T) log-probability of symbol s at frame t, of padded symbols anything
 * @param py (N, S+1, T) log-probability of blank after s symbols at frame t
 * @throws TorchError when shapes disagree or a boundary lies outside of the lattice
 */
export function transducerLattice(
  px: Tensor,
  py: Tensor,
  { boundary, rnntType = "regular", delayPenalty = 0, returnGrad = false }: LatticeOptions & { returnGrad?: boolean },
): LatticeScores {
  const frames = py.size(2);
  let steps = px;
  if (rnntType === "constrained") steps = steps.add(py.slice(1, 1));
  if (delayPenalty !== 0) steps = steps.add(delayOffsets(boundary, frames, px).mul(delayPenalty));
  if (rnntType === "regular") {
    // Column T_b is read but no symbol may be emitted there: the frames are over.
    const end = boundary.select(1, 3).view([-1, 1, 1]);
    const after = arange(0, frames + 1, { device: px.device })
      .view([1, 1, -1])
      .eq(end); // (N, 1, T + 1)
    steps = constantPadNd(steps, [0, 1]).maskedFill(after, Number.NEGATIVE_INFINITY); // (N, S, T + 1)
  }
  const [scores, pxGrad, pyGrad] = ops.mutualInformation(steps.contiguous(), py.contiguous(), boundary, returnGrad, rnntType !== "regular");
  return { scores, pxGrad, pyGrad };
}

/** (N, 1, T): how many frames before the middle of its utterance a frame lies. */
function delayOffsets(boundary: Tensor, frames: number, like: Tensor): Tensor {
  const middle = boundary.select(1, 3).to({ dtype: like.dtype }).sub(1).mul(0.5).view([-1, 1, 1]);
  return middle.sub(arange(0, frames, { dtype: like.dtype, device: like.device }));
}

/** Puts the losses of the utterances (N) together. */
export function reduce(losses: Tensor, reduction: Reduction): Tensor {
  if (reduction === "none") return losses;
  return reduction === "sum" ? losses.sum() : losses.mean();
}

/** @throws ConfigError CONFIG_BAD_VALUE when rnntType is not one of the three */
export function checkRnntType(rnntType: RnntType): void {
  if (!["regular", "modified", "constrained"].includes(rnntType)) {
    throw new ConfigError("CONFIG_BAD_VALUE", { message: `rnntType is "${rnntType}", which is none of regular, modified, constrained` });
  }
}

/** @throws ShapeError SHAPE_MISMATCH unless `t` has the shape that the dimensions' names and sizes say; null takes any size */
export function expectShape(name: string, t: Tensor, wanted: readonly (readonly [label: string, size: number | null])[]): void {
  const fits = t.dim === wanted.length && wanted.every(([, size], i) => size === null || t.shape[i] === size);
  if (fits) return;
  const words = wanted.map(([label, size]) => (size === null ? label : `${label} = ${size}`)).join(", ");
  throw new ShapeError("SHAPE_MISMATCH", { message: `${name} must be (${words}), it is (${t.shape.join(", ")})` });
}
