/** Options of `serac tar` and of `convertToTarred`: those of NeMo's convert_to_tarred_audio_dataset.py, and a few of our own. */
import { ConfigError } from "../../../util/errors.ts";
import { boolean, choice, integer, number, type Options, type OptionsInput, parseOptions, path, strings } from "../../../util/options.ts";

const neMo = "As in NeMo's script";
const own = "Beyond NeMo's script";

/** Codecs that audio can be written in; libsndfile's names, and Opus in an Ogg file. */
export const tarCodecs = ["wav", "flac", "ogg", "opus", "mp3"] as const;
export type TarCodec = (typeof tarCodecs)[number];

export const convertOptions = {
  manifestPath: strings({ unit: "files", help: "manifests to tar; with --concat-manifest-paths: the manifest of the tarred dataset", group: neMo }),
  concatManifestPaths: strings({ unit: "files", help: "manifests to append to a tarred dataset", group: neMo }),
  targetDir: path({ default: "./tarred", help: "folder for tar files and manifests", group: neMo }),
  metadataPath: path({ help: "metadata.yaml of the dataset that is appended to", group: neMo }),
  numShards: integer({ min: 1, help: "number of tar files", group: neMo }),
  maxDuration: number({ unit: "seconds", help: "keep utterances shorter than this", group: neMo }),
  minDuration: number({ unit: "seconds", help: "keep utterances of at least this length", group: neMo }),
  shuffle: boolean({ default: false, help: "shuffle before sharding", group: neMo }),
  shuffleSeed: integer({ help: "seed of the shuffle: the order is that of Python's random.seed and random.shuffle; without it one is drawn and recorded", group: neMo }),
  keepFilesTogether: boolean({ default: false, help: "shuffle files, not utterances", group: neMo }),
  sliceWithOffset: boolean({ default: false, help: "cut the audio by offset and duration; else files are stored whole, once a shard", group: neMo }),
  sortInShards: boolean({ default: false, help: "sort each shard by duration", group: neMo }),
  bucketsNum: integer({ default: 1, min: 1, help: "make so many datasets, of equal ranges of duration", group: neMo }),
  dynamicBucketsNum: integer({ default: 30, min: 1, help: "buckets whose borders are estimated for metadata.yaml", group: neMo }),
  writeMetadata: boolean({ default: false, help: "write default_metadata.yaml and stop", group: neMo }),
  shardManifests: boolean({ default: true, help: "write sharded_manifests; --no-shard-manifests writes none", group: neMo }),
  forceCodec: choice(tarCodecs, { help: "store all audio in this codec", group: neMo }),
  forceSamplingRate: integer({ min: 1, max: 1_000_000, unit: "hertz", help: "store all audio at this rate", group: neMo }),
  onlyManifests: boolean({ default: false, help: "write manifests alone, with abs_audio_filepath; tar shards with: serac tar shards", group: neMo }),
  dryRun: boolean({ default: false, help: "print the figures and write nothing", group: neMo }),
  workers: integer({ default: -1, min: -1, help: "threads that write shards; -1 is one for each core", group: neMo }),
  keepRemainder: boolean({ default: false, help: "spread what the number of shards does not divide over the first shards, instead of dropping it", group: own }),
  deterministicHeaders: boolean({ default: false, help: "store no times, owners and modes of files", group: own }),
  overwrite: boolean({ default: false, help: "replace a dataset that is in the folder already", group: own }),
  skipUnreadable: boolean({ default: false, help: "leave out utterances whose audio is missing, unreadable or empty, and count them", group: own }),
};

export type ConvertOptions = Options<typeof convertOptions>;
export type ConvertInput = OptionsInput<typeof convertOptions>;

/** True where audio is written anew, and not copied as it is. */
export const encodes = ({ sliceWithOffset, forceCodec, forceSamplingRate }: Pick<ConvertOptions, "sliceWithOffset" | "forceCodec" | "forceSamplingRate">): boolean =>
  sliceWithOffset || forceCodec !== undefined || forceSamplingRate !== undefined;

/** @returns checked options. @throws ConfigError CONFIG_BAD_VALUE */
export function readOptions(input: ConvertInput): ConvertOptions {
  const options = parseOptions(convertOptions, input as Record<string, unknown>);
  const bad = (message: string) => new ConfigError("CONFIG_BAD_VALUE", { message });
  if (options.maxDuration === undefined) throw bad("--max_duration is missing, expected a number (NeMo's script wants it too)");
  if (options.minDuration !== undefined && options.minDuration >= options.maxDuration)
    throw bad(`--min_duration ${options.minDuration} is not below --max_duration ${options.maxDuration}: nothing could pass`);
  if (options.workers === 0) throw bad("--workers is 0, expected -1 or a number of threads");
  if (options.targetDir.includes("://"))
    throw bad(`--target_dir ${options.targetDir} is a store, which cannot be written to; write to a folder and copy it, for example with: ais put`);
  if (options.writeMetadata) return options;
  if (options.manifestPath === undefined) throw bad("--manifest_path is missing, expected manifests");
  if (options.concatManifestPaths !== undefined) {
    if (options.bucketsNum > 1) throw bad("--buckets_num cannot be more than 1 where a dataset is appended to");
    if (options.metadataPath === undefined) throw bad("--metadata_path is missing: appending needs the metadata.yaml of the dataset");
    if (options.manifestPath.length > 1) throw bad("--manifest_path names more than one manifest: give that of the tarred dataset");
  } else if (options.numShards === undefined) throw bad("--num_shards is missing, expected a whole number of 1 or more");
  if (options.bucketsNum > 1 && options.minDuration === undefined) throw bad("--buckets_num needs --min_duration, because buckets divide the range from it to --max_duration");
  return options;
}
