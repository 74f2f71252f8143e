/** Headers by path, read many at a time; those of a few thousand files are kept for segments of the same recordings. */
import { type HeaderResult, inParallel, readHeader } from "./headers.ts";
import type { HeaderJournal } from "./resume.ts";

/** Headers that are kept. */
const most = 10_000;

export class HeaderCache {
  private readonly cache = new Map<string, HeaderResult>();
  private readonly journal: HeaderJournal;
  private readonly workers: number;
  private readonly decode: boolean;

  /**
   * @param journal has the headers that an interrupted check had read, and gets those that are read now
   * @param workers files that are read at once
   * @param decode reads all of the audio
   */
  constructor(journal: HeaderJournal, workers: number, decode: boolean) {
    this.journal = journal;
    this.workers = workers;
    this.decode = decode;
  }

  /** Paths in the order of the manifest. @returns at least their headers; where `signal` was aborted, not all */
  async read(paths: readonly string[], signal: AbortSignal | undefined): Promise<ReadonlyMap<string, HeaderResult>> {
    if (this.cache.size > most) this.cache.clear();
    const wanted: string[] = [];
    for (const path of new Set(paths)) {
      if (this.cache.has(path)) continue;
      const known = await this.journal.known(path);
      if (known === undefined) wanted.push(path);
      else this.cache.set(path, known);
    }
    await inParallel(wanted, this.workers, async (path) => {
      if (signal?.aborted) return;
      this.cache.set(path, await readHeader(path, { decode: this.decode }));
    });
    for (const path of wanted) {
      const result = this.cache.get(path);
      if (result !== undefined) this.journal.keep(path, result);
    }
    return this.cache;
  }
}
