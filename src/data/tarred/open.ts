/** Opens a tarred dataset: reads the manifests and the headers of all tars, filters, and gives every entry its member. No audio is read. */
import { audioInfo } from "../../audio/index.ts";
import {
  buildTarIndex,
  indexPath,
  isRegular,
  listIndexed,
  openTarSource,
  readTar,
  readTarSource,
  type TarCompression,
  type TarMember,
  writeTarIndex,
} from "../../formats/tar/index.ts";
import { ConfigError, FormatError, ManifestError, SeracError } from "../../util/errors.ts";
import type { Cut } from "../cut.ts";
import { cutOf as fileCutOf } from "../manifest/cuts.ts";
import { type ManifestEntry, readEntries } from "../manifest/entry.ts";
import { manifestPaths } from "../manifest/inputs.ts";
import type { ManifestObject } from "../manifest/lines.ts";
import { datasetSpecs, expandShards, type ShardSpec } from "../shards.ts";
import { matchEntries, normalName } from "./match.ts";
import { groupByShard, pairShards } from "./pairing.ts";
import { TarredReport } from "./report.ts";
import { groupSamples, isAudioName, sampleEntry, type WebdatasetSample } from "./webdataset.ts";

/** What to do with what is damaged: end, leave it out and count it, or do so and say it. */
export type DamagePolicy = "throw" | "skip" | "warn";

/** What is read, and which of it. */
export interface OpenOptions {
  /** Patterns or lists, one manifest for all tars or one for each; absent for WebDataset tars, which hold their texts themselves. */
  manifest?: ShardSpec | undefined;
  tars: ShardSpec;
  /** Seconds, inclusive, as NeMo's readers filter. */
  minDuration?: number | undefined;
  maxDuration?: number | undefined;
  /** Stops after so many entries were kept. */
  maxUtts?: number | undefined;
  /** False leaves an entry out. */
  filter?: (entry: ManifestEntry) => boolean;
  onDamaged?: DamagePolicy;
  /** True to have `.idx` files beside the tars (built where absent); packed tars are then refused. */
  index?: boolean;
  /** Told what a person should know. Standard error by default. */
  onWarning?: (message: string) => void;
}

/** An entry whose audio was found. */
export interface TarredItem {
  /** Its `member` is where the bytes lie; undefined where the audio is a file. */
  cut: Cut;
  /** The manifest's line, as it is. */
  value: ManifestObject;
}

/** Where an item's bytes begin; 0 for files. */
export const offsetOf = ({ cut }: TarredItem): number => cut.member?.offset ?? 0;

/** A tar and what is read of it, in its order. */
export interface TarredShard {
  path: string;
  /** How the tar is packed; `files` where the audio lies in files of its own, and the path is the manifest's. */
  compression: TarCompression | "files";
  items: TarredItem[];
}

/** A dataset whose audio was found. */
export interface OpenedDataset {
  shards: TarredShard[];
  report: TarredReport;
}

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

/** Says it where `policy` asks for it; throws where it does not allow it. */
export function damage(error: SeracError, policy: DamagePolicy, report: TarredReport, onWarning: (message: string) => void): void {
  if (policy === "throw") throw error;
  report.add("damaged", error.at ?? error.message);
  if (policy === "warn") onWarning(error.message);
}

interface Listing {
  path: string;
  compression: TarCompression;
  members: TarMember[];
}

/** The members of a tar, by its `.idx` file where one is wanted and fits. */
async function list(path: string, { index, onDamaged = "throw" }: OpenOptions, report: TarredReport, onWarning: (message: string) => void): Promise<Listing> {
  const damaged = (error: FormatError): void => damage(error, onDamaged, report, onWarning);
  const onNote = (note: string): void => void report.notes.push(note);
  if (index) {
    try {
      const members = await listIndexed(path);
      if (members) return { path, compression: "none", members };
    } catch (error) {
      if (!(error instanceof FormatError) || !error.code.startsWith("TAR_")) throw error;
      onWarning(`${error.message}; reading all headers instead`);
    }
    const built = await buildTarIndex(path, { onDamaged: damaged, onNote });
    try {
      writeTarIndex(path, built.index);
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      report.notes.push(`${indexPath(path)} cannot be written; it is built again at the next start`);
    }
    return { path, compression: "none", members: built.members };
  }
  const members: TarMember[] = [];
  const { source, compression } = await openTarSource(path, { window: 1 << 16 });
  try {
    for await (const member of readTarSource(source, path, { data: false, onDamaged: damaged, onNote })) members.push(member);
  } catch (error) {
    // Within a packed tar the rest of the shard is lost.
    if (!(error instanceof FormatError) || (error.code !== "GZIP_BAD" && error.code !== "TAR_TRUNCATED")) throw error;
    damaged(error);
  } finally {
    await source.close();
  }
  return { path, compression, members };
}

/** Runs at most `width` at a time; results in order. Of several failures the first in the list is thrown, whichever came first in time. */
async function eachOf<T, R>(items: readonly T[], width: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = new Array<R>(items.length);
  const failures: { at: number; error: unknown }[] = [];
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const at = next++;
      try {
        results[at] = await work(items[at] as T);
      } catch (error) {
        failures.push({ at, error });
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, run));
  const [first] = failures.sort((a, b) => a.at - b.at);
  if (first) throw first.error;
  return results;
}

/** Hard links become members of their own name with the data of what they name: tar writes one where two paths are one file. */
function resolveLinks(members: readonly TarMember[]): TarMember[] {
  const links = members.filter(({ type }) => type === "1");
  if (links.length === 0) return members.filter(isRegular);
  const byName = new Map(members.filter(isRegular).map((member) => [member.name, member]));
  return members.flatMap((member) => {
    if (isRegular(member)) return [member];
    const target = member.type === "1" ? byName.get(member.linkName) : undefined;
    return target ? [{ ...target, name: member.name }] : [];
  });
}

function cutOf(entry: ManifestEntry, tar: string, member: TarMember): Cut {
  const { offset, duration, text, speaker, lang, origin } = entry;
  return {
    id: offset === undefined ? member.name : `${member.name}-${offset}-${duration}`,
    audioPath: tar,
    member: { name: member.name, offset: member.dataOffset, size: member.size },
    offset,
    duration: duration ?? Number.NaN,
    text: typeof text === "string" ? text : text.map(({ str }) => str).join(" "),
    speaker,
    lang,
    speed: 1,
    tracks: undefined,
    gap: 0,
    origin,
  };
}

/**
 * Opens tars and their manifests.
 * @throws ConfigError, ManifestError (also SHARDS_DIFFER; SHARDS_EMPTY when nothing is left), FormatError by the policy for damage
 */
export async function openTarred(options: OpenOptions): Promise<OpenedDataset> {
  const { manifest, tars, onWarning = (message) => process.stderr.write(`serac: ${message}\n`) } = options;
  const report = new TarredReport();
  const paths = localPaths(tars, "tarred_audio_filepaths");
  const keep = keeper(options, report);
  // They take part in the matching all the same: their members are not without an entry.
  const filtered = new Set<ManifestEntry>();
  const listings = async (): Promise<Listing[]> => eachOf(paths, 4, (path) => list(path, options, report, onWarning));
  let shards: TarredShard[];
  if (manifest === undefined) {
    shards = [];
    for (const listing of await listings()) shards.push(await openWebdataset(listing, options, keep, report, onWarning));
  } else shards = match(await readManifests(manifest), await listings());
  const left = shards.reduce((sum, { items }) => sum + items.length, 0);
  if (left === 0)
    throw new ManifestError("SHARDS_EMPTY", {
      at: paths[0] as string,
      message: `no utterance is left: ${report.lines().join("; ") || "the manifests are empty"}`,
      fix: "check the filters, and that manifests and tars belong together",
    });
  return { shards, report };

  async function readManifests(spec: ShardSpec): Promise<Manifests> {
    const manifests = manifestPaths(spec);
    const { manifestOf } = pairShards(manifests, paths);
    const read = async (path: string): Promise<ManifestEntry[]> => {
      const entries: ManifestEntry[] = [];
      const onError = (error: SeracError): void => {
        if (options.onDamaged === undefined || options.onDamaged === "throw") throw error;
        report.add("unusableLines", error.at ?? error.message);
        if (options.onDamaged === "warn") onWarning(error.message);
      };
      for await (const entry of readEntries([path], { onError, needDuration: false })) {
        if (!keep(entry)) filtered.add(entry);
        entries.push(entry);
      }
      return entries;
    };
    if (manifestOf) {
      const all = await eachOf(manifests, 1, read);
      return { groups: manifestOf.map((i) => all[i] as ManifestEntry[]), loose: [], single: false };
    }
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
        for (const { member, entries } of matchEntries(candidates, named(rest)).pairs) {
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
          for (const entry of entries) if (!filtered.has(entry)) items.push({ cut: cutOf(entry, path, member), value: entry.value });
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
  /** One manifest for all tars. */
  single: boolean;
}

const named = (entries: readonly ManifestEntry[]): { name: string; entry: ManifestEntry }[] =>
  entries.flatMap((entry) => (typeof entry.audioFile === "string" ? [{ name: entry.audioFile, entry }] : []));

/** The filters of NeMo's collections: bounds are inclusive, an entry without a duration passes. */
function keeper({ minDuration, maxDuration, maxUtts, filter }: OpenOptions, report: TarredReport): (entry: ManifestEntry) => boolean {
  let kept = 0;
  return (entry) => {
    const { duration, origin } = entry;
    if (typeof entry.audioFile !== "string") report.add("unusableLines", origin);
    else if (minDuration !== undefined && duration !== undefined && duration < minDuration) report.add("shorter", origin);
    else if (maxDuration !== undefined && duration !== undefined && duration > maxDuration) report.add("longer", origin);
    else if (filter && !filter(entry)) report.add("refused", origin);
    else if (maxUtts !== undefined && kept >= maxUtts) report.add("overLimit", origin);
    else {
      kept++;
      return true;
    }
    return false;
  };
}

/**
 * The same for a manifest whose audio lies in files: one shard of all of them. The files are not looked at.
 * @throws ManifestError (also SHARDS_EMPTY)
 */
export async function openFiles(options: Omit<OpenOptions, "tars"> & { manifest: ShardSpec }): Promise<OpenedDataset> {
  const report = new TarredReport();
  const keep = keeper({ ...options, tars: [] }, report);
  const { onDamaged = "throw", onWarning = () => {} } = options;
  const items: TarredItem[] = [];
  const onError = (error: SeracError): void => {
    if (onDamaged === "throw") throw error;
    report.add("unusableLines", error.at ?? error.message);
    if (onDamaged === "warn") onWarning(error.message);
  };
  for await (const entry of readEntries(options.manifest, { onError }))
    if (keep(entry)) {
      const cut = fileCutOf(entry);
      items.push({ cut, value: entry.value });
    }
  const path = manifestPaths(options.manifest)[0] as string;
  if (items.length === 0)
    throw new ManifestError("SHARDS_EMPTY", { at: path, message: `no utterance is left: ${report.lines().join("; ") || "the manifests are empty"}`, fix: "check the filters" });
  return { shards: [{ path, compression: "files", items }], report };
}

/** The samples of a WebDataset tar as entries: this reads its texts, and the audio's length where no json has it. */
async function openWebdataset(
  { path, compression, members }: Listing,
  { onDamaged = "throw" }: OpenOptions,
  keep: (entry: ManifestEntry) => boolean,
  report: TarredReport,
  onWarning: (message: string) => void,
): Promise<TarredShard> {
  const samples = groupSamples(members.filter(isRegular));
  const texts = await readMembers(
    path,
    samples.flatMap(({ audio, json, text }) => (audio ? [json, text] : [])),
  );
  const saysDuration = ({ json }: WebdatasetSample): boolean => /"duration"\s*:\s*\d/.test((json && texts.get(json.headerOffset)?.toString("latin1")) ?? "");
  const silent = samples.flatMap((sample) => (saysDuration(sample) ? [] : [sample.audio]));
  const durations = new Map<number, number>();
  await readMembers(path, silent, async (member, data) => {
    try {
      durations.set(member.headerOffset, (await audioInfo(data, `${path}:${member.name}`)).durationSeconds);
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      damage(error, onDamaged, report, onWarning);
    }
  });
  const items: TarredItem[] = [];
  for (const sample of samples) {
    const { audio, json, text } = sample;
    if (!audio) {
      report.add("samplesWithoutAudio", `${path}:${sample.key}`);
      continue;
    }
    const duration = durations.get(audio.headerOffset);
    if (duration === undefined && !saysDuration(sample)) continue; // reported above
    try {
      const bytes = { json: json && texts.get(json.headerOffset), text: text && texts.get(text.headerOffset) };
      const entry = sampleEntry(sample, path, bytes, duration);
      if (keep(entry)) items.push({ cut: cutOf(entry, path, audio), value: entry.value });
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      damage(error, onDamaged, report, onWarning);
    }
  }
  return { path, compression, items };
}

/** The bytes of some members, by the offset of their headers; given to `use` instead where there is one. */
async function readMembers(path: string, members: readonly (TarMember | undefined)[], use?: (member: TarMember, data: Buffer) => Promise<void>): Promise<Map<number, Buffer>> {
  const wanted = new Set(members.flatMap((member) => member?.headerOffset ?? []));
  const found = new Map<number, Buffer>();
  if (wanted.size === 0) return found;
  for await (const member of readTar(path, { data: ({ headerOffset }) => wanted.has(headerOffset), onDamaged: () => {} })) {
    if (!member.data) continue;
    if (use) await use(member, member.data);
    else found.set(member.headerOffset, Buffer.from(member.data)); // a copy: the data is a part of a window
  }
  return found;
}
