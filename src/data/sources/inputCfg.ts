/**
 * What a config names, as a tree: groups that are mixed by weight, and datasets. Nothing is opened yet; what can be told from the YAML is checked.
 * Source: NeMo, common/data/lhotse/cutset.py (read_dataset_config, parse_and_combine_datasets), 2026.
 */
import { existsSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { ConfigError } from "../../util/errors.ts";
import { showValue } from "../../util/options.ts";
import { nearest } from "../../util/suggest.ts";
import type { ShardSpec } from "../shards.ts";
import { type ConfigNode, isListNode, isMapNode, plainConfig, readConfig } from "./configTree.ts";
import { keyOf, type LhotseDataLoadingConfig, lhotseKeys, passOver, type ReadLhotseConfig, readKey, unknownKey } from "./lhotseConfig.ts";
import { pathsOf, refuse, type Weighted, weightedSpecs } from "./weightedSpecs.ts";

/** What items inherit from the groups and the config above them. */
export interface Inherited {
  textField: string;
  langField: string;
  shuffle: boolean;
  shardSeed: number | undefined;
  metadataOnly: boolean;
  forceFinite: boolean;
  maxOpenStreams: number | undefined;
  skipMissingManifestEntries: boolean;
  sliceLength: number | undefined;
  extraFields: ConfigNode | undefined;
}

interface Common {
  /** For messages: "train.yaml:12". */
  at: string;
  /** As it is weighted among its siblings, after temperature; undefined where none has a weight. */
  weight: number | undefined;
  inherited: Inherited;
}

/** Datasets that are mixed. */
export interface GroupSpec extends Common {
  kind: "group";
  children: SourceSpec[];
  /** Weighted by their utterances, because they are a list of manifests without weights. */
  bySize: boolean;
}

export interface NemoSpec extends Common {
  kind: "nemo";
  manifests: string[];
  tags: Tags;
}

export interface NemoTarredSpec extends Common {
  kind: "nemo_tarred";
  manifest: ShardSpec;
  tars: ShardSpec;
  tags: Tags;
}

export interface LhotseSpec extends Common {
  kind: "lhotse";
  cuts: string[];
  tags: Tags;
}

export interface SharSpec extends Common {
  kind: "lhotse_shar";
  /** A folder, or the shards of each field. */
  folder: string | Readonly<Record<string, readonly string[]>>;
  tags: Tags;
}

export type LeafSpec = NemoSpec | NemoTarredSpec | LhotseSpec | SharSpec;
export type SourceSpec = GroupSpec | LeafSpec;
export type Tags = Readonly<Record<string, unknown>>;

/** Types that NeMo has for texts, conversations and duplex speech. */
const otherTypes = [
  "txt",
  "txt_jsonl",
  "txt_pair",
  "parquet",
  "nemo_sft_jsonl",
  "multimodal_conversation",
  "share_gpt",
  "share_gpt_webdataset",
  "lhotse_as_conversation",
  "sqa_as_conversation",
  "s2s_as_conversation",
  "s2s_duplex_overlap_as_s2s_duplex",
  "s2s_duplex_reverse_role",
  "lhotse_magpietts_data_as_continuation",
  "nemo_tarred_to_duplex",
  "multi_speaker_simulator",
  "nemotron_text_converation",
];
const types = ["nemo", "nemo_tarred", "lhotse", "lhotse_shar", "group"] as const;

/** Keys that each descendant has from above unless it sets them. */
const propagated: readonly [snake: string, name: keyof Inherited][] = [
  ["text_field", "textField"],
  ["lang_field", "langField"],
  ["shuffle", "shuffle"],
  ["shard_seed", "shardSeed"],
  ["metadata_only", "metadataOnly"],
  ["force_finite", "forceFinite"],
  ["max_open_streams", "maxOpenStreams"],
  ["skip_missing_manifest_entries", "skipMissingManifestEntries"],
  ["slice_length", "sliceLength"],
  ["extra_fields", "extraFields"],
];
const propagatedNames = new Map(propagated);
const sourceKeys: Readonly<Record<(typeof types)[number], readonly string[]>> = {
  nemo: ["manifest_filepath", "tarred_audio_filepaths"],
  nemo_tarred: ["manifest_filepath", "tarred_audio_filepaths"],
  lhotse: ["cuts_path"],
  lhotse_shar: ["shar_path"],
  group: ["input_cfg"],
};
const itemKeys = ["type", "weight", "tags", "reweight_temperature", ...propagated.map(([snake]) => snake)];

const seedOf = (seed: number | "trng" | "randomized" | undefined): number | undefined => (typeof seed === "number" ? seed : undefined);

/** How the config's own keys reach the items. */
export function inheritedOf(config: LhotseDataLoadingConfig): Inherited {
  const { shardSeed, ...rest } = config;
  return { ...Object.fromEntries(propagated.map(([, name]) => [name, rest[name as keyof typeof rest]])), shardSeed: seedOf(shardSeed) } as unknown as Inherited;
}

/**
 * The tree of what a config names. `input_cfg` comes before `shar_path`, `cuts_path` and `manifest_filepath`, as in NeMo; that others are set beside it is said.
 * @throws ConfigError CONFIG_BAD_VALUE, CONFIG_UNKNOWN_OPTION, MIX_BAD_WEIGHT, MIX_UNKNOWN_TYPE at file:line
 */
export function sourceTree({ config, places }: ReadLhotseConfig, block: ConfigNode, onWarning: (message: string) => void): SourceSpec {
  const order = ["input_cfg", "shar_path", "cuts_path", "manifest_filepath"];
  const given = order.filter((key) => places.has(key));
  const [first, ...unused] = given;
  if (first === undefined)
    throw new ConfigError("CONFIG_BAD_VALUE", {
      at: block.at,
      message: `${block.path || "the file"} names no data`,
      fix: "set input_cfg, manifest_filepath, cuts_path or shar_path",
    });
  for (const key of unused) onWarning(`${places.get(key)?.at}: ${key} is not read, because ${first} is set`);
  const temperature = config.reweightTemperature;
  const reader = new TreeReader(onWarning);
  if (first === "input_cfg") {
    const list = reader.listOf(places.get(first) as ConfigNode, []);
    return reader.group(list, inheritedOf(config), temperaturesFor(temperature, places.get("reweight_temperature"), reader.depthOf(list), onWarning), {});
  }
  const type = first === "shar_path" ? "lhotse_shar" : first === "cuts_path" ? "lhotse" : places.has("tarred_audio_filepaths") ? "nemo_tarred" : "nemo";
  const keys = new Map([...places].filter(([key]) => sourceKeys[type].includes(key)));
  return reader.leaf(type, keys, { at: (places.get(first) as ConfigNode).at, weight: undefined, inherited: inheritedOf(config) }, {});
}

/** A temperature for each level, outermost first. */
function temperaturesFor(value: number | readonly number[] | undefined, node: ConfigNode | undefined, depth: number, onWarning: (message: string) => void): number[] {
  if (value === undefined) return Array.from({ length: depth }, () => 1);
  if (typeof value === "number") {
    if (depth > 1) onWarning(`${node?.at}: reweight_temperature ${value} is taken for all ${depth} levels of input_cfg`);
    return Array.from({ length: depth }, () => value);
  }
  if (value.length !== depth && node)
    refuse(node, `has ${value.length} numbers for ${depth} level${depth === 1 ? "" : "s"} of input_cfg`, `give ${depth}, the outermost level first, or one number for all`);
  return [...value];
}

class TreeReader {
  private readonly onWarning: (message: string) => void;

  constructor(onWarning: (message: string) => void) {
    this.onWarning = onWarning;
  }

  /** The items of an input_cfg, which may lie in a file of its own. @param open the files on the way to it */
  listOf(node: ConfigNode, open: readonly string[]): ConfigNode & { value: ConfigNode[]; files: readonly string[] } {
    if (typeof node.value === "string") {
      const beside = join(dirname(node.at.replace(/:\d+$/, "")), node.value);
      const file = isAbsolute(node.value) || !existsSync(beside) ? node.value : beside;
      if (!existsSync(file)) refuse(node, `is ${node.value}: there is no such file, neither here nor beside this one`, "give the path of a YAML file, or the list itself");
      if (open.includes(file)) refuse(node, `leads back to ${file}, which is being read`);
      const inner = readConfig(file);
      const list = isMapNode(inner) && inner.value.has("input_cfg") ? (inner.value.get("input_cfg") as ConfigNode) : inner;
      return this.listOf(list, [...open, file]);
    }
    if (!isListNode(node)) return refuse(node, `is ${showValue(plainConfig(node)).slice(0, 40)}, expected a list of sources or a YAML file`);
    if (node.value.length === 0) return refuse(node, "is an empty list", "name at least one source");
    return { ...node, files: open };
  }

  depthOf(list: { value: ConfigNode[]; files: readonly string[] }): number {
    let deepest = 0;
    for (const item of list.value) {
      const inner = isMapNode(item) ? item.value.get("input_cfg") : undefined;
      if (inner) deepest = Math.max(deepest, this.depthOf(this.listOf(inner, list.files)));
    }
    return deepest + 1;
  }

  group(list: ConfigNode & { value: ConfigNode[]; files: readonly string[] }, inherited: Inherited, temperatures: readonly number[], tags: Tags): GroupSpec {
    const weights = this.weightsOf(list, temperatures[0] ?? 1);
    const children = list.value.map((item, i) => this.item(item, weights?.[i], inherited, list.files, temperatures.slice(1), tags));
    const tarred = children.map(isStream);
    if (tarred.some((one) => one !== tarred[0]) && !inherited.forceFinite && !inherited.metadataOnly)
      this.onWarning(`${list.at}: tarred and other sources are mixed, which NeMo refuses unless force_map_dataset or force_iterable_dataset is set; here it makes no difference`);
    return { kind: "group", at: list.at, weight: undefined, inherited, children, bySize: false };
  }

  /** All siblings have a weight, or none has. With a temperature t weights become w^t, and their sum 1. */
  private weightsOf(list: ConfigNode & { value: ConfigNode[] }, temperature: number): number[] | undefined {
    const given = list.value.map((item) => (isMapNode(item) ? item.value.get("weight") : undefined));
    const withWeight = given.filter((node) => node !== undefined);
    if (withWeight.length === 0) return undefined;
    const without = given.indexOf(undefined);
    if (without >= 0)
      throw new ConfigError("MIX_BAD_WEIGHT", {
        at: (list.value[without] as ConfigNode).at,
        message: `${(list.value[without] as ConfigNode).path} has no weight, but others beside it have`,
        fix: "give each source of a list a weight, or none",
      });
    const weights = (given as ConfigNode[]).map((node) => {
      const { value, at, path } = node;
      if (typeof value !== "number" || !(value > 0 && value < Number.POSITIVE_INFINITY))
        throw new ConfigError("MIX_BAD_WEIGHT", {
          at,
          message: `${path} is ${showValue(plainConfig(node))}, expected a number above 0`,
          fix: value === 0 ? "leave out a source that shall not be read" : "give a number; only its share of the sum matters",
        });
      return value ** temperature;
    });
    const sum = weights.reduce((a, b) => a + b, 0);
    return weights.map((weight) => weight / sum);
  }

  private item(node: ConfigNode, weight: number | undefined, above: Inherited, files: readonly string[], temperatures: readonly number[], outer: Tags): SourceSpec {
    if (!isMapNode(node)) return refuse(node, `is ${showValue(plainConfig(node)).slice(0, 40)}, expected keys as type, manifest_filepath, weight`);
    const type = this.typeOf(node);
    const inherited = { ...above };
    const keys = new Map<string, ConfigNode>();
    let tags: Tags = {};
    for (const [spelling, one] of node.value) {
      const snake = keyOf(spelling, one.at, this.onWarning);
      if (snake === "type" || snake === "weight") continue;
      if (snake === "tags") {
        if (one.value !== null && !isMapNode(one)) refuse(one, "expected keys and values", "write tags as lang: en below each other");
        tags = (plainConfig(one) ?? {}) as Tags;
      } else if (sourceKeys[type].includes(snake)) keys.set(snake, one);
      else if (propagatedNames.has(snake)) {
        if (one.value === null) continue;
        const value = readKey(snake, one);
        Object.assign(inherited, { [propagatedNames.get(snake) as string]: snake === "shard_seed" ? seedOf(value as number | "trng") : value });
      } else if (snake === "tarred_random_access") inherited.skipMissingManifestEntries = inherited.skipMissingManifestEntries || one.value === true;
      else if (!passOver(snake, one, this.onWarning)) {
        if (lhotseKeys.includes(snake)) this.onWarning(`${one.at}: ${one.path} is not read here: ${snake} belongs to the config, not to one of its sources`);
        else throw unknownKey(spelling, one, [...itemKeys, ...sourceKeys[type]]);
      }
    }
    const merged = this.mergeTags(tags, outer, node);
    const common = { at: node.at, weight, inherited };
    if (type !== "group") return this.leaf(type, keys, common, merged);
    const inner = keys.get("input_cfg");
    if (!inner) return refuse(node, "is a group without input_cfg", "give the list of its sources");
    return { ...this.group(this.listOf(inner, files), inherited, temperatures, merged), at: node.at, weight };
  }

  /** Of a tag that is set at several levels the outermost is taken, as NeMo's code does (its documentation says the opposite). */
  private mergeTags(inner: Tags, outer: Tags, node: ConfigNode): Tags {
    for (const [key, value] of Object.entries(inner))
      if (key in outer && outer[key] !== value)
        this.onWarning(`${node.at}: the tag ${key} is ${showValue(value)} here and ${showValue(outer[key])} in a group above it, which is taken, as in NeMo`);
    return { ...inner, ...outer };
  }

  private typeOf(node: ConfigNode & { value: Map<string, ConfigNode> }): (typeof types)[number] {
    const given = node.value.get("type");
    if (given === undefined) {
      const map: Map<string, ConfigNode> = node.value;
      const keys = [...map.keys()].map((key) => keyOf(key, node.at, () => {}));
      const guess = keys.includes("input_cfg")
        ? "group"
        : keys.includes("tarred_audio_filepaths")
          ? "nemo_tarred"
          : keys.includes("manifest_filepath")
            ? "nemo"
            : keys.includes("shar_path")
              ? "lhotse_shar"
              : "lhotse";
      throw new ConfigError("MIX_UNKNOWN_TYPE", { at: node.at, message: `${node.path} has no type`, fix: `write type: ${guess}` });
    }
    const type = given.value;
    if ((types as readonly unknown[]).includes(type)) return type as (typeof types)[number];
    const known = otherTypes.includes(String(type));
    const near = nearest(String(type), [...types, ...otherTypes]);
    throw new ConfigError("MIX_UNKNOWN_TYPE", {
      at: given.at,
      message: known
        ? `${given.path} is ${String(type)}: a type for text, conversations or synthesis, which serac does not read`
        : `${given.path} is ${showValue(plainConfig(given))}, expected one of ${types.join(", ")}`,
      fix: known ? "leave it out" : near === undefined ? undefined : `did you mean ${near}?`,
    });
  }

  /** A dataset; lists of manifests become a group of datasets. */
  leaf(type: Exclude<(typeof types)[number], "group">, keys: ReadonlyMap<string, ConfigNode>, common: Common, tags: Tags): SourceSpec {
    const need = (key: string): ConfigNode => {
      const node = keys.get(key);
      if (!node || node.value === null) throw new ConfigError("CONFIG_BAD_VALUE", { at: common.at, message: `a source of type ${type} without ${key}`, fix: `give its ${key}` });
      return node;
    };
    if (type === "lhotse_shar") return this.sharLeaf(need("shar_path"), common, tags);
    if (type === "lhotse") {
      const node = need("cuts_path");
      return mixed(
        weightedSpecs(node).map(({ spec, weight }): LeafSpec => ({ kind: "lhotse", ...common, weight, cuts: pathsOf(spec, node), tags })),
        common,
      );
    }
    const manifests = need("manifest_filepath");
    const tars = keys.get("tarred_audio_filepaths");
    if (type === "nemo_tarred" && (!tars || tars.value === null))
      throw new ConfigError("CONFIG_BAD_VALUE", {
        at: common.at,
        message: "a source of type nemo_tarred without tarred_audio_filepaths",
        fix: "give the tars, or write type: nemo",
      });
    if (!tars || tars.value === null)
      return mixed(
        weightedSpecs(manifests).map(({ spec, weight }): LeafSpec => ({ kind: "nemo", ...common, weight, manifests: pathsOf(spec, manifests), tags })),
        common,
      );
    const ofManifests = weightedSpecs(manifests);
    const ofTars = weightedSpecs(tars);
    if (ofManifests.length !== ofTars.length)
      refuse(
        tars,
        `names ${ofTars.length} datasets, manifest_filepath ${ofManifests.length}: NeMo would read the first ${Math.min(ofTars.length, ofManifests.length)} only`,
        "give each manifest its tars",
      );
    return mixed(
      ofManifests.map(
        ({ spec, weight }, i): LeafSpec => ({ kind: "nemo_tarred", ...common, weight: weight ?? ofTars[i]?.weight, manifest: spec, tars: (ofTars[i] as Weighted).spec, tags }),
      ),
      common,
    );
  }

  private sharLeaf(node: ConfigNode, common: Common, tags: Tags): SourceSpec {
    if (isMapNode(node)) {
      if (!node.value.has("cuts")) refuse(node, 'has no field "cuts"', "give the shards of cuts, and of each field to read");
      const folder = Object.fromEntries([...node.value].map(([field, one]) => [field, pathsOf(plainConfig(one) as ShardSpec, one)]));
      return { kind: "lhotse_shar", ...common, folder, tags };
    }
    return mixed(
      weightedSpecs(node, true).map(({ spec, weight }): LeafSpec => {
        const [folder, ...more] = pathsOf(spec, node);
        if (folder === undefined || more.length > 0) return refuse(node, "names several folders at once", "write each folder as an item of a list");
        return { kind: "lhotse_shar", ...common, weight, folder, tags };
      }),
      common,
    );
  }
}

/** One dataset, or a group of several. Without weights NeMo weighs them by their lines: `weight` stays undefined until they are counted. */
function mixed(leaves: LeafSpec[], common: Common): SourceSpec {
  const [only] = leaves;
  if (leaves.length === 1 && only) return { ...only, weight: common.weight };
  return { kind: "group", ...common, children: leaves, bySize: leaves.every(({ weight }) => weight === undefined) };
}

/** True for what NeMo reads as a stream without end. */
export const isStream = (spec: SourceSpec): boolean => (spec.kind === "group" ? spec.children.some(isStream) : spec.kind === "nemo_tarred" || spec.kind === "lhotse_shar");
