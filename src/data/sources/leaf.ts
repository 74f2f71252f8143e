/** What all datasets of a config share: filters, tags, speeds, and the columns that samplers read. */
import { createHash } from "node:crypto";
import { ManifestError, type SeracError } from "../../util/errors.ts";
import { NumberList } from "../../util/hash.ts";
import { perturbSpeed } from "../cut.ts";
import { LeftOut } from "../filter.ts";
import { badDuration, IndexedLines, type LineFormat, type LineIndex, openAnyLineIndex } from "../lineIndex/index.ts";
import { ColumnSource } from "../sampling/index.ts";
import type { SourceCut } from "./cut.ts";
import type { Tags } from "./inputCfg.ts";

/** Which utterances are kept. */
export interface LeafFilters {
  minDuration: number;
  maxDuration: number;
  minTps: number;
  maxTps: number;
  /** The `validation_status` that utterances which have one must have. */
  keep: string;
}

/** How datasets are opened. */
export interface LeafOptions {
  textField: string;
  langField: string;
  channelSelector: number | string | undefined;
  perturbSpeed: boolean;
  /** Seconds that an utterance has once the loader has truncated and padded it. */
  played(seconds: number): number;
  filters: LeafFilters;
  tags: Tags;
  /** Counts tokens of a text, where something depends on them. */
  countTokens: ((text: string, lang: string | undefined) => number) | undefined;
  /** Names what counts, so that counts can be kept in indices; undefined counts again at each start. */
  tokensKey: string | undefined;
  /** "throw" ends at the first line that cannot be used; otherwise it is counted, and said where "warn" is asked for. */
  onBad: "throw" | "skip" | "warn";
  onWarning: (message: string) => void;
  onProgress: ((lines: number) => void) | undefined;
}

/** A dataset that was opened. */
export interface Leaf {
  name: string;
  /** Where the config names it. */
  at: string;
  kind: string;
  source: ColumnSource<SourceCut>;
  /** The same by shard, where there are several. */
  shards: readonly ColumnSource<SourceCut>[];
  utterances: number;
  seconds: number;
  /** Before speeds were added, and what was left out of it. */
  leftOut: LeftOut;
}

/** Manifests of so many bytes have their index kept beside them; smaller ones are read in no time. */
const indexFrom = 1 << 20;
const skipped = "marked _skipme";

/** The speeds of perturb_speed. Source: NeMo, dataloader.py. */
export const speeds = [1, 0.9, 1.1] as const;

/**
 * The name of a kind of manifest read with the fields that a config names, for its index; undefined where its tokens are not to be kept.
 * @param kind "nemo" or "cuts"
 */
export function formatKey(kind: string, { textField, langField, countTokens, tokensKey }: LeafOptions): string | undefined {
  if (countTokens && tokensKey === undefined) return undefined;
  if (textField === "text" && langField === "lang" && !countTokens) return kind;
  const settings = JSON.stringify([textField, langField, countTokens ? tokensKey : ""]);
  return `${kind}-${createHash("sha256").update(settings).digest("hex").slice(0, 12)}`;
}

/** What filters look at. */
export interface Looked {
  duration: number;
  /** As `tokensOf` counts them. */
  tokens: number;
  status: string | undefined;
}

/** Collects the columns of a dataset while its utterances pass by. */
export class LeafBuilder {
  readonly leftOut = new LeftOut();
  private readonly options: LeafOptions;
  private readonly durations = new NumberList();
  private readonly tokens = new NumberList();

  constructor(options: LeafOptions) {
    this.options = options;
  }

  /** Tokens of an utterance; 0 where nothing depends on them. */
  tokensOf({ text, lang }: Pick<SourceCut, "text" | "lang">): number {
    return this.options.countTokens?.(text, lang) ?? 0;
  }

  /** True for utterances that are kept; the others are counted. @param origin where the utterance stands @throws ManifestError MANIFEST_BAD_DURATION */
  accept({ duration, tokens, status }: Looked, origin: () => string): boolean {
    const { filters, countTokens, played } = this.options;
    if (!(duration > 0 && duration < Number.POSITIVE_INFINITY)) throw badDuration(duration, origin());
    const leave = (reason: string): boolean => {
      this.leftOut.add(reason, origin());
      return false;
    };
    const seconds = played(duration);
    if (seconds < filters.minDuration) return leave(`shorter than min_duration, ${filters.minDuration} s`);
    if (seconds > filters.maxDuration) return leave(`longer than max_duration, ${filters.maxDuration} s`);
    if (status !== undefined && status !== filters.keep) return leave(`with a validation_status that is not ${filters.keep}`);
    if (countTokens) {
      if (tokens / duration < filters.minTps) return leave(`with fewer tokens a second than min_tps, ${filters.minTps}`);
      if (tokens / duration > filters.maxTps) return leave(`with more tokens a second than max_tps, ${filters.maxTps}`);
      this.tokens.push(tokens);
    }
    this.durations.push(duration);
    return true;
  }

  /** The same for a cut that was read, which may ask to be left out. */
  acceptCut(cut: Pick<SourceCut, "duration" | "text" | "lang" | "custom" | "origin">): boolean {
    if (cut.custom["_skipme"]) {
      this.leftOut.add(skipped, cut.origin);
      return false;
    }
    const status = cut.custom["validation_status"];
    return this.accept({ duration: cut.duration, tokens: this.tokensOf(cut), status: status === undefined ? undefined : String(status) }, () => cut.origin);
  }

  /**
   * Opens manifests by their indices: all of their lines that are kept.
   * @returns their rows among the indexed lines
   * @throws what `openAnyLineIndex` throws, unless bad lines are left out
   */
  async acceptManifests(paths: readonly string[], format: LineFormat): Promise<{ lines: IndexedLines; rows: Uint32Array }> {
    const { onProgress, onWarning } = this.options;
    const parts: LineIndex[] = [];
    let seen = 0;
    for (const path of paths) {
      const before = seen;
      const onLines = (count: number): void => {
        seen = before + count;
        onProgress?.(seen);
      };
      const one = await openAnyLineIndex(path, format, { onError: (error) => this.bad(error), onWarning, onProgress: onLines, keepFrom: indexFrom });
      if (one.skipped.count > 0) this.leftOut.add(skipped, `${path}:${one.skipped.first}`, one.skipped.count);
      parts.push(one);
    }
    const lines = new IndexedLines(parts, format);
    const { durations, tokens, hasStatuses } = lines;
    const rows = new Uint32Array(lines.length);
    let count = 0;
    let row = 0;
    const origin = (): string => lines.where(row);
    const looked: Looked = { duration: 0, tokens: 0, status: undefined };
    for (; row < rows.length; row++) {
      looked.duration = durations[row] as number;
      if (tokens) looked.tokens = tokens[row] as number;
      if (hasStatuses) looked.status = lines.status(row);
      if (this.accept(looked, origin)) rows[count++] = row;
    }
    return { lines, rows: count === rows.length ? rows : rows.slice(0, count) };
  }

  /** What `onError` of readers is: counts a line that cannot be used, or ends. */
  bad(error: SeracError): void {
    const { onBad, onWarning } = this.options;
    if (onBad === "throw") throw error;
    this.leftOut.add("that cannot be used", error.message.replace(/ \[[A-Z_]+\].*$/s, ""));
    if (onBad === "warn") onWarning(error.message);
  }

  /**
   * The dataset of what was accepted.
   * @param shardRows how many of the utterances each shard has, in order
   * @throws ManifestError SOURCE_EMPTY
   */
  build(parts: {
    name: string;
    at: string;
    kind: string;
    load(rows: ArrayLike<number>): Promise<SourceCut[]>;
    where(row: number): string;
    fingerprint(): string;
    shardRows?: readonly number[];
  }): Leaf {
    const { name, at, kind, where, fingerprint, shardRows = [] } = parts;
    const { perturbSpeed: perturb, countTokens, played } = this.options;
    const durationsOf = this.durations.take();
    const tokensOf = this.tokens.take();
    const utterances = durationsOf.length;
    if (utterances === 0)
      throw new ManifestError("SOURCE_EMPTY", {
        at,
        message: `${name} has no utterance that can be used: ${this.leftOut.total === 0 ? "it is empty" : this.leftOut.lines().join("; ")}`,
        fix: this.leftOut.total === 0 ? "check the path, or leave the source out" : "check the filters and their units (seconds), or leave the source out",
      });
    const factors: readonly number[] = perturb ? speeds : [1];
    const each = factors.length;
    const durations = new Float64Array(utterances * each);
    const tokens = countTokens ? new Float64Array(utterances * each) : undefined;
    let seconds = 0;
    for (let row = 0; row < utterances; row++)
      for (let k = 0; k < each; k++) {
        const duration = played((durationsOf[row] as number) / (factors[k] as number));
        durations[row * each + k] = duration;
        seconds += duration;
        if (tokens) tokens[row * each + k] = tokensOf[row] as number;
      }
    const load = async (rows: ArrayLike<number>): Promise<SourceCut[]> => {
      const cuts = await parts.load(Array.from(rows, (row) => Math.floor(row / each)));
      return cuts.map((cut, i) => {
        const factor = factors[(rows[i] as number) % each] as number;
        // What was computed of the audio at another speed is none of it.
        return factor === 1 ? cut : { ...cut, ...perturbSpeed(cut, factor), features: undefined };
      });
    };
    const columns = (from: number, to: number, shard: string) => ({
      name: shard,
      durations: durations.subarray(from * each, to * each),
      tokens: tokens?.subarray(from * each, to * each),
      load: (rows: ArrayLike<number>) => load(from === 0 ? rows : Array.from(rows, (row) => row + from * each)),
      where: (row: number) => where(Math.floor(row / each) + from),
      fingerprint: () => `${fingerprint()} ${each} ${from}`,
    });
    let start = 0;
    const shards: ColumnSource<SourceCut>[] = [];
    if (shardRows.length > 1)
      for (const count of shardRows) {
        // Columns are copied: their hashes are of whole buffers.
        if (count > 0) shards.push(new ColumnSource(copied(columns(start, start + count, `${name}, shard ${shards.length}`))));
        start += count;
      }
    return { name, at, kind, source: new ColumnSource(columns(0, utterances, name)), shards, utterances, seconds, leftOut: this.leftOut };
  }

  /** What the config adds to a cut. */
  finish(cut: SourceCut): SourceCut {
    const { tags, channelSelector } = this.options;
    const custom = Object.keys(tags).length === 0 ? cut.custom : { ...cut.custom, ...tags };
    if (channelSelector === undefined) return custom === cut.custom ? cut : { ...cut, custom };
    const channel = typeof channelSelector === "number" ? channelSelector : custom[channelSelector];
    if (typeof channel !== "number" || !Number.isInteger(channel) || channel < 0)
      throw new ManifestError("CUT_BAD", {
        at: cut.origin,
        message: `channel_selector names the key ${channelSelector}, which is ${JSON.stringify(channel) ?? "missing"} here`,
        fix: "give every utterance a channel from 0 under this key",
      });
    return { ...cut, custom, channel };
  }
}

function copied<T extends { durations: Float64Array; tokens: Float64Array | undefined }>(columns: T): T {
  return { ...columns, durations: columns.durations.slice(), tokens: columns.tokens?.slice() };
}
