/** Which cells of the transducer lattice are worth the full joiner. */
import { arange, cat, constantPadNd, embedding, isComposed, noGrad, scope, type Tensor, where, zeros } from "../torch/index.ts";
import { ConfigError } from "../util/errors.ts";
import { checkRnntType, expectShape, type RnntType } from "./lattice.ts";

/** Options of {@link getRnntPruneRanges}. */
export interface PruneRangeOptions {
  /** (N, S, T+1), or (N, S, T) unless rnntType is regular: of the smoothed loss. */
  pxGrad: Tensor;
  /** (N, S+1, T) */
  pyGrad: Tensor;
  /** (N, 4) int64, as given to the loss. */
  boundary: Tensor;
  /** How many numbers of symbols to keep at each frame; at least 2. 5 unless given. */
  sRange?: number;
  rnntType?: RnntType;
  /** Told when an utterance has so many symbols for its frames that `sRange` was raised. Once per call, so the caller decides how often to repeat it. */
  onWarning?: (message: string) => void;
}

/**
 * For every frame the run of `sRange` numbers of symbols that holds most of the paths, such that a path through all frames exists.
 * Where a batch has fewer than `sRange` symbols, or empty transcripts only, the range is all there is: S + 1.
 * Source: k2's get_rnnt_prune_ranges; Pruned RNN-T (arXiv 2206.13236), section 4.
 * @returns (N, T, sRange) int64: starts at 0, never falls, rises by less than sRange a frame, ends with the last symbol
 * @throws ShapeError SHAPE_MISMATCH; ConfigError CONFIG_BAD_VALUE when sRange is not an integer of at least 2
 */
export function getRnntPruneRanges({ pxGrad, pyGrad, boundary, sRange = 5, rnntType = "regular", onWarning }: PruneRangeOptions): Tensor {
  checkRnntType(rnntType);
  if (!Number.isInteger(sRange) || sRange < 2) throw new ConfigError("CONFIG_BAD_VALUE", { message: `sRange is ${sRange}; it must be an integer of at least 2` });
  expectShape("pyGrad", pyGrad, [
    ["N", null],
    ["S + 1", null],
    ["T", null],
  ]);
  const [batch, rows, frames] = pyGrad.shape as [number, number, number];
  expectShape("pxGrad", pxGrad, [["N", batch], ["S", rows - 1], rnntType === "regular" ? ["T + 1", frames + 1] : ["T", frames]]);
  expectShape("boundary", boundary, [
    ["N", batch],
    ["4", 4],
  ]);
  const range = usableRange(boundary, rows - 1, sRange, onWarning);
  return noGrad(() => scope(() => rangesOf(pxGrad.detach(), pyGrad.detach(), boundary, range, rnntType === "regular" ? range - 1 : 1)));
}

/** `sRange`, raised until the utterance with most symbols per frame has a path, and at most all rows. */
function usableRange(boundary: Tensor, symbols: number, sRange: number, onWarning?: (message: string) => void): number {
  const rows = boundary.toArray();
  let least = 0;
  for (let i = 0; i < rows.length; i += 4) {
    const [count, frames] = [rows[i + 2] as number, rows[i + 3] as number];
    if (frames > 0) least = Math.max(least, Math.trunc((count - 1) / frames) + 2);
  }
  const wanted = Math.max(sRange, least);
  const range = Math.min(wanted, symbols + 1);
  if (least > sRange) onWarning?.(`an utterance has so many symbols for its frames that the prune range was raised from ${sRange} to ${range}`);
  return range;
}

function rangesOf(pxGrad: Tensor, pyGrad: Tensor, boundary: Tensor, range: number, maxStep: number): Tensor {
  const [batch, rows, frames] = pyGrad.shape as [number, number, number];
  const { device } = pyGrad;
  const starts = rows - range + 1;
  // A run's worth: the blanks taken inside it, less the symbols that enter it from below.
  const inside = pyGrad.unfold(1, range, 1).sum([3]); // (N, starts, T)
  const below = cat([zeros([batch, 1, frames], { dtype: pxGrad.dtype, device }), pxGrad.slice(2, 0, frames)], 1).slice(1, 0, starts);
  const best = inside.sub(below).argmax(1); // (N, T)

  const t = arange(0, frames, { device });
  const beforeLast = t.view([1, -1]).lt(boundary.select(1, 3).sub(1).view([-1, 1])); // (N, T)
  const last = boundary
    .select(1, 2)
    .sub(range - 1)
    .clampMin(0)
    .view([-1, 1]); // a run that ends with the last symbol
  const begin = where(beforeLast, best, last);
  return withinSteps(begin, t, maxStep)
    .unsqueeze(2)
    .add(arange(0, range, { device })); // (N, T, range)
}

/** The nearest starts (N, T) that begin at 0, never fall, and rise by at most `maxStep` a frame. */
function withinSteps(begin: Tensor, t: Tensor, maxStep: number): Tensor {
  const rising = suffixMinimum(begin);
  const line = t.mul(maxStep);
  const slack = suffixMinimum(line.sub(rising)).clampMin(0);
  return line.sub(slack);
}

/** At every frame the smallest value from there on. */
const suffixMinimum = (x: Tensor): Tensor => x.flip([1]).cummin(1)[0].flip([1]);

/**
 * The inputs of the joiner at the kept cells.
 * @param am (N, T, C) projected encoder output
 * @param lm (N, S+1, C) projected decoder output
 * @param ranges (N, T, R) of {@link getRnntPruneRanges}
 * @returns am (N, T, R, C), a view that repeats itself, and lm (N, T, R, C)
 * @throws ShapeError SHAPE_MISMATCH
 */
export function doRnntPruning(am: Tensor, lm: Tensor, ranges: Tensor): { am: Tensor; lm: Tensor } {
  expectShape("ranges", ranges, [
    ["N", null],
    ["T", null],
    ["R", null],
  ]);
  const [batch, frames, range] = ranges.shape as [number, number, number];
  expectShape("am", am, [
    ["N", batch],
    ["T", frames],
    ["C", null],
  ]);
  expectShape("lm", lm, [
    ["N", batch],
    ["S + 1", null],
    ["C", null],
  ]);
  const rows = lm.size(1);
  if (isComposed())
    return {
      am: am.unsqueeze(2).expand([batch, frames, range, am.size(2)]),
      lm: lm.gather(1, ranges.reshape([batch, frames * range, 1]).expand([batch, frames * range, lm.size(2)])).reshape([batch, frames, range, lm.size(2)]),
    };
  const offsets = arange(0, batch, { device: ranges.device }).mul(rows).view([-1, 1, 1]);
  return {
    am: am.unsqueeze(2).expand([batch, frames, range, am.size(2)]),
    // A lookup rather than a gather: its backward pass adds rows instead of filling (N, T, S + 1, C).
    lm: embedding(lm.reshape([batch * rows, lm.size(2)]), ranges.add(offsets)),
  };
}

/** (N, T, R): the symbol that follows each kept number of symbols; blank after the last. @param symbols (N, S) */
export function symbolsAtRanges(symbols: Tensor, ranges: Tensor, blank: number): Tensor {
  const [batch, frames, range] = ranges.shape as [number, number, number];
  const padded = constantPadNd(symbols, [0, 1], blank); // (N, S + 1)
  return padded.gather(1, ranges.reshape([batch, frames * range])).view([batch, frames, range]);
}
