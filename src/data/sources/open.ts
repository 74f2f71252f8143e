/** Opens what a config names: one source for samplers, mixed by weight, and what is in it. No audio is read. */
import { ConfigError, FormatError } from "../../util/errors.ts";
import { type ColumnSource, type ItemSource, SlicedSource } from "../sampling/index.ts";
import { type ConfigNode, configNode } from "./configTree.ts";
import { speakerIds } from "./contentFilters.ts";
import type { SourceCut } from "./cut.ts";
import { readExtraFields } from "./extraFields.ts";
import { type GroupSpec, isStream, type LeafSpec, type SourceSpec, sourceTree } from "./inputCfg.ts";
import type { CutSource, Leaf, LeafOptions, UtteranceFilter } from "./leaf.ts";
import { lhotseLeaf } from "./lhotse.ts";
import { type LhotseDataLoadingConfig, type ReadLhotseConfig, readLhotseConfig } from "./lhotseConfig.ts";
import { MuxSource } from "./mux.ts";
import { nemoLeaf } from "./nemo.ts";
import { nemoTarredLeaf } from "./nemoTarred.ts";
import { sharLeaf } from "./shar.ts";

/** What a config does not say. */
export interface OpenSourcesOptions {
  /** Counts tokens of a text: for 2-D bins, min_tps and max_tps. */
  countTokens?: ((text: string, lang: string | undefined) => number) | undefined;
  /** Counts them also where nothing depends on them: to be told of. */
  countAlways?: boolean | undefined;
  /** Names what counts (letters, digits, - and _), so that counts are kept in indices; without it they are counted again at each start. */
  tokensKey?: string | undefined;
  /** Leaves out utterances beyond what the config says. */
  filter?: UtteranceFilter | undefined;
  /** What happens to lines that cannot be used: "throw" by default. */
  onBad?: "throw" | "skip" | "warn";
  onWarning?: (message: string) => void;
  onProgress?: (lines: number) => void;
}

/** A dataset and how much of the draws it has. */
export interface OpenedLeaf extends Leaf {
  /** Its share of the utterances that a mixture without end draws; of a finite one, its part of the utterances. */
  share: number;
}

/** What a config names, opened. */
export interface OpenedSources {
  source: ItemSource<SourceCut>;
  config: LhotseDataLoadingConfig;
  places: ReadonlyMap<string, ConfigNode>;
  leaves: readonly OpenedLeaf[];
  /** True for a source without end. */
  infinite: boolean;
}

const toStandardError = (message: string): void => void process.stderr.write(`serac: ${message}\n`);

/**
 * Opens the datasets of a config.
 * @param block the keys of train_ds: of `readConfig`, or plain JavaScript with NeMo's names
 * @throws ConfigError CONFIG_UNKNOWN_OPTION, CONFIG_BAD_VALUE, MIX_BAD_WEIGHT, MIX_UNKNOWN_TYPE; ManifestError SOURCE_EMPTY and others at file:line; FormatError of reading
 */
export async function openSources(block: ConfigNode | Readonly<Record<string, unknown>>, options: OpenSourcesOptions = {}): Promise<OpenedSources> {
  const { onWarning = toStandardError } = options;
  const node = isNode(block) ? block : configNode(block, "config");
  const read = readLhotseConfig(node, onWarning);
  const tree = sourceTree(read, node, onWarning);
  return new Opener(read, { ...options, onWarning }).open(tree, node);
}

const isNode = (block: ConfigNode | Readonly<Record<string, unknown>>): block is ConfigNode =>
  (block as ConfigNode).value instanceof Map && typeof (block as ConfigNode).at === "string";

/** A part of the tree, opened. */
interface Part {
  source: ItemSource<SourceCut>;
  leaves: OpenedLeaf[];
  utterances: number;
  infinite: boolean;
}

class Opener {
  private readonly read: ReadLhotseConfig;
  private readonly options: OpenSourcesOptions & { onWarning: (message: string) => void };
  private mixtures = 0;

  constructor(read: ReadLhotseConfig, options: OpenSourcesOptions & { onWarning: (message: string) => void }) {
    this.read = read;
    this.options = options;
  }

  async open(tree: SourceSpec, block: ConfigNode): Promise<OpenedSources> {
    const { config, places } = this.read;
    const needsTokens = config.minTps > 0 || (config.maxTps !== undefined && config.maxTps !== Number.POSITIVE_INFINITY) || Array.isArray(config.bucketDurationBins?.[0]);
    if (needsTokens && !this.options.countTokens)
      throw new ConfigError("CONFIG_BAD_VALUE", {
        at: (places.get("min_tps") ?? places.get("max_tps") ?? places.get("bucket_duration_bins") ?? block).at,
        message: "min_tps, max_tps and bins of seconds and tokens need a tokenizer to count tokens",
        fix: "give one (--bpe-model)",
      });
    if (config.maxOpenStreams !== undefined && (config.forceFinite || config.metadataOnly))
      throw new ConfigError("CONFIG_BAD_VALUE", {
        at: places.get("max_open_streams")?.at,
        message: "max_open_streams does not go with force_finite or metadata_only: shards are drawn with replacement, so that one pass would miss some",
        fix: "leave out one of them",
      });
    const part = await this.part(tree, needsTokens || (this.options.countAlways ?? false));
    return { source: part.source, config, places, leaves: part.leaves, infinite: part.infinite };
  }

  private salt(): number {
    return this.mixtures++ * 1_000_003;
  }

  private async part(spec: SourceSpec, needsTokens: boolean): Promise<Part> {
    return spec.kind === "group" ? this.group(spec, needsTokens) : this.leafPart(spec, needsTokens);
  }

  private async leafPart(spec: LeafSpec, needsTokens: boolean): Promise<Part> {
    const { config } = this.read;
    const { countTokens, tokensKey, filter, onBad = "throw", onWarning, onProgress } = this.options;
    const { maxTps, cutIntoWindowsDuration: window } = config;
    const leafOptions: LeafOptions = {
      textField: spec.inherited.textField,
      langField: spec.inherited.langField,
      channelSelector: config.channelSelector,
      copies: {
        perturbSpeed: config.perturbSpeed,
        truncate: config.truncateDuration,
        windows: window === undefined ? undefined : { duration: window, hop: config.cutIntoWindowsHop ?? window, keepExcessive: config.keepExcessiveSupervisions },
        pad: config.padMinDuration,
        sampleRate: config.sampleRate,
      },
      bounds: {
        minDuration: config.minDuration,
        maxDuration: config.maxDuration,
        minTps: config.minTps,
        maxTps: typeof maxTps === "number" ? maxTps : Number.POSITIVE_INFINITY, // one for each bin is the sampler's
      },
      content: {
        keep: config.keep,
        maxCer: config.maxCer,
        minContextSpeakerSimilarity: config.minContextSpeakerSimilarity,
        excludedSpeakers: config.excludedSpeakerIds ? speakerIds(config.excludedSpeakerIds) : new Set(),
        speakerFields: config.speakerFilterFields ?? [],
      },
      filter,
      extraFields: spec.inherited.extraFields ? readExtraFields(spec.inherited.extraFields) : [],
      tags: spec.tags,
      countTokens: needsTokens ? countTokens : undefined,
      tokensKey,
      onBad,
      onWarning,
      onProgress,
    };
    const inOrder = leafOptions.extraFields.find((field) => field.inOrder);
    if (inOrder && spec.kind !== "nemo")
      throw new ConfigError("CONFIG_BAD_VALUE", {
        at: spec.inherited.extraFields?.at ?? spec.at,
        message: `extra_fields gives ${inOrder.name} line by line (text_iter), and a source of type ${spec.kind} has no order of its own`,
        fix: "use the type text_sample, or put the values in the manifest",
      });
    const leaf = await openLeaf(spec, leafOptions).catch((error: unknown) => {
      throw missingFile(error, spec.at);
    });
    const { utterances } = leaf;
    const { forceFinite, metadataOnly, maxOpenStreams, shardSeed, sliceLength } = spec.inherited;
    const slices = (whole: ColumnSource<SourceCut>, shards: readonly ColumnSource<SourceCut>[]): CutSource =>
      sliceLength === undefined ? whole : new SlicedSource(whole, shards.length === 0 ? [whole.length] : shards.map(({ length }) => length), sliceLength);
    if (sliceLength !== undefined && !isStream(spec)) onWarning(`${spec.at}: slice_length changes nothing here: it is for tars and Shar folders`);
    const finite = isStream(spec) ? slices(leaf.source, leaf.shards) : leaf.source;
    const one = { leaves: [{ ...leaf, share: 1 }], utterances: leaf.source.length ?? utterances };
    // As in NeMo: tars and Shar folders are read again and again, other manifests once.
    if (!isStream(spec) || forceFinite || metadataOnly) return { ...one, source: finite, infinite: false };
    const streams = maxOpenStreams !== undefined && leaf.shards.length > 1;
    const source = new MuxSource(streams ? leaf.shards.map((shard) => slices(shard, [])) : [finite], {
      name: leaf.name,
      infinite: true,
      seed: shardSeed,
      salt: this.salt(),
      maxOpenStreams: streams ? maxOpenStreams : undefined,
    });
    return { ...one, source, infinite: true };
  }

  private async group(spec: GroupSpec, needsTokens: boolean): Promise<Part> {
    const { forceFinite, metadataOnly, maxOpenStreams, shardSeed } = spec.inherited;
    const infinite = spec.children.length > 1 && !forceFinite && !metadataOnly;
    const weights = spec.children.map(({ weight }) => weight);
    const parts: Part[] = [];
    for (const [i, child] of spec.children.entries()) {
      // Streams are dealt out by weight, so that the shares of the draws stay those of the weights.
      const share = (weights[i] ?? 1) / (weights.some((weight) => weight !== undefined) ? weights.reduce<number>((sum, weight) => sum + (weight ?? 0), 0) : spec.children.length);
      const streams = maxOpenStreams === undefined ? undefined : Math.max(1, Math.round(maxOpenStreams * share));
      parts.push(
        await this.part(
          { ...child, inherited: { ...child.inherited, maxOpenStreams: child.inherited.maxOpenStreams === maxOpenStreams ? streams : child.inherited.maxOpenStreams } },
          needsTokens,
        ),
      );
    }
    const [only] = parts;
    if (parts.length === 1 && only) return only;
    const used = spec.bySize ? parts.map(({ utterances }) => utterances) : weights.every((weight) => weight !== undefined) ? (weights as number[]) : undefined;
    const source = new MuxSource(
      parts.map((part) => part.source),
      { name: spec.at, weights: used, infinite, seed: shardSeed, salt: this.salt() },
    );
    const shares = infinite ? (used ?? parts.map(() => 1)) : parts.map(({ utterances }) => utterances);
    const sum = shares.reduce((a, b) => a + b, 0);
    return {
      source,
      leaves: parts.flatMap(({ leaves }, i) => leaves.map((leaf) => ({ ...leaf, share: (leaf.share * (shares[i] as number)) / sum }))),
      utterances: parts.reduce((total, { utterances }) => total + utterances, 0),
      infinite: infinite || parts.some((part) => part.infinite),
    };
  }
}

/** A file that is not there is an error of the config, which names it. */
function missingFile(error: unknown, at: string): unknown {
  if (!(error instanceof FormatError) || error.code !== "FILE_MISSING") return error;
  return new FormatError("FILE_MISSING", { at, message: `${error.at}: no such file or folder`, fix: "check the path; relative ones start at the working directory", cause: error });
}

function openLeaf(spec: LeafSpec, options: LeafOptions): Promise<Leaf> {
  switch (spec.kind) {
    case "nemo":
      return nemoLeaf(spec, options);
    case "nemo_tarred":
      return nemoTarredLeaf(spec, options);
    case "lhotse":
      return lhotseLeaf(spec, options);
    case "lhotse_shar":
      return sharLeaf(spec, options);
  }
}
