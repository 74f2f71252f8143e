/** Filters that look at what an utterance says of itself: NeMo's keep, max_cer, min_context_speaker_similarity, and speakers to leave out. Source: NeMo, sampling.py. */

import { ConfigError } from "../../util/errors.ts";
import { skipReason } from "../lineIndex/index.ts";
import { type ConfigNode, isListNode, isMapNode, plainConfig, readConfig } from "./configTree.ts";
import type { SourceCut } from "./cut.ts";

/** Which utterances are kept for what they say of themselves. */
export interface ContentFilters {
  /** The `validation_status` that utterances which have one must have. */
  keep: string;
  /** The highest `cer` of utterances that have one. */
  maxCer: number;
  /** The lowest `context_speaker_similarity` of utterances that have one. */
  minContextSpeakerSimilarity: number;
  /** Speakers that are left out, wherever `speakerFields` name one of them. */
  excludedSpeakers: ReadonlySet<string>;
  speakerFields: readonly string[];
}

/** NeMo's defaults, which leave out what failed a validation. */
export const defaultContentFilters: ContentFilters = {
  keep: "pass",
  maxCer: Number.POSITIVE_INFINITY,
  minContextSpeakerSimilarity: -1,
  excludedSpeakers: new Set(),
  speakerFields: [],
};

/** Whether an utterance is left out. @returns why; undefined where it is kept */
export function contentRefusal({ custom, supervisions, speaker }: Pick<SourceCut, "custom" | "supervisions" | "speaker">, filters: ContentFilters): string | undefined {
  const { keep, maxCer, minContextSpeakerSimilarity, excludedSpeakers, speakerFields } = filters;
  if (custom["_skipme"]) return skipReason;
  // NeMo's readers put a line's keys in the cut, lhotse's in its supervisions.
  const find = (key: string): unknown => supervisions[0]?.custom[key] ?? custom[key];
  const status = custom["validation_status"];
  if (status !== undefined && String(status) !== keep) return `with a validation_status that is not ${keep}`;
  const cer = find("cer");
  if (typeof cer === "number" && cer > maxCer) return `with a cer above max_cer, ${maxCer}`;
  const similarity = find("context_speaker_similarity");
  if (typeof similarity === "number" && similarity < minContextSpeakerSimilarity) return `with a similarity below min_context_speaker_similarity, ${minContextSpeakerSimilarity}`;
  if (excludedSpeakers.size > 0)
    for (const field of speakerFields) {
      const value = field === "speaker" ? (speaker ?? find(field)) : find(field);
      if (value !== undefined && value !== null && excludedSpeakers.has(String(value))) return `of a speaker of excluded_speaker_ids (in ${field})`;
    }
  return undefined;
}

/** What they depend on beyond NeMo's defaults, for the names of indices; "" for those. */
export function contentSettings({ keep, maxCer, minContextSpeakerSimilarity, excludedSpeakers, speakerFields }: ContentFilters): string {
  const settings = [keep, String(maxCer), minContextSpeakerSimilarity, [...excludedSpeakers].sort(), speakerFields];
  return JSON.stringify(settings) === JSON.stringify(["pass", "Infinity", -1, [], []]) ? "" : JSON.stringify(settings);
}

/** Speakers of a list, of the values of a map, or of a YAML file of either. @throws ConfigError CONFIG_BAD_VALUE; FormatError FILE_MISSING */
export function speakerIds(node: ConfigNode): Set<string> {
  if (typeof node.value === "string") return speakerIds(readConfig(node.value));
  const ids: unknown[] = isListNode(node) ? (plainConfig(node) as unknown[]) : isMapNode(node) ? Object.values(plainConfig(node) as object).flat() : [undefined];
  if (!ids.every((id) => typeof id === "string" || typeof id === "number"))
    throw new ConfigError("CONFIG_BAD_VALUE", {
      at: node.at,
      message: `${node.path || "the file"} holds what is no speaker: expected names or numbers`,
      fix: "write excluded_speaker_ids: [A, B], or the path of a YAML file that holds such a list",
    });
  return new Set(ids.map(String));
}
