/**
 * Manifests read in order, a block at a time: for gzip, standard input, and whatever shall not be indexed. Memory is bounded by what samplers
 * hold. Going on after a restart reads again from the beginning.
 */
import { createHash } from "node:crypto";
import { ConfigError, internal } from "../../util/errors.ts";
import type { Cut } from "../cut.ts";
import { isSkipped } from "../manifest/entry.ts";
import { type ManifestSpec, manifestPaths } from "../manifest/inputs.ts";
import { type LineError, type ManifestLine, readManifestBatches } from "../manifest/lines.ts";
import { type LineOptions, type ParsedLine, parseCut } from "./indexedManifest.ts";
import { digestOf, lineDuration, type TokenCounter } from "./manifestIndex.ts";
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

class LazyManifest<T> implements ItemSource<T> {
  readonly name: string;
  readonly length = undefined;
  readonly divisible = false;
  private readonly paths: readonly string[];
  private readonly parse: (line: ParsedLine) => T;
  private readonly options: LazyOptions;
  /** Lines that were read and not loaded yet, by their number among the lines that can be used; each epoch has numbers of its own. */
  private readonly held = new Map<number, ParsedLine>();
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
      return this.parse(line);
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
  private readonly batches: AsyncGenerator<ManifestLine[]>;
  private readonly options: LazyOptions;
  private readonly held: Map<number, ParsedLine>;
  /** The number of this epoch's first item. */
  private readonly base: number;
  private lines: ManifestLine[] = [];
  private at = 0;
  private count = 0;
  private ended = false;
  private readonly block: ItemBlock;

  constructor(paths: readonly string[], options: LazyOptions, held: Map<number, ParsedLine>, base: number) {
    this.options = options;
    this.held = held;
    this.base = base;
    this.batches = readManifestBatches(paths, options.onError ? { onError: options.onError } : {});
    this.block = { count: 0, refs: new Float64Array(1024), durations: new Float64Array(1024), tokens: options.tokens ? new Float64Array(1024) : undefined };
  }

  read(most: number): ItemBlock | undefined | Promise<ItemBlock | undefined> {
    return this.at < this.lines.length ? this.take(most) : this.readOn(most);
  }

  private async readOn(most: number): Promise<ItemBlock | undefined> {
    for (;;) {
      if (this.ended) return undefined;
      const next = await this.batches.next();
      if (next.done) {
        this.ended = true;
        return undefined;
      }
      this.lines = next.value;
      this.at = 0;
      const block = this.take(most);
      if (block) return block;
    }
  }

  /** Items of the lines that were read; undefined where none of them can be used. */
  private take(most: number): ItemBlock | undefined | Promise<ItemBlock | undefined> {
    const { block, lines, held, options } = this;
    const { tokens, onError } = options;
    let count = 0;
    const stop = Math.min(most, block.refs.length);
    while (count < stop && this.at < lines.length) {
      const { value, line, path } = lines[this.at++] as ManifestLine;
      if (isSkipped(value)) continue;
      try {
        block.durations[count] = lineDuration(value, `${path}:${line}`);
        if (tokens) (block.tokens as Float64Array)[count] = tokens.count(value);
      } catch (error) {
        if (!onError) throw error;
        onError(error as LineError);
        continue;
      }
      const ref = this.base + this.count++;
      held.set(ref, { value, line, path });
      block.refs[count++] = ref;
    }
    block.count = count;
    return count > 0 ? block : this.at < lines.length ? undefined : this.ended ? undefined : this.readOn(most);
  }

  /** Reads past the first `count` items and holds those that are still to be loaded. */
  async goTo(count: number, held: ReadonlySet<number>): Promise<void> {
    while (this.count < count) {
      const block = await this.read(count - this.count);
      if (!block)
        throw new ConfigError("SAMPLER_SOURCE_CHANGED", {
          message: `the manifest has ${this.count} utterances, ${count} were read when the state was saved`,
          fix: "start the epoch again",
        });
      for (let i = 0; i < block.count; i++) {
        const ref = block.refs[i] as number;
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
    await this.batches.return(undefined); // a loader may still ask for items
  }
}
