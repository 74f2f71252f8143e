/**
 * Verifies a tarred dataset: every entry is in its tar file and decodes to its duration, every member has an entry, shards are even, ids agree,
 * and the tar files are those that were written. Reads everything, changes nothing, and goes on after every fault.
 */
import { createHash } from "node:crypto";
import { createReadStream, statSync } from "node:fs";
import { basename } from "node:path";
import type { ShardSpec } from "../../shards.ts";
import type { DatasetRecord, RecordedShard } from "../convert/record.ts";
import { normalName, stemOf, withoutSub } from "../match.ts";
import { Findings, type VerifyFinding } from "./findings.ts";
import { folderLayout, type ShardLayout, specLayout } from "./layout.ts";
import { ShardVerifier } from "./shard.ts";

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

/** The SHA-256 of a file; undefined where it cannot be read, which reading its members says. */
async function digest(path: string): Promise<string | undefined> {
  const hash = createHash("sha256");
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  } catch {
    return undefined;
  }
  return hash.digest("hex");
}

/** Why a tar file has another SHA-256 than the one that was written. */
function otherChecksum(tar: string, found: string, known: RecordedShard, record: DatasetRecord): string {
  const other = record.shards.find(({ sha256 }) => sha256 === found);
  if (other) return `its SHA-256 is that of ${other.tar}`;
  const { size } = statSync(tar);
  return size === known.bytes ? "its SHA-256 is another" : `it has ${size} bytes instead of ${known.bytes}`;
}

/** The larger one where two are as frequent; 0 of nothing. */
function mostFrequent(values: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || b[0] - a[0])[0]?.[0] ?? 0;
}

/** Tar files whose names are those of another shard: two that were exchanged, or one that was copied over. */
function findSwapped(shards: readonly ShardLayout[], members: ReadonlyMap<number, readonly string[]>): Map<number, number> {
  const stemsOf = (names: Iterable<string>): Set<string> => new Set([...names].map((name) => stemOf(withoutSub(name) ?? name)));
  const wanted = shards.map(({ id, entries }) => ({ id, names: stemsOf(entries.map(({ name }) => normalName(name))) }));
  const swapped = new Map<number, number>();
  for (const { id } of shards) {
    const names = stemsOf(members.get(id) ?? []);
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
  const members = new Map<number, readonly string[]>();
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
    const [found] = await Promise.all([known && digest(tar), verifier.run()]);
    if (known && found !== undefined) {
      report.checksums++;
      if (found !== known.sha256) findings.add("checksum", `${tar}: ${otherChecksum(tar, found, known, layout.record as DatasetRecord)}`);
    }
    report.members += verifier.members.length;
    report.seconds += verifier.seconds;
    members.set(id, verifier.members);
    onShard?.(tar, entries.length);
  }
  const tars = new Map(layout.shards.map(({ id, tar }) => [id, tar]));
  for (const [id, other] of findSwapped(layout.shards, members)) findings.add("swapped", `${tars.get(id)}: its members are those of shard ${other}`);
  const usual = mostFrequent(layout.shards.map(({ entries }) => entries.length));
  for (const { tar, entries } of layout.shards) if (entries.length !== usual) findings.add("uneven", `${tar}: ${entries.length} entries instead of ${usual}`);
  report.findings = findings.list;
  report.ok = report.findings.every(({ severity }) => severity === "warning");
  return report;
}
