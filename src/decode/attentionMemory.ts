/**
 * How much memory attention takes. Every frame attends to every other, so it grows with the square of the length: a recording of
 * half an hour can ask for more than the machine has, which would end the process.
 */
import { totalmem } from "node:os";
import type { ModelConfig } from "../models/index.ts";

/**
 * Matrices of frames by frames and heads that are there at once: the weights, which are made in place of the scores.
 * Measured on the CPU: test/decode/attentionMemory.test.ts. The composition of other devices keeps up to four.
 */
const matrices = 1;
const bytesOfFloat = 4;

/** The encoder's frames at 50 Hz. Source: icefall zipformer/subsampling.py, (T - 7) // 2. */
const framesAt50 = (featureFrames: number): number => Math.max(0, Math.floor((featureFrames - 7) / 2));

/** heads / factor^2 of the stack where that is most. */
function heaviest({ numHeads, downsamplingFactor }: Pick<ModelConfig, "numHeads" | "downsamplingFactor">): number {
  return Math.max(...downsamplingFactor.map((factor, i) => (numHeads[numHeads.length === 1 ? 0 : i] as number) / factor ** 2));
}

/**
 * Bytes that attention needs at its peak.
 * @param frames of features, of the longest utterance
 * @param batch utterances
 */
export const attentionBytes = (config: Pick<ModelConfig, "numHeads" | "downsamplingFactor">, frames: number, batch = 1): number =>
  matrices * bytesOfFloat * batch * heaviest(config) * framesAt50(frames) ** 2;

/** The most frames of features for which attention of one utterance fits into some bytes. */
export const longestFrames = (config: Pick<ModelConfig, "numHeads" | "downsamplingFactor">, bytes: number): number =>
  7 + 2 * Math.floor(Math.sqrt(bytes / (matrices * bytesOfFloat * heaviest(config))));

/** Half of the memory that this process may have: the machine's, or its control group's where that is less. */
export function memoryForAttention(): number {
  const constrained = process.constrainedMemory(); // undefined, 0 or beyond all bounds where there is no limit
  return (constrained ? Math.min(totalmem(), constrained) : totalmem()) / 2;
}
