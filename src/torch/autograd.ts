/** Gradients beyond `Tensor.backward`, and whether they are recorded at all. */
import { torchAddon } from "./native.ts";
import { reserve } from "./tape.ts";
import { live, native, type Tensor, wrap } from "./tensor.ts";

function withGradMode<T>(enabled: boolean, body: () => T): T {
  const before = torchAddon().setGradMode(enabled);
  try {
    return body();
  } finally {
    torchAddon().setGradMode(before);
  }
}

/** Runs `body` without recording what gradients need. For synchronous code: the mode is put back when `body` returns. */
export const noGrad = <T>(body: () => T): T => withGradMode(false, body);

/** Runs `body` recording for gradients, also inside of `noGrad`. */
export const enableGrad = <T>(body: () => T): T => withGradMode(true, body);

/**
 * Gradients of the outputs' sum with respect to the inputs, without touching their `grad`.
 * @param gradOutputs upstream gradients; ones where absent, which needs single elements
 * @returns one per input; null where the outputs do not depend on it and `allowUnused` is set
 */
export function grad(
  outputs: readonly Tensor[],
  inputs: readonly Tensor[],
  {
    gradOutputs = [],
    retainGraph = false,
    createGraph = false,
    allowUnused = false,
  }: { gradOutputs?: readonly (Tensor | null)[]; retainGraph?: boolean; createGraph?: boolean; allowUnused?: boolean } = {},
): (Tensor | null)[] {
  const tape = reserve(2 * outputs.length + inputs.length);
  let at = 0;
  for (const t of outputs) tape[at++] = live(t);
  for (let i = 0; i < outputs.length; i++) {
    const g = gradOutputs[i];
    tape[at++] = g ? live(g) : 0;
  }
  for (const t of inputs) tape[at++] = live(t);
  native(() => torchAddon().grad(outputs.length, inputs.length, retainGraph || createGraph, createGraph, allowUnused));
  return inputs.map((_, i) => (tape[i] === 0 ? null : wrap(tape[i] as number)));
}
