/** NeMo manifests: read, checked, counted, filtered, split, merged and converted. Works without libtorch. */
export type { CanaryEmotion, CanaryExamination, CanarySlots, CanaryVersion } from "./canary.ts";
export { canaryEmotions, examineCanary, isCanary, readCanary, writeCanary } from "./canary.ts";
export * from "./check/index.ts";
export * from "./convert/index.ts";
export { cutOf, loadManifest, type ManifestOptions, readManifest } from "./cuts.ts";
export { type EntryOptions, isSkipped, type ManifestEntry, parseEntry, readEntries } from "./entry.ts";
export { type Condition, keyValue, parseCondition } from "./expression.ts";
export { type ManifestSpec, manifestPaths } from "./inputs.ts";
export type { TextSpan } from "./keys.ts";
export { type LineError, type ManifestLine, type ManifestObject, type ReadLinesOptions, readManifestBatches, readManifestLines } from "./lines.ts";
export { isTarredManifest, type PathSource, type ResolvedPath, rebasePath, resolveAudioPath } from "./paths.ts";
export type { PathStyle } from "./rebase.ts";
export { filterManifest, mergeManifests, type SampleSize, type Selection, type SelectOptions, sampleManifest } from "./select.ts";
export { type SplitOptions, type SplitPart, type SplitResult, splitManifest } from "./split.ts";
export { type Distribution, type Histogram, type ManifestStats, manifestStats, type Share as ManifestShare, StatsCollector } from "./stats.ts";
export { ManifestWriter, withWriters } from "./writer.ts";
