/** Writes manifests line by line in bounded memory: beside its place and renamed, gzip where the name ends in .gz, "-" is standard output. */
import { once } from "node:events";
import { closeSync, fsyncSync, openSync, renameSync } from "node:fs";
import { dirname } from "node:path";
import { createGzip, type Gzip } from "node:zlib";
import { fileError, makeFolder, removeQuietly, temporaryPath, writeFully } from "../../formats/atomic.ts";
import { type Dumpable, dumpPython } from "../../formats/pythonJson.ts";

const blockSize = 1 << 20;

/** An open manifest. Nothing is at its place before `close()`; `abandon()` leaves what was there before. */
export class ManifestWriter {
  readonly path: string;
  /** Lines written. */
  lines = 0;
  private readonly temporary: string | undefined;
  private fd: number | undefined;
  private gzip: Gzip | undefined;
  private failure: unknown;
  private pending: string[] = [];
  private length = 0;

  /** Folders above it are made. @throws FormatError FILE_UNWRITABLE */
  constructor(path: string) {
    this.path = path;
    if (path === "-") return;
    this.temporary = temporaryPath(path);
    try {
      makeFolder(dirname(path));
      this.fd = openSync(this.temporary, "w");
    } catch (error) {
      throw fileError(path, "write", error);
    }
    if (path.endsWith(".gz")) {
      this.gzip = createGzip();
      this.gzip.on("data", (chunk: Buffer) => this.toFile(chunk));
      this.gzip.on("error", (error) => (this.failure ??= error));
    }
  }

  /** A line as it is. The promise of a full block must be awaited; others come back as undefined. @throws FormatError FILE_UNWRITABLE */
  writeText(text: string): Promise<void> | undefined {
    this.lines++;
    this.pending.push(text);
    this.length += text.length + 1;
    return this.length >= blockSize ? this.flush() : undefined;
  }

  /** A value as Python's json.dump writes it. */
  write(value: Dumpable): Promise<void> | undefined {
    return this.writeText(dumpPython(value));
  }

  private toFile(chunk: Uint8Array): void {
    try {
      if (this.fd !== undefined && this.failure === undefined) writeFully(this.fd, chunk);
    } catch (error) {
      this.failure = error;
    }
  }

  private check(): void {
    if (this.failure !== undefined) throw fileError(this.path, "write", this.failure);
  }

  private async flush(): Promise<void> {
    if (this.pending.length === 0) return;
    const block = Buffer.from(`${this.pending.join("\n")}\n`, "utf8");
    this.pending = [];
    this.length = 0;
    if (this.path === "-") {
      if (!process.stdout.write(block)) await once(process.stdout, "drain");
    } else if (this.gzip === undefined) this.toFile(block);
    else if (!this.gzip.write(block)) await once(this.gzip, "drain");
    this.check();
  }

  /** Puts the manifest at its place. @throws FormatError FILE_UNWRITABLE */
  async close(): Promise<void> {
    try {
      await this.flush();
      if (this.gzip !== undefined) {
        this.gzip.end();
        await once(this.gzip, "end");
        this.check();
      }
      if (this.fd === undefined || this.temporary === undefined) return;
      fsyncSync(this.fd);
      closeSync(this.fd);
      this.fd = undefined;
      renameSync(this.temporary, this.path);
    } catch (error) {
      this.abandon();
      throw fileError(this.path, "write", error);
    }
  }

  /** Throws away what was written. Safe to call at any time. */
  abandon(): void {
    this.gzip?.destroy();
    if (this.fd !== undefined) {
      try {
        closeSync(this.fd);
      } catch {
        // What led here matters more.
      }
      this.fd = undefined;
    }
    if (this.temporary !== undefined) removeQuietly(this.temporary);
  }
}

/** Opens writers, gives them to `body`, and closes all of them when it is done, or abandons all where it fails. */
export async function withWriters<T>(paths: readonly string[], body: (writers: ManifestWriter[]) => Promise<T>): Promise<T> {
  const writers: ManifestWriter[] = [];
  try {
    for (const path of paths) writers.push(new ManifestWriter(path));
    const result = await body(writers);
    for (const writer of writers) await writer.close();
    return result;
  } catch (error) {
    for (const writer of writers) writer.abandon();
    throw error;
  }
}
