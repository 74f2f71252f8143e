/** What verifying a tarred dataset can find, and what it found. */

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

/** Counts by kind, with the first examples. */
export class Findings {
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
