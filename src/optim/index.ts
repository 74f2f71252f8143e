/** How training changes the parameters: ScaledAdam, its clipping, and the schedule of its learning rate. */
export { Eden, Eden2, type EdenOptions, type EdenState, type HasLearningRate, type WarmupOptions } from "./eden.ts";
export { GradScaler, type GradScalerOptions, type GradScalerState, type ScalableOptimizer } from "./gradScaler.ts";
export { parameterGroups } from "./parameterGroups.ts";
export { type ParameterGroup, ScaledAdam, type ScaledAdamOptions, type ScaledAdamSettings } from "./scaledAdam.ts";
export type { OptimizerState, StateEntry } from "./scaledAdamState.ts";
