/**
 * What a causal model remembers of a stream from chunk to chunk, as a list of tensors in the order of icefall's streaming_decode.py:
 * six of every layer, then the front end's frames, then the number of frames at 50 Hz that every stream has behind it.
 * With L frames of left context at the layer's rate:
 *
 * | | |
 * |---|---|
 * | cached_key | (L, N, h d) |
 * | cached_nonlin_attn | (1, N, L, 3 C // 4) |
 * | cached_val1, cached_val2 | (L, N, h v) |
 * | cached_conv1, cached_conv2 | (N, C, kernel // 2) |
 * | front end | (N, 128, 3, 19) |
 * | processed_lens | (N) int32 |
 */
import { cat, scope, type Tensor } from "../../torch/index.ts";
import { ShapeError } from "../../util/errors.ts";

/** The states of N streams. */
export type StreamingStates = readonly Tensor[];

/** Widths of a layer's states. */
export interface LayerCacheSizes {
  /** h d */
  key: number;
  /** 3 C // 4 */
  nonlinAttention: number;
  /** h v */
  values: number;
  /** C */
  channels: number;
  /** kernel // 2 */
  past: number;
}

/** A layer's states. */
export interface LayerCache {
  key: Tensor;
  nonlinAttention: Tensor;
  values1: Tensor;
  values2: Tensor;
  convolution1: Tensor;
  convolution2: Tensor;
}

const statesPerLayer = 6;

/** Shapes of a layer's states. @param left L */
export function layerStateShapes({ key, nonlinAttention, values, channels, past }: LayerCacheSizes, batch: number, left: number): number[][] {
  const attended = [left, batch, values];
  const convolved = [batch, channels, past];
  return [[left, batch, key], [1, batch, left, nonlinAttention], attended, attended, convolved, convolved];
}

/** The states of layers by name. */
export function cachesOf(states: readonly Tensor[]): LayerCache[] {
  return Array.from({ length: states.length / statesPerLayer }, (_, i) => {
    const [key, nonlinAttention, values1, values2, convolution1, convolution2] = states.slice(i * statesPerLayer, (i + 1) * statesPerLayer) as [
      Tensor,
      Tensor,
      Tensor,
      Tensor,
      Tensor,
      Tensor,
    ];
    return { key, nonlinAttention, values1, values2, convolution1, convolution2 };
  });
}

/** The states of a layer in their order. */
export function cacheTensors({ key, nonlinAttention, values1, values2, convolution1, convolution2 }: LayerCache): Tensor[] {
  return [key, nonlinAttention, values1, values2, convolution1, convolution2];
}

/** The dimension over streams of the state at this place of the list. */
function batchDim(index: number, count: number): number {
  return index < count - 2 && index % statesPerLayer < 4 ? 1 : 0;
}

/** @throws ShapeError unless it is a list of whole layers and the last two */
function checkCount(states: StreamingStates): void {
  if (states.length < statesPerLayer + 2 || (states.length - 2) % statesPerLayer !== 0)
    throw new ShapeError("SHAPE_MISMATCH", { at: "streaming states", message: `got ${states.length} tensors, expected ${statesPerLayer} of every layer and 2 more` });
}

/**
 * Joins the states of streams, so that one step goes over all of them. Their positions may differ.
 * Source: icefall zipformer/streaming_decode.py (stack_states).
 * @param list of one or more streams each
 * @returns new tensors; those given stay
 * @throws ShapeError for states of other models or left contexts than the first's
 */
export function stackStates(list: readonly StreamingStates[]): Tensor[] {
  const first = list[0];
  if (!first) throw new ShapeError("SHAPE_MISMATCH", { at: "streaming states", message: "got the states of no stream" });
  checkCount(first);
  const count = first.length;
  return scope(() =>
    first.map((state, i) => {
      const dim = batchDim(i, count);
      const parts = list.map((states, n) => {
        const part = states[i];
        if (part && states.length === count && part.dim === state.dim && part.shape.every((size, d) => d === dim || size === state.size(d))) return part;
        const got = states.length === count && part ? `(${part.shape.join(", ")})` : `${states.length} tensors`;
        const wanted = states.length === count ? `(${state.shape.join(", ")})` : `${count} tensors`;
        throw new ShapeError("SHAPE_MISMATCH", { at: `streaming states ${n}, tensor ${i}`, message: `got ${got}, expected ${wanted} as in states 0` });
      });
      return cat(parts, dim);
    }),
  );
}

/**
 * The states of each stream alone; the inverse of {@link stackStates}.
 * Source: icefall zipformer/streaming_decode.py (unstack_states).
 * @returns new tensors, which share no memory; those given stay
 * @throws ShapeError SHAPE_MISMATCH
 */
export function unstackStates(states: StreamingStates): Tensor[][] {
  checkCount(states);
  const streams = (states.at(-1) as Tensor).size(0);
  return scope(() =>
    Array.from({ length: streams }, (_, n) =>
      states.map((state, i) => {
        const dim = batchDim(i, states.length);
        if (state.size(dim) !== streams)
          throw new ShapeError("SHAPE_MISMATCH", { at: `streaming states, tensor ${i}`, message: `got (${state.shape.join(", ")}), expected ${streams} in dimension ${dim}` });
        return state.slice(dim, n, n + 1).clone();
      }),
    ),
  );
}
