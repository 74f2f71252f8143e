/** Samplers: which utterances make a batch. Works without libtorch. */
export type { ItemBatch } from "./batchMaker.ts";
export { type Bin2d, type BinOptions, type Buckets, type DurationBins, makeBuckets } from "./bins.ts";
export { ColumnSource, type Columns, type ItemBounds, memorySource } from "./columnSource.ts";
export type { TooLongPolicy } from "./feed.ts";
export { type BatchLimits, checkLimits, Filling } from "./limits.ts";
export { BatchStream, createSampler, type SampledBatch, Sampler, type SamplerKind, type SamplerOptions, type SamplerState, samplerKinds } from "./sampler.ts";
export type { EpochOptions, ItemBlock, ItemSource, ItemStream, Json, StreamPosition } from "./source.ts";
