/** Opens a tarred dataset: reads the manifests and the headers of all tars, filters, and gives every entry its member. No audio is read. */
import { ConfigError, ManifestError } from "../../util/errors.ts";
import { cutOf } from "../manifest/cuts.ts";
import { type ManifestEntry, readEntries } from "../manifest/entry.ts";
import { manifestPaths } from "../manifest/inputs.ts";
import { datasetSpecs, expandShards, type ShardSpec } from "../shards.ts";
import { eachOf, type Listing, listMembers, resolveLinks } from "./list.ts";
import { matchEntries, normalName } from "./match.ts";
import { badLines, keeper, memberCut, type OpenedDataset, type OpenOptions, offsetOf, type TarredItem, type TarredShard } from "./opened.ts";
import { openWebdataset } from "./openWebdataset.ts";
import { groupByShard, pairShards } from "./pairing.ts";
import { TarredReport } from "./report.ts";
import { isAudioName } from "./webdataset.ts";

const remote = /^(?:[a-z][a-z0-9+.-]*:\/\/|pipe:)/i;

function localPaths(spec: ShardSpec, name: string): string[] {
  const paths = datasetSpecs(spec, name)
    .flat()
    .flatMap((path) => expandShards(path, { strategy: "replicate" }));
  const away = paths.find((path) => remote.test(path));
  if (away !== undefined)
    throw new ConfigError("CONFIG_BAD_VALUE", { message: `${name} has ${away}: only files can be read`, fix: "copy it to a disk, or mount the store as one" });
  if (paths.length === 0) throw new ConfigError("CONFIG_BAD_VALUE", { message: `${name} names nothing`, fix: "give a path or a pattern such as audio_{0..63}.tar" });
  return paths;
}

/** Manifests and the tars that belong to them. */
interface Part {
  manifests: string[];
  tars: string[];
}

/** As many specifications of manifests as of tars belong together one by one, as NeMo's lists of several datasets; else all to all. */
function partsOf(manifest: ShardSpec, tars: ShardSpec): Part[] {
  const ofManifests = datasetSpecs(manifest, "manifest_filepath").flat();
  const ofTars = datasetSpecs(tars, "tarred_audio_filepaths").flat();
  if (ofManifests.length > 1 && ofManifests.length === ofTars.length) {
    const parts = ofManifests.map((spec, i): Part => ({ manifests: manifestPaths(spec), tars: localPaths(ofTars[i] as string, "tarred_audio_filepaths") }));
    // A list of single shards is one dataset, whose numbers tell more than their order.
    if (parts.some((part) => part.manifests.length > 1 || part.tars.length > 1)) return parts;
  }
  return [{ manifests: manifestPaths(manifest), tars: localPaths(tars, "tarred_audio_filepaths") }];
}

/** Pairs of a tar and its manifest that are worked on at a time. */
const pairsAtOnce = 4;

/**
 * Opens tars and their manifests.
 * @throws ConfigError, ManifestError (also SHARDS_DIFFER; SHARDS_EMPTY when nothing is left), FormatError by the policy for damage
 */
export async function openTarred(options: OpenOptions): Promise<OpenedDataset> {
  const shards: TarredShard[] = [];
  const report = await eachTarredShard(options, (shard) => void shards.push(shard));
  return { shards, report };
}

/**
 * The same for who keeps less than whole entries: shards are given one by one, and where each has a manifest of its own no more than a few are in memory.
 * @param take called with each shard in order
 * @returns what was found
 * @throws as `openTarred`
 */
export async function eachTarredShard(options: OpenOptions, take: (shard: TarredShard) => void): Promise<TarredReport> {
  const { manifest, tars, onWarning = (message) => process.stderr.write(`serac: ${message}\n`) } = options;
  const report = new TarredReport();
  const keep = keeper(options, report);
  // They take part in the matching all the same: their members are not without an entry.
  const filtered = new Set<ManifestEntry>();
  const list = async (paths: readonly string[]): Promise<Listing[]> => eachOf(paths, 4, (path) => listMembers(path, options, report, onWarning));
  let first: string | undefined;
  let left = 0;
  const give = (shard: TarredShard): void => {
    first ??= shard.path;
    left += shard.items.length;
    take(shard);
  };
  if (manifest === undefined) for (const listing of await list(localPaths(tars, "tarred_audio_filepaths"))) give(await openWebdataset(listing, options, keep, report, onWarning));
  else for (const part of partsOf(manifest, tars)) await openPart(part);
  if (left === 0)
    throw new ManifestError("SHARDS_EMPTY", {
      at: first ?? "",
      message: `no utterance is left: ${report.lines().join("; ") || "the manifests are empty"}`,
      fix: "check the filters, and that manifests and tars belong together",
    });
  return report;

  async function openPart({ manifests, tars: paths }: Part): Promise<void> {
    const { manifestOf, byName } = pairShards(manifests, paths, { allowByName: true });
    if (!manifestOf) {
      for (const shard of match(await readTogether(manifests, paths, byName), await list(paths))) give(shard);
      return;
    }
    for (let from = 0; from < paths.length; from += pairsAtOnce) {
      const group = paths.slice(from, from + pairsAtOnce);
      const groups = await eachOf(manifestOf.slice(from, from + pairsAtOnce), 1, (i) => read(manifests[i] as string));
      for (const shard of match({ groups, loose: [], single: false }, await list(group))) give(shard);
      filtered.clear();
    }
  }

  async function read(path: string): Promise<ManifestEntry[]> {
    const entries: ManifestEntry[] = [];
    for await (const entry of readEntries([path], { onError: badLines(options.onDamaged ?? "throw", report, onWarning), needDuration: false })) {
      if (!keep(entry)) filtered.add(entry);
      entries.push(entry);
    }
    return entries;
  }

  /** The entries of manifests that are for all tars. */
  async function readTogether(manifests: readonly string[], paths: readonly string[], byName: boolean): Promise<Manifests> {
    if (byName) return { groups: paths.map(() => []), loose: (await eachOf(manifests, 1, read)).flat(), single: true };
    const { groups, loose, shift } = groupByShard(await read(manifests[0] as string), paths);
    if (shift !== 0) onWarning(`shard_id is ${Math.abs(shift)} ${shift > 0 ? "less" : "more"} than the number in the tars' names throughout; it is taken that way`);
    return { groups, loose, single: true };
  }

  function match({ groups, loose, single }: Manifests, all: Listing[]): TarredShard[] {
    const matches = all.map(({ path, compression, members: listed }, i) => {
      const members = resolveLinks(listed);
      const audio = members.filter(({ name }) => isAudioName(name));
      // Where no suffix is known, every member may be audio.
      const candidates = audio.length > 0 ? audio : members;
      return { path, compression, candidates, ...matchEntries(candidates, named(groups[i] ?? [])) };
    });
    const orphans = matches.flatMap(({ entriesWithoutMember }) => entriesWithoutMember.map(({ entry }) => entry));
    // With one manifest for all tars the name decides where shard_id does not.
    let rest = single ? [...loose, ...orphans] : [];
    const shards = matches.map(({ path, compression, candidates, pairs }): TarredShard => {
      const entriesOf = new Map(pairs.map(({ member, entries }) => [member, entries.map(({ entry }) => entry)]));
      if (rest.length > 0) {
        const found = new Set<ManifestEntry>();
        for (const { member, entries } of matchEntries(candidates, named(rest), entriesOf.keys()).pairs) {
          for (const { entry } of entries) {
            found.add(entry);
            if (entry.shardId !== undefined && !filtered.has(entry)) report.add("misplaced", entry.origin);
          }
          entriesOf.set(member, [...(entriesOf.get(member) ?? []), ...entries.map(({ entry }) => entry)]);
        }
        rest = rest.filter((entry) => !found.has(entry));
      }
      const names = new Set<string>();
      const items: TarredItem[] = [];
      for (const member of candidates) {
        const entries = entriesOf.get(member);
        if (entries) {
          for (const entry of entries) if (!filtered.has(entry)) items.push({ cut: memberCut(entry, path, member), value: entry.value });
        } else report.add(names.has(normalName(member.name)) ? "duplicateMembers" : "membersWithoutEntry", `${path}:${member.name}`);
        names.add(normalName(member.name));
      }
      // Links may stand away from their data: utterances are read in the order of the bytes.
      items.sort((a, b) => offsetOf(a) - offsetOf(b));
      return { path, compression, items };
    });
    for (const entry of single ? rest : orphans) if (!filtered.has(entry)) report.add("entriesWithoutMember", entry.origin);
    return shards;
  }
}

/** Entries of manifests: for each tar its own, and those that may be in any. */
interface Manifests {
  groups: ManifestEntry[][];
  loose: ManifestEntry[];
  /** Manifests for all tars together, so that names decide where shard_id does not. */
  single: boolean;
}

const named = (entries: readonly ManifestEntry[]): { name: string; entry: ManifestEntry }[] =>
  entries.flatMap((entry) => (typeof entry.audioFile === "string" ? [{ name: entry.audioFile, entry }] : []));

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
