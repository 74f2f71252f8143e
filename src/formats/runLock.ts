/**
 * One run at a time in a folder, with all its ranks. Each rank has a lock of its own, `rank-N`, which says the run; who may enter is decided by one process
 * at a time, in the milliseconds for which it holds the folder's `FolderLock`. A rank that was killed leaves its lock, and its run admits it again;
 * another run is admitted once no rank of the old one is left.
 */
import { randomUUID } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileError, removeQuietly } from "./atomic.ts";
import { busyError, FolderLock, type LockTalk } from "./folderLock.ts";
import { isGone, type Owner, readLock, self, writeLock } from "./lockOwner.ts";

/** Which process of which run. */
export interface Rank {
  /** Names the run, the same for all its ranks and for no other run. */
  run: string;
  /** 0 and more. */
  rank: number;
}

interface Member {
  name: string;
  path: string;
  owner: Owner | undefined;
  run: string | undefined;
  gone: boolean;
}

function membersOf(folder: string, me: Owner): Member[] {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    const lock = /^rank-\d+$/.test(name) ? readLock(path) : undefined;
    return lock === undefined ? [] : [{ name, path, owner: lock.owner, run: lock.note, gone: lock.owner !== undefined && isGone(lock.owner, me) }];
  });
}

/** A folder that this process holds, alone or with other ranks of its run. */
export class RunLock {
  private readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  /**
   * @param folder holds locks only; it is made where it is not there
   * @param rank left out, this process is a run by itself
   * @throws FormatError FOLDER_BUSY where a process of another run holds it, or another process is this rank; FormatError FILE_UNWRITABLE
   */
  static take(folder: string, talk: LockTalk, { run, rank }: Rank = { run: randomUUID(), rank: 0 }): RunLock {
    const entering = FolderLock.wait(folder, { at: talk.at, busy: `${talk.busy}: it is just being admitted` });
    try {
      const me = self();
      const name = `rank-${rank}`;
      const members = membersOf(folder, me);
      const there = members.filter(({ gone }) => !gone);
      const stranger = there.find((member) => member.run !== run);
      if (stranger) throw busyError(stranger, talk);
      const twin = there.find((member) => member.name === name);
      if (twin) throw busyError(twin, { at: talk.at, busy: `${talk.busy} as rank ${rank} of the same run` });
      for (const member of members) if (member.gone) removeQuietly(member.path);
      const path = join(folder, name);
      writeLock(path, me, run);
      return new RunLock(path);
    } catch (error) {
      throw fileError(talk.at, "write", error);
    } finally {
      entering.release();
    }
  }

  /** Leaves the folder; other ranks stay. */
  release(): void {
    const owner = readLock(this.path)?.owner;
    const me = self();
    // Removed by hand, it may be another's by now.
    if (owner?.process === me.process && owner.started === me.started && owner.host === me.host) removeQuietly(this.path);
  }
}
