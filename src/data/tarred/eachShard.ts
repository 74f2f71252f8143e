/** Opens the shards of a tarred dataset one after another: each entry of the manifests gets its member. No audio is read. */
import { ConfigError, ManifestError } from "../../util/errors.ts";
import { IndexedLines, type LineFormat, openAnyLineIndex, skipReason } from "../lineIndex/index.ts";
import { isSkipped, type ManifestEntry, parseEntry, readEntries } from "../manifest/entry.ts";
import { manifestPaths } from "../manifest/inputs.ts";
import { datasetSpecs, expandShards, type ShardSpec } from "../shards.ts";
import { eachOf, type Listing, listMembers, resolveLinks } from "./list.ts";
import { matchEntries, normalName } from "./match.ts";
import { badLines, keeper, memberCut, type OpenOptions, offsetOf, type TarredItem, type TarredShard } from "./opened.ts";
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

/** The files of a dataset, in the order in which they are read. @throws ConfigError CONFIG_BAD_VALUE */
export function datasetFiles(manifest: ShardSpec, tars: ShardSpec): { manifests: string[]; files: string[] } {
  const parts = partsOf(manifest, tars);
  const manifests = parts.flatMap((part) => part.manifests);
  return { manifests, files: [...manifests, ...parts.flatMap((part) => part.tars)] };
}

/** Tars that are worked on at a time, with their entries. */
const atOnce = 4;

/** Where opened shards go. */
export interface ShardSink {
  /** Called with each shard, in order. */
  take(shard: TarredShard): void;
  /** Called where it turns out that all of them have to be looked at together: what was taken is forgotten, and all come again. */
  restart(): void;
}

/** An entry may be in another tar than its number says. */
class Scattered extends Error {}

/**
 * Opens tars and their manifests. Where numbers tell which entries are in which tar, no more than the entries of a few tars are in memory.
 * @returns what was found
 * @throws ConfigError, ManifestError (also SHARDS_DIFFER; SHARDS_EMPTY when nothing is left), FormatError by the policy for damage
 */
export async function eachTarredShard(options: OpenOptions, sink: ShardSink): Promise<TarredReport> {
  try {
    return await new Opening(options, sink, false).run();
  } catch (error) {
    if (!(error instanceof Scattered)) throw error;
    sink.restart();
    return await new Opening(options, sink, true).run();
  }
}

class Opening {
  private readonly options: OpenOptions;
  private readonly sink: ShardSink;
  /** Entries are looked for in all tars, and so all of them are in memory. */
  private readonly together: boolean;
  private readonly onWarning: (message: string) => void;
  private readonly report = new TarredReport();
  private readonly keep: (entry: ManifestEntry) => boolean;
  /** They take part in the matching all the same: their members are not without an entry. */
  private readonly filtered = new Set<ManifestEntry>();
  private first: string | undefined;
  private left = 0;

  constructor(options: OpenOptions, sink: ShardSink, together: boolean) {
    this.options = options;
    this.sink = sink;
    this.together = together;
    this.onWarning = options.onWarning ?? ((message) => void process.stderr.write(`serac: ${message}\n`));
    this.keep = keeper(options, this.report);
  }

  async run(): Promise<TarredReport> {
    const { options, report } = this;
    const { manifest, tars } = options;
    if (manifest === undefined)
      for (const listing of await this.list(localPaths(tars, "tarred_audio_filepaths"))) this.give(await openWebdataset(listing, options, this.keep, report, this.onWarning));
    else for (const part of partsOf(manifest, tars)) await this.openPart(part);
    if (this.left === 0)
      throw new ManifestError("SHARDS_EMPTY", {
        at: this.first ?? "",
        message: `no utterance is left: ${report.lines().join("; ") || "the manifests are empty"}`,
        fix: "check the filters, and that manifests and tars belong together",
      });
    return report;
  }

  private list(paths: readonly string[]): Promise<Listing[]> {
    return eachOf(paths, atOnce, (path) => listMembers(path, this.options, this.report, this.onWarning));
  }

  private give(shard: TarredShard): void {
    this.first ??= shard.path;
    this.left += shard.items.length;
    this.sink.take(shard);
  }

  private async openPart({ manifests, tars }: Part): Promise<void> {
    const { manifestOf, byName } = pairShards(manifests, tars, { allowByName: true });
    const [only = ""] = manifests;
    if (manifestOf) await this.openGroups(tars, false, (from, to) => eachOf(manifestOf.slice(from, to), 1, (i) => this.read(manifests[i] as string)));
    else if (this.together || byName || only === "-") for (const shard of this.match(await this.readTogether(manifests, tars, byName), await this.list(tars))) this.give(shard);
    else {
      const entriesOf = await this.entriesByShard(only, tars);
      await this.openGroups(tars, true, (from, to) =>
        eachOf(
          Array.from({ length: to - from }, (_, i) => from + i),
          1,
          entriesOf,
        ),
      );
    }
  }

  /** Opens a few tars at a time. @param entries gives those of the tars from `from` to, but without, `to` */
  private async openGroups(tars: readonly string[], single: boolean, entries: (from: number, to: number) => Promise<ManifestEntry[][]>): Promise<void> {
    for (let from = 0; from < tars.length; from += atOnce) {
      const to = Math.min(tars.length, from + atOnce);
      for (const shard of this.match({ groups: await entries(from, to), loose: [], single }, await this.list(tars.slice(from, to)))) this.give(shard);
      this.filtered.clear();
    }
  }

  /** One manifest for all tars, of which a line's `shard_id` and its place are kept; the entries of a tar are read when its turn comes. */
  private async entriesByShard(path: string, tars: readonly string[]): Promise<(tar: number) => Promise<ManifestEntry[]>> {
    const bad = badLines(this.options.onDamaged ?? "throw", this.report, this.onWarning);
    const shardOf = (value: Record<string, unknown>): number => (typeof value["shard_id"] === "number" ? value["shard_id"] : Number.NaN);
    const format: LineFormat = {
      key: undefined,
      countsTokens: false,
      figures: ({ value }) => (isSkipped(value) ? { reason: skipReason } : { duration: shardOf(value), tokens: 0 }),
      duration: shardOf,
    };
    const lines = new IndexedLines([await openAnyLineIndex(path, format, { onError: bad })], format);
    const rows = Array.from(lines.durations, (shardId, row) => ({ shardId, row }));
    if (rows.some(({ shardId }) => Number.isNaN(shardId))) throw new Scattered();
    const { groups, loose, shift } = groupByShard(rows, tars);
    if (loose.length > 0) throw new Scattered();
    this.sayShift(shift);
    return async (tar) => {
      const entries: ManifestEntry[] = [];
      for (const line of await lines.read((groups[tar] ?? []).map(({ row }) => row))) {
        try {
          const entry = parseEntry(line, { needDuration: false });
          if (!this.keep(entry)) this.filtered.add(entry);
          entries.push(entry);
        } catch (error) {
          if (!(error instanceof ManifestError)) throw error;
          bad(error);
        }
      }
      return entries;
    };
  }

  private sayShift(shift: number): void {
    if (shift !== 0) this.onWarning(`shard_id is ${Math.abs(shift)} ${shift > 0 ? "less" : "more"} than the number in the tars' names throughout; it is taken that way`);
  }

  private async read(path: string): Promise<ManifestEntry[]> {
    const entries: ManifestEntry[] = [];
    for await (const entry of readEntries([path], { onError: badLines(this.options.onDamaged ?? "throw", this.report, this.onWarning), needDuration: false })) {
      if (!this.keep(entry)) this.filtered.add(entry);
      entries.push(entry);
    }
    return entries;
  }

  /** The entries of manifests that are for all tars. */
  private async readTogether(manifests: readonly string[], paths: readonly string[], byName: boolean): Promise<Manifests> {
    if (byName) return { groups: paths.map(() => []), loose: (await eachOf(manifests, 1, (path) => this.read(path))).flat(), single: true };
    const { groups, loose, shift } = groupByShard(await this.read(manifests[0] as string), paths);
    this.sayShift(shift);
    return { groups, loose, single: true };
  }

  private match({ groups, loose, single }: Manifests, all: Listing[]): TarredShard[] {
    const matches = all.map(({ path, compression, members: listed }, i) => {
      const members = resolveLinks(listed);
      const audio = members.filter(({ name }) => isAudioName(name));
      // Where no suffix is known, every member may be audio.
      const candidates = audio.length > 0 ? audio : members;
      return { path, compression, candidates, ...matchEntries(candidates, named(groups[i] ?? [])) };
    });
    const orphans = matches.flatMap(({ entriesWithoutMember }) => entriesWithoutMember.map(({ entry }) => entry));
    if (single && orphans.length > 0 && !this.together) throw new Scattered();
    // With one manifest for all tars the name decides where shard_id does not.
    let rest = single ? [...loose, ...orphans] : [];
    const shards = matches.map(({ path, compression, candidates, pairs }): TarredShard => {
      const entriesOf = new Map(pairs.map(({ member, entries }) => [member, entries.map(({ entry }) => entry)]));
      if (rest.length > 0) {
        const found = new Set<ManifestEntry>();
        for (const { member, entries } of matchEntries(candidates, named(rest), entriesOf.keys()).pairs) {
          for (const { entry } of entries) {
            found.add(entry);
            if (entry.shardId !== undefined && !this.filtered.has(entry)) this.report.add("misplaced", entry.origin);
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
          for (const entry of entries) if (!this.filtered.has(entry)) items.push({ cut: memberCut(entry, path, member), value: entry.value });
        } else this.report.add(names.has(normalName(member.name)) ? "duplicateMembers" : "membersWithoutEntry", `${path}:${member.name}`);
        names.add(normalName(member.name));
      }
      // Links may stand away from their data: utterances are read in the order of the bytes.
      items.sort((a, b) => offsetOf(a) - offsetOf(b));
      return { path, compression, items };
    });
    for (const entry of single ? rest : orphans) if (!this.filtered.has(entry)) this.report.add("entriesWithoutMember", entry.origin);
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
