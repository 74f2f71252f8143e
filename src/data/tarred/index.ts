/** Tarred datasets: reading them, and planning who reads what. */
export { loadTarredCuts } from "./cuts.ts";
export { type TarredDataset, type TarredOptions, type TarredUtterance, tarredDataset } from "./dataset.ts";
export { type NemoDatasetConfig, nemoDatasetOptions, readNemoConfig } from "./nemoConfig.ts";
export { bucketBatchSizes, bucketOrder, type NemoDataset, type NemoDatasetOptions, nemoDataset } from "./nemoDataset.ts";
export { openTarred } from "./open.ts";
export type { DamagePolicy, OpenedDataset, OpenOptions, TarredItem, TarredShard } from "./opened.ts";
export {
  batchSizes,
  describePlan,
  type PlanOptions,
  planShards,
  type RankShare,
  type ReaderShare,
  type ShardPart,
  type ShardPlan,
  type ShardSize,
  type ShardStrategy,
} from "./plan.ts";
export { type Finding, type Reason, TarredReport } from "./report.ts";
export { type SemiSortedBatch, type SemiSortedOptions, semiSortedBatches } from "./semiSorted.ts";
