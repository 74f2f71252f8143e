/**
 * One process at a time in a folder. A lock is a symbolic link that points at nothing: made in one step with its owner in it, whole or not at all.
 * An owner that was killed leaves its lock; who finds that it is gone takes the folder over by a lock of the next number, so that of several only one does.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { FormatError, isErrnoException, SeracError } from "../util/errors.ts";
import { fileError, makeFolder, removeQuietly } from "./atomic.ts";
import { isGone, type Owner, readLock, self, writeLock } from "./lockOwner.ts";

interface Lock {
  number: number;
  path: string;
  owner: Owner | undefined;
  gone: boolean;
}

function locksIn(folder: string, me: Owner): Lock[] {
  return readdirSync(folder).flatMap((name) => {
    const number = /^lock-(\d+)$/.exec(name)?.[1];
    const path = join(folder, name);
    const lock = number === undefined ? undefined : readLock(path);
    return lock === undefined ? [] : [{ number: Number(number), path, owner: lock.owner, gone: lock.owner !== undefined && isGone(lock.owner, me) }];
  });
}

/** What errors say. */
export interface LockTalk {
  /** The place. */
  at: string;
  /** What the other process does: "is converting into this folder". */
  busy: string;
}

/** @returns the error of a folder that another process holds by the lock at `path` */
export function busyError({ path, owner }: { path: string; owner: Owner | undefined }, { at, busy }: LockTalk): FormatError {
  return new FormatError("FOLDER_BUSY", {
    at,
    message: `${owner === undefined ? "another process" : `process ${owner.process} on ${owner.host}`} ${busy}`,
    fix: `wait for it; if it is no longer running, remove ${path}`,
  });
}

/** A folder that this process holds. */
export class FolderLock {
  private readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  /**
   * @param folder is made where it is not there
   * @throws FormatError FOLDER_BUSY where another process holds it; FormatError FILE_UNWRITABLE
   */
  static take(folder: string, { at, busy }: LockTalk): FolderLock {
    // Who held it last may be removing the folder, empty as it is.
    for (let tries = 0; ; tries++) {
      try {
        return FolderLock.tryTake(folder, { at, busy });
      } catch (error) {
        if (!isErrnoException(error) || error.code !== "ENOENT" || tries === 100) throw fileError(at, "write", error);
      }
    }
  }

  private static tryTake(folder: string, { at, busy }: LockTalk): FolderLock {
    const me = self();
    const refuse = (lock: Pick<Lock, "path" | "owner">): FormatError => busyError(lock, { at, busy });
    makeFolder(folder);
    const before = locksIn(folder, me);
    const holder = before.find(({ gone }) => !gone);
    if (holder) throw refuse(holder);
    const path = join(folder, `lock-${1 + before.reduce((most, { number }) => Math.max(most, number), 0)}`);
    try {
      writeLock(path, me);
    } catch (error) {
      if (isErrnoException(error) && error.code === "EEXIST") throw refuse({ path, owner: readLock(path)?.owner });
      throw error;
    }
    try {
      // From here on everybody sees this lock. One who looked before may have made one of another number.
      const others = locksIn(folder, me).filter((lock) => lock.path !== path);
      const late = others.find(({ gone }) => !gone);
      if (late) throw refuse(late);
      for (const lock of others) removeQuietly(lock.path);
      return new FolderLock(path);
    } catch (error) {
      removeQuietly(path);
      throw error;
    }
  }

  /** The same for a matter of milliseconds: waits while another process holds it. */
  static wait(folder: string, talk: LockTalk, seconds = 30): FolderLock {
    const clock = new Int32Array(new SharedArrayBuffer(4));
    // Not all in step: two that refuse each other would do so again.
    for (const end = performance.now() + 1000 * seconds; ; Atomics.wait(clock, 0, 0, 2 + 6 * Math.random())) {
      try {
        return FolderLock.take(folder, talk);
      } catch (error) {
        if (!(error instanceof SeracError) || error.code !== "FOLDER_BUSY" || performance.now() > end) throw error;
      }
    }
  }

  /** Gives the folder free. */
  release(): void {
    removeQuietly(this.path);
  }
}
