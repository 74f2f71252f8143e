/**
 * Where the lines of a manifest begin and how long their utterances are, kept in a file beside it: NAME.index. It is built at the first use by
 * one pass over the manifest, and again when the manifest's size changes, or its times and then its SHA-256.
 */
import { createHash } from "node:crypto";
import { closeSync, openSync, readSync, statSync } from "node:fs";
import { fileError } from "../../formats/atomic.ts";
import { parseJsonLine } from "../../formats/jsonl.ts";
import { parsePython, plainValue } from "../../formats/pythonJson.ts";
import { FormatError, ManifestError, SeracError } from "../../util/errors.ts";
import { NumberList } from "../../util/hash.ts";
import { isSkipped } from "../manifest/entry.ts";
import type { LineError, ManifestObject } from "../manifest/lines.ts";
import { readColumns, writeColumns } from "./columnFile.ts";
import { badDuration } from "./columnSource.ts";

/** What is known of the lines that can be used. */
export interface ManifestIndex {
  path: string;
  /** SHA-256 of the manifest, in hexadecimal. */
  digest: string;
  /** Bytes of the manifest. */
  size: number;
  /** Where each line begins. */
  offsets: Float64Array;
  /** Seconds. */
  durations: Float64Array;
  /** Counted from 1. */
  lines: Float64Array;
  /** Tokens of each line, where they were asked for. */
  tokens: Float64Array | undefined;
}

/** How to count the tokens of a line. */
export interface TokenCounter {
  /** Names the tokenizer: counts are kept under this name. Letters, digits, - and _. */
  key: string;
  count(value: ManifestObject): number;
}

/** How to open an index. */
export interface IndexOptions {
  /** Called with each line that cannot be used, which is then left out; the index is then not kept. Without it the first one throws. */
  onError?: ((error: LineError) => void) | undefined;
  /** Told what a person should know. */
  onWarning?: ((message: string) => void) | undefined;
  /** Told how many lines were read while the index is built. */
  onProgress?: ((lines: number) => void) | undefined;
  tokens?: TokenCounter | undefined;
}

const version = 1;
const chunkSize = 1 << 20;
/** Nanoseconds within which file systems may give two changes the same time; some count in seconds. */
const clockTick = 2_000_000_000n;

/** @returns the file that keeps the index of a manifest */
export const manifestIndexPath = (manifest: string, tokens?: string): string => `${manifest}${tokens === undefined ? "" : `.${tokens}`}.index`;

interface FileIdentity {
  size: number;
  /** Times of the last change of content and of anything, in nanoseconds. */
  mtime: string;
  ctime: string;
}

function identityOf(path: string): FileIdentity {
  try {
    const { size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return { size: Number(size), mtime: String(mtimeNs), ctime: String(ctimeNs) };
  } catch (error) {
    throw fileError(path, "read", error);
  }
}

/**
 * The index of a manifest: the one that is kept beside it, or a new one.
 * @throws FormatError FILE_MISSING, FILE_UNREADABLE, JSONL_BAD_LINE; ManifestError MANIFEST_NO_DURATION, MANIFEST_BAD_DURATION, MANIFEST_NOT_AN_OBJECT
 */
export function openManifestIndex(path: string, options: IndexOptions = {}): ManifestIndex {
  const identity = identityOf(path);
  const file = manifestIndexPath(path, options.tokens?.key);
  const kept = read(path, file, identity);
  if (kept) return kept;
  const { index, complete } = build(path, options);
  const after = identityOf(path);
  if (after.size !== identity.size || after.mtime !== identity.mtime)
    throw new FormatError("FILE_CHANGED", { at: path, message: "the manifest was written to while it was read", fix: "start again when nothing writes to it" });
  if (complete) keep(file, index, identity, options.onWarning);
  return index;
}

function keep(file: string, { digest, size, offsets, durations, lines, tokens }: ManifestIndex, { mtime, ctime }: FileIdentity, onWarning: IndexOptions["onWarning"]): void {
  try {
    writeColumns(file, { header: { version, size, mtime, ctime, digest }, columns: [offsets, durations, lines, ...(tokens ? [tokens] : [])] });
  } catch (error) {
    if (!(error instanceof SeracError)) throw error;
    onWarning?.(`${file} cannot be written, so that the manifest is read again at the next start (${error.message})`);
  }
}

/** The kept index, where it is that of the manifest as it is now. */
function read(path: string, file: string, identity: FileIdentity): ManifestIndex | undefined {
  const kept = readColumns(file);
  if (!kept) return undefined;
  const { header, columns } = kept;
  const [offsets, durations, lines, tokens] = columns;
  if (header["version"] !== version || header["size"] !== identity.size || typeof header["digest"] !== "string" || !offsets || !durations || !lines) return undefined;
  const index: ManifestIndex = { path, digest: header["digest"], size: identity.size, offsets, durations, lines, tokens };
  const sameTimes = header["mtime"] === identity.mtime && header["ctime"] === identity.ctime;
  const builtAfter = BigInt(identityOf(file).mtime) - BigInt(identity.mtime);
  if (sameTimes && builtAfter > clockTick) return index;
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

const isBlank = (text: string): boolean => /^[ \t\r]*$/.test(text);

/** The value of a line; NaN and Infinity, which Python writes, are read. @throws FormatError JSONL_BAD_LINE, ManifestError MANIFEST_NOT_AN_OBJECT */
export function parseManifestLine(text: string, path: string, line: number): ManifestObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    try {
      value = plainValue(parsePython(text));
    } catch {
      value = parseJsonLine(text, path, line);
    }
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ManifestError("MANIFEST_NOT_AN_OBJECT", {
      at: `${path}:${line}`,
      message: "the line holds no JSON object",
      fix: 'write {"audio_filepath": ..., "duration": ..., "text": ...}',
    });
  return value as ManifestObject;
}

/** @throws ManifestError MANIFEST_NO_DURATION, MANIFEST_BAD_DURATION */
export function lineDuration(value: ManifestObject, at: string): number {
  const duration = value["duration"] ?? value["context_duration"];
  if (duration === undefined || duration === null)
    throw new ManifestError("MANIFEST_NO_DURATION", {
      at,
      message: 'no "duration"',
      fix: "add the length in seconds, for instance: serac manifest check --fix OUT.jsonl MANIFEST",
    });
  if (typeof duration !== "number" || !(duration > 0 && duration < Number.POSITIVE_INFINITY)) throw badDuration(duration as number, at);
  return duration;
}

function build(path: string, { onError, onProgress, tokens }: IndexOptions): { index: ManifestIndex; complete: boolean } {
  const hash = createHash("sha256");
  const offsets = new NumberList();
  const durations = new NumberList();
  const lines = new NumberList();
  const counts = new NumberList();
  let complete = true;
  let line = 0;
  let position = 0; // of the first byte that is not in a whole line yet
  let rest: Buffer = Buffer.alloc(0);

  const take = (bytes: Buffer, offset: number): void => {
    line++;
    const text = bytes.toString("utf8");
    if (isBlank(text)) return;
    const at = `${path}:${line}`;
    try {
      const value = parseManifestLine(line === 1 ? text.replace(/^\ufeff/, "") : text, path, line);
      if (isSkipped(value)) return;
      const duration = lineDuration(value, at);
      const count = tokens?.count(value) ?? 0;
      offsets.push(offset);
      durations.push(duration);
      lines.push(line);
      if (tokens) counts.push(count);
    } catch (error) {
      if (!onError || !(error instanceof FormatError || error instanceof ManifestError)) throw error;
      complete = false;
      onError(error);
    }
  };

  eachChunk(path, (chunk) => {
    if (position === 0 && rest.length === 0 && chunk[0] === 0x1f && chunk[1] === 0x8b)
      throw new FormatError("FILE_UNREADABLE", {
        at: path,
        message: "a gzip file cannot be indexed, since it can only be read from its beginning",
        fix: "unpack it once, or read it in order",
      });
    hash.update(chunk);
    const block = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let start = 0;
    for (let end = block.indexOf(0x0a); end >= 0; end = block.indexOf(0x0a, start)) {
      take(block.subarray(start, end), position + start);
      start = end + 1;
    }
    position += start;
    rest = Buffer.from(block.subarray(start));
    onProgress?.(line);
  });
  if (rest.length > 0) take(rest, position);
  return {
    index: {
      path,
      digest: hash.digest("hex"),
      size: position + rest.length,
      offsets: offsets.take(),
      durations: durations.take(),
      lines: lines.take(),
      tokens: tokens ? counts.take() : undefined,
    },
    complete,
  };
}
