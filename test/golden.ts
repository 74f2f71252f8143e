/** Golden values: tensors that the reference implementation made, in test/golden. */
import { fileURLToPath } from "node:url";
import { readSafetensors } from "../src/formats/index.ts";
import { fromTypedArray, type Tensor, type TypedArray } from "../src/torch/index.ts";

/** The tensors of test/golden/NAME.safetensors by name, and the metadata that holds their settings. */
export function golden(name: string): { tensors: Record<string, Tensor>; metadata: Readonly<Record<string, string>> } {
  const { tensors, metadata } = readSafetensors(fileURLToPath(new URL(`golden/${name}.safetensors`, import.meta.url)));
  const out: Record<string, Tensor> = {};
  for (const [key, { data, shape }] of tensors) out[key] = fromTypedArray(data as TypedArray, shape);
  return { tensors: out, metadata };
}

/**
 * The deterministic numbers scale * (sin(0.7 i + phase) + 0.3 cos(0.013 i^2 + phase)), i = 1..n, computed in double precision:
 * inputs of golden values that were printed rather than stored.
 */
export function wave(shape: readonly number[], { scale = 1, phase = 0 }: { scale?: number; phase?: number } = {}): Float64Array {
  const n = shape.reduce((a, b) => a * b, 1);
  return Float64Array.from({ length: n }, (_, k) => scale * (Math.sin(0.7 * (k + 1) + phase) + 0.3 * Math.cos(0.013 * (k + 1) ** 2 + phase)));
}
