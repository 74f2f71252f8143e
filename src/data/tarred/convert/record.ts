/**
 * What a conversion leaves beside NeMo's files: from which inputs, with which settings and seed, and the SHA-256 of each tar file.
 * A file of its own, so that metadata.yaml stays what NeMo's script writes; NeMo's readers do not look at it.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileError, writeFileAtomic } from "../../../formats/atomic.ts";
import { isErrnoException } from "../../../util/errors.ts";
import { packageRoot } from "../../../util/paths.ts";

/** A tar file of a dataset. */
export interface RecordedShard {
  /** shard_id of its entries. */
  shard: number;
  /** Name in the dataset's folder. */
  tar: string;
  sha256: string;
  bytes: number;
  /** Members of the tar file. */
  members: number;
  /** Lines of its manifest. */
  entries: number;
}

/** tarred_audio_record.json. */
export interface DatasetRecord {
  format: 1;
  /** serac's version. */
  serac: string;
  created: string;
  /** Version of the dataset: 0, and one more with each concatenation. */
  version: number;
  /** SHA-256 over settings and inputs: equal where the same command made it. */
  identity: string;
  /** Flags that shape the dataset, by NeMo's names. */
  settings: Record<string, unknown>;
  /** Of the shuffle; null where nothing was shuffled. It is here also where none was asked for. */
  seed: number | null;
  inputs: { path: string; bytes: number; sha256: string }[];
  entries: number;
  /** Utterances that are in no shard, by reason. */
  leftOut: { filtered: number; remainder: number; unreadable: number };
  /** Members that got another name than NeMo's script gives, because two would have met. */
  renamed: number;
  shards: RecordedShard[];
}

/** serac's own version. */
export const seracVersion = (): string => (JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as { version: string }).version;

/** The file of a version. */
export function recordPath(target: string, version: number): string {
  return join(target, version === 0 ? "tarred_audio_record.json" : `tarred_audio_record_version_${version}.json`);
}

/** @throws FormatError FILE_UNWRITABLE */
export function writeRecord(target: string, record: DatasetRecord): void {
  writeFileAtomic(recordPath(target, record.version), `${JSON.stringify(record, null, 2)}\n`);
}

/** @returns the record of a version; undefined where there is none, or it is damaged. @throws FormatError FILE_UNREADABLE */
export function readRecord(target: string, version: number): DatasetRecord | undefined {
  const path = recordPath(target, version);
  try {
    const value = JSON.parse(readFileSync(path, "utf8")) as DatasetRecord;
    return value?.format === 1 && Array.isArray(value.shards) ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || (isErrnoException(error) && error.code === "ENOENT")) return undefined;
    throw fileError(path, "read", error);
  }
}
