/** Where tensors lie: names of devices, and whether they are there. */
import { TorchError } from "../util/errors.ts";
import { invoke, operator } from "./call.ts";
import { dtypeCode } from "./dtype.ts";
import { torchAddon } from "./native.ts";
import type { Tensor } from "./tensor.ts";

const empty = operator("aten::empty.memory_format");
const onCpu = "use --device cpu, which is there always";

/**
 * Makes sure that a device can be used, before work starts on it.
 * @param name "cpu", "cuda" or "cuda:1"
 * @throws TorchError TORCH_NO_DEVICE
 */
export function checkDevice(name: string): void {
  if (name === "cpu") return;
  if (!/^cuda(:\d+)?$/.test(name)) throw new TorchError("TORCH_NO_DEVICE", { message: `there is no device "${name}"`, fix: 'use "cpu", "cuda" or, for one of several, "cuda:1"' });
  const { version, path, cuda } = torchAddon().describe();
  if (!cuda)
    throw new TorchError("TORCH_NO_DEVICE", {
      message: `CUDA is not there: libtorch ${version} (${path}) has no CUDA, or no device is visible`,
      fix: `${onCpu}; serac doctor tells more`,
    });
  try {
    (invoke(empty, [0], dtypeCode("float32"), undefined, name, undefined) as Tensor).dispose();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TorchError("TORCH_NO_DEVICE", { message: `"${name}" cannot be used: ${reason}`, fix: `name a device that is visible (CUDA_VISIBLE_DEVICES), or ${onCpu}`, cause });
  }
}
