/** Threads, memory and what libtorch this is. */
import { type LibtorchDescription, torchAddon } from "./native.ts";

/** Number of threads that operators use. */
export const threads = (): number => torchAddon().threads();
/** Sets the number of threads that operators use. Results may differ in the last bits between numbers of threads. */
export const setThreads = (count: number): void => torchAddon().setThreads(count);

/** Tensors that live in this thread, as handles: views count as well. */
export const liveTensors = (): number => torchAddon().liveTensors();
/** Bytes that CPU tensors hold now, in all threads. */
export const allocatedBytes = (): number => torchAddon().memory(false)[0];
/** The most bytes that CPU tensors held at once since the last reset. */
export const peakBytes = ({ reset = false } = {}): number => torchAddon().memory(reset)[1];

/**
 * Bounds what CPU tensors may hold, in all threads: an operator that needs more throws TORCH_NO_MEMORY, before the system ends the process.
 * @param bytes undefined takes the bound away
 */
export const limitMemory = (bytes: number | undefined): void => torchAddon().limitMemory(Math.max(0, Math.floor(bytes ?? 0)));

/**
 * From here on only the first Ctrl-C (or SIGTERM) of a process reaches the handlers that were asked for with `process.on`, which run once the operator in
 * progress is done; a later one ends the process at once, in the middle of whatever it does. Two within a fifth of a second count as one.
 */
export const endAtSecondSignal = (): void => torchAddon().endAtSecondSignal();

/** The loaded libtorch: version, build settings, BLAS. */
export const describeLibtorch = (): LibtorchDescription => torchAddon().describe();
/** Every operator that `callOperator` can call. */
export const listOperators = (): string[] => torchAddon().listOperators();
/** The sets of instructions that serac's kernels are compiled for and this CPU has, the best last. It is used unless SERAC_ISA names another. */
export const isas = (): string[] => torchAddon().isas();
