/** Speech data: manifests, cuts, batches. Works without libtorch. */
export { type MemberPlace, readCutAudio, readMember } from "./audioSource.ts";
export { type Cut, perturbSpeed } from "./cut.ts";
export { encoderFrames, type FilterOptions, featureFrames, LeftOut, minFeatureFrames, neededFrames, utteranceFilter } from "./filter.ts";
export {
  anyFormat,
  type LineFigures,
  type LineFormat,
  type LineIndex,
  lineIndexPath,
  type OpenIndexOptions,
  openAnyLineIndex,
  openLineIndex,
  type ParsedLine,
  type TokenCounter,
} from "./lineIndex/index.ts";
export { type Batch, collate, cutFeatures, cutSamples, type FeatureOptions, paddingValue } from "./loader.ts";
export * from "./loading/index.ts";
export * from "./manifest/index.ts";
export { prefetch } from "./prefetch.ts";
export * from "./sampling/index.ts";
export { datasetSpecs, expandShards, type ShardOptions, type ShardSpec } from "./shards.ts";
export * from "./sources/index.ts";
export * from "./tarred/index.ts";
