/** Where a job of `serac tar shards` works, beside other jobs of the same dataset; and which shards killed jobs were making. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileError, removeQuietly } from "../../../formats/atomic.ts";
import { FolderLock } from "../../../formats/folderLock.ts";
import { SeracError } from "../../../util/errors.ts";
import { removeFolder, workFolderName } from "./journal.ts";
import { type DatasetRecord, type RecordedShard, readRecord, writeRecord } from "./record.ts";

/** Marks a shard that is being made: until it is recorded nothing says that its tar file is whole. */
const markName = (shard: number): string => `making-${shard}`;
const shardOfMark = (name: string): number | undefined => (name.startsWith("making-") ? Number(name.slice(7)) : undefined);

export class Workplace {
  /** For files that are not finished yet. */
  readonly folder: string;
  /** Shards that killed jobs were making. */
  readonly abandoned: ReadonlySet<number>;
  private readonly target: string;
  private readonly all: string;
  /** The record where there is none yet. */
  private readonly newRecord: () => DatasetRecord;

  /** @throws FormatError FILE_UNWRITABLE, FILE_UNREADABLE */
  constructor(target: string, newRecord: () => DatasetRecord) {
    this.target = target;
    this.newRecord = newRecord;
    this.all = join(target, workFolderName);
    const lock = this.lockRecord();
    try {
      this.abandoned = this.findAbandoned();
      this.folder = mkdtempSync(join(this.all, "shards-"));
      FolderLock.take(this.folder, { at: target, busy: "works in this folder" });
    } catch (error) {
      throw fileError(target, "write", error);
    } finally {
      lock.release();
    }
  }

  /** Other jobs record their shards too. */
  private lockRecord(): FolderLock {
    return FolderLock.wait(join(this.all, "record"), { at: this.target, busy: "is writing tarred_audio_record.json" });
  }

  /** Folders of killed jobs go away when all they were making is recorded. */
  private findAbandoned(): Set<number> {
    const found = new Set<number>();
    const recorded = new Set(this.record.shards.map(({ shard }) => shard));
    for (const name of readdirSync(this.all)) {
      if (!name.startsWith("shards-")) continue;
      const folder = join(this.all, name);
      let lock: FolderLock;
      try {
        lock = FolderLock.take(folder, { at: folder, busy: "works in this folder" });
      } catch (error) {
        if (error instanceof SeracError && error.code === "FOLDER_BUSY") continue;
        throw error;
      }
      const left = readdirSync(folder).flatMap((mark) => shardOfMark(mark) ?? []);
      const open = left.filter((shard) => !recorded.has(shard));
      for (const shard of open) found.add(shard);
      if (open.length === 0) rmSync(folder, { recursive: true, force: true });
      else lock.release();
    }
    return found;
  }

  /** As it is now. @throws FormatError FILE_UNREADABLE */
  get record(): DatasetRecord {
    return readRecord(this.target, 0) ?? this.newRecord();
  }

  /** Says that a shard is being made. @throws FormatError FILE_UNWRITABLE */
  begin(shard: number): void {
    try {
      writeFileSync(join(this.folder, markName(shard)), "");
    } catch (error) {
      throw fileError(this.folder, "write", error);
    }
  }

  /** Records a finished shard. @throws FormatError FILE_UNWRITABLE; FormatError FOLDER_BUSY */
  finish(one: RecordedShard): void {
    const lock = this.lockRecord();
    try {
      const record = this.record;
      record.shards = [...record.shards.filter(({ shard }) => shard !== one.shard), one].sort((a, b) => a.shard - b.shard);
      writeRecord(this.target, record);
    } finally {
      lock.release();
    }
    removeQuietly(join(this.folder, markName(one.shard)));
  }

  /** Removes what is not finished. */
  leave(): void {
    rmSync(this.folder, { recursive: true, force: true });
    if (this.abandoned.size > 0) {
      const lock = this.lockRecord();
      this.findAbandoned(); // their shards may be recorded now
      lock.release();
    }
    removeFolder(join(this.all, "record"));
    removeFolder(this.all);
  }
}
