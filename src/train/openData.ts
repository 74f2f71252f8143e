/**
 * Opens what training and validation read, whichever way it is named: manifests, the cuts of icefall's recipe, or a block of NeMo's. Metadata alone is read;
 * what cannot be trained on is counted by reason.
 */
import {
  blockNames,
  type ConfigNode,
  configBlock,
  configNode,
  DrawnSpeedSource,
  emptyConfig,
  Filling,
  type ItemSource,
  LeftOut,
  type OpenedSources,
  openSources,
  type SamplerOptions,
  type SourceCut,
  samplerOptionsOf,
  tooLongError,
  utteranceFilter,
} from "../data/index.ts";
import type { SentencePiece } from "../text/index.ts";
import { ConfigError, ManifestError, messageOf, TrainError } from "../util/errors.ts";
import { type CutTransform, transformsOf, transformsOfBlock } from "./augment.ts";
import { type BlockSpec, checkBesideBlock } from "./dataOptions.ts";
import type { TrainOptions } from "./options.ts";
import { recipeCuts } from "./recipeCuts.ts";

/** Data that was opened: what to sample from and how, and what was left out. */
export interface OpenedData {
  /** What messages call it: manifests, or where the block stands. */
  name: string;
  source: ItemSource<SourceCut>;
  /** Seconds of each utterance, ascending. */
  durations: Float64Array;
  sources: number;
  infinite: boolean;
  leftOut: LeftOut;
  sampler: SamplerOptions;
  transforms: CutTransform[];
  /** Seeds augmentation. */
  seed: number;
  /** Seconds of a batch, padding included, at most: what schedules go by. */
  batchSeconds: number;
}

/** Who opens data, and for whom. */
export interface OpenContext {
  options: TrainOptions;
  /** Names of the options that were given. */
  given: ReadonlySet<string>;
  tokenizer: SentencePiece;
  /** Names the tokenizer: what depends on it is kept in indices under this name. */
  tokenizerKey: string;
  say: (line: string) => void;
}

/** Training data. @throws ConfigError; ManifestError, FormatError of reading; TrainError TRAIN_NO_DATA when nothing is left */
export async function openTrainData(context: OpenContext): Promise<OpenedData> {
  const { options, given } = context;
  const { trainManifest, trainDs } = options;
  const overrides = overridesOf(options, "train");
  const usesBlock = trainDs !== undefined || overrides.length > 0;
  const ways = [
    trainManifest && "--train-manifest",
    usesBlock && (trainDs === undefined ? "train_ds overrides" : "--train-ds"),
    given.has("manifestDir") && "--manifest-dir",
  ].filter((way) => way !== undefined && way !== false);
  if (ways.length > 1)
    throw new ConfigError("CONFIG_BAD_VALUE", {
      message: `training data is named by ${ways.join(" and by ")}`,
      fix: "name it one way; an input_cfg in a train_ds mixes several corpora",
    });
  if (usesBlock) {
    checkBesideBlock(given);
    return withSpeeds(await openBlock(context, trainDs, overrides, "train"), options);
  }
  const recipe = trainManifest ? undefined : recipeCuts(options);
  const keys = recipe ? { cuts_path: recipe.train } : manifestKeys(trainManifest ?? [], options.trainTarredAudioFilepaths);
  const { maxDuration, numBuckets, shuffle, dropLast, bucketingSampler, seed } = options;
  return withSpeeds(
    {
      ...(await openKeys(context, keys, recipe ? "--manifest-dir" : "--train-manifest")),
      transforms: await transformsOf(options, recipe?.musan),
      seed,
      // Planned as a whole, so that the steps of an epoch are known.
      sampler: { kind: bucketingSampler ? "static" : "simple", tooLong: "alone", maxDuration, numBuckets, shuffle, dropLast, seed },
      batchSeconds: maxDuration,
    },
    options,
  );
}

/** Buckets of validation. Source: icefall, which leaves lhotse's default. */
const validBuckets = 10;

/** Validation data; undefined where none is named. @throws as `openTrainData` */
export async function openValidData(context: OpenContext, batchSeconds: number): Promise<OpenedData | undefined> {
  const { options, say } = context;
  const { validManifest, validationDs, trainManifest, trainDs } = options;
  const overrides = overridesOf(options, "validation");
  const usesBlock = validationDs !== undefined || overrides.length > 0;
  if (validManifest && usesBlock)
    throw new ConfigError("CONFIG_BAD_VALUE", { message: "validation data is named by --valid-manifest and by a validation_ds", fix: "name it one way" });
  if (usesBlock) return openBlock(context, validationDs, overrides, "validation");
  const usesRecipe = !validManifest && !trainManifest && trainDs === undefined && overridesOf(options, "train").length === 0;
  if (!validManifest && !usesRecipe) return undefined;
  const keys = validManifest ? manifestKeys(validManifest, options.validTarredAudioFilepaths) : { cuts_path: recipeCuts(options, say).valid };
  return {
    ...(await openKeys(context, keys, validManifest ? "--valid-manifest" : "--manifest-dir")),
    transforms: await transformsOf({ ...options, concatenateCuts: false, enableMusan: false, rirEnabled: false }, undefined),
    seed: options.seed,
    sampler: { kind: "static", tooLong: "alone", maxDuration: batchSeconds, numBuckets: validBuckets },
    batchSeconds,
  };
}

/** The overrides of a kind of data. @throws ConfigError for one that is of neither */
function overridesOf({ overrides = [] }: TrainOptions, kind: keyof typeof blockNames): string[] {
  const isOf = (one: string, of: keyof typeof blockNames): boolean => blockNames[of].some((name) => new RegExp(`^[~+]*(?:\\w+\\.)?${name}[.=]`).test(one));
  const neither = overrides.find((one) => !isOf(one, "train") && !isOf(one, "validation"));
  if (neither !== undefined)
    throw new ConfigError("CONFIG_BAD_VALUE", {
      at: "command line",
      message: `${neither} is neither a flag nor an override of train_ds or validation_ds`,
      fix: "write train_ds.KEY=VALUE or --flag VALUE",
    });
  return overrides.filter((one) => isOf(one, kind));
}

const manifestKeys = (manifests: readonly string[], tars: readonly string[] | undefined): Record<string, unknown> => ({
  manifest_filepath: manifests,
  ...(tars ? { tarred_audio_filepaths: tars, force_finite: true } : {}),
});

type Opened = Pick<OpenedData, "name" | "source" | "durations" | "sources" | "infinite" | "leftOut">;

/** Opens the keys of a block, with what training leaves out. */
async function open(keys: ConfigNode, { options, tokenizer, tokenizerKey, say }: OpenContext, bounds: { min: number; max: number }): Promise<OpenedSources> {
  try {
    return await openSources(keys, {
      countTokens: (text) => tokenizer.encode(text).length,
      tokensKey: tokenizerKey,
      filter: {
        key: `${tokenizerKey}-${bounds.min}-${bounds.max}-${options.sampleRate}-${options.useCtc}`.replace(/[^\w-]/g, "_"),
        why: utteranceFilter({
          minUtterance: bounds.min,
          maxUtterance: bounds.max,
          sampleRate: options.sampleRate,
          ctc: options.useCtc,
          encode: (text) => tokenizer.encode(text),
          unkId: tokenizer.unkId,
        }),
      },
      onBad: options.onBad,
      onWarning: say,
    });
  } catch (error) {
    if (!(error instanceof ManifestError) || error.code !== "SOURCE_EMPTY") throw error;
    throw new TrainError("TRAIN_NO_DATA", {
      at: error.at,
      message: messageOf(error),
      fix: "check --min-utterance, --max-utterance and the tokenizer; serac manifest check names lines that cannot be used",
      cause: error,
    });
  }
}

/** Opens what a flag names. */
async function openKeys(context: OpenContext, keys: Record<string, unknown>, flag: string): Promise<Opened> {
  const { minUtterance, maxUtterance } = context.options;
  const name = (Object.values(keys)[0] as string[]).join(", ");
  return describe(name, await open(configNode(keys, flag), context, { min: minUtterance, max: maxUtterance }));
}

async function describe(name: string, { source, leaves, infinite }: OpenedSources): Promise<Opened> {
  const leftOut = new LeftOut();
  for (const leaf of leaves) leftOut.addAll(leaf.leftOut);
  const durations = new Float64Array(leaves.reduce((sum, leaf) => sum + leaf.source.length, 0));
  let count = 0;
  for (const leaf of leaves)
    for await (const { duration } of itemsOf(leaf.source)) {
      durations[count] = duration;
      count++;
    }
  return { name, source, infinite, leftOut, sources: leaves.length, durations: durations.sort() };
}

async function* itemsOf(source: ItemSource<unknown>): AsyncGenerator<{ ref: number; duration: number }> {
  const stream = await source.open({ epoch: 0, seed: 0, shuffle: false });
  for (let block = await stream.read(1024); block; block = await stream.read(1024))
    for (let i = 0; i < block.count; i++) yield { ref: block.refs[i] as number, duration: block.durations[i] as number };
  await stream.close();
}

/** Opens a block of NeMo's. Of validation each utterance comes once, in order. */
async function openBlock(context: OpenContext, spec: BlockSpec | undefined, overrides: readonly string[], kind: keyof typeof blockNames): Promise<OpenedData> {
  const { options, say } = context;
  const names = blockNames[kind];
  const config = typeof spec === "string" ? spec : spec === undefined ? emptyConfig() : configNode(spec, kind === "train" ? "trainDs" : "validationDs");
  const { block } = configBlock(config, { names, overrides });
  const keys =
    block.value instanceof Map && kind === "validation" ? { ...block, value: new Map([...block.value, ["force_finite", configNode(true, block.at, "force_finite")]]) } : block;
  const opened = await open(keys, context, { min: 0, max: Number.POSITIVE_INFINITY });
  const { places } = opened;
  const rate = places.get("sample_rate");
  if (rate && opened.config.sampleRate !== options.sampleRate)
    throw new ConfigError("CONFIG_BAD_VALUE", {
      at: rate.at,
      message: `${rate.path} is ${opened.config.sampleRate}, and the model's features are of --sample-rate ${options.sampleRate}`,
      fix: `give --sample-rate ${opened.config.sampleRate}, or take the key away`,
    });
  if (kind === "train" && !places.has("shuffle")) say(`${block.at}: shuffle is not set, so utterances come in the order of their files, as in NeMo`);
  const at = (places.get("max_duration") ?? [...places.values()][0])?.at ?? block.at;
  const seeded = ["seed", "shard_seed"].some((key) => typeof places.get(key)?.value === "number");
  const sampler = { ...samplerOptionsOf(opened.config, { at }), ...(seeded ? {} : { seed: options.seed }), ...(kind === "train" ? {} : { shuffle: false, dropLast: false }) };
  const filling = new Filling(sampler);
  for (const leaf of opened.leaves)
    for await (const { ref, duration } of itemsOf(leaf.source)) if (filling.tooLong(duration)) throw tooLongError(duration, filling.cost(duration), leaf.source.where(ref));
  const described = await describe(block.at, opened);
  return {
    ...described,
    sampler,
    transforms: await transformsOfBlock(opened.config),
    seed: typeof opened.config.seed === "number" ? opened.config.seed : options.seed,
    batchSeconds: batchSecondsOf(sampler, described.durations),
  };
}

/** Seconds of the largest batch that these limits allow. */
function batchSecondsOf({ maxDuration, maxCuts, bucketBatchSize, durationBins }: SamplerOptions, durations: Float64Array): number {
  if (maxDuration !== undefined) return maxDuration;
  if (bucketBatchSize && durationBins)
    return durationBins.reduce<number>((most, bin, i) => Math.max(most, (typeof bin === "number" ? bin : (bin[0] as number)) * (bucketBatchSize[i] as number)), 0);
  return (maxCuts ?? 1) * (durations.reduce((sum, duration) => sum + duration, 0) / durations.length);
}

const speeds = [0.9, 1, 1.1];

function withSpeeds(data: OpenedData, { speedPerturb, seed, sampleRate }: TrainOptions): OpenedData {
  return speedPerturb ? { ...data, source: new DrawnSpeedSource(data.source, { factors: speeds, seed, sampleRate }) } : data;
}

/** "2,700 utterances, 0.32 h, 0.14 to 2.3 s (median 0.42)" */
export function describeData({ durations, sources, infinite }: Pick<OpenedData, "durations" | "sources" | "infinite">): string {
  const at = (q: number): string => String(Number((durations[Math.min(durations.length - 1, Math.floor(q * durations.length))] as number).toPrecision(3)));
  const hours = durations.reduce((sum, duration) => sum + duration, 0) / 3600;
  const of = sources === 1 ? "" : ` of ${sources} sources`;
  return `${durations.length} utterances${of}, ${hours.toFixed(2)} h${infinite ? ", without end" : ""}, ${at(0)} to ${at(1)} s (median ${at(0.5)}, 95 % below ${at(0.95)})`;
}
