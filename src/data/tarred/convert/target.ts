/** The folder that a dataset is made in: what it holds already, and which files in it are whose. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileError, makeFolder, removeQuietly, removeTemporaries } from "../../../formats/atomic.ts";
import type { Base } from "./concat.ts";
import { aggregateName, metadataName, shardManifestFolder, shardManifestName, shardOfManifest, shardOfTar, tarName } from "./files.ts";
import { isIntact, Journal, type JournalHead, targetInUse } from "./journal.ts";
import type { ConvertOptions } from "./options.ts";
import { type DatasetRecord, readRecord } from "./record.ts";
import type { ShardResult } from "./shard.ts";

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Where a conversion writes. `base` is the dataset that is appended to. */
export class Target {
  readonly folder: string;
  readonly journal: Journal;
  /** Of the dataset: 0, and one more with each concatenation. */
  readonly version: number;
  readonly firstShard: number;
  private readonly options: ConvertOptions;

  constructor(options: ConvertOptions, base: Base | undefined) {
    this.folder = options.targetDir;
    this.journal = new Journal(options.targetDir);
    this.version = base?.version ?? 0;
    this.firstShard = base?.firstShard ?? 0;
    this.options = options;
  }

  get aggregate(): string {
    return join(this.folder, aggregateName(this.version));
  }
  get metadata(): string {
    return join(this.folder, metadataName(this.version));
  }
  tar(shard: number): string {
    return join(this.folder, tarName(shard));
  }
  /** The shard's lines; among the working files where no manifests of shards are asked for. */
  manifest(shard: number): string {
    return join(this.options.shardManifests ? join(this.folder, shardManifestFolder) : this.journal.folder, shardManifestName(shard));
  }

  /** @throws FormatError FILE_UNWRITABLE */
  make(): void {
    try {
      makeFolder(this.folder);
    } catch (error) {
      throw fileError(this.folder, "write", error);
    }
  }

  /** @returns the record of the dataset where it was made whole, from the same inputs and settings, and its tar files have their sizes */
  findComplete(identity: string): DatasetRecord | undefined {
    const record = this.options.overwrite ? undefined : readRecord(this.folder, this.version);
    if (record?.identity !== identity || !existsSync(this.metadata)) return undefined;
    return record.shards.every(({ tar, bytes }) => statSync(join(this.folder, tar), { throwIfNoEntry: false })?.size === bytes) ? record : undefined;
  }

  /** @throws ManifestError TARRED_EXISTS where the folder holds what this conversion neither made nor may replace */
  refuseOthers(identity: string): void {
    if (this.options.overwrite) return;
    const earlier = this.journal.read();
    if (earlier?.head.identity === identity) return;
    if (earlier !== undefined) throw targetInUse(this.folder, "the folder holds an unfinished conversion with other settings or inputs");
    const own = this.version === 0 ? [metadataName(0), aggregateName(0)] : [metadataName(this.version)];
    const taken = filesIn(this.folder).find((name) => (shardOfTar(name) ?? -1) >= this.firstShard || own.includes(name));
    if (taken !== undefined) throw targetInUse(this.folder, `the folder holds a tarred dataset already (${taken})`);
  }

  /**
   * Begins, or goes on where a run was ended that had the same inputs and settings and left out the same lines.
   * @param drawSeed gives the seed of the shuffle where none is recorded
   * @returns shards that need not be made again, and the seed
   * @throws FormatError FILE_UNWRITABLE
   */
  begin({ identity, leftOut }: Pick<JournalHead, "identity" | "leftOut">, drawSeed: () => number | null): { done: ShardResult[]; seed: number | null } {
    const earlier = this.journal.read();
    const same = earlier?.head.identity === identity;
    const seed = same ? earlier.head.seed : drawSeed();
    if (!same || earlier.head.leftOut !== leftOut) {
      this.journal.begin({ format: 1, identity, leftOut, seed });
      return { done: [], seed };
    }
    for (const folder of [this.folder, join(this.folder, shardManifestFolder)]) removeTemporaries(folder);
    return { done: earlier.shards.filter((one) => isIntact(one, this.tar(one.shard), this.manifest(one.shard))), seed };
  }

  /** Removes what an overwritten dataset had more of. @param shards number of shards that there are now */
  removeSurplus(shards: number): void {
    const { onlyManifests, shardManifests } = this.options;
    const surplus = (folder: string, shardOf: (name: string) => number | undefined, limit: number): void => {
      for (const name of filesIn(folder)) if ((shardOf(name) ?? -1) >= limit) removeQuietly(join(folder, name));
    };
    surplus(this.folder, shardOfTar, onlyManifests ? 0 : shards);
    surplus(join(this.folder, shardManifestFolder), shardOfManifest, shardManifests ? shards : 0);
  }
}
