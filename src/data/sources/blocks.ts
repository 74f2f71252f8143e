/**
 * Several configs in one block (multi_config): datasets that are batched and augmented each in its own way, and come together batch by batch.
 * Source: NeMo, dataloader.py (get_lhotse_dataloader_from_multi_config).
 */
import { ConfigError } from "../../util/errors.ts";
import { createSampler, FusedSampler } from "../sampling/index.ts";
import { type ConfigNode, configNode, isMapNode } from "./configTree.ts";
import type { SourceCut } from "./cut.ts";
import { keyOf, readKey, unknownKey } from "./lhotseConfig.ts";
import { type OpenedSources, type OpenSourcesOptions, openSources } from "./open.ts";
import { samplerOptionsOf } from "./samplerOptions.ts";

/** Keys that hold for all configs, whatever these say. */
const shared = [
  "seed",
  "shard_seed",
  "num_workers",
  "pin_memory",
  "shuffle",
  "metadata_only",
  "force_finite",
  "indexed",
  "indexes_root",
  "index_pack_root",
  "use_stateful_dataloader",
];
/** Keys of the block itself. */
const own = ["multi_config", "sampler_fusion", "sampler_weights", "use_lhotse"];

/** A block of several configs. */
export interface ConfigBlocks {
  fusion: "round_robin" | "randomized_round_robin" | "zip";
  weights: Readonly<Record<string, number>> | undefined;
  /** With the keys of the block that hold for all. */
  blocks: readonly { name: string; node: ConfigNode }[];
}

/** True where a block holds several configs. */
export const isMultiConfig = (block: ConfigNode): boolean => isMapNode(block) && block.value.get("multi_config")?.value === true;

/** The configs of a block. @throws ConfigError CONFIG_BAD_VALUE, CONFIG_UNKNOWN_OPTION, MIX_BAD_WEIGHT at file:line */
export function configBlocks(block: ConfigNode, onWarning: (message: string) => void = () => {}): ConfigBlocks {
  const refuse = (node: ConfigNode, message: string, fix: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", { at: node.at, message: `${node.path}${node.path === "" ? "" : " "}${message}`, fix });
  };
  if (!isMapNode(block)) return refuse(block, "is no block of keys", "write keys and values");
  const common = new Map<string, ConfigNode>();
  const found = new Map<string, ConfigNode>();
  const blocks: { name: string; node: ConfigNode & { value: Map<string, ConfigNode> } }[] = [];
  for (const [spelling, node] of block.value) {
    const key = keyOf(spelling, node.at, onWarning);
    if (own.includes(key)) found.set(key, node);
    else if (shared.includes(key)) common.set(key, node);
    else if (isMapNode(node)) blocks.push({ name: spelling, node });
    else throw unknownKey(spelling, node, [...own, ...shared]);
  }
  if (blocks.length === 0) refuse(block, "holds no config", "write each under a name of its own");
  for (const key of ["seed", "shard_seed", "shuffle"])
    if (!common.has(key)) refuse(block, `lacks ${key}, which holds for all of its configs`, `write ${key} beside multi_config, as NeMo wants it`);
  const read = <T>(key: string, initial: T): T => {
    const node = found.get(key);
    return node && node.value !== null ? (readKey(key, node) as T) : initial;
  };
  const weights = read<Readonly<Record<string, number>> | undefined>("sampler_weights", undefined);
  const at = found.get("sampler_weights")?.at;
  if (weights) {
    const names = blocks.map(({ name }) => name);
    const missing = names.find((name) => weights[name] === undefined);
    const other = Object.keys(weights).find((name) => !names.includes(name));
    if (missing !== undefined || other !== undefined)
      throw new ConfigError("MIX_BAD_WEIGHT", {
        ...(at === undefined ? {} : { at }),
        message: missing === undefined ? `sampler_weights names ${other}, and there is no such config` : `sampler_weights has no weight for ${missing}`,
        fix: `give one for each of ${names.join(", ")}`,
      });
  }
  return {
    fusion: read<ConfigBlocks["fusion"]>("sampler_fusion", "round_robin"),
    weights,
    blocks: blocks.map(({ name, node }) => ({ name, node: { ...node, value: new Map([...node.value, ...common]) } })),
  };
}

/** Several configs, opened. */
export interface OpenedBlocks {
  fusion: ConfigBlocks["fusion"];
  weights: ConfigBlocks["weights"];
  blocks: readonly { name: string; opened: OpenedSources }[];
}

/**
 * Opens the datasets of all configs of a block.
 * @param block the keys of train_ds with `multi_config: true`: of `readConfig`, or plain JavaScript with NeMo's names
 * @throws what `openSources` throws
 */
export async function openBlocks(block: ConfigNode | Readonly<Record<string, unknown>>, options: OpenSourcesOptions = {}): Promise<OpenedBlocks> {
  const node = (block as ConfigNode).value instanceof Map ? (block as ConfigNode) : configNode(block, "config");
  const { fusion, weights, blocks } = configBlocks(node, options.onWarning);
  const opened: { name: string; opened: OpenedSources }[] = [];
  for (const { name, node: one } of blocks) opened.push({ name, opened: await openSources(one, options) });
  return { fusion, weights, blocks: opened };
}

/** The sampler of a block's configs, whose cuts say which of them they are of. @throws what `createSampler` throws */
export async function createBlocksSampler({ fusion, weights, blocks }: OpenedBlocks, ranks: { rank?: number; worldSize?: number } = {}): Promise<FusedSampler<SourceCut>> {
  const parts = [];
  for (const { name, opened } of blocks) {
    const { source, config, places } = opened;
    const at = [...places.values()][0]?.at ?? name;
    parts.push({ name, sampler: await createSampler(source, samplerOptionsOf(config, { ...ranks, at })), weight: weights?.[name] });
  }
  const seed = blocks[0]?.opened.config.seed;
  return new FusedSampler(parts, { fusion, seed: typeof seed === "number" ? seed : 0, mark: (cut, block) => ({ ...cut, block }) });
}
