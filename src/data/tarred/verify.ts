/**
 * Verifies a tarred dataset: every entry is in its tar file and decodes to its duration, every member has an entry, shards are even, ids agree,
 * and the tar files are those that were written. Reads everything, changes nothing, and goes on after every fault.
 */
import { createHash } from "node:crypto";
import { createReadStream, existsSync, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { audioInfo, readAudio } from "../../audio/index.ts";
import { isRegular, readTar, type TarMember } from "../../formats/tar/index.ts";
import { FormatError, ManifestError, SeracError } from "../../util/errors.ts";
import { readEntries } from "../manifest/entry.ts";
import { expandShards, type ShardSpec } from "../shards.ts";
import { type DatasetRecord, readRecord } from "./convert/record.ts";
import { normalName, stemOf, withoutSub } from "./match.ts";
import { shardNumber } from "./pairing.ts";

/** Kinds of faults, in the words of the report. */
export const verifyKinds = {
  tarMissing: "shards whose tar file is missing",
  manifestMissing: "tar files without entries in the manifests",
  tarDamaged: "damaged or truncated tar files",
  checksum: "tar files that are not those that were written",
  swapped: "tar files that hold another shard",
  memberMissing: "entries whose audio is not in their tar file",
  wrongExtension: "entries whose audio has another extension in the tar file",
  memberDuplicate: "members whose name an earlier one has",
  memberWithoutEntry: "members without an entry",
  entryDuplicate: "entries that stand twice in a shard",
  shardId: "entries whose shard_id is not their shard's",
  audio: "members that cannot be decoded",
  duration: "entries whose duration is not that of their audio",
  manifestLine: "manifest lines that cannot be used",
  aggregate: "differences between tarred_audio_manifest.json and the shards' manifests",
  uneven: "shards with another number of entries than most",
} as const;
export type VerifyKind = keyof typeof verifyKinds;

/** Kinds that a dataset can be read with: they are told, but are no errors. */
const warnings: ReadonlySet<VerifyKind> = new Set(["uneven"]);

/** One kind of fault. */
export interface VerifyFinding {
  kind: VerifyKind;
  severity: "error" | "warning";
  count: number;
  /** `shard:member: what`, the first ones. */
  examples: string[];
}

export interface VerifyReport {
  shards: number;
  entries: number;
  members: number;
  /** Seconds of audio that were decoded; 0 with `decode: false`. */
  seconds: number;
  /** Tar files whose SHA-256 was compared. */
  checksums: number;
  findings: VerifyFinding[];
  /** No errors; there may be warnings. */
  ok: boolean;
}

export interface VerifyOptions {
  /** The dataset's folder; or `manifest` and `tars`. */
  folder?: string;
  manifest?: ShardSpec;
  tars?: ShardSpec;
  /** False looks at headers alone. */
  decode?: boolean;
  /** Seconds by which an entry's duration may differ from its audio. */
  tolerance?: number;
  /** Examples of each kind. */
  examples?: number;
  onShard?: (path: string, entries: number) => void;
  say?: (line: string) => void;
  signal?: AbortSignal;
}

/** What is looked at of a line. */
interface VerifiedEntry {
  name: string;
  offset: number | undefined;
  duration: number | undefined;
  text: string;
  shardId: number | undefined;
  origin: string;
}

/** What is verified: which entries belong to which tar file. */
interface Layout {
  shards: { id: number; tar: string; entries: VerifiedEntry[] }[];
  orphans: string[];
  record: DatasetRecord | undefined;
}

class Findings {
  private readonly found = new Map<VerifyKind, VerifyFinding>();
  private readonly limit: number;

  constructor(limit: number) {
    this.limit = limit;
  }

  add(kind: VerifyKind, example: string): void {
    const finding = this.found.get(kind) ?? { kind, severity: warnings.has(kind) ? "warning" : "error", count: 0, examples: [] };
    finding.count++;
    if (finding.examples.length < this.limit) finding.examples.push(example);
    this.found.set(kind, finding);
  }

  get list(): VerifyFinding[] {
    return (Object.keys(verifyKinds) as VerifyKind[]).flatMap((kind) => this.found.get(kind) ?? []);
  }
}

const versionOf = (name: string): number | undefined => {
  const version = /^tarred_audio_manifest(?:_version_(\d+))?\.json$/.exec(name);
  return version === null ? undefined : Number(version[1] ?? 0);
};

async function readAll(path: string, findings: Findings): Promise<VerifiedEntry[]> {
  const entries: VerifiedEntry[] = [];
  const options = { keepSkipped: true, needDuration: false, onError: (error: SeracError) => findings.add("manifestLine", error.message) };
  for await (const { audioFile, offset, duration, text, shardId, origin } of readEntries(path, options)) {
    if (typeof audioFile === "string") entries.push({ name: audioFile, offset, duration, text: typeof text === "string" ? text : JSON.stringify(text), shardId, origin });
    else findings.add("manifestLine", `${origin}: audio_filepath is not one path`);
  }
  return entries;
}

/** The newest version of the dataset in a folder. */
async function folderLayout(folder: string, findings: Findings): Promise<Layout> {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (cause) {
    throw new FormatError("FILE_MISSING", { at: folder, message: "no such folder", cause });
  }
  const versions = names.flatMap((name) => versionOf(name) ?? []);
  if (versions.length === 0)
    throw new ManifestError("TARRED_METADATA", {
      at: folder,
      message: "there is no tarred_audio_manifest.json in this folder",
      fix: "name the folder that serac tar or NeMo's script wrote, or give --manifest and --tars",
    });
  const version = Math.max(...versions);
  const aggregate = await readAll(join(folder, version === 0 ? "tarred_audio_manifest.json" : `tarred_audio_manifest_version_${version}.json`), findings);
  const byId = new Map<number, VerifiedEntry[]>();
  for (const entry of aggregate) {
    if (entry.shardId === undefined) findings.add("shardId", `${entry.origin}: there is no shard_id`);
    else if (byId.get(entry.shardId)?.push(entry) === undefined) byId.set(entry.shardId, [entry]);
  }
  const tars = new Map(names.flatMap((name) => (/^audio_(\d+)\.tar$/.test(name) ? [[shardNumber(name) as number, join(folder, name)] as const] : [])));
  const sharded = join(folder, "sharded_manifests");
  if (existsSync(sharded)) {
    const manifests = new Map(readdirSync(sharded).flatMap((name) => (/^manifest_(\d+)\.json$/.test(name) ? [[shardNumber(name) as number, join(sharded, name)] as const] : [])));
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
    shards: [...byId].sort(([a], [b]) => a - b).map(([id, entries]) => ({ id, entries, tar: tars.get(id) ?? join(folder, `audio_${id}.tar`) })),
    orphans: [...tars].flatMap(([id, path]) => (byId.has(id) ? [] : [path])),
    record: readRecord(folder, version),
  };
}

async function specLayout(manifest: ShardSpec, tars: ShardSpec, findings: Findings): Promise<Layout> {
  const { groupByShard, pairShards } = await import("./pairing.ts");
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

async function digest(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** The entries of a shard by the member that plays them. */
function byMember(entries: readonly VerifiedEntry[]): Map<string, VerifiedEntry[]> {
  const wanted = new Map<string, VerifiedEntry[]>();
  const names = new Set(entries.map(({ name }) => normalName(name)));
  for (const entry of entries) {
    const name = normalName(entry.name);
    // NeMo's repeats: x-sub1.wav plays x.wav, if no file of that very name was stored.
    const whole = withoutSub(name);
    const key = whole !== undefined && names.has(whole) ? whole : name;
    if (wanted.get(key)?.push(entry) === undefined) wanted.set(key, [entry]);
  }
  return wanted;
}

class ShardVerifier {
  readonly path: string;
  private readonly entries: readonly VerifiedEntry[];
  private readonly findings: Findings;
  private readonly options: Required<Pick<VerifyOptions, "decode" | "tolerance">>;
  members: { name: string }[] = [];
  seconds = 0;
  private readonly tasks = new Set<Promise<void>>();

  constructor(path: string, entries: readonly VerifiedEntry[], findings: Findings, options: Required<Pick<VerifyOptions, "decode" | "tolerance">>) {
    this.path = path;
    this.entries = entries;
    this.findings = findings;
    this.options = options;
  }

  async run(): Promise<void> {
    const wanted = byMember(this.entries);
    const stems = new Map([...wanted.keys()].map((name) => [stemOf(name), name]));
    const seenEntries = new Set<string>();
    for (const { name, origin } of this.entries) {
      if (seenEntries.has(name)) this.findings.add("entryDuplicate", `${origin}: ${name}`);
      seenEntries.add(name);
    }
    const seen = new Set<string>();
    const played = new Set<string>();
    try {
      for await (const member of readTar(this.path, { onDamaged: (error) => this.findings.add("tarDamaged", error.message) })) {
        if (!isRegular(member)) continue;
        const name = normalName(member.name);
        this.members.push({ name });
        if (seen.has(name)) {
          this.findings.add("memberDuplicate", `${this.path}:${name}`);
          continue;
        }
        seen.add(name);
        let key: string | undefined = name;
        if (!wanted.has(name)) {
          key = stems.get(stemOf(name));
          if (key === undefined) this.findings.add("memberWithoutEntry", `${this.path}:${name}`);
          else this.findings.add("wrongExtension", `${this.path}:${name}: ${wanted.get(key)?.[0]?.origin} has ${key}`);
        }
        if (key !== undefined) played.add(key);
        await this.decode(member, key === undefined ? [] : (wanted.get(key) as VerifiedEntry[]));
      }
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      this.findings.add("tarDamaged", error.message);
    }
    await Promise.all(this.tasks);
    for (const [name, entries] of wanted) if (!played.has(name)) for (const { origin } of entries) this.findings.add("memberMissing", `${this.path}:${name}: named by ${origin}`);
  }

  /** Starts decoding; waits where much is under way. */
  private async decode(member: TarMember, entries: readonly VerifiedEntry[]): Promise<void> {
    const task = this.look(member, entries).finally(() => this.tasks.delete(task));
    this.tasks.add(task);
    if (this.tasks.size >= 6) await Promise.race(this.tasks);
  }

  private async look({ name, data }: TarMember, entries: readonly VerifiedEntry[]): Promise<void> {
    const at = `${this.path}:${name}`;
    let length: number;
    try {
      if (this.options.decode) {
        const { channels, sampleRate } = await readAudio(data as Buffer, {}, at);
        length = (channels[0]?.length ?? 0) / sampleRate;
        this.seconds += length;
      } else length = (await audioInfo(data as Buffer, at)).durationSeconds;
    } catch (error) {
      if (!(error instanceof SeracError)) throw error;
      this.findings.add("audio", error.message);
      return;
    }
    for (const { offset, duration, origin } of entries) {
      if (duration === undefined) continue;
      const start = offset ?? 0;
      // A part may be shorter than its file, the whole of it may not.
      const wrong = offset === undefined && entries.length === 1 ? Math.abs(duration - length) > this.options.tolerance : start + duration > length + this.options.tolerance;
      if (wrong) this.findings.add("duration", `${at}: ${length.toFixed(3)} s of audio, and ${origin} says ${start > 0 ? `${start} + ` : ""}${duration} s`);
    }
  }
}

/** Tar files whose names are those of another shard: two that were exchanged, or one that was copied over. */
function findSwapped(shards: readonly { id: number; tar: string; entries: VerifiedEntry[] }[], members: ReadonlyMap<number, readonly { name: string }[]>): Map<number, number> {
  const stemsOf = (names: Iterable<string>): Set<string> => new Set([...names].map((name) => stemOf(withoutSub(name) ?? name)));
  const wanted = shards.map(({ id, entries }) => ({ id, names: stemsOf(entries.map(({ name }) => normalName(name))) }));
  const swapped = new Map<number, number>();
  for (const { id } of shards) {
    const names = stemsOf((members.get(id) ?? []).map(({ name }) => name));
    if (names.size === 0) continue;
    const share = (other: Set<string>): number => [...names].filter((name) => other.has(name)).length / names.size;
    const own = wanted.find((one) => one.id === id);
    if (own && share(own.names) > 0.5) continue;
    const better = wanted.find((one) => one.id !== id && share(one.names) > 0.5);
    if (better) swapped.set(id, better.id);
  }
  return swapped;
}

/**
 * Verifies a dataset of serac's or of NeMo's. Checksums are compared where tarred_audio_record.json has them.
 * @throws FormatError FILE_MISSING; ManifestError TARRED_METADATA, SHARDS_DIFFER where there is nothing to verify
 */
export async function verifyTarred(options: VerifyOptions): Promise<VerifyReport> {
  const { decode = true, tolerance = 0.05, examples = 5, onShard, say, signal } = options;
  const findings = new Findings(examples);
  const layout = options.folder !== undefined ? await folderLayout(options.folder, findings) : await specLayout(options.manifest as ShardSpec, options.tars as ShardSpec, findings);
  for (const path of layout.orphans) findings.add("manifestMissing", path);
  const report: VerifyReport = { shards: layout.shards.length, entries: 0, members: 0, seconds: 0, checksums: 0, findings: [], ok: true };
  const recorded = new Map(layout.record?.shards.map((one) => [one.tar, one]));
  const members = new Map<number, { name: string }[]>();
  if (layout.record === undefined && options.folder !== undefined) say?.("There is no tarred_audio_record.json: checksums cannot be compared.");
  for (const { id, tar, entries } of layout.shards) {
    signal?.throwIfAborted();
    report.entries += entries.length;
    if (statSync(tar, { throwIfNoEntry: false }) === undefined) {
      findings.add("tarMissing", `${tar}: ${entries.length} entries are in it`);
      onShard?.(tar, entries.length);
      continue;
    }
    const verifier = new ShardVerifier(tar, entries, findings, { decode, tolerance });
    const known = recorded.get(basename(tar));
    const [found] = await Promise.all([known ? digest(tar) : undefined, verifier.run()]);
    if (known) {
      report.checksums++;
      if (found !== known.sha256) {
        const other = layout.record?.shards.find(({ sha256 }) => sha256 === found);
        const { size } = statSync(tar);
        const why = other ? `its SHA-256 is that of ${other.tar}` : size === known.bytes ? "its SHA-256 is another" : `it has ${size} bytes instead of ${known.bytes}`;
        findings.add("checksum", `${tar}: ${why}`);
      }
    }
    report.members += verifier.members.length;
    report.seconds += verifier.seconds;
    members.set(id, verifier.members);
    onShard?.(tar, entries.length);
  }
  const tars = new Map(layout.shards.map(({ id, tar }) => [id, tar]));
  for (const [id, other] of findSwapped(layout.shards, members)) findings.add("swapped", `${tars.get(id)}: its members are those of shard ${other}`);
  const sizes = layout.shards.map(({ entries }) => entries.length);
  const counts = new Map<number, number>();
  for (const size of sizes) counts.set(size, (counts.get(size) ?? 0) + 1);
  const usual = [...counts].sort((a, b) => b[1] - a[1] || b[0] - a[0])[0]?.[0] ?? 0;
  for (const { tar, entries } of layout.shards) if (entries.length !== usual) findings.add("uneven", `${tar}: ${entries.length} entries instead of ${usual}`);
  report.findings = findings.list;
  report.ok = report.findings.every(({ severity }) => severity === "warning");
  return report;
}
