/** All losses of a model for one batch. */
import type { AsrModel } from "../models/index.ts";
import { autocast, fromTypedArray, noGrad, scope, type Tensor } from "../torch/index.ts";
import { ConfigError, ShapeError } from "../util/errors.ts";
import { labelSmoothingLoss } from "./attention.ts";
import { crCtcLoss } from "./crCtc.ts";
import { ctcLoss } from "./ctc.ts";
import { prunedLatticeLoss } from "./prunedTransducer.ts";
import { getRnntPruneRanges, symbolsAtRanges } from "./pruning.ts";
import { rnntLossSmoothed, transducerBoundary } from "./smoothedTransducer.ts";

/** A batch, and how its losses are computed; the defaults are icefall's. */
export interface AsrLossOptions {
  /** (N, T, F) features, padded */
  x: Tensor;
  /** Feature frames of each utterance. */
  xLens: readonly number[];
  /** Token ids of each utterance, without blank, sos and eos. */
  y: readonly (readonly number[])[];
  /** Symbols that the pruned loss looks at in each frame. */
  pruneRange?: number;
  /** Weight of the encoder alone in the simple loss. */
  amScale?: number;
  /** Weight of the tokens alone in the simple loss. */
  lmScale?: number;
  /**
   * Consistency of two differently masked copies: x holds 2 N rows, the copies of utterance i at i and N + i, and y is that of the N utterances.
   * Every loss is then halved, since it is counted twice.
   */
  crCtc?: boolean;
  labelSmoothing?: number;
  /** Told when the prune range had to be widened. */
  onWarning?: (message: string) => void;
}

/** Sums over the utterances of a batch; null for losses that the model has no part for. */
export interface AsrLosses {
  simple: Tensor | null;
  pruned: Tensor | null;
  ctc: Tensor | null;
  /** The consistency loss, when asked for. */
  cr: Tensor | null;
  attention: Tensor | null;
  /** Encoder frames of each row. */
  encoderOutLens: number[];
}

/**
 * Runs a model on a batch and computes its losses.
 * Source: icefall zipformer/model.py (AsrModel.forward).
 * @throws ShapeError when x, xLens and y do not fit; ConfigError when `crCtc` is asked of a model without CTC
 */
export function asrLoss(model: AsrModel, { x, xLens, y, pruneRange = 5, amScale = 0, lmScale = 0.25, crCtc = false, labelSmoothing = 0.1, onWarning }: AsrLossOptions): AsrLosses {
  if (crCtc && !model.hasCtc) throw new ConfigError("CONFIG_BAD_VALUE", { at: "crCtc", message: "the model has no CTC output", fix: "build it with useCtc" });
  const targets = crCtc ? [...y, ...y] : y;
  if (targets.length !== x.size(0)) throw new ShapeError("SHAPE_MISMATCH", { at: "asrLoss", message: `${targets.length} transcripts for ${x.size(0)} rows of features` });
  return scope(() => {
    const { encoderOut, encoderOutLens } = model.forwardEncoder(x, xLens);
    const batch: Batch = { encoderOut, lengths: encoderOutLens, targets };
    const losses = {
      ...(model.transducer ? transducerLosses(model, batch, { pruneRange, amScale, lmScale, onWarning }) : { simple: null, pruned: null }),
      ...(model.hasCtc ? ctcLosses(model, batch, crCtc) : { ctc: null, cr: null }),
      attention: attentionLoss(model, batch, labelSmoothing),
    };
    if (crCtc) for (const key of Object.keys(losses) as (keyof typeof losses)[]) losses[key] = losses[key]?.mul(0.5) ?? null;
    return { ...losses, encoderOutLens };
  });
}

interface Batch {
  encoderOut: Tensor;
  lengths: readonly number[];
  targets: readonly (readonly number[])[];
}

/** Rows of ids, padded to the longest: (N, S) int64. */
function padded(rows: readonly (readonly number[])[], value: number, device: string): Tensor {
  const width = Math.max(0, ...rows.map((row) => row.length));
  const data = new BigInt64Array(rows.length * width).fill(BigInt(value));
  for (const [i, row] of rows.entries()) for (const [j, id] of row.entries()) data[i * width + j] = BigInt(id);
  return fromTypedArray(data, [rows.length, width], { device });
}

/** Runs `body` in float32, whatever autocast is on around it. */
const inFloat = <T>(x: Tensor, body: () => T): T => autocast({ device: x.device.startsWith("cuda") ? "cuda" : "cpu", enabled: false }, body);

const float = (x: Tensor): Tensor => (x.dtype === "float64" ? x : x.to({ dtype: "float32" }));

function transducerLosses(
  { transducer, blankId }: AsrModel,
  { encoderOut, lengths, targets }: Batch,
  { pruneRange, amScale, lmScale, onWarning }: Required<Pick<AsrLossOptions, "pruneRange" | "amScale" | "lmScale">> & Pick<AsrLossOptions, "onWarning">,
): { simple: Tensor; pruned: Tensor } {
  const { decoder, joiner, simpleAmProj, simpleLmProj } = transducer as NonNullable<typeof transducer>;
  const { device } = encoderOut;
  const symbols = padded(targets, blankId, device);
  const decoderOut = decoder.forward(
    padded(
      targets.map((row) => [blankId, ...row]),
      blankId,
      device,
    ),
  ); // prettier-ignore
  const boundary = transducerBoundary(
    targets.map((row) => row.length),
    lengths,
    { device },
  ); // prettier-ignore
  const lm = float(simpleLmProj.forward(decoderOut));
  const am = float(simpleAmProj.forward(encoderOut));
  const simple = inFloat(am, () => rnntLossSmoothed({ lm, am, symbols, boundary, terminationSymbol: blankId, lmOnlyScale: lmScale, amOnlyScale: amScale, returnGrad: true }));
  const ranges = noGrad(() => getRnntPruneRanges({ pxGrad: simple.pxGrad, pyGrad: simple.pyGrad, boundary, sRange: pruneRange, onWarning }));
  const [symbolProbs, blankProbs] = joiner.logProbsAt(joiner.encoderProj.forward(encoderOut), joiner.decoderProj.forward(decoderOut), {
    ranges,
    symbols: symbolsAtRanges(symbols, ranges, blankId),
    blank: blankId,
  });
  const pruned = inFloat(symbolProbs, () => prunedLatticeLoss({ symbolProbs, blankProbs, symbols, ranges, boundary }));
  return { simple: simple.loss, pruned };
}

function ctcLosses(model: AsrModel, { encoderOut, lengths, targets }: Batch, crCtc: boolean): { ctc: Tensor; cr: Tensor | null } {
  const logProbs = model.ctcLogProbs(encoderOut); // (N, T, V)
  const ctc = ctcLoss({ logProbs: logProbs.transpose(0, 1), lengths, targets, blank: model.blankId });
  return { ctc, cr: crCtc ? crCtcLoss({ logProbs, lengths }) : null };
}

function attentionLoss({ attentionDecoder, sosId, eosId }: AsrModel, { encoderOut, lengths, targets }: Batch, labelSmoothing: number): Tensor | null {
  if (!attentionDecoder) return null;
  const { device } = encoderOut;
  const logits = float(
    attentionDecoder.forward(
      padded(
        targets.map((row) => [sosId, ...row]),
        eosId,
        device,
      ),
      encoderOut,
      lengths,
    ),
  ); // prettier-ignore
  return labelSmoothingLoss({
    logits,
    targets: padded(
      targets.map((row) => [...row, eosId]),
      -1,
      device,
    ),
    labelSmoothing,
  }); // prettier-ignore
}
