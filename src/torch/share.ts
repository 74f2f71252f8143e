/** Handing tensors to other threads of this process: the same memory, not a copy. */
import { torchAddon } from "./native.ts";
import { reserve } from "./tape.ts";
import { live, native, type Tensor, wrap } from "./tensor.ts";

/**
 * Hands tensors out. They stay alive until they are taken, and the numbers can be sent to another thread. What both then write, they must agree on.
 * @returns a number for each, to be taken once; 0 for null
 */
export function shareTensors(tensors: readonly (Tensor | null)[]): number[] {
  const tape = reserve(tensors.length);
  tensors.forEach((t, i) => {
    tape[i] = t ? live(t) : 0;
  });
  native(() => torchAddon().shareTensors(tensors.length));
  return Array.from(tape.subarray(0, tensors.length));
}

/** Takes what another thread has shared. @throws TorchError TENSOR_FREED for a number that was taken before */
export function takeTensors(shared: readonly number[]): (Tensor | null)[] {
  const tape = reserve(shared.length);
  tape.set(shared);
  native(() => torchAddon().takeTensors(shared.length));
  return Array.from(tape.subarray(0, shared.length), (handle) => (handle === 0 ? null : wrap(handle)));
}
