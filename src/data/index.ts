/** Speech data: manifests, cuts, batches. Works without libtorch. */
export { type BucketOptions, bucketBatches } from "./buckets.ts";
export { type Cut, concatenate, perturbSpeed } from "./cut.ts";
export { type FilterOptions, LeftOut, encoderFrames, featureFrames, filterCuts, minFeatureFrames, neededFrames } from "./filter.ts";
export { type Batch, type FeatureOptions, type LoadOptions, type LoadedBatch, collate, cutFeatures, cutSamples, loadBatches, paddingValue } from "./loader.ts";
export { type ManifestEntry, type ManifestOptions, loadManifest, readManifest } from "./manifest.ts";
export { prefetch } from "./prefetch.ts";
