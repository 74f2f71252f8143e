/**
 * Writes Shar folders: cuts.000000.jsonl.gz beside a tar for each field, whose members are pairs of data and its manifest in the order of the cuts.
 * A shard's files are put at their places together. Source: lhotse, shar/writers.
 */
import { closeSync, openSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { fileError, makeWritableFolder, removeQuietly, temporaryPath } from "../formats/atomic.ts";
import { dumpPython, type PyObject } from "../formats/pythonJson.ts";
import { TarWriter } from "../formats/tar/write.ts";
import { ManifestError } from "../util/errors.ts";
import { ManifestWriter } from "./manifest/writer.ts";

/** What a member holds, and the manifest that stands beside it. */
export interface SharMember {
  /** Of the member's name, without its point. */
  extension: string;
  bytes: Uint8Array;
  manifest: PyObject;
}

/** A cut and what is stored of it. */
export interface SharItem {
  /** Names the members. */
  id: string;
  cut: PyObject;
  /** By field; undefined stands for nothing, and is written as a pair of empty members. */
  members: Readonly<Record<string, SharMember | undefined>>;
}

const shardName = (field: string, shard: number, suffix: string): string => `${field}.${String(shard).padStart(6, "0")}.${suffix}`;

/** An id that can name a member: without slashes, blanks and leading points. */
export const memberName = (id: string): string => id.replace(/[/\\\s]/g, "_").replace(/^\.+/, "");

/** The files of one shard. */
class Shard {
  count = 0;
  private readonly cuts: ManifestWriter;
  private readonly tars: { field: string; writer: TarWriter; fd: number; path: string; temporary: string }[] = [];

  constructor(folder: string, number: number, fields: readonly string[]) {
    this.cuts = new ManifestWriter(join(folder, shardName("cuts", number, "jsonl.gz")));
    for (const field of fields) {
      const path = join(folder, shardName(field, number, "tar"));
      const temporary = temporaryPath(path);
      try {
        const fd = openSync(temporary, "w");
        this.tars.push({ field, fd, path, temporary, writer: new TarWriter(fd, { deterministicHeaders: true }) });
      } catch (error) {
        throw fileError(path, "write", error);
      }
    }
  }

  async add({ id, cut, members }: SharItem): Promise<void> {
    for (const { field, writer, path } of this.tars) {
      const stored = members[field];
      try {
        writer.addBytes(`${id}.${stored?.extension ?? "nodata"}`, stored?.bytes ?? new Uint8Array(0));
        writer.addBytes(stored ? `${id}.json` : `${id}.nometa`, stored ? Buffer.from(`${dumpPython(stored.manifest)}\n`) : new Uint8Array(0));
      } catch (error) {
        throw fileError(path, "write", error);
      }
    }
    await this.cuts.writeText(dumpPython(cut));
    this.count++;
  }

  async close(): Promise<void> {
    for (const { writer, fd, path, temporary } of this.tars) {
      try {
        writer.finish();
        closeSync(fd);
        renameSync(temporary, path);
      } catch (error) {
        throw fileError(path, "write", error);
      }
    }
    await this.cuts.close(); // last: a shard is there when its cuts are
  }

  abandon(): void {
    this.cuts.abandon();
    for (const { fd, temporary } of this.tars) {
      try {
        closeSync(fd);
      } catch {
        // It was closed, or what led here matters more.
      }
      removeQuietly(temporary);
    }
  }
}

/** How to write. */
export interface ShardOptions {
  /** Fields that have a tar, in order. */
  fields: readonly string[];
  /** Cuts of a shard. lhotse's is 1000. */
  shardSize: number;
  onProgress?: ((cuts: number) => void) | undefined;
}

/**
 * Writes what `items` gives.
 * @returns how many cuts were written
 * @throws ManifestError MANIFEST_OUTPUT_EXISTS where the folder has shards; FormatError FILE_UNWRITABLE; what `items` throws
 */
export async function writeShards(folder: string, items: AsyncIterable<SharItem>, { fields, shardSize, onProgress }: ShardOptions): Promise<number> {
  makeWritableFolder(folder);
  if (readdirSync(folder).some((name) => /^cuts\.\d{6}\.jsonl/.test(name)))
    throw new ManifestError("MANIFEST_OUTPUT_EXISTS", { at: folder, message: "the folder holds shards, among which new ones would mix", fix: "name a new folder, or remove it" });
  let shard: Shard | undefined;
  let number = 0;
  let count = 0;
  try {
    for await (const item of items) {
      shard ??= new Shard(folder, number, fields);
      await shard.add(item);
      count++;
      onProgress?.(count);
      if (shard.count < shardSize) continue;
      await shard.close();
      shard = undefined;
      number++;
    }
    await shard?.close();
    return count;
  } catch (error) {
    shard?.abandon();
    throw error;
  }
}
