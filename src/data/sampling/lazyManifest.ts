/**
 * Manifests read in order, a block at a time: for gzip, standard input, and whatever shall not be indexed. Memory is bounded by what samplers
 * hold. Going on after a restart reads again from the beginning.
 */
import { isAscii } from "node:buffer";
import { createHash } from "node:crypto";
import { readBytes } from "../../formats/byteSource.ts";
import { ConfigError, internal, SeracError } from "../../util/errors.ts";
import type { Cut } from "../cut.ts";
import { digestOf, lineDuration, type ParsedLine, parseManifestLine, type TokenCounter } from "../lineIndex/index.ts";
import { isSkipped } from "../manifest/entry.ts";
import { type ManifestSpec, manifestPaths } from "../manifest/inputs.ts";
import { type LineError, wholeLines } from "../manifest/lines.ts";
import { type LineOptions, parseCut } from "./indexedManifest.ts";
import { scanDuration } from "./scanDuration.ts";
import type { EpochOptions, ItemBlock, ItemSource, ItemStream, Json, StreamPosition } from "./source.ts";

/** How to read lines in order. */
export interface LazyOptions {
  /** Called with each line that cannot be used, which is then left out. Without it the first one throws. */
  onError?: ((error: LineError) => void) | undefined;
  tokens?: TokenCounter | undefined;
}

/**
 * A source over JSON lines that have a `duration`: manifests of NeMo, or with `parse` cuts of lhotse. The order is that of the lines; samplers
 * shuffle what they hold.
 */
export function lazyManifest(spec: ManifestSpec, options?: LazyOptions): ItemSource<Cut>;
export function lazyManifest<T>(spec: ManifestSpec, options: LazyOptions & Required<LineOptions<T>>): ItemSource<T>;
export function lazyManifest<T>(spec: ManifestSpec, { parse = parseCut as (line: ParsedLine) => T, ...options }: LazyOptions & LineOptions<T> = {}): ItemSource<T> {
  return new LazyManifest(manifestPaths(spec), parse, options);
}

/** A line that is to be loaded: a place in its block, or a copy where the block is old. */
interface HeldLine {
  bytes: Buffer;
  start: number;
  end: number;
  line: number;
  path: string;
  encoding: "latin1" | "utf8";
}

function parsed({ bytes, start, end, line, path, encoding }: HeldLine): ParsedLine {
  const text = bytes.toString(encoding, start, end);
  return { value: parseManifestLine(line === 1 ? text.replace(/^\ufeff/, "") : text, path, line), line, path };
}

class LazyManifest<T> implements ItemSource<T> {
  readonly name: string;
  readonly length = undefined;
  readonly divisible = false;
  private readonly paths: readonly string[];
  private readonly parse: (line: ParsedLine) => T;
  private readonly options: LazyOptions;
  /** Lines that were read and not loaded yet, by their number among the lines that can be used; each epoch has numbers of its own. */
  private readonly held = new Map<number, HeldLine>();
  private stream: LazyStream | undefined;
  private known: string | undefined;

  constructor(paths: readonly string[], parse: (line: ParsedLine) => T, options: LazyOptions) {
    this.paths = paths;
    this.name = paths.map((path) => (path === "-" ? "stdin" : path)).join(", ");
    this.parse = parse;
    this.options = options;
  }

  fingerprint(): string {
    this.known ??= this.paths.map((path) => (path === "-" ? "stdin" : digestOf(path))).join(" ");
    return createHash("sha256").update(this.known).digest("hex");
  }

  async open(_: EpochOptions, position?: StreamPosition): Promise<ItemStream> {
    const saved = position && placeOf(position.state, this.name);
    this.stream = new LazyStream(this.paths, this.options, this.held, saved?.base ?? this.stream?.end ?? 0);
    if (saved) await this.stream.goTo(saved.read, new Set(position.held));
    return this.stream;
  }

  async load(refs: ArrayLike<number>): Promise<T[]> {
    return Array.from(refs, (ref) => {
      const line = this.held.get(ref) ?? internal(`item ${ref} of ${this.name} is not held`);
      this.held.delete(ref);
      return this.parse(parsed(line));
    });
  }

  release(refs: ArrayLike<number>): void {
    for (let i = 0; i < refs.length; i++) this.held.delete(refs[i] as number);
  }

  where(ref: number): string {
    const line = this.held.get(ref);
    return line ? `${line.path}:${line.line}` : `${this.name}: utterance ${ref + 1}`;
  }
}

function placeOf(state: Json, name: string): { read: number; base: number } {
  const whole = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value) && value >= 0;
  if (typeof state === "object" && state !== null && "read" in state && "base" in state) {
    const { read, base } = state;
    if (whole(read) && whole(base)) return { read, base };
  }
  throw new ConfigError("SAMPLER_BAD_STATE", { at: name, message: "the state to go on from is not one of this source's", fix: "start the epoch again" });
}

class LazyStream implements ItemStream {
  private readonly blocks: AsyncGenerator<LineBlock>;
  private readonly options: LazyOptions;
  private readonly held: Map<number, HeldLine>;
  /** The number of this epoch's first item. */
  private readonly base: number;
  private block: LineBlock = { path: "", bytes: Buffer.alloc(0), line: 0, skips: false, encoding: "utf8" };
  /** The first item of each block of which lines are held as places. */
  private readonly recent: number[] = [];
  private at = 0;
  private count = 0;
  private ended = false;
  private readonly items: ItemBlock;

  constructor(paths: readonly string[], options: LazyOptions, held: Map<number, HeldLine>, base: number) {
    this.options = options;
    this.held = held;
    this.base = base;
    this.blocks = lineBlocks(paths);
    this.items = { count: 0, refs: new Float64Array(1024), durations: new Float64Array(1024), tokens: options.tokens ? new Float64Array(1024) : undefined };
  }

  read(most: number): ItemBlock | undefined | Promise<ItemBlock | undefined> {
    return this.take(most) ?? this.readOn(most);
  }

  private async readOn(most: number): Promise<ItemBlock | undefined> {
    while (!this.ended) {
      const next = await this.blocks.next();
      if (next.done) this.ended = true;
      else {
        this.block = next.value;
        this.at = 0;
        this.recent.push(this.end);
        if (this.recent.length > recentBlocks) this.copyOldest();
        const items = this.take(most);
        if (items) return items;
      }
    }
    return undefined;
  }

  /** Items of the lines of the block; undefined where it has no further one that can be used. */
  private take(most: number): ItemBlock | undefined {
    const { items, block, held } = this;
    const { bytes, path, encoding } = block;
    const stop = Math.min(most, items.refs.length);
    let count = 0;
    while (count < stop && this.at < bytes.length) {
      const start = this.at;
      let end = bytes.indexOf(0x0a, start);
      if (end < 0) end = bytes.length;
      this.at = end + 1;
      const line = ++block.line;
      const seen = this.look(start, end);
      if (!(seen > 0)) continue;
      items.durations[count] = seen;
      if (items.tokens) items.tokens[count] = this.tokens;
      const ref = this.base + this.count++;
      held.set(ref, { bytes, start, end, line, path, encoding });
      items.refs[count++] = ref;
    }
    items.count = count;
    return count > 0 ? items : undefined;
  }

  /** Tokens of the line that was looked at last, where they are counted. */
  private tokens = 0;

  /** @returns the seconds of a line of the block; NaN for one that is left out. Only where it must be is the line parsed here. */
  private look(start: number, end: number): number {
    const { tokens, onError } = this.options;
    const { bytes, line, path, skips } = this.block;
    if (!tokens && !onError && !skips) {
      const duration = scanDuration(bytes, start, end);
      if (duration > 0 && duration < Number.POSITIVE_INFINITY) return duration;
    }
    const text = bytes.toString("utf8", start, end);
    if (isBlank(text)) return Number.NaN;
    try {
      const value = parseManifestLine(line === 1 ? text.replace(/^\ufeff/, "") : text, path, line);
      if (isSkipped(value)) return Number.NaN;
      const duration = lineDuration(value, `${path}:${line}`);
      if (tokens) this.tokens = tokens.count(value);
      return duration;
    } catch (error) {
      if (!onError || !(error instanceof SeracError)) throw error;
      onError(error as LineError);
      return Number.NaN;
    }
  }

  /** Copies what is still held of the oldest block, so that a few lines do not hold all of it. */
  private copyOldest(): void {
    const first = this.recent.shift() as number;
    const next = this.recent[0] as number;
    for (let ref = first; ref < next; ref++) {
      const held = this.held.get(ref);
      if (!held) continue;
      held.bytes = Buffer.from(held.bytes.subarray(held.start, held.end));
      held.end -= held.start;
      held.start = 0;
    }
  }

  /** Reads past the first `count` items and holds those that are still to be loaded. */
  async goTo(count: number, held: ReadonlySet<number>): Promise<void> {
    while (this.count < count) {
      const items = await this.read(count - this.count);
      if (!items)
        throw new ConfigError("SAMPLER_SOURCE_CHANGED", {
          message: `the manifest has ${this.count} utterances, ${count} were read when the state was saved`,
          fix: "start the epoch again",
        });
      for (let i = 0; i < items.count; i++) {
        const ref = items.refs[i] as number;
        if (!held.has(ref)) this.held.delete(ref);
      }
    }
  }

  state(): Json {
    return { read: this.count, base: this.base };
  }

  /** The number behind that of the last item. */
  get end(): number {
    return this.base + this.count;
  }

  async close(): Promise<void> {
    await this.blocks.return(undefined); // a loader may still ask for items
  }
}

interface LineBlock {
  path: string;
  /** Whole lines. */
  bytes: Buffer;
  /** The line before the first of them; then the one that was looked at last. */
  line: number;
  /** Some line may ask to be left out. */
  skips: boolean;
  /** Where all bytes are ASCII, "latin1" reads them several times as fast. */
  encoding: "latin1" | "utf8";
}

/** Blocks of whole lines. */
async function* lineBlocks(paths: readonly string[]): AsyncGenerator<LineBlock> {
  for (const file of paths) {
    const path = file === "-" ? "stdin" : file;
    let line = 0;
    for await (const bytes of wholeLines(readBytes(file))) {
      const block: LineBlock = { path, bytes, line, skips: bytes.includes(skipKey), encoding: isAscii(bytes) ? "latin1" : "utf8" };
      yield block;
      line = block.line;
    }
  }
}

/** Blocks of a quarter of a megabyte of which lines are held as places: some 30 MB, and more lines than most samplers hold. */
const recentBlocks = 128;
const isBlank = (text: string): boolean => /^[ \t\r]*$/.test(text);
const skipKey = Buffer.from('"_skipme"');
