/** How much memory training may use: a share of the device's, or so many bytes; and the bound that makes more of it an error. */
import { execFileSync } from "node:child_process";
import { totalmem } from "node:os";
import { limitMemory, type Tensor, zeros } from "../../torch/index.ts";
import { ConfigError } from "../../util/errors.ts";

/** Bytes of a device: of the machine or what this process may have of it, or of the first GPU. @throws ConfigError CONFIG_BAD_VALUE where nobody tells */
export function deviceMemory(device: string): number {
  if (device === "cpu") {
    const constrained = process.constrainedMemory(); // undefined, 0 or beyond all bounds where there is no limit
    return constrained ? Math.min(totalmem(), constrained) : totalmem();
  }
  try {
    const mebibytes = execFileSync("nvidia-smi", ["--query-gpu=memory.total", "--format=csv,noheader,nounits", "--id=0"], { encoding: "utf8" });
    return Number.parseInt(mebibytes, 10) * 2 ** 20;
  } catch (cause) {
    throw new ConfigError("CONFIG_BAD_VALUE", {
      message: "nvidia-smi, which tells the GPU's memory, cannot be run",
      fix: "install it with the driver, or search on the CPU",
      cause,
    });
  }
}

const units: Readonly<Record<string, number>> = { "": 1, k: 1e3, m: 1e6, g: 1e9, ki: 2 ** 10, mi: 2 ** 20, gi: 2 ** 30 };

/** Bytes of a text as 16000000000, 16G, 500M or 1.5Gi; undefined for another. */
export function readBytes(text: string): number | undefined {
  const [, digits, unit = ""] = /^(\d+(?:\.\d+)?)\s*([kmg]i?)?b?$/i.exec(text.trim()) ?? [];
  const bytes = Math.floor(Number(digits) * (units[unit.toLowerCase()] as number));
  return bytes > 0 ? bytes : undefined;
}

/**
 * Bounds the memory of tensors. On a GPU the rest of its memory is taken away, since libtorch's allocator there has no bound of ours.
 * @returns what lifts the bound
 */
export function boundMemory(device: string, bytes: number): () => void {
  if (device === "cpu") {
    limitMemory(bytes);
    return () => limitMemory(undefined);
  }
  const rest = Math.max(0, deviceMemory(device) - bytes);
  const taken: Tensor | undefined = rest === 0 ? undefined : zeros([rest], { dtype: "uint8", device });
  return () => taken?.dispose();
}
