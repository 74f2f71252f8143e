/** Whether a file is the one that something was made of: by its size and its times. */
import { statSync } from "node:fs";
import { fileError } from "../../formats/atomic.ts";

/** Size and times of a file. */
export interface FileIdentity {
  size: number;
  /** Times of the last change of content and of anything, in nanoseconds. */
  mtime: string;
  ctime: string;
}

/** @throws FormatError FILE_MISSING, FILE_UNREADABLE */
export function identityOf(path: string): FileIdentity {
  try {
    const { size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return { size: Number(size), mtime: String(mtimeNs), ctime: String(ctimeNs) };
  } catch (error) {
    throw fileError(path, "read", error);
  }
}

/** Nanoseconds within which file systems may give two changes the same time; some count in seconds. */
export const clockTick = 2_000_000_000n;

/** True where `file` was made so long after a file's last change that this one cannot have been written to unnoticed. */
export const isClearlyYounger = (file: FileIdentity, { mtime }: FileIdentity): boolean => BigInt(file.mtime) - BigInt(mtime) > clockTick;
