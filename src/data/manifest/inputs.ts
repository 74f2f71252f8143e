/** Which manifests are meant: paths, texts with commas, lists, brace patterns; "-" is standard input. */
import { existsSync } from "node:fs";
import { ConfigError } from "../../util/errors.ts";
import { datasetSpecs, expandShards, type ShardSpec } from "../shards.ts";

/** A path, several with commas between, a brace pattern (every spelling of NeMo's), or lists of them. */
export type ManifestSpec = ShardSpec;

/**
 * The paths of manifests, in order. A name that is a file is that file, whatever brackets or commas it has.
 * @throws ConfigError CONFIG_BAD_VALUE where nothing is named; SHARDS_BAD_PATTERN
 */
export function manifestPaths(spec: ManifestSpec): string[] {
  if (typeof spec !== "string") return spec.flatMap(manifestPaths);
  if (spec === "-" || existsSync(spec)) return [spec];
  const paths = datasetSpecs(spec, "the manifest")
    .flat()
    .map((path) => path.trim())
    .filter((path) => path !== "")
    .flatMap((path) => (existsSync(path) ? [path] : expandShards(path, { strategy: "replicate" })));
  if (paths.length === 0) throw new ConfigError("CONFIG_BAD_VALUE", { message: "no manifest is named", fix: "give a path, or - for standard input" });
  return paths;
}
