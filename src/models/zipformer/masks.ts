/** Masks of attention, made once for a forward pass. */
import { arange, type Tensor } from "../../torch/index.ts";

/** Chunks of a causal encoder, in frames at 50 Hz. */
export interface Chunks {
  /** Frames of a chunk; negative for no chunks. */
  size: number;
  /** Chunks to the left that may be attended to; negative for all. */
  left: number;
}

/** No chunks: every frame may be attended to. */
export const noChunks: Chunks = { size: -1, left: -1 };

/**
 * A frame attends to its own chunk and to `left` chunks before it.
 * @returns (T target, T source) bool, true = not attended to; null without chunks
 */
export function chunkMask(frames: number, { size, left }: Chunks, device: string): Tensor | null {
  if (size <= 0) return null;
  const chunk = arange(0, frames, { device }).floorDivide(size);
  const source = chunk.unsqueeze(0);
  const target = chunk.unsqueeze(1);
  const ahead = source.gt(target);
  return left < 0 ? ahead : ahead.logicalOr(source.lt(target.sub(left)));
}

/** Every `factor`-th element of the given dimensions. */
export function stride(x: Tensor | null, factor: number, dims: readonly number[]): Tensor | null {
  if (!x || factor === 1) return x;
  return dims.reduce((y, dim) => y.slice(dim, null, null, factor), x);
}

/** Both masks of attention in one: (1 or N, 1 or T, T) bool; null when there is none. @param chunk (T, T) @param padding (N, T) */
export function attentionMask(chunk: Tensor | null, padding: Tensor | null): Tensor | null {
  if (!padding) return chunk?.unsqueeze(0) ?? null;
  return chunk ? padding.unsqueeze(1).logicalOr(chunk.unsqueeze(0)) : padding.unsqueeze(1);
}

/**
 * Which frames of the left context and of a chunk may be attended to: before the start of a stream there are none.
 * @param processed (N) frames that came before the chunk
 * @returns (N, left + chunk) bool, true = not attended to
 */
export function streamingMask(processed: Tensor, left: number, chunk: number): Tensor {
  const age = arange(left, -chunk, { device: processed.device, step: -1 }); // of the context 1 for the last frame, and more before it
  return age.unsqueeze(0).gt(processed.unsqueeze(1));
}
