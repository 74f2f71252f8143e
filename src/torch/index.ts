/** libtorch from TypeScript: tensors, gradients, generators, memory. The only importer of the torch addon. */

export { type AutocastOptions, autocast } from "./autocast.ts";
export { enableGrad, grad, noGrad } from "./autograd.ts";
export { callOperator } from "./call.ts";
export { isComposed, setComposed } from "./composed.ts";
export { checkDevice } from "./device.ts";
export { type DType, dtypeBytes, isFloating, type MemoryFormat, type TypedArray } from "./dtype.ts";
export { arange, empty, eye, fromTypedArray, full, ones, type RandomOptions, rand, randint, randn, randperm, type TensorOptions, tensor, zeros } from "./factories.ts";
export * from "./generated/functions.ts";
export * as ops from "./generated/ops.ts";
export { Generator } from "./generator.ts";
export type { LibtorchDescription } from "./native.ts";
export { type OperatorTime, profile } from "./profile.ts";
export { fromPtTensor } from "./pt.ts";
export { allocatedBytes, describeLibtorch, endAtSecondSignal, isas, limitMemory, listOperators, liveTensors, peakBytes, setThreads, threads } from "./runtime.ts";
export { fromSafetensor, loadTensors, saveTensors } from "./safetensors.ts";
export { keep, scope } from "./scope.ts";
export { shareTensors, takeTensors } from "./share.ts";
export type { Argument } from "./tape.ts";
export { Tensor } from "./tensor.ts";
