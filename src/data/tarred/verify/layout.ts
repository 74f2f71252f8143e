/** Which entries belong to which tar file of a dataset, by its folder or by manifests and tars; ids that do not agree are found here. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileError } from "../../../formats/atomic.ts";
import { ManifestError, SeracError } from "../../../util/errors.ts";
import { readEntries } from "../../manifest/entry.ts";
import { expandShards, type ShardSpec } from "../../shards.ts";
import { aggregateName, shardManifestFolder, shardOfManifest, shardOfTar, tarName } from "../convert/files.ts";
import { type DatasetRecord, readRecord } from "../convert/record.ts";
import { groupByShard, pairShards, shardNumber } from "../pairing.ts";
import type { Findings } from "./findings.ts";

/** What is looked at of a line. */
export interface VerifiedEntry {
  name: string;
  offset: number | undefined;
  duration: number | undefined;
  text: string;
  shardId: number | undefined;
  origin: string;
}

/** A shard. */
export interface ShardLayout {
  id: number;
  tar: string;
  entries: VerifiedEntry[];
}

/** What is verified: which entries belong to which tar file. */
export interface Layout {
  shards: ShardLayout[];
  /** Tar files without entries. */
  orphans: string[];
  record: DatasetRecord | undefined;
}

const versionOf = (name: string): number | undefined => {
  const version = Number(/^tarred_audio_manifest_version_(\d+)\.json$/.exec(name)?.[1] ?? 0);
  return name === aggregateName(version) ? version : undefined;
};

async function readAll(path: string, findings: Findings): Promise<VerifiedEntry[]> {
  const entries: VerifiedEntry[] = [];
  const options = { keepSkipped: true, needDuration: false, onError: (error: SeracError) => findings.add("manifestLine", error.message) };
  try {
    for await (const { audioFile, offset, duration, text, shardId, origin } of readEntries(path, options)) {
      if (typeof audioFile === "string") entries.push({ name: audioFile, offset, duration, text: typeof text === "string" ? text : JSON.stringify(text), shardId, origin });
      else findings.add("manifestLine", `${origin}: audio_filepath is not one path`);
    }
  } catch (error) {
    if (!(error instanceof SeracError)) throw error;
    findings.add("manifestLine", error.message); // the file cannot be read, or not to its end
  }
  return entries;
}

/** Paths of a folder's files by their shard. */
function byShard(folder: string, names: readonly string[], shardOf: (name: string) => number | undefined): Map<number, string> {
  const paths = new Map<number, string>();
  for (const name of names) {
    const shard = shardOf(name);
    if (shard !== undefined) paths.set(shard, join(folder, name));
  }
  return paths;
}

/** The newest version of the dataset in a folder. @throws FormatError FILE_MISSING; ManifestError TARRED_METADATA */
export async function folderLayout(folder: string, findings: Findings): Promise<Layout> {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    throw fileError(folder, "read", error);
  }
  const versions = names.flatMap((name) => versionOf(name) ?? []);
  if (versions.length === 0)
    throw new ManifestError("TARRED_METADATA", {
      at: folder,
      message: "there is no tarred_audio_manifest.json in this folder",
      fix: "name the folder that serac tar or NeMo's script wrote, or give --manifest and --tars",
    });
  const version = Math.max(...versions);
  const aggregate = await readAll(join(folder, aggregateName(version)), findings);
  const byId = new Map<number, VerifiedEntry[]>();
  for (const entry of aggregate) {
    if (entry.shardId === undefined) findings.add("shardId", `${entry.origin}: there is no shard_id`);
    else if (byId.get(entry.shardId)?.push(entry) === undefined) byId.set(entry.shardId, [entry]);
  }
  const tars = byShard(folder, names, shardOfTar);
  const sharded = join(folder, shardManifestFolder);
  if (existsSync(sharded)) {
    const manifests = byShard(sharded, readdirSync(sharded), shardOfManifest);
    for (const [id, path] of [...manifests].sort(([a], [b]) => a - b)) {
      const entries = await readAll(path, findings);
      const wrong = entries.filter(({ shardId }) => shardId !== id);
      for (const { origin, shardId } of wrong) findings.add("shardId", `${origin}: shard_id is ${shardId}, and this is the manifest of shard ${id}`);
      const other = byId.get(id) ?? [];
      const at = entries.findIndex((entry, i) => entry.name !== other[i]?.name || entry.duration !== other[i]?.duration || entry.text !== other[i]?.text);
      if (at >= 0 || other.length !== entries.length)
        findings.add(
          "aggregate",
          `shard ${id}: ${at < 0 ? `${other.length} entries in the one, ${entries.length} in the other` : `entry ${at + 1} is ${entries[at]?.name} in ${path}`}`,
        );
      byId.set(id, entries);
    }
    for (const id of byId.keys()) if (!manifests.has(id)) findings.add("aggregate", `shard ${id}: there is no sharded_manifests/manifest_${id}.json`);
  }
  return {
    shards: [...byId].sort(([a], [b]) => a - b).map(([id, entries]) => ({ id, entries, tar: tars.get(id) ?? join(folder, tarName(id)) })),
    orphans: [...tars].flatMap(([id, path]) => (byId.has(id) ? [] : [path])),
    record: readRecord(folder, version),
  };
}

/** The entries of manifests by the tar files that they belong to. @throws ManifestError SHARDS_DIFFER */
export async function specLayout(manifest: ShardSpec, tars: ShardSpec, findings: Findings): Promise<Layout> {
  const manifests = expandShards(manifest, { strategy: "replicate" });
  const paths = expandShards(tars, { strategy: "replicate" });
  const { manifestOf } = pairShards(manifests, paths);
  const id = (path: string, i: number): number => shardNumber(path) ?? i;
  if (manifestOf === undefined) {
    const { groups, loose } = groupByShard(await readAll(manifests[0] as string, findings), paths);
    for (const { origin, shardId } of loose) findings.add("shardId", `${origin}: shard_id is ${shardId}, which is none of the tar files`);
    return { shards: paths.map((tar, i) => ({ id: id(tar, i), tar, entries: groups[i] as VerifiedEntry[] })), orphans: [], record: undefined };
  }
  const shards: Layout["shards"] = [];
  for (const [i, tar] of paths.entries()) {
    const entries = await readAll(manifests[manifestOf[i] as number] as string, findings);
    shards.push({ id: id(tar, i), tar, entries });
  }
  return { shards, orphans: [], record: undefined };
}
