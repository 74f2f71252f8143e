/**
 * Headers that an interrupted check has read: a side file beside the manifest, one line a file in the order of the manifest.
 * A header is used again only where the audio still has the size and time that it had. The file goes away when a check ends.
 */
import { appendFileSync, closeSync, existsSync, fstatSync, openSync, readSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { removeQuietly } from "../../../formats/atomic.ts";
import { readJsonl } from "../../../formats/jsonl.ts";
import { hashText } from "../../../util/hash.ts";
import type { HeaderResult } from "./headers.ts";

type Failure = Extract<HeaderResult, { failure: string }>["failure"];
/** [hash of the path, size, time, rate, channels, frames] or [hash, size, time, failure, message]. */
type Row = [string, number, number, number, number, number] | [string, number, number, Failure, string];

const hashOf = (path: string): string => {
  const { high, low } = hashText(path);
  return high.toString(16) + low.toString(16).padStart(8, "0");
};

/** Size and time of a file in milliseconds; zeros where it is not there. */
function stamp(path: string): [number, number] {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? [0, 0] : [found.size, Math.round(found.mtimeMs)];
}

/** Keeps the side file. Where it cannot be written the check goes on without it. */
export class HeaderJournal {
  /** Headers that were taken from the side file. */
  reused = 0;
  private readonly path: string | undefined;
  private old: AsyncIterator<{ value: Row }> | undefined;
  private waiting: Row | undefined;
  private pending: string[] = [];
  /** The first line of a new side file, until it is there: a check that reads no header leaves none. */
  private head: string | undefined;
  private written = performance.now();

  /**
   * @param path the side file; undefined keeps none
   * @param manifests what is checked with which settings: a side file of something else is not used
   */
  constructor(path: string | undefined, manifests: readonly string[], settings: string) {
    this.path = path;
    if (path === undefined) return;
    const head = JSON.stringify({ serac: "manifest check", version: 1, settings, manifests: manifests.map((manifest) => [manifest, ...stamp(manifest)]) });
    try {
      if (existsSync(path) && this.cutToWholeLines(path, head)) {
        this.old = readJsonl<Row>(path, { onError: () => {} })[Symbol.asyncIterator]() as unknown as AsyncIterator<{ value: Row }>;
        return;
      }
      this.head = `${head}\n`;
    } catch {
      this.path = undefined;
    }
  }

  /** Takes off a line that was being written when the check ended. @returns false for a file of another check */
  private cutToWholeLines(path: string, head: string): boolean {
    const fd = openSync(path, "r");
    try {
      const { size } = fstatSync(fd);
      const first = Buffer.alloc(Buffer.byteLength(head) + 1);
      readSync(fd, first, 0, first.length, 0);
      if (first.toString("utf8") !== `${head}\n`) return false;
      const tail = Buffer.alloc(Math.min(size, 1 << 16));
      readSync(fd, tail, 0, tail.length, size - tail.length);
      truncateSync(path, size - tail.length + tail.lastIndexOf(0x0a) + 1);
      return true;
    } finally {
      closeSync(fd);
    }
  }

  /** Called in the order of the manifest. @returns the header that was read before, where it still holds */
  async known(path: string): Promise<HeaderResult | undefined> {
    while (this.waiting === undefined && this.old !== undefined) {
      const next = await this.old.next();
      if (next.done) this.old = undefined;
      else if (Array.isArray(next.value.value)) this.waiting = next.value.value;
    }
    const row = this.waiting;
    if (row === undefined || row[0] !== hashOf(path)) return undefined;
    this.waiting = undefined;
    const [size, time] = stamp(path);
    if (row[1] !== size || row[2] !== time) return undefined;
    this.reused++;
    if (typeof row[3] === "string") return { failure: row[3], message: row[4] as string };
    return { rate: row[3], channels: row[4] as number, frames: row[5] as number };
  }

  /** Keeps a header; written every second. */
  keep(path: string, result: HeaderResult): void {
    if (this.path === undefined) return;
    const row: Row =
      "failure" in result ? [hashOf(path), ...stamp(path), result.failure, result.message] : [hashOf(path), ...stamp(path), result.rate, result.channels, result.frames];
    this.pending.push(JSON.stringify(row));
    if (performance.now() - this.written > 1000) this.flush();
  }

  flush(): void {
    this.written = performance.now();
    if (this.path === undefined || this.pending.length === 0) return;
    const text = `${this.pending.join("\n")}\n`;
    this.pending = [];
    try {
      if (this.head === undefined) appendFileSync(this.path, text);
      else writeFileSync(this.path, this.head + text);
      this.head = undefined;
    } catch {
      // A full disk must not end the check.
    }
  }

  /** Ends reading and writes what is held. The file stays. */
  async close(): Promise<void> {
    this.flush();
    await this.old?.return?.(undefined);
    this.old = undefined;
  }

  /** The check is done. */
  async remove(): Promise<void> {
    await this.close();
    if (this.path !== undefined) removeQuietly(this.path);
  }
}
