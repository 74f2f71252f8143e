/**
 * The working folder of a conversion: what is finished, so that a killed run goes on, and what is not finished yet, so that it never stands among the data.
 * It lies inside of the target and goes away when the conversion is complete.
 */
import { createHash } from "node:crypto";
import { appendFileSync, closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, rmdirSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileError, makeFolder, writeFully } from "../../../formats/atomic.ts";
import { FolderLock } from "../../../formats/folderLock.ts";
import { ManifestError } from "../../../util/errors.ts";
import type { Spool } from "./plan.ts";
import type { ShardResult } from "./shard.ts";

/** The folder's name in the target. */
export const workFolderName = ".serac-tar";

const journalName = "journal.jsonl";

/** What must be equal for a conversion to go on. */
export interface JournalHead {
  format: 1;
  /** Settings and inputs, as text to be compared. */
  identity: string;
  /** Digest of the lines that were left out because their audio cannot be read: without them shards have other entries. */
  leftOut: string;
  /** Of the shuffle; drawn once where none was given. */
  seed: number | null;
}

/** @returns the SHA-256 of a file, read in large pieces */
export function digestFile(path: string): string {
  const hash = createHash("sha256");
  const buffer = Buffer.allocUnsafe(1 << 22);
  const fd = openSync(path, "r");
  try {
    for (let got = readSync(fd, buffer, 0, buffer.length, null); got > 0; got = readSync(fd, buffer, 0, buffer.length, null)) hash.update(buffer.subarray(0, got));
  } finally {
    closeSync(fd);
  }
  return hash.digest("hex");
}

export class Journal {
  readonly folder: string;
  private readonly target: string;
  private readonly path: string;

  constructor(target: string) {
    this.target = target;
    this.folder = join(target, workFolderName);
    this.path = join(this.folder, journalName);
  }

  get exists(): boolean {
    return existsSync(this.path);
  }

  /** Keeps other conversions out of the target. @throws FormatError FOLDER_BUSY; FormatError FILE_UNWRITABLE */
  lock(): FolderLock {
    return FolderLock.take(this.folder, { at: this.target, busy: "is converting into this folder" });
  }

  /** @returns what an earlier run wrote; a last line that was cut is left out. Undefined where there is none. */
  read(): { head: JournalHead; shards: ShardResult[] } | undefined {
    if (!this.exists) return undefined;
    const values: unknown[] = [];
    for (const line of readFileSync(this.path, "utf8").split("\n")) {
      try {
        if (line !== "") values.push(JSON.parse(line));
      } catch {
        break;
      }
    }
    const head = values[0] as JournalHead | undefined;
    return head?.format === 1 ? { head, shards: values.slice(1) as ShardResult[] } : undefined;
  }

  /** Begins anew. @throws FormatError FILE_UNWRITABLE */
  begin(head: JournalHead): void {
    try {
      makeFolder(this.folder);
      const fd = openSync(this.path, "w");
      writeSync(fd, `${JSON.stringify(head)}\n`);
      closeSync(fd);
    } catch (error) {
      throw fileError(this.folder, "write", error);
    }
  }

  /** Records a finished shard. @throws FormatError FILE_UNWRITABLE */
  add(shard: ShardResult): void {
    try {
      appendFileSync(this.path, `${JSON.stringify(shard)}\n`);
    } catch (error) {
      throw fileError(this.path, "write", error);
    }
  }

  /** A file in the folder for an uncompressed copy of an input. */
  spool(index: number): Spool {
    const path = join(this.folder, `input-${index}.jsonl`);
    try {
      makeFolder(this.folder);
      const fd = openSync(path, "w");
      return { path, write: (bytes) => writeFully(fd, bytes), close: () => closeSync(fd) };
    } catch (error) {
      throw fileError(path, "write", error);
    }
  }

  /** The journal goes last, so that a run that ends here goes on here; locks stay, and what `serac tar shards` works on. */
  remove(): void {
    if (!existsSync(this.folder)) return;
    const files = readdirSync(this.folder, { withFileTypes: true }).filter((entry) => entry.isFile() && !entry.name.startsWith("lock-"));
    for (const { name } of files) if (name !== journalName) rmSync(join(this.folder, name), { force: true });
    rmSync(this.path, { force: true });
  }
}

/** Removes a folder where it is empty. */
export function removeFolder(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // Another process works in it, or has removed it.
  }
}

/**
 * Looks whether a shard that the journal calls finished is still what was written: its tar file by size and SHA-256, its manifest by size.
 */
export function isIntact(result: Pick<ShardResult, "tar" | "manifestBytes">, tarPath: string, manifestPath: string | undefined): boolean {
  const size = (path: string) => statSync(path, { throwIfNoEntry: false })?.size;
  if (manifestPath !== undefined && size(manifestPath) !== result.manifestBytes) return false;
  if (result.tar === undefined) return true;
  return size(tarPath) === result.tar.bytes && digestFile(tarPath) === result.tar.sha256;
}

/** The error for a target that holds something else. */
export function targetInUse(target: string, message: string): ManifestError {
  return new ManifestError("TARRED_EXISTS", { at: target, message, fix: "choose another --target_dir, or replace what is there with --overwrite" });
}
