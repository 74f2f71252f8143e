/** Shard specifications: patterns, lists and lists of lists become paths; shards become blocks of ranks and strides of workers. Source: NeMo, audio_to_text.py. */
import { existsSync } from "node:fs";
import { type BraceGroup, expandBraces, splitAtCommas } from "../util/braces.ts";
import { ConfigError } from "../util/errors.ts";

/** One pattern or path, several, or lists of them (one a bucket). */
export type ShardSpec = string | readonly ShardSpec[];

/** Who reads what. */
export interface ShardOptions {
  /**
   * `scatter` gives each rank a block of floor(N / worldSize) shards and leaves the others unread, as NeMo does; `replicate` gives all to each.
   * What it leaves is told to `onWarning`. planShards() says it beforehand, and knows strategies that leave nothing.
   */
  strategy?: "scatter" | "replicate";
  worldSize?: number;
  rank?: number;
  numWorkers?: number;
  worker?: number;
  onWarning?: (message: string) => void;
}

function checkPlace(name: string, place: number, count: number): void {
  if (!Number.isInteger(count) || count < 1) throw new ConfigError("CONFIG_BAD_VALUE", { message: `the number of ${name}s is ${count}, expected 1 or more` });
  if (!Number.isInteger(place) || place < 0 || place >= count)
    throw new ConfigError("CONFIG_BAD_VALUE", { message: `${name} ${place} of ${count}: expected a number from 0 to ${count - 1}` });
}

/** A folder whose name looks like a pattern is not expanded without a word, where it is there and what it expands to is not. */
function checkFolders(pattern: string, groups: readonly BraceGroup[], first: string | undefined): void {
  if (first === undefined || existsSync(first)) return;
  for (const { end } of groups) {
    const slash = pattern.indexOf("/", end);
    if (slash < 0) return;
    const folder = pattern.slice(0, slash);
    if (!existsSync(folder)) continue;
    throw new ConfigError("SHARDS_BAD_PATTERN", {
      at: pattern,
      message: `there is a folder ${folder}, but its brackets mean several names here, of which the first (${first}) does not exist`,
      fix: `to mean the folder, write ${folder.replace(/[\\{}()[\]<>,]/g, "\\$&")}${pattern.slice(slash)}`,
    });
  }
}

/**
 * The paths that a specification stands for, in order. Braces may be written { }, ( ), [ ], < > or _OP_ _CL_; brackets around anything
 * but a range or a list stay as they are, and a backslash makes any bracket an ordinary character. Commas outside of brackets do
 * not part patterns here: datasetSpecs() does that.
 * @throws ConfigError SHARDS_BAD_PATTERN; CONFIG_BAD_VALUE for ranks and workers
 */
export function expandShards(spec: ShardSpec, { strategy = "scatter", worldSize = 1, rank = 0, numWorkers = 1, worker = 0, onWarning }: ShardOptions = {}): string[] {
  checkPlace("rank", rank, worldSize);
  checkPlace("worker", worker, numWorkers);
  if (strategy !== "scatter" && strategy !== "replicate")
    throw new ConfigError("CONFIG_BAD_VALUE", { message: `the shard strategy is ${JSON.stringify(strategy)}, expected scatter or replicate` });
  let paths = expandAll(spec);
  if (strategy === "scatter" && worldSize > 1) {
    const block = Math.floor(paths.length / worldSize);
    const unused = paths.length - block * worldSize;
    if (unused > 0)
      onWarning?.(`${paths.length} shards do not divide by ${worldSize} ranks: ${unused} shards (from ${paths[block * worldSize]}) are never read under the strategy scatter`);
    paths = paths.slice(rank * block, (rank + 1) * block);
  }
  if (numWorkers > 1 && paths.length < numWorkers)
    onWarning?.(`rank ${rank} has ${paths.length} shards for ${numWorkers} workers: ${numWorkers - paths.length} workers have nothing to read`);
  return numWorkers === 1 ? paths : paths.filter((_, i) => i % numWorkers === worker);
}

function expandAll(spec: ShardSpec): string[] {
  if (typeof spec !== "string") return spec.flatMap(expandAll);
  const groups: BraceGroup[] = [];
  const paths = expandBraces(spec, groups);
  checkFolders(spec, groups, paths[0]);
  return paths;
}

/**
 * NeMo's forms of `manifest_filepath` and `tarred_audio_filepaths` as a list of datasets, each a list of patterns: a text is split at
 * commas; a flat list is one dataset made of several; a list of lists is one dataset a bucket.
 * @throws ConfigError CONFIG_BAD_VALUE for lists of mixed kinds
 */
export function datasetSpecs(spec: ShardSpec, name: string): string[][] {
  if (typeof spec === "string") return [splitAtCommas(spec).filter((part) => part !== "")];
  const bad = (found: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", {
      message: `${name} is ${found}, expected a path, a list of paths (one dataset), or a list of lists (one dataset a bucket)`,
    });
  };
  if (spec.length === 0) bad("an empty list");
  if (spec.every((item) => typeof item === "string")) return [spec as string[]];
  if (spec.some((item) => typeof item === "string")) bad("a list of paths and of lists");
  return spec.map((item) => {
    const list = item as readonly ShardSpec[];
    if (list.length === 0 || !list.every((path) => typeof path === "string")) bad("a list with an empty or a deeper list");
    return list as string[];
  });
}
