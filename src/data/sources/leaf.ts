/** What all datasets of a config share: how they are opened, and what they are then. */
import { createHash } from "node:crypto";
import type { LeftOut } from "../filter.ts";
import type { ColumnSource, ItemSource } from "../sampling/index.ts";
import { type ContentFilters, contentRefusal, contentSettings } from "./contentFilters.ts";
import { type CopyOptions, loadedSeconds } from "./copies.ts";
import type { SourceCut } from "./cut.ts";
import type { ExtraField } from "./extraFields.ts";
import type { Tags } from "./inputCfg.ts";

/** Bounds of what is kept, inclusive: seconds that are loaded, and tokens a second. */
export interface LeafBounds {
  minDuration: number;
  maxDuration: number;
  minTps: number;
  maxTps: number;
}

/** A filter beyond the keys of a config: what training leaves out. */
export interface UtteranceFilter {
  /** Names what it depends on (letters, digits, - and _), so that indices of manifests keep its verdicts; without it they are found anew at each start. */
  key?: string | undefined;
  /** Why an utterance is left out, which is counted by this text; undefined where it is kept. `duration` is of what is loaded. */
  why(utterance: { duration: number; text: string; lang: string | undefined }): string | undefined;
}

/** How datasets are opened. */
export interface LeafOptions {
  textField: string;
  langField: string;
  channelSelector: number | string | undefined;
  copies: CopyOptions;
  bounds: LeafBounds;
  content: ContentFilters;
  /** The caller's own filter. */
  filter: UtteranceFilter | undefined;
  tags: Tags;
  extraFields: readonly ExtraField[];
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
  /** Before copies were made. */
  utterances: number;
  /** Of all copies. */
  seconds: number;
  /** What was left out. */
  leftOut: LeftOut;
}

/** A source of cuts. */
export type CutSource = ItemSource<SourceCut>;

/** Whether an utterance is left out for what it says of itself, or by the caller's filter. @returns why; undefined where it is kept */
export function refusalOf(
  cut: Pick<SourceCut, "custom" | "supervisions" | "speaker" | "duration" | "text" | "lang">,
  { content, filter, copies }: LeafOptions,
): string | undefined {
  const { duration, text, lang } = cut;
  return contentRefusal(cut, content) ?? filter?.why({ duration: loadedSeconds(duration, copies), text, lang });
}

/** Manifests of so many bytes have their index kept beside them; smaller ones are read in no time. */
export const indexFrom = 1 << 20;

/**
 * The name of a kind of manifest read with the settings of a config, for its index; undefined where what it depends on has no name.
 * @param kind "nemo" or "cuts"
 */
export function formatKey(kind: string, { textField, langField, countTokens, tokensKey, content, filter, copies }: LeafOptions): string | undefined {
  if ((countTokens && tokensKey === undefined) || (filter && filter.key === undefined)) return undefined;
  const filters = contentSettings(content);
  if (textField === "text" && langField === "lang" && !countTokens && filters === "" && !filter) return kind;
  const settings = JSON.stringify([textField, langField, countTokens ? tokensKey : "", filters, ...(filter ? [filter.key, copies.truncate, copies.pad] : [])]);
  return `${kind}-${createHash("sha256").update(settings).digest("hex").slice(0, 12)}`;
}
