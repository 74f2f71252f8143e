/**
 * One process at a time in a folder. A lock is a symbolic link that points at nothing: made in one step with its owner in it, whole or not at all.
 * An owner that was killed leaves its lock; who finds that it is gone takes the folder over by a lock of the next number, so that of several only one does.
 */
import { readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { FormatError, isErrnoException, SeracError } from "../util/errors.ts";
import { fileError, makeFolder, removeQuietly } from "./atomic.ts";

/** Who holds a lock. */
interface Owner {
  host: string;
  /** Another one after the machine started again; "" where the system does not tell. */
  boot: string;
  /** What process numbers are counted in: containers have their own. */
  space: string;
  process: number;
  /** When it began, because numbers are used again; "" where the system does not tell. */
  started: string;
}

const attempt = (read: () => string): string => {
  try {
    return read().trim();
  } catch {
    return "";
  }
};

/** State and start of a process; "" where there is none, or the system does not tell. */
function look(id: number): { state: string; started: string } {
  const text = attempt(() => readFileSync(`/proc/${id}/stat`, "utf8"));
  const words = text.slice(text.lastIndexOf(")") + 2).split(" "); // the name before may hold anything
  return { state: words[0] ?? "", started: words[19] ?? "" };
}

const self = (): Owner => ({
  host: hostname(),
  boot: attempt(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
  space: attempt(() => readlinkSync("/proc/self/ns/pid")),
  process: process.pid,
  started: look(process.pid).started,
});

/** True where the owner has surely ended; one on another machine may be there. */
function isGone(owner: Owner, me: Owner): boolean {
  if (owner.host !== me.host) return false;
  if (owner.boot !== me.boot) return true;
  if (owner.space !== me.space) return false;
  try {
    process.kill(owner.process, 0);
  } catch (error) {
    if (isErrnoException(error) && error.code === "ESRCH") return true;
  }
  const { state, started } = look(owner.process);
  return state === "Z" || (started !== "" && owner.started !== "" && started !== owner.started);
}

const print = ({ host, boot, space, process, started }: Owner): string => [host, boot, space, process, started].join("|");

function parse(text: string): Owner | undefined {
  const [host, boot, space, id, started, ...more] = text.split("|");
  if (host === undefined || boot === undefined || space === undefined || started === undefined || more.length > 0 || !/^\d+$/.test(id as string)) return undefined;
  return { host, boot, space, process: Number(id), started };
}

/** What a lock says; undefined where it is no longer there. */
function readLock(path: string): { owner: Owner | undefined } | undefined {
  try {
    return { owner: parse(readlinkSync(path)) };
  } catch (error) {
    if (isErrnoException(error) && error.code === "ENOENT") return undefined;
    return { owner: parse(attempt(() => readFileSync(path, "utf8"))) }; // a file: see `writeLock`
  }
}

/** @throws what the system says: EEXIST where there is a lock of this name */
function writeLock(path: string, owner: Owner): void {
  try {
    symlinkSync(print(owner), path);
  } catch (error) {
    if (!isErrnoException(error) || !["EPERM", "ENOSYS", "ENOTSUP", "EOPNOTSUPP"].includes(error.code as string)) throw error;
    writeFileSync(path, print(owner), { flag: "wx" }); // some file systems have no links
  }
}

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
interface LockTalk {
  /** The place. */
  at: string;
  /** What the other process does: "is converting into this folder". */
  busy: string;
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
    const refuse = ({ path, owner }: Pick<Lock, "path" | "owner">): FormatError =>
      new FormatError("FOLDER_BUSY", {
        at,
        message: `${owner === undefined ? "another process" : `process ${owner.process} on ${owner.host}`} ${busy}`,
        fix: `wait for it; if it is no longer running, remove ${path}`,
      });
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
    for (const end = performance.now() + 1000 * seconds; ; Atomics.wait(clock, 0, 0, 5)) {
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
