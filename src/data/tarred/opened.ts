/** What opening a dataset takes and gives, and what all kinds of datasets share: filters, the policy for damage, cuts of members. */
import type { TarCompression, TarMember } from "../../formats/tar/index.ts";
import type { SeracError } from "../../util/errors.ts";
import type { Cut } from "../cut.ts";
import { makeCut } from "../manifest/cuts.ts";
import type { ManifestEntry } from "../manifest/entry.ts";
import type { ManifestObject } from "../manifest/lines.ts";
import type { ShardSpec } from "../shards.ts";
import type { TarredReport } from "./report.ts";

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

/** Says it where `policy` asks for it; throws where it does not allow it. */
export function damage(error: SeracError, policy: DamagePolicy, report: TarredReport, onWarning: (message: string) => void): void {
  if (policy === "throw") throw error;
  report.add("damaged", error.at ?? error.message);
  if (policy === "warn") onWarning(error.message);
}

/** What to do with lines that cannot be used, as `damage` does with members. */
export function badLines(policy: DamagePolicy, report: TarredReport, onWarning: (message: string) => void): (error: SeracError) => void {
  return (error) => {
    if (policy === "throw") throw error;
    report.add("unusableLines", error.at ?? error.message);
    if (policy === "warn") onWarning(error.message);
  };
}

/** The filters of NeMo's collections: bounds are inclusive, an entry without a duration passes. */
export function keeper({ minDuration, maxDuration, maxUtts, filter }: Omit<OpenOptions, "tars">, report: TarredReport): (entry: ManifestEntry) => boolean {
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

/** The cut that plays an entry's part of its member. */
export function memberCut(entry: ManifestEntry, tar: string, member: TarMember): Cut {
  return makeCut(entry, member.name, { audioPath: tar, member: { name: member.name, offset: member.dataOffset, size: member.size } });
}
