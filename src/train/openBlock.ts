/** Opens a block of NeMo's: its keys, an input_cfg, or several configs at once (multi_config). */
import {
  blockNames,
  blocksLoaderOptionsOf,
  type ConfigNode,
  configBlock,
  configBlocks,
  configNode,
  createBlocksSampler,
  emptyConfig,
  Filling,
  isMultiConfig,
  LeftOut,
  loaderOptionsOf,
  type OpenedSources,
  type SamplerOptions,
  samplerOptionsOf,
  tooLongError,
} from "../data/index.ts";
import { ConfigError } from "../util/errors.ts";
import type { BlockSpec } from "./dataOptions.ts";
import { describe, itemsOf, type OpenContext, type OpenedData, openConfig, samplerOf, unbounded, withSpeeds } from "./openedData.ts";
import type { TrainOptions } from "./options.ts";

/** What a block is for. */
export type BlockKind = keyof typeof blockNames;

/**
 * Opens a block. Of validation each utterance comes once, in order.
 * @param spec undefined where overrides alone make it
 * @throws ConfigError, ManifestError, FormatError at file:line; TrainError TRAIN_NO_DATA
 */
export async function openBlock(context: OpenContext, spec: BlockSpec | undefined, overrides: readonly string[], kind: BlockKind): Promise<OpenedData> {
  const { options, say } = context;
  const config = typeof spec === "string" ? spec : spec === undefined ? emptyConfig() : configNode(spec, kind === "train" ? "trainDs" : "validationDs");
  const { block } = configBlock(config, { names: blockNames[kind], overrides });
  const keys = kind === "train" ? block : withKeys(block, { force_finite: true, shuffle: false, drop_last: false });
  if (kind === "train" && block.value instanceof Map && !block.value.has("shuffle"))
    say(`${block.at}: shuffle is not set, so utterances come in the order of their files, as in NeMo`);
  if (isMultiConfig(keys)) return openSeveral(context, keys);
  const { opened, sampler } = await openOne(context, keys);
  const described = await describe(block.at, opened);
  return {
    ...described,
    createSampler: () => samplerOf(kind === "train" ? withSpeeds(opened.source, options) : opened.source, sampler),
    transforms: [...((await loaderOptionsOf(opened.config)).cutTransforms ?? [])],
    seed: typeof opened.config.seed === "number" ? opened.config.seed : options.seed,
    batchSeconds: batchSecondsOf(sampler, described.durations),
  };
}

/** The block with other values for some keys; those of several configs (drop_last) in each of them. */
function withKeys(block: ConfigNode, values: Readonly<Record<string, boolean>>): ConfigNode {
  if (!(block.value instanceof Map)) return block;
  const own = Object.entries(values).map(([key, value]) => [key, configNode(value, block.at, key)] as const);
  if (!isMultiConfig(block)) return { ...block, value: new Map([...block.value, ...own]) };
  const shared = own.filter(([key]) => key !== "drop_last");
  return { ...block, value: new Map([...block.value, ...shared]) };
}

/** Opens the keys of one config, and checks what training asks of them. */
async function openOne(context: OpenContext, keys: ConfigNode): Promise<{ opened: OpenedSources; sampler: SamplerOptions }> {
  const { options } = context;
  const opened = await openConfig(keys, context, unbounded);
  const { places, config } = opened;
  checkRate(opened, options);
  const at = (places.get("max_duration") ?? [...places.values()][0])?.at ?? keys.at;
  const seeded = ["seed", "shard_seed"].some((key) => typeof places.get(key)?.value === "number");
  const sampler = { ...samplerOptionsOf(config, { at }), ...(seeded ? {} : { seed: options.seed }) };
  const filling = new Filling(sampler);
  for (const leaf of opened.leaves)
    for await (const { ref, duration } of itemsOf(leaf.source)) if (filling.tooLong(duration)) throw tooLongError(duration, filling.cost(duration), leaf.source.where(ref));
  return { opened, sampler };
}

function checkRate({ places, config }: OpenedSources, { sampleRate }: TrainOptions): void {
  const rate = places.get("sample_rate");
  if (!rate || config.sampleRate === sampleRate) return;
  throw new ConfigError("CONFIG_BAD_VALUE", {
    at: rate.at,
    message: `${rate.path} is ${config.sampleRate}, and the model's features are of --sample-rate ${sampleRate}`,
    fix: `give --sample-rate ${config.sampleRate}, or take the key away`,
  });
}

/** Several configs, each batched and augmented in its own way. */
async function openSeveral(context: OpenContext, block: ConfigNode): Promise<OpenedData> {
  const { options, say } = context;
  const { fusion, weights, blocks } = configBlocks(block, say);
  const parts = [];
  for (const { name, node } of blocks) parts.push({ name, ...(await openOne(context, node)) });
  const leaves = parts.flatMap(({ opened }) => opened.leaves);
  const described = await describe(block.at, { leaves, infinite: parts.some(({ opened }) => opened.infinite) });
  const withSources = parts.map(({ name, opened }) => ({ name, opened: { ...opened, source: withSpeeds(opened.source, options) } }));
  const { seed = options.seed, cutTransforms = [] } = await blocksLoaderOptionsOf({ fusion, weights, blocks: withSources });
  const seconds = parts.map(({ sampler }) => batchSecondsOf(sampler, described.durations));
  return {
    ...described,
    createSampler: async () => ({ sampler: await createBlocksSampler({ fusion, weights, blocks: withSources }), warnings: [], leftOut: new LeftOut() }),
    transforms: [...cutTransforms],
    seed,
    batchSeconds: fusion === "zip" ? seconds.reduce((sum, one) => sum + one, 0) : Math.max(...seconds),
  };
}

/** Seconds of the largest batch that these limits allow. */
function batchSecondsOf({ maxDuration, maxCuts, bucketBatchSize, durationBins }: SamplerOptions, durations: Float64Array): number {
  if (maxDuration !== undefined) return maxDuration;
  if (bucketBatchSize && durationBins)
    return durationBins.reduce<number>((most, bin, i) => Math.max(most, (typeof bin === "number" ? bin : (bin[0] as number)) * (bucketBatchSize[i] as number)), 0);
  return (maxCuts ?? 1) * (durations.reduce((sum, duration) => sum + duration, 0) / durations.length);
}
