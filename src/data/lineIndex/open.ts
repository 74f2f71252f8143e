/**
 * The index of a manifest, kept in a file beside it: NAME.index. It is built at the first use by one pass over the manifest, and again when the
 * manifest's size changes, or its times and then its SHA-256.
 */
import { createHash } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { fileError } from "../../formats/atomic.ts";
import { readBytes } from "../../formats/byteSource.ts";
import type { ErrorCode } from "../../util/errorCodes.ts";
import { FormatError, ManifestError, messageOf, SeracError } from "../../util/errors.ts";
import type { LineError } from "../manifest/lines.ts";
import { type BuildOptions, IndexBuilder, type LineIndex } from "./build.ts";
import { readColumns, writeColumns } from "./columnFile.ts";
import type { LineFormat } from "./format.ts";
import { clockTick, type FileIdentity, identityOf, isClearlyYounger } from "./identity.ts";

/** How to open an index. */
export interface OpenIndexOptions extends BuildOptions {
  /** Told what a person should know. */
  onWarning?: ((message: string) => void) | undefined;
  /** Indices of manifests of fewer bytes are not kept: reading these takes no longer. 0 by default. */
  keepFrom?: number | undefined;
}

const version = 2;
const chunkSize = 1 << 20;
/** Indices of manifests with more bad lines are not kept. */
const mostErrors = 1000;
/** @returns the file that keeps the index of a manifest @param key that of the format */
export const lineIndexPath = (manifest: string, key = ""): string => `${manifest}${key === "" ? "" : `.${key}`}.index`;

const written = (path: string): FormatError =>
  new FormatError("FILE_CHANGED", { at: path, message: "the manifest was written to while it was read", fix: "start again when nothing writes to it" });

/**
 * The index of a plain manifest: the one that is kept beside it, or a new one.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE (also for gzip), JSONL_BAD_LINE; ManifestError MANIFEST_NOT_AN_OBJECT, MANIFEST_PRETTY_PRINTED, what the format throws
 */
export function openLineIndex(path: string, format: LineFormat, options: OpenIndexOptions = {}): LineIndex {
  const identity = identityOf(path);
  const file = format.key === undefined || identity.size < (options.keepFrom ?? 0) ? undefined : lineIndexPath(path, format.key);
  const kept = file === undefined ? undefined : read(path, file, identity);
  if (kept) {
    for (const error of kept.errors) {
      if (!options.onError) throw error;
      options.onError(error);
    }
    return kept;
  }
  const builder = new IndexBuilder(path, format, false, options);
  let first = true;
  eachChunk(path, (chunk) => {
    if (first && isGzip(chunk))
      throw new FormatError("FILE_UNREADABLE", {
        at: path,
        message: "a gzip file cannot be indexed, since it can only be read from its beginning",
        fix: "unpack it once, or read it in order",
      });
    first = false;
    builder.push(chunk);
  });
  const index = builder.finish();
  const after = identityOf(path);
  if (after.size !== identity.size || after.mtime !== identity.mtime) throw written(path);
  if (file !== undefined && index.errors.length <= mostErrors) keep(file, index, identity, options.onWarning);
  return index;
}

/** The same for any manifest: packed ones are read again at each start, and their lines kept in memory. @throws as `openLineIndex`; FormatError GZIP_BAD */
export async function openAnyLineIndex(path: string, format: LineFormat, options: OpenIndexOptions = {}): Promise<LineIndex> {
  if (!startsAsGzip(path)) return openLineIndex(path, format, options);
  const builder = new IndexBuilder(path, format, true, options);
  for await (const chunk of readBytes(path)) builder.push(chunk);
  return builder.finish();
}

const isGzip = (bytes: Buffer): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

function startsAsGzip(path: string): boolean {
  let fd: number | undefined;
  try {
    fd = openSync(path, "r");
    const start = Buffer.alloc(2);
    readSync(fd, start, 0, 2, 0);
    return isGzip(start);
  } catch (error) {
    throw fileError(path, "read", error);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** A line's error without its manifest's path, which may be another one when it is read. */
interface SavedError {
  kind: "format" | "manifest";
  code: ErrorCode;
  at: string;
  message: string;
  fix?: string | undefined;
}

const savedError = (error: LineError, path: string): SavedError => ({
  kind: error instanceof FormatError ? "format" : "manifest",
  code: error.code,
  at: error.at?.startsWith(path) ? error.at.slice(path.length) : "",
  message: messageOf(error),
  fix: error.fix,
});

const errorOf = ({ kind, code, at, message, fix }: SavedError, path: string): LineError =>
  new (kind === "format" ? FormatError : ManifestError)(code, { at: path + at, message, ...(fix === undefined ? {} : { fix }) });

function keep(file: string, index: LineIndex, { mtime, ctime }: FileIdentity, onWarning: OpenIndexOptions["onWarning"]): void {
  const { path, digest, size, offsets, durations, lines, tokens, unwanted, errors } = index;
  const header = { version, size, mtime, ctime, digest, tokens: tokens !== undefined, unwanted, errors: errors.map((error) => savedError(error, path)) };
  try {
    writeColumns(file, { header, columns: [offsets, durations, lines, ...(tokens ? [tokens] : [])] });
  } catch (error) {
    if (!(error instanceof SeracError)) throw error;
    onWarning?.(`${file} cannot be written, so that the manifest is read again at the next start (${error.message})`);
  }
}

interface Header extends FileIdentity {
  version: number;
  digest: string;
  tokens: boolean;
  unwanted: LineIndex["unwanted"];
  errors: SavedError[];
}

/** The kept index, where it is that of the manifest as it is now. */
function read(path: string, file: string, identity: FileIdentity): LineIndex | undefined {
  const kept = readColumns(file);
  if (!kept) return undefined;
  const header = kept.header as unknown as Header;
  if (header.version !== version || header.size !== identity.size || typeof header.digest !== "string") return undefined;
  const [offsets, durations, lines, tokens] = kept.columns;
  if (!offsets || !durations || !lines || header.tokens !== (tokens !== undefined)) return undefined;
  const index: LineIndex = {
    path,
    digest: header.digest,
    size: identity.size,
    offsets,
    durations,
    lines,
    tokens,
    unwanted: header.unwanted,
    errors: header.errors.map((error) => errorOf(error, path)),
    texts: undefined,
  };
  const sameTimes = header.mtime === identity.mtime && header.ctime === identity.ctime;
  if (sameTimes && isClearlyYounger(identityOf(file), identity)) return index;
  // Copied, touched, or perhaps written to again within a tick of the clock: the content tells.
  if (digestOf(path) !== index.digest) return undefined;
  if (!sameTimes || BigInt(Date.now()) * 1_000_000n - BigInt(identity.mtime) > clockTick) keep(file, index, identity, undefined);
  return index;
}

/** Calls `take` with the file's chunks. */
function eachChunk(path: string, take: (chunk: Buffer) => void): void {
  let fd: number | undefined;
  try {
    fd = openSync(path, "r");
    const chunk = Buffer.allocUnsafe(chunkSize);
    for (;;) {
      const count = readSync(fd, chunk, 0, chunkSize, null);
      if (count === 0) break;
      take(chunk.subarray(0, count));
    }
  } catch (error) {
    throw error instanceof SeracError ? error : fileError(path, "read", error);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** SHA-256 of a file, in hexadecimal. @throws FormatError FILE_MISSING, FILE_UNREADABLE */
export function digestOf(path: string): string {
  const hash = createHash("sha256");
  eachChunk(path, (chunk) => void hash.update(chunk));
  return hash.digest("hex");
}
