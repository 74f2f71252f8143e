/** Files that appear whole or not at all: written beside their place, then renamed over it. */
import { closeSync, existsSync, fstatSync, fsyncSync, ftruncateSync, mkdirSync, openSync, readdirSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { FormatError, isErrnoException, SeracError } from "../util/errors.ts";

let counter = 0;

/** A name beside `path` for a file that is not finished yet; unique in this process. */
export function temporaryPath(path: string): string {
  return `${path}.tmp-${process.pid}-${counter++}`;
}

/** Removes a file that may not exist, and never fails. */
export function removeQuietly(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // The error that led here matters more.
  }
}

/** Removes from a folder what a killed process was writing beside its place: names as `temporaryPath` makes them. */
export function removeTemporaries(folder: string): void {
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) if (/\.tmp-\d+-\d+$/.test(name)) removeQuietly(join(folder, name));
}

/**
 * Makes a folder and those above it. Node's own recursive mkdir never returns where a file system refuses with ENOENT, as /proc does.
 * Another process may make the same folders at the same time.
 * @throws what the system says
 */
export function makeFolder(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    if (!isErrnoException(error)) throw error;
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
    const above = dirname(path);
    if (error.code !== "ENOENT" || above === path || existsSync(above)) throw error;
    makeFolder(above);
    makeFolder(path);
  }
}

/** Turns a failed system call on `path` into a FormatError; serac's own errors pass. */
export function fileError(path: string, action: "read" | "write", error: unknown): SeracError {
  if (error instanceof SeracError) return error;
  const missing = action === "read" && isErrnoException(error) && error.code === "ENOENT";
  const message = missing ? "no such file" : `cannot ${action} this file: ${error instanceof Error ? error.message : String(error)}`;
  return new FormatError(missing ? "FILE_MISSING" : action === "read" ? "FILE_UNREADABLE" : "FILE_UNWRITABLE", { at: path, message, cause: error });
}

/** Writes all of `bytes` at the current position, in steps that every platform accepts. */
export function writeFully(fd: number, bytes: Uint8Array): void {
  const step = 1 << 30; // one write takes at most 2^31 - 1 bytes
  for (let at = 0; at < bytes.byteLength; ) at += writeSync(fd, bytes, at, Math.min(step, bytes.byteLength - at));
}

/**
 * Adds bytes to a file that was opened to append, all of them or none: a disk that fills up leaves no half of a line, to which the next one would be joined.
 * @throws what the system says
 */
export function appendWhole(fd: number, bytes: Uint8Array): void {
  const { size } = fstatSync(fd);
  try {
    writeFully(fd, bytes);
  } catch (error) {
    try {
      ftruncateSync(fd, size);
    } catch {
      // No regular file.
    }
    throw error;
  }
}

/**
 * Calls `write` with an open file and puts the result at `path` when it returns; on an exception `path` stays as it was.
 * @param durable false does not wait for the disk: for many small files that can be made again
 * @throws FormatError FILE_UNWRITABLE
 */
export function writeAtomically(path: string, write: (fd: number) => void, { durable = true }: { durable?: boolean } = {}): void {
  const temporary = temporaryPath(path);
  try {
    makeFolder(dirname(path));
    const fd = openSync(temporary, "w");
    try {
      write(fd);
      if (durable) fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, path);
  } catch (error) {
    removeQuietly(temporary);
    throw fileError(path, "write", error);
  }
}

/**
 * Writes a file whole or not at all. Folders above it are made.
 * @throws FormatError FILE_UNWRITABLE
 */
export function writeFileAtomic(path: string, content: Uint8Array | string, options: { durable?: boolean } = {}): void {
  writeAtomically(path, (fd) => writeFully(fd, typeof content === "string" ? Buffer.from(content, "utf8") : content), options);
}

/** Makes a folder of results, and those above it. @throws FormatError FILE_UNWRITABLE */
export function makeWritableFolder(path: string): void {
  try {
    makeFolder(path);
  } catch (error) {
    throw fileError(path, "write", error);
  }
}
