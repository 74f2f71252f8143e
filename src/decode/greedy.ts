/** Greedy search: the likeliest token at every step. */
import type { AsrModel } from "../models/index.ts";
import { fromTypedArray, noGrad, scope, type Tensor } from "../torch/index.ts";
import { ConfigError, ShapeError } from "../util/errors.ts";

/** Tokens of one utterance and when they were seen. */
export interface GreedyResult {
  /** Token ids, without blanks. */
  tokens: number[];
  /** Encoder frame of every token. */
  frames: number[];
  /** The same in seconds from the start of the features. */
  times: number[];
}

/** Seconds between encoder frames: features come every 10 ms, of which the encoder keeps every fourth. */
export const secondsPerFrame = 0.04;

/** The part of a transducer that searches. */
export interface SearchableTransducer {
  decoder: {
    /** Tokens that an output depends on. */
    readonly contextSize: number;
    /** (N, contextSize) int64, negative for none, to (N, 1, D) */
    forward(ids: Tensor, options: { padLeft: boolean }): Tensor;
  };
  joiner: {
    /** (..., C) to (..., J) */
    readonly encoderProj: { forward(x: Tensor): Tensor };
    /** (..., D) to (..., J) */
    readonly decoderProj: { forward(x: Tensor): Tensor };
    /** Both (..., J), of shapes that broadcast, to logits (..., V) */
    forward(encoder: Tensor, decoder: Tensor, options: { project: boolean }): Tensor;
  };
}

/** Options of {@link transducerGreedySearch}. */
export interface TransducerSearchOptions {
  /** 0 unless given. */
  blankId?: number;
  /** Left out of the result like a blank; by default it is a token like others. */
  unkId?: number;
  /** After so many tokens at one frame the search goes on to the next; 1 unless given. */
  maxSymPerFrame?: number;
  /**
   * Frames that are looked at together. The first that is not blank ends the round, and those after it are looked at again with the new token known,
   * so the result is that of one frame at a time, with fewer and larger operations. 4 unless given.
   */
  lookahead?: number;
  /** What was found before these frames, of every utterance that came in parts; the result has what is new, its frames counted on. */
  before?: readonly SearchProgress[];
}

/** How far a search has come. */
export interface SearchProgress {
  /** All tokens so far. */
  tokens: readonly number[];
  /** Encoder frames so far. */
  frames: number;
}

/**
 * Greedy search, with at most one token a frame unless told otherwise. The result for an utterance does not depend on those beside it.
 * Source: icefall pruned_transducer_stateless2/beam_search.py, greedy_search_batch, and greedy_search for several tokens a frame, one utterance at a time there.
 * @param encoderOut (N, T, C)
 * @param lengths (N) frames of every utterance
 * @returns in the order of the utterances
 * @throws ShapeError SHAPE_MISMATCH; ConfigError CONFIG_BAD_VALUE
 */
export function transducerGreedySearch(
  { decoder, joiner }: SearchableTransducer,
  encoderOut: Tensor,
  lengths: readonly number[],
  { blankId = 0, unkId = blankId, maxSymPerFrame = 1, lookahead = 4, before }: TransducerSearchOptions = {},
): GreedyResult[] {
  checkLengths(encoderOut, lengths);
  if (before && before.length !== lengths.length) throw new ShapeError("SHAPE_MISMATCH", { message: `got ${lengths.length} utterances and what was before of ${before.length}` });
  if (!Number.isInteger(lookahead) || lookahead < 1) throw new ConfigError("CONFIG_BAD_VALUE", { message: `lookahead is ${lookahead}; it must be an integer of at least 1` });
  checkSymPerFrame(maxSymPerFrame);
  const { device } = encoderOut;
  const frames = encoderOut.size(1);
  const context = decoder.contextSize;

  /** (M, J) projected decoder outputs after these utterances' last tokens. */
  const decode = (rows: readonly Utterance[]): Tensor => {
    const ids = BigInt64Array.from(
      rows.flatMap((row) => row.history.slice(-context)),
      BigInt,
    );
    return joiner.decoderProj.forward(decoder.forward(fromTypedArray(ids, [rows.length, context], { device }), { padLeft: false })).squeeze(1);
  };

  return noGrad(() =>
    scope(() => {
      const encoded = joiner.encoderProj.forward(encoderOut).flatten(0, 1); // (N T, J)
      const utterances = lengths.map((length, row) => {
        const known = before?.[row];
        return new Utterance(row, length, [...new Array<number>(context - 1).fill(-1), blankId, ...(known?.tokens.slice(-context) ?? [])], known?.frames);
      });
      let active = utterances.filter((u) => u.length > 0);
      if (active.length === 0) return utterances.map((u) => u.result);
      const decoded = decode(utterances); // (N, J), changed in place as tokens come
      while (active.length > 0) {
        const best = scope(() => {
          const cells = BigInt64Array.from(
            active.flatMap((u) => u.window(lookahead, frames)),
            BigInt,
          );
          const window = encoded.indexSelect(0, fromTypedArray(cells, [cells.length], { device })).unflatten(0, [active.length, lookahead]); // (A, L, J)
          const rows = active.length === utterances.length ? decoded : decoded.indexSelect(0, indices(active, device));
          return joiner.forward(window, rows.unsqueeze(1), { project: false }).argmax(2); // (A, L)
        });
        const found = best.toArray();
        best.dispose();
        const emitted = active.filter((u, i) => u.advance(found.slice(i * lookahead, (i + 1) * lookahead), { blankId, unkId, maxSymPerFrame }));
        active = active.filter((u) => u.next < u.length);
        const changed = emitted.filter((u) => u.next < u.length);
        if (changed.length > 0) scope(() => void decoded.indexCopy_(0, indices(changed, device), decode(changed)));
      }
      return utterances.map((u) => u.result);
    }),
  );
}

/** How far the search of one utterance has come. */
class Utterance {
  readonly row: number;
  readonly length: number;
  /** The last tokens, with those before the first. */
  readonly history: number[];
  /** Frames before these. */
  readonly offset: number;
  readonly result: GreedyResult = { tokens: [], frames: [], times: [] };
  /** The frame to look at. */
  next = 0;
  /** Tokens found at it. */
  private atNext = 0;

  constructor(row: number, length: number, history: number[], offset = 0) {
    this.row = row;
    this.length = length;
    this.history = history;
    this.offset = offset;
  }

  /** Positions in (N T) of the next frames; the last one again after the end. */
  window(size: number, frames: number): number[] {
    return Array.from({ length: size }, (_, k) => this.row * frames + Math.min(this.next + k, this.length - 1));
  }

  /** Goes on to after the first token among the best of the next frames; a frame that may have more is looked at again. @returns whether there was one */
  advance(best: readonly number[], { blankId, unkId, maxSymPerFrame }: { blankId: number; unkId: number; maxSymPerFrame: number }): boolean {
    for (const token of best) {
      if (this.next >= this.length) return false;
      if (token === blankId || token === unkId) {
        this.goOn();
        continue;
      }
      this.history.push(token);
      append(this.result, token, this.offset + this.next);
      if (++this.atNext >= maxSymPerFrame) this.goOn();
      return true;
    }
    return false;
  }

  private goOn(): void {
    this.next++;
    this.atNext = 0;
  }
}

function append({ tokens, frames, times }: GreedyResult, token: number, frame: number): void {
  tokens.push(token);
  frames.push(frame);
  times.push(frame * secondsPerFrame);
}

const indices = (utterances: readonly Utterance[], device: string): Tensor =>
  fromTypedArray(
    BigInt64Array.from(utterances, (u) => BigInt(u.row)),
    [utterances.length],
    { device },
  );

/**
 * Greedy search of CTC: the likeliest label of every frame, repetitions joined, blanks left out. A token's frame is the first that shows it.
 * Source: icefall zipformer/ctc_decode.py, ctc-greedy-search.
 * @param logProbs (N, T, V), or logits
 * @param lengths (N) frames of every utterance
 * @throws ShapeError SHAPE_MISMATCH
 */
export function ctcGreedyDecode(logProbs: Tensor, lengths: readonly number[], { blankId = 0 }: { blankId?: number } = {}): GreedyResult[] {
  checkLengths(logProbs, lengths);
  const frames = logProbs.size(1);
  const best = noGrad(() => scope(() => logProbs.argmax(2).toArray())); // (N, T)
  return lengths.map((length, n) => {
    const result: GreedyResult = { tokens: [], frames: [], times: [] };
    let before = blankId;
    for (let t = 0; t < length; t++) {
      const token = best[n * frames + t] as number;
      if (token !== before && token !== blankId) append(result, token, t);
      before = token;
    }
    return result;
  });
}

/**
 * Recognises features by the transducer; see {@link transducerGreedySearch}. The model must be in evaluation mode.
 * @param x (N, T, F) features, padded
 * @param xLens (N) their frames
 * @throws ConfigError CONFIG_BAD_VALUE when the model has no transducer
 */
export function greedySearch(
  model: Pick<AsrModel, "forwardEncoder" | "transducer" | "blankId">,
  x: Tensor,
  xLens: readonly number[],
  options: Omit<TransducerSearchOptions, "blankId"> = {},
): GreedyResult[] {
  const { transducer, blankId } = model;
  if (!transducer) throw new ConfigError("CONFIG_BAD_VALUE", { message: "the model has no transducer", fix: "decode by its CTC output" });
  return noGrad(() =>
    scope(() => {
      const { encoderOut, encoderOutLens } = model.forwardEncoder(x, xLens);
      return transducerGreedySearch(transducer, encoderOut, encoderOutLens, { ...options, blankId });
    }),
  );
}

/**
 * Recognises features by the CTC output; see {@link ctcGreedyDecode}. The model must be in evaluation mode.
 * @param x (N, T, F) features, padded
 * @param xLens (N) their frames
 * @throws ConfigError CONFIG_BAD_VALUE when the model has no CTC output
 */
export function ctcGreedySearch(model: Pick<AsrModel, "forwardEncoder" | "ctcLogProbs" | "blankId">, x: Tensor, xLens: readonly number[]): GreedyResult[] {
  return noGrad(() =>
    scope(() => {
      const { encoderOut, encoderOutLens } = model.forwardEncoder(x, xLens);
      return ctcGreedyDecode(model.ctcLogProbs(encoderOut), encoderOutLens, { blankId: model.blankId });
    }),
  );
}

/** @throws ConfigError CONFIG_BAD_VALUE unless it is an integer of at least 1 */
export function checkSymPerFrame(maxSymPerFrame: number): void {
  if (!Number.isInteger(maxSymPerFrame) || maxSymPerFrame < 1)
    throw new ConfigError("CONFIG_BAD_VALUE", { at: "maxSymPerFrame", message: `${maxSymPerFrame} symbols a frame; it must be an integer of at least 1` });
}

function checkLengths(x: Tensor, lengths: readonly number[]): void {
  const fits = x.dim === 3 && x.size(0) === lengths.length && lengths.every((length) => Number.isInteger(length) && length >= 0 && length <= x.size(1));
  if (!fits) throw new ShapeError("SHAPE_MISMATCH", { message: `a search over (${x.shape.join(", ")}) got lengths ${lengths.join(", ")}` });
}
