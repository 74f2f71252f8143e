/** Paths of datasets as NeMo's keys name them: patterns, lists, lists of lists, and with weights. Source: NeMo, cutset.py. */
import { existsSync } from "node:fs";
import { ConfigError } from "../../util/errors.ts";
import { showValue } from "../../util/options.ts";
import { datasetSpecs, expandShards, type ShardSpec } from "../shards.ts";
import { type ConfigNode, isListNode, plainConfig } from "./configTree.ts";

/** @throws ConfigError CONFIG_BAD_VALUE at the node's place */
export function refuse(node: ConfigNode, message: string, fix?: string): never {
  throw new ConfigError("CONFIG_BAD_VALUE", { at: node.at, message: `${node.path === "" ? "" : `${node.path} `}${message}`, fix });
}

/** A dataset of several, and its share where it has one. */
export interface Weighted {
  spec: ShardSpec;
  weight: number | undefined;
}

/**
 * Forms of a list: "pattern" and [a, b] are one dataset; [[a], [b]] several; [[a, 0.3], [b, 0.7]] several with weights.
 * @param eachFolder true where each item of a flat list is a dataset of its own
 */
export function weightedSpecs(node: ConfigNode, eachFolder = false): Weighted[] {
  const value = plainConfig(node);
  if (typeof value === "string" && value !== "") return [{ spec: value, weight: undefined }];
  if (!isListNode(node) || node.value.length === 0) return refuse(node, `is ${showValue(value).slice(0, 40)}, expected a path or a list`);
  if (node.value.every((item) => typeof item.value === "string")) {
    const paths = node.value.map((item) => item.value as string);
    return eachFolder ? paths.map((spec) => ({ spec, weight: undefined })) : [{ spec: paths, weight: undefined }];
  }
  const parts = node.value.map((item): Weighted => {
    if (typeof item.value === "string") return { spec: item.value, weight: undefined };
    if (!isListNode(item) || item.value.length === 0) return refuse(item, `is ${showValue(plainConfig(item)).slice(0, 40)}, expected a path, or a list of a path and its weight`);
    const last = item.value.at(-1) as ConfigNode;
    const weighted = typeof last.value === "number";
    const paths = weighted ? item.value.slice(0, -1) : item.value;
    if (paths.length === 0 || !paths.every((one) => typeof one.value === "string")) return refuse(item, "expected a path, or a path and its weight");
    if (weighted && !((last.value as number) > 0))
      throw new ConfigError("MIX_BAD_WEIGHT", {
        at: last.at,
        message: `${last.path} is ${String(last.value)}, expected a weight above 0`,
        fix: "leave out a source that shall not be read",
      });
    return { spec: paths.map((one) => one.value as string), weight: weighted ? (last.value as number) : undefined };
  });
  const some = parts.filter(({ weight }) => weight !== undefined).length;
  if (some > 0 && some < parts.length)
    throw new ConfigError("MIX_BAD_WEIGHT", { at: node.at, message: `${node.path} has weights for ${some} of ${parts.length} items`, fix: "give each of them a weight, or none" });
  return parts;
}

/** The files of a specification. @throws ConfigError CONFIG_BAD_VALUE for what is no file */
export function pathsOf(spec: ShardSpec, node: ConfigNode): string[] {
  const paths = datasetSpecs(spec, node.path)
    .flat()
    .flatMap((path) => (existsSync(path) ? [path] : expandShards(path, { strategy: "replicate" })));
  const remote = paths.find((path) => /^(?:[a-z][a-z0-9+.-]*:\/\/|pipe:)/i.test(path));
  if (remote !== undefined) refuse(node, `has ${remote}: only files can be read`, "copy it to a disk, or mount the store as one");
  return paths;
}
