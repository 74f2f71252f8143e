/** Who holds a lock: a link that points at nothing but says which process made it, so that another one can tell whether that is gone. */
import { readFileSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { isErrnoException } from "../util/errors.ts";

/** A process. */
export interface Owner {
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

/** This process. */
export const self = (): Owner => ({
  host: hostname(),
  boot: attempt(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8")),
  space: attempt(() => readlinkSync("/proc/self/ns/pid")),
  process: process.pid,
  started: look(process.pid).started,
});

/** True where the owner has surely ended; one on another machine may be there. */
export function isGone(owner: Owner, me: Owner): boolean {
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

const print = ({ host, boot, space, process, started }: Owner, note: string | undefined): string =>
  [host, boot, space, process, started, ...(note === undefined ? [] : [encodeURIComponent(note)])].join("|");

/** What a lock says. Both are undefined where it was not made by serac; the note where there is none. */
export interface LockText {
  owner?: Owner;
  note?: string;
}

function parse(text: string): LockText {
  const [host, boot, space, id, started, note, ...more] = text.split("|");
  if (host === undefined || boot === undefined || space === undefined || started === undefined || more.length > 0 || !/^\d+$/.test(id as string)) return {};
  const owner = { host, boot, space, process: Number(id), started };
  return note === undefined ? { owner } : { owner, note: decode(note) };
}

function decode(note: string): string {
  try {
    return decodeURIComponent(note);
  } catch {
    return note;
  }
}

/** @returns what a lock says; undefined where it is no longer there */
export function readLock(path: string): LockText | undefined {
  try {
    return parse(readlinkSync(path));
  } catch (error) {
    if (isErrnoException(error) && error.code === "ENOENT") return undefined;
    return parse(attempt(() => readFileSync(path, "utf8"))); // a file: see `writeLock`
  }
}

/**
 * Makes a lock in one step, whole or not at all.
 * @param note what it says besides its owner
 * @throws what the system says: EEXIST where there is a lock of this name
 */
export function writeLock(path: string, owner: Owner, note?: string): void {
  try {
    symlinkSync(print(owner, note), path);
  } catch (error) {
    if (!isErrnoException(error) || !["EPERM", "ENOSYS", "ENOTSUP", "EOPNOTSUPP"].includes(error.code as string)) throw error;
    writeFileSync(path, print(owner, note), { flag: "wx" }); // some file systems have no links
  }
}
