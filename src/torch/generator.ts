/** Streams of random numbers for tensors; their state is saved in checkpoints. */

import { checkDevice } from "./device.ts";
import { fromTypedArray } from "./factories.ts";
import { GeneratorHandle } from "./handle.ts";
import { torchAddon } from "./native.ts";
import { native, type Tensor, wrap } from "./tensor.ts";

const registry = new FinalizationRegistry<number>((handle) => torchAddon().releaseGenerator(handle));

/** A generator of libtorch. Two of one seed and device give the same numbers. */
export class Generator extends GeneratorHandle {
  readonly device: string;

  /**
   * @param seed an integer, at most 2^64 - 1
   * @throws TorchError TORCH_NO_DEVICE
   */
  constructor(seed: number | bigint, { device = "cpu" }: { device?: string } = {}) {
    checkDevice(device);
    super(native(() => torchAddon().newGenerator(device, BigInt.asUintN(64, BigInt(seed)))));
    this.device = device;
    registry.register(this, this.handle);
  }

  /** The whole state, as bytes. */
  state(): Uint8Array {
    using state: Tensor = wrap(native(() => torchAddon().generatorState(this.handle)));
    return state.toTypedArray() as Uint8Array;
  }

  /** Puts back a state that `state()` gave. @throws TorchError TORCH_FAILED when the bytes are no such state */
  restore(state: Uint8Array): this {
    using tensor = fromTypedArray(state, [state.length]);
    native(() => torchAddon().setGeneratorState(this.handle, tensor.handle));
    return this;
  }
}
