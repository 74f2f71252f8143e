/** What the tests of serac's own operators share: gradients of a function, and inputs in awkward layouts. */
import { grad, randn, setComposed, type Tensor } from "../../../src/torch/index.ts";

/** The value of `f` at `inputs` and the gradients of sum(value * gradient); `gradient` is ones where absent. */
export function gradients(f: (...inputs: Tensor[]) => Tensor, inputs: readonly Tensor[], gradient?: Tensor): { y: Tensor; grads: Tensor[] } {
  const leaves = inputs.map((x) => x.detach().requiresGrad_(true));
  const y = f(...leaves);
  const upstream = gradient ?? y.detach().mul(0).add(1);
  return { y: y.detach(), grads: grad([y], leaves, { gradOutputs: [upstream] }).map((g) => g as Tensor) };
}

/** (N, C, T) numbers whose memory is in the order (T, N, C), as the encoder's activations are. */
export const timeFirst = (shape: readonly [number, number, number]): Tensor => randn([shape[2], shape[0], shape[1]]).permute([1, 2, 0]);
/** (..., T) numbers that are every second one of a longer tensor. */
export const everySecond = (shape: readonly number[]): Tensor => randn([...shape.slice(0, -1), 2 * (shape.at(-1) as number)]).slice(-1, 0, null, 2);

/** Runs `body` with operators composed of libtorch's own. */
export function composed<T>(body: () => T): T {
  const before = setComposed(true);
  try {
    return body();
  } finally {
    setComposed(before);
  }
}
