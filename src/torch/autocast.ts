/** Mixed precision: operators that gain from it run in a narrower float type. */
import { type DType, dtypeCode } from "./dtype.ts";
import { torchAddon } from "./native.ts";
import { native } from "./tensor.ts";

/** How to cast. */
export interface AutocastOptions {
  /** "cpu" or "cuda". */
  device?: "cpu" | "cuda";
  /** bfloat16 on the CPU; float16 or bfloat16 on CUDA. */
  dtype?: DType;
  enabled?: boolean;
}

/**
 * Runs `body` with autocast. The cache of casted weights is cleared when the outermost one ends: libtorch does not notice
 * that a weight was updated in place, and would go on with the old one.
 */
export function autocast<T>({ device = "cpu", dtype = "bfloat16", enabled = true }: AutocastOptions, body: () => T): T {
  const [wasEnabled, wasDtype] = native(() => torchAddon().autocastBegin(device, enabled, dtypeCode(dtype)));
  try {
    return body();
  } finally {
    torchAddon().autocastEnd(device, wasEnabled, wasDtype);
  }
}
