/** What all datasets of a config share: filters, tags, speeds, and the columns that samplers read. */
import { ManifestError, type SeracError } from "../../util/errors.ts";
import { perturbSpeed } from "../cut.ts";
import { LeftOut } from "../filter.ts";
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

/** The speeds of perturb_speed. Source: NeMo, dataloader.py. */
export const speeds = [1, 0.9, 1.1] as const;

/** Collects the columns of a dataset while its utterances pass by. */
export class LeafBuilder {
  readonly leftOut = new LeftOut();
  private readonly options: LeafOptions;
  private readonly durations: number[] = [];
  private readonly tokens: number[] = [];

  constructor(options: LeafOptions) {
    this.options = options;
  }

  /** True for utterances that are kept; the others are counted. @throws ManifestError MANIFEST_BAD_DURATION */
  accept({ duration, text, lang, custom, origin }: Pick<SourceCut, "duration" | "text" | "lang" | "custom" | "origin">): boolean {
    const { filters, countTokens } = this.options;
    if (!(duration > 0 && duration < Number.POSITIVE_INFINITY))
      throw new ManifestError("MANIFEST_BAD_DURATION", {
        at: origin,
        message: `the duration is ${duration}, expected seconds above 0`,
        fix: "mend the manifest: serac manifest check --fix OUT.jsonl MANIFEST",
      });
    const leave = (reason: string): boolean => {
      this.leftOut.add(reason, origin);
      return false;
    };
    if (custom["_skipme"]) return leave("marked _skipme");
    const played = this.options.played(duration);
    if (played < filters.minDuration) return leave(`shorter than min_duration, ${filters.minDuration} s`);
    if (played > filters.maxDuration) return leave(`longer than max_duration, ${filters.maxDuration} s`);
    const status = custom["validation_status"];
    if (status !== undefined && status !== filters.keep) return leave(`with a validation_status that is not ${filters.keep}`);
    if (countTokens) {
      const count = countTokens(text, lang);
      if (count / duration < filters.minTps) return leave(`with fewer tokens a second than min_tps, ${filters.minTps}`);
      if (count / duration > filters.maxTps) return leave(`with more tokens a second than max_tps, ${filters.maxTps}`);
      this.tokens.push(count);
    }
    this.durations.push(duration);
    return true;
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
    const utterances = this.durations.length;
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
        const duration = played((this.durations[row] as number) / (factors[k] as number));
        durations[row * each + k] = duration;
        seconds += duration;
        if (tokens) tokens[row * each + k] = this.tokens[row] as number;
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
