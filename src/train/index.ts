/** Training. */
export { type FinetuneOptionsInput, finetune, finetuneOptions } from "./finetune.ts";
export { type TrainReporter, type TrainResult, train } from "./loop.ts";
export { addLosses, type LossSums, perFrame, showLosses } from "./metrics.ts";
export { type TrainOptions, type TrainOptionsInput, trainOptions } from "./options.ts";
