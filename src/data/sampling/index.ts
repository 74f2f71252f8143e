/** Samplers: which utterances make a batch. Works without libtorch. */

export { estimateDurationBins } from "../durationBins.ts";
export type { ItemBatch } from "./batchMaker.ts";
export { type BatchSampler, BatchStream, type EpochBatches, type SampledBatch, type SamplerState } from "./batchStream.ts";
export { type Bin2d, type BinOptions, type Buckets, type DurationBins, makeBuckets } from "./bins.ts";
export { ColumnSource, type Columns, type ItemBounds, memorySource } from "./columnSource.ts";
export { type Bins2d, type Bins2dOptions, estimateDurationBins2d } from "./estimateBins2d.ts";
export { type TooLongPolicy, tooLongError } from "./feed.ts";
export { type FusedPart, FusedSampler, type FusionOptions, type SamplerFusion, samplerFusions } from "./fusedSampler.ts";
export { type IndexedOptions, indexedManifest, type LineOptions } from "./indexedManifest.ts";
export { type LazyOptions, lazyManifest } from "./lazyManifest.ts";
export { type BatchLimits, checkLimits, Filling } from "./limits.ts";
export { type NemoSampling, type NemoSamplingConfig, nemoSampling } from "./nemoSampling.ts";
export { type PessimisticBatch, type PessimisticBatches, type PessimisticCriterion, pessimisticBatches } from "./pessimisticBatches.ts";
export { createSampler, Sampler } from "./sampler.ts";
export { type SamplerKind, type SamplerOptions, samplerKinds } from "./samplerOptions.ts";
export { SlicedSource } from "./slicedSource.ts";
export type { EpochOptions, ItemBlock, ItemSource, ItemStream, Json, StreamPosition } from "./source.ts";
