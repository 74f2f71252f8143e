/** What all datasets of a config share: how they are opened, and what they are then. */
import { createHash } from "node:crypto";
import type { LeftOut } from "../filter.ts";
import type { ColumnSource, ItemSource } from "../sampling/index.ts";
import { type ContentFilters, contentSettings } from "./contentFilters.ts";
import type { CopyOptions } from "./copies.ts";
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

/** How datasets are opened. */
export interface LeafOptions {
  textField: string;
  langField: string;
  channelSelector: number | string | undefined;
  copies: CopyOptions;
  bounds: LeafBounds;
  content: ContentFilters;
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

/**
 * The name of a kind of manifest read with the settings of a config, for its index; undefined where its tokens are not to be kept.
 * @param kind "nemo" or "cuts"
 */
export function formatKey(kind: string, { textField, langField, countTokens, tokensKey, content }: LeafOptions): string | undefined {
  if (countTokens && tokensKey === undefined) return undefined;
  const filters = contentSettings(content);
  if (textField === "text" && langField === "lang" && !countTokens && filters === "") return kind;
  const settings = JSON.stringify([textField, langField, countTokens ? tokensKey : "", filters]);
  return `${kind}-${createHash("sha256").update(settings).digest("hex").slice(0, 12)}`;
}
