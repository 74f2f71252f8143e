/**
 * Opens what training and validation read, whichever way it is named: manifests, the cuts of icefall's recipe, or a block of NeMo's. Metadata alone is read;
 * what cannot be trained on is counted by reason.
 */
import { blockNames, configNode, type ItemSource, type SourceCut } from "../data/index.ts";
import { ConfigError } from "../util/errors.ts";
import { transformsOf } from "./augment.ts";
import { checkBesideBlock } from "./dataOptions.ts";
import { type BlockKind, openBlock } from "./openBlock.ts";
import { type DescribedData, describe, type OpenContext, type OpenedData, openConfig, samplerOf, type UtteranceBounds, unbounded, withSpeeds } from "./openedData.ts";
import type { TrainOptions } from "./options.ts";
import { recipeCuts } from "./recipeCuts.ts";

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
    return openBlock(context, trainDs, overrides, "train");
  }
  const recipe = trainManifest ? undefined : recipeCuts(options);
  const keys = recipe ? { cuts_path: recipe.train } : manifestKeys(trainManifest ?? [], options.trainTarredAudioFilepaths);
  const { maxDuration, numBuckets, shuffle, dropLast, bucketingSampler, seed } = options;
  const { source, ...described } = await openKeys(context, keys, recipe ? "--manifest-dir" : "--train-manifest", boundsOf(options));
  return {
    ...described,
    transforms: await transformsOf(options, recipe?.musan),
    seed,
    // Planned as a whole, so that the steps of an epoch are known.
    createSampler: () =>
      samplerOf(withSpeeds(source, options), { kind: bucketingSampler ? "static" : "simple", tooLong: "alone", maxDuration, numBuckets, shuffle, dropLast, seed }),
    batchSeconds: maxDuration,
  };
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
  const trainsOnBlock = trainDs !== undefined || overridesOf(options, "train").length > 0;
  const usesRecipe = !validManifest && !trainManifest && !trainsOnBlock;
  if (!validManifest && !usesRecipe) return undefined;
  const keys = validManifest ? manifestKeys(validManifest, options.validTarredAudioFilepaths) : { cuts_path: recipeCuts(options, say).valid };
  const { source, ...described } = await openKeys(context, keys, validManifest ? "--valid-manifest" : "--manifest-dir", unbounded); // as in the recipe
  return {
    ...described,
    transforms: await transformsOf({ ...options, concatenateCuts: false, enableMusan: false, rirEnabled: false }, undefined),
    seed: options.seed,
    createSampler: () => samplerOf(source, { kind: "static", tooLong: "alone", maxDuration: batchSeconds, numBuckets: validBuckets }),
    batchSeconds,
  };
}

/** The overrides of a kind of data. @throws ConfigError for one that is of neither */
function overridesOf({ overrides = [] }: TrainOptions, kind: BlockKind): string[] {
  const isOf = (one: string, of: BlockKind): boolean => blockNames[of].some((name) => new RegExp(`^[~+]*(?:\\w+\\.)?${name}[.=]`).test(one));
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

const boundsOf = ({ minUtterance, maxUtterance }: TrainOptions): UtteranceBounds => ({ min: minUtterance, max: maxUtterance });

/** Opens what a flag names. */
async function openKeys(context: OpenContext, keys: Record<string, unknown>, flag: string, bounds: UtteranceBounds): Promise<DescribedData & { source: ItemSource<SourceCut> }> {
  const name = (Object.values(keys)[0] as string[]).join(", ");
  const opened = await openConfig(configNode(keys, flag), context, bounds);
  return { ...(await describe(name, opened)), source: opened.source };
}
