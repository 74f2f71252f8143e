/** The torch addon: loaded when first used, never by `--help` or by work on data only. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { ErrorCode } from "../util/errorCodes.ts";
import { NativeError, ShapeError, TorchError } from "../util/errors.ts";
import { nativeFolder } from "../util/paths.ts";
import { checkIsa } from "./isa.ts";

/** One argument of an operator, as its schema gives it. */
export interface OperatorArgument {
  name: string;
  /** The schema's spelling: "Tensor", "int[]", "ScalarType?". */
  type: string;
  /** The length of a fixed-size list for which one number may stand, else 0. */
  fixed: number;
  /** True for keyword-only arguments. */
  named: boolean;
  hasDefault: boolean;
  written: boolean;
}

/** What the dispatcher knows of an operator. */
export interface OperatorSchema {
  id: number;
  /** "aten::add.Tensor" */
  name: string;
  schema: string;
  returnsSelf: boolean;
  arguments: OperatorArgument[];
  returns: { name: string; type: string }[];
}

/** What the addon says about the libtorch it is linked with. */
export interface LibtorchDescription {
  version: string;
  config: string;
  parallel: string;
  threads: number;
  /** Whose products of float matrices serac's operators use: "oneDNN", "BLAS" ("AMX and oneDNN" where AMX multiplies what is large), or "" for libtorch's. */
  products: string;
  /** The instructions that serac's kernels use, one of `isas()`. */
  isa: string;
  cuda: boolean;
  path: string;
  /** "path|the library's own description" for each BLAS loaded in the process. */
  blas: string[];
}

/** Functions of the addon; arguments and results that are lists travel on the tape (see tape.ts). */
export interface TorchAddon {
  call(id: number, strings: readonly string[] | undefined): number;
  resolve(name: string, overload: string): OperatorSchema;
  listOperators(): string[];
  setTape(tape: Float64Array): void;
  fromData(data: ArrayBufferView, dtype: number, shape: readonly number[], share: boolean): number;
  toData(handle: number): ArrayBuffer;
  view(handle: number): ArrayBuffer;
  info(handle: number): void;
  item(handle: number): number;
  release(count: number): void;
  releaseOne(handle: number): void;
  backward(outputs: number, inputs: number, retainGraph: boolean, createGraph: boolean): void;
  grad(outputs: number, inputs: number, retainGraph: boolean, createGraph: boolean, allowUnused: boolean): void;
  gradOf(handle: number): number;
  setGradOf(handle: number, grad: number): void;
  setGradMode(enabled: boolean): boolean;
  autocastBegin(device: string, enabled: boolean, dtype: number): [boolean, number];
  autocastEnd(device: string, enabled: boolean, dtype: number): void;
  newGenerator(device: string, seed: bigint): number;
  generatorState(handle: number): number;
  setGeneratorState(handle: number, state: number): void;
  releaseGenerator(handle: number): void;
  liveTensors(): number;
  memory(resetPeak: boolean): [number, number];
  limitMemory(bytes: number): void;
  reportMemory(): void;
  threads(): number;
  setThreads(count: number): void;
  isComposed(): boolean;
  setComposed(on: boolean): boolean;
  /** Sets of instructions that this CPU has, the best last. */
  isas(): string[];
  setIsa(name: string): void;
  shareTensors(count: number): void;
  takeTensors(count: number): void;
  endAtSecondSignal(): void;
  profileStart(): void;
  profileStop(): (string | number)[];
  describe(): LibtorchDescription;
}

let addon: TorchAddon | undefined;

/**
 * The addon, loaded on first use.
 * @throws NativeError NATIVE_MISSING when it is not built or one of its libraries is missing
 * @throws ConfigError CONFIG_BAD_VALUE when SERAC_ISA names instructions that the CPU does not have
 */
export function torchAddon(): TorchAddon {
  if (addon) return addon;
  const path = join(nativeFolder, "serac_torch.node");
  if (!existsSync(path)) {
    throw new NativeError("NATIVE_MISSING", {
      at: path,
      message: "the torch addon has not been built",
      fix: "in a checkout run: npm run setup; elsewhere install libtorch (apt-get install libtorch-dev libopenblas0-openmp) and run: npm rebuild serac",
    });
  }
  // OpenMP's threads wait for work by spinning, for as long as they like; when another process wants the core, each of the
  // hundreds of parallel regions in a step then waits out a time slice (13 times slower, measured with two busy processes on two cores).
  // Too short a wait has them sleep between any two operators, and waking takes longer than many of these. Of a step of Zipformer S on two cores:
  // 2000 spins 0.90 s, 5000 0.86 s, 10000 0.83 s; with a busy process beside it 1.65, 1.85 and 2.0 s.
  process.env.GOMP_SPINCOUNT ??= "10000"; // some 100 microseconds
  let loaded: TorchAddon;
  try {
    loaded = createRequire(import.meta.url)(path) as TorchAddon;
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new NativeError("NATIVE_MISSING", { at: path, message: `the torch addon does not load: ${message}`, fix: "run: serac doctor", cause });
  }
  loaded.setIsa(checkIsa(process.env["SERAC_ISA"], loaded.isas()));
  addon = loaded;
  return addon;
}

/** What libtorch appends to its words: where it raised the error, and the frames of C++ that led there. */
const backtrace = /\s*(?:\(?Exception raised from |C\+\+ CapturedTraceback|frame #\d+: ).*$/s;

/** An error's words without the backtrace of C++. */
export const withoutBacktrace = (words: string): string => words.replace(backtrace, "").trimEnd();

/** What our allocator, CUDA's, and cuFFT say where memory is at its end. */
const outOfMemory = /not enough memory|out of memory|CUFFT_INTERNAL_ERROR/;

/** Turns an error of the addon, which carries a code, into serac's own; no message shows frames of C++. */
export function torchError(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const message = withoutBacktrace(error.message);
  if (message !== error.message) {
    if (error.stack) error.stack = error.stack.replace(error.message, () => message);
    error.message = message;
  }
  const code = (error as { code?: string }).code;
  if ((code === "TORCH_FAILED" || code === "NATIVE_FAILED") && outOfMemory.test(message))
    return new TorchError("TORCH_NO_MEMORY", { message, fix: "make batches smaller (--max-duration), or the model", cause: error });
  if (code === "SHAPE_MISMATCH") return new ShapeError(code, { message: error.message, cause: error });
  if (code === "TORCH_BAD_ARGUMENT" || code === "TORCH_FAILED" || code === "TORCH_UNKNOWN_OPERATOR" || code === "TENSOR_FREED" || code === "NATIVE_FAILED")
    return new TorchError(code as ErrorCode, { message: error.message, cause: error });
  return error;
}
