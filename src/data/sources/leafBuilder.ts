/** Collects the columns of a dataset while its utterances pass by, and makes a source of them. */
import { ManifestError, messageOf, type SeracError } from "../../util/errors.ts";
import { NumberList } from "../../util/hash.ts";
import { LeftOut } from "../filter.ts";
import { badDuration, IndexedLines, type LineFormat, type LineIndex, openAnyLineIndex } from "../lineIndex/index.ts";
import { ColumnSource, type Columns } from "../sampling/index.ts";
import { copiesOf, copyOf, isSingle, loadedSeconds } from "./copies.ts";
import type { SourceCut } from "./cut.ts";
import { indexFrom, type Leaf, type LeafOptions, refusalOf } from "./leaf.ts";

/** A dataset in the making. */
export class LeafBuilder {
  readonly leftOut = new LeftOut();
  private readonly options: LeafOptions;
  private readonly single: boolean;
  private utterances = 0;
  private readonly seconds = new NumberList();
  private readonly tokens = new NumberList();
  /** The utterance of each row, and which of its copies it is; empty where an utterance is a row. */
  private readonly owners = new NumberList(Uint32Array);
  private readonly variants = new NumberList(Uint32Array);

  constructor(options: LeafOptions) {
    this.options = options;
    this.single = isSingle(options.copies);
  }

  /** Tokens of an utterance; 0 where nothing depends on them. */
  tokensOf({ text, lang }: Pick<SourceCut, "text" | "lang">): number {
    return this.options.countTokens?.(text, lang) ?? 0;
  }

  /** True where some of an utterance's seconds are kept; what is not is counted. @param origin where it stands @throws ManifestError MANIFEST_BAD_DURATION */
  accept(duration: number, tokens: number, origin: () => string): boolean {
    const { bounds, countTokens, copies } = this.options;
    if (!(duration > 0 && duration < Number.POSITIVE_INFINITY)) throw badDuration(duration, origin());
    if (countTokens) {
      if (tokens / duration < bounds.minTps) return this.leave(`with fewer tokens a second than min_tps, ${bounds.minTps}`, origin());
      if (tokens / duration > bounds.maxTps) return this.leave(`with more tokens a second than max_tps, ${bounds.maxTps}`, origin());
    }
    const before = this.seconds.length;
    if (this.single) this.add(loadedSeconds(duration, copies), tokens, 0, origin);
    else copiesOf(duration, copies).forEach(({ seconds }, variant) => this.add(seconds, tokens, variant, origin));
    if (this.seconds.length === before) return false;
    this.utterances++;
    return true;
  }

  private add(seconds: number, tokens: number, variant: number, origin: () => string): void {
    const { minDuration, maxDuration } = this.options.bounds;
    if (seconds < minDuration) this.leave(`shorter than min_duration, ${minDuration} s`, origin());
    else if (seconds > maxDuration) this.leave(`longer than max_duration, ${maxDuration} s`, origin());
    else {
      this.seconds.push(seconds);
      if (this.options.countTokens) this.tokens.push(tokens);
      if (this.single) return;
      this.owners.push(this.utterances);
      this.variants.push(variant);
    }
  }

  private leave(reason: string, origin: string): false {
    this.leftOut.add(reason, origin);
    return false;
  }

  /** The same for a cut that was read, which may not be wanted for what it says of itself. */
  acceptCut(cut: SourceCut): boolean {
    const refusal = refusalOf(cut, this.options);
    return refusal === undefined ? this.accept(cut.duration, this.tokensOf(cut), () => cut.origin) : this.leave(refusal, cut.origin);
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
      for (const [reason, count, first] of one.unwanted) this.leftOut.add(reason, `${path}:${first}`, count);
      parts.push(one);
    }
    const lines = new IndexedLines(parts, format);
    const { durations, tokens } = lines;
    const rows = new Uint32Array(lines.length);
    let count = 0;
    let row = 0;
    const origin = (): string => lines.where(row);
    for (; row < rows.length; row++) if (this.accept(durations[row] as number, tokens ? (tokens[row] as number) : 0, origin)) rows[count++] = row;
    return { lines, rows: count === rows.length ? rows : rows.slice(0, count) };
  }

  /** What `onError` of readers is: counts a line that cannot be used, or ends. */
  bad(error: SeracError): void {
    const { onBad, onWarning } = this.options;
    if (onBad === "throw") throw error;
    this.leftOut.add(`unusable lines: ${error.code}`, error.at === undefined ? messageOf(error) : `${error.at}: ${messageOf(error)}`);
    if (onBad === "warn") onWarning(error.message);
  }

  /**
   * The dataset of what was accepted.
   * @param load makes cuts of utterances by their numbers
   * @param shardUtterances how many of the utterances each shard has, in order
   * @throws ManifestError SOURCE_EMPTY
   */
  build(parts: {
    name: string;
    at: string;
    kind: string;
    load(utterances: ArrayLike<number>): Promise<SourceCut[]>;
    where(utterance: number): string;
    fingerprint(): string;
    shardUtterances?: readonly number[];
  }): Leaf {
    const { name, at, kind, where, fingerprint, shardUtterances = [] } = parts;
    const { utterances, leftOut, single } = this;
    const { copies, countTokens } = this.options;
    if (utterances === 0)
      throw new ManifestError("SOURCE_EMPTY", {
        at,
        message: `${name} has no utterance that can be used: ${leftOut.total === 0 ? "it is empty" : leftOut.lines().join("; ")}`,
        fix: leftOut.total === 0 ? "check the path, or leave the source out" : "check the filters and their units (seconds), or leave the source out",
      });
    const durations = this.seconds.take();
    const tokens = countTokens ? this.tokens.take() : undefined;
    const owners = single ? undefined : Uint32Array.from(this.owners.take());
    const variants = this.variants.take();
    const ownerOf = (row: number): number => (owners ? (owners[row] as number) : row);
    const load = async (rows: ArrayLike<number>): Promise<SourceCut[]> => {
      const cuts = await parts.load(Array.from(rows, ownerOf));
      if (single) return cuts;
      return cuts.map((cut, i) => {
        const copy = copiesOf(cut.duration, copies)[variants[rows[i] as number] as number];
        return copy ? copyOf(cut, copy, copies) : cut;
      });
    };
    const columns = (from: number, to: number, shard: string): Columns<SourceCut> => ({
      name: shard,
      durations: durations.subarray(from, to),
      tokens: tokens?.subarray(from, to),
      load: (rows: ArrayLike<number>) => load(from === 0 ? rows : Array.from(rows, (row) => row + from)),
      where: (row: number) => where(ownerOf(row + from)),
      fingerprint: () => `${fingerprint()} ${JSON.stringify(copies)} ${from}`,
    });
    const shards: ColumnSource<SourceCut>[] = [];
    if (shardUtterances.length > 1) {
      let utterance = 0;
      let from = 0;
      for (const count of shardUtterances) {
        utterance += count;
        let to = from;
        while (to < durations.length && ownerOf(to) < utterance) to++;
        // Columns are copied: their hashes are of whole buffers.
        if (to > from) shards.push(new ColumnSource(copied(columns(from, to, `${name}, shard ${shards.length}`))));
        from = to;
      }
    }
    const seconds = durations.reduce((sum, one) => sum + one, 0);
    return { name, at, kind, source: new ColumnSource(columns(0, durations.length, name)), shards, utterances, seconds, leftOut };
  }

  /** What the config adds to a cut. @param line the number of its line in its manifest, from 1 */
  finish(cut: SourceCut, line: number): SourceCut {
    const { tags, channelSelector, extraFields } = this.options;
    const extra = Object.fromEntries(extraFields.map(({ name, value }) => [name, value(line, cut.id)]));
    const custom = Object.keys(tags).length + extraFields.length === 0 ? cut.custom : { ...cut.custom, ...extra, ...tags };
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

function copied<T extends Pick<Columns<unknown>, "durations" | "tokens">>(columns: T): T {
  return { ...columns, durations: columns.durations.slice(), tokens: columns.tokens?.slice() };
}
