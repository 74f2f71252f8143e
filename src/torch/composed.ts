/** Operators of our own, or what they are composed of: for comparison. */
import { torchAddon } from "./native.ts";

/** True while operators are composed of libtorch's own; so from the start with SERAC_COMPOSED=1. */
export const isComposed = (): boolean => torchAddon().isComposed();

/**
 * Makes serac's operators compositions of libtorch's own, as the reference composes them, or themselves again. For all threads.
 * @returns what was set before
 */
export const setComposed = (on: boolean): boolean => torchAddon().setComposed(on);
