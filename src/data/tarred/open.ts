/** Opens a tarred dataset: reads the manifests and the headers of all tars, filters, and gives every entry its member. No audio is read. */
import { ManifestError } from "../../util/errors.ts";
import { cutOf } from "../manifest/cuts.ts";
import { readEntries } from "../manifest/entry.ts";
import { manifestPaths } from "../manifest/inputs.ts";
import type { ShardSpec } from "../shards.ts";
import { eachTarredShard } from "./eachShard.ts";
import { badLines, keeper, type OpenedDataset, type OpenOptions, type TarredItem, type TarredShard } from "./opened.ts";
import { TarredReport } from "./report.ts";

/**
 * Opens tars and their manifests.
 * @throws ConfigError, ManifestError (also SHARDS_DIFFER; SHARDS_EMPTY when nothing is left), FormatError by the policy for damage
 */
export async function openTarred(options: OpenOptions): Promise<OpenedDataset> {
  let shards: TarredShard[] = [];
  const report = await eachTarredShard(options, {
    take: (shard) => void shards.push(shard),
    restart: () => {
      shards = [];
    },
  });
  return { shards, report };
}

/**
 * The same for a manifest whose audio lies in files: one shard of all of them. The files are not looked at.
 * @throws ManifestError (also SHARDS_EMPTY)
 */
export async function openFiles(options: Omit<OpenOptions, "tars"> & { manifest: ShardSpec }): Promise<OpenedDataset> {
  const report = new TarredReport();
  const keep = keeper(options, report);
  const { onDamaged = "throw", onWarning = () => {} } = options;
  const items: TarredItem[] = [];
  for await (const entry of readEntries(options.manifest, { onError: badLines(onDamaged, report, onWarning) }))
    if (keep(entry)) items.push({ cut: cutOf(entry), value: entry.value });
  const path = manifestPaths(options.manifest)[0] as string;
  if (items.length === 0)
    throw new ManifestError("SHARDS_EMPTY", { at: path, message: `no utterance is left: ${report.lines().join("; ") || "the manifests are empty"}`, fix: "check the filters" });
  return { shards: [{ path, compression: "files", items }], report };
}
