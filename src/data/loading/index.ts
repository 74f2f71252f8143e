/** Loading: from sampled cuts to batches of augmented features, prepared ahead by threads. Works without libtorch. */
export type { SpeechBatch, Supervisions } from "./batch.ts";
export { blocksLoaderOptionsOf, loaderOptionsOf } from "./configOptions.ts";
export { type ClippingOptions, type CompressionOptions, clippingTransform, compressionTransform, loudnessTransform, lowpassTransform } from "./equipment.ts";
export { type BadUtterancePolicy, LoadedEpoch, Loader, type LoaderOptions, type LoaderState } from "./loader.ts";
export { type NoiseSpec, openNoise } from "./noise.ts";
export {
  appendCuts,
  clipCut,
  compressCut,
  cutIntoWindows,
  lowpassCut,
  mergeSupervisions,
  mixCut,
  normalizeCutLoudness,
  type PadDirection,
  type PlayedCut,
  padCut,
  perturbCutSpeed,
  perturbCutVolume,
  reverbCut,
  truncateCut,
  windowCount,
} from "./played.ts";
export { RenderPool } from "./pool.ts";
export {
  type CutConcatenateOptions,
  type CutMixOptions,
  type CutTransform,
  cutConcatenateTransform,
  cutMixTransform,
  type OffsetType,
  padTransform,
  perturbSpeedTransform,
  perturbVolumeTransform,
  type ReverbOptions,
  reverbTransform,
  type TransformContext,
  truncateTransform,
} from "./transforms.ts";
