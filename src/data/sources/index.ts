/** Sources of utterances: NeMo's manifests and tars, lhotse's cuts, features and Shar, mixed by weight as an input_cfg says. Works without libtorch. */
export { type ConfigBlocks, configBlocks, createBlocksSampler, isMultiConfig, type OpenedBlocks, openBlocks } from "./blocks.ts";
export { type ConfigNode, configNode, nodeAt, overrideConfig, parseConfig, plainConfig, readConfig } from "./configTree.ts";
export type { SourceCut, Supervision } from "./cut.ts";
export { chunkFrames, FeatureArchive, type FeaturesManifest, parseFeatures, readFeatures, type StoredFeatures, storageTypes } from "./features.ts";
export { type InspectedSource, type Inspection, type InspectOptions, inspectSources } from "./inspect.ts";
export type { Leaf } from "./leaf.ts";
export { type LhotseDataLoadingConfig, lhotseKeys, readLhotseConfig } from "./lhotseConfig.ts";
export { parseLhotseCut } from "./lhotseCut.ts";
export { type MuxOptions, MuxSource } from "./mux.ts";
export { type OpenedLeaf, type OpenedSources, type OpenSourcesOptions, openSources } from "./open.ts";
export { librispeechParts, type PreparedPart, type PrepareOptions, prepareLibrispeech, shuffleTrainCuts } from "./prepare/librispeech.ts";
export { musanParts, prepareMusan } from "./prepare/musan.ts";
export { energyOf, mixFeatures, type RenderOptions, renderFeatures, renderSamples, sourceFeatures, sourceSamples } from "./render.ts";
export { samplerOptionsOf } from "./samplerOptions.ts";
export { type Placed, type Played, playedOf, type Response, type Sound, type Track } from "./sound.ts";
export { numFrames, numSamples, perturbedSamples } from "./times.ts";
export { type WriteSharOptions, writeSharFolder } from "./writeShar.ts";
