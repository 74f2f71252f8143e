/** Ordinary WebDataset tars: consecutive members with one key are a sample; audio is told by its suffix, text and times come from json and txt members. */
import { mayBeTooDeep } from "../../formats/pythonJson.ts";
import type { TarMember } from "../../formats/tar/index.ts";
import { ManifestError } from "../../util/errors.ts";
import { type ManifestEntry, parseEntry } from "../manifest/entry.ts";

/** Suffixes of audio, in the order in which they are preferred. */
export const audioSuffixes = [
  "wav",
  "flac",
  "mp3",
  "opus",
  "ogg",
  "oga",
  "m4a",
  "aac",
  "aif",
  "aiff",
  "aifc",
  "au",
  "caf",
  "w64",
  "rf64",
  "sph",
  "nist",
  "wma",
  "webm",
  "mp4",
] as const;
const textSuffixes = ["txt", "text", "transcript", "lab"] as const;

/** What stands behind the first period of the name's last part, in small letters; undefined where there is none. */
function suffixOf(name: string): string | undefined {
  const base = name.slice(name.lastIndexOf("/") + 1);
  const dot = base.indexOf(".", 1);
  return dot < 0 ? undefined : base.slice(dot + 1).toLowerCase();
}

const lastSuffix = (name: string): string => name.slice(name.lastIndexOf(".") + 1).toLowerCase();

/** True for members that hold audio, by their last suffix. */
export const isAudioName = (name: string): boolean => (audioSuffixes as readonly string[]).includes(lastSuffix(name));

/** The name up to the first period of its last part: what WebDataset groups by. */
export function webdatasetKey(name: string): string {
  const slash = name.lastIndexOf("/") + 1;
  const dot = name.indexOf(".", slash + 1);
  return dot < 0 ? name : name.slice(0, dot);
}

/** A sample: its key and its members by suffix. */
export interface WebdatasetSample {
  key: string;
  audio: TarMember | undefined;
  json: TarMember | undefined;
  text: TarMember | undefined;
}

/** Samples of members in order; a member that repeats a suffix of its sample starts no new one and is left out. */
export function groupSamples(members: readonly TarMember[]): WebdatasetSample[] {
  const samples: WebdatasetSample[] = [];
  let rank = Number.POSITIVE_INFINITY;
  for (const member of members) {
    const suffix = suffixOf(member.name);
    if (suffix === undefined) continue; // WebDataset passes over names without a suffix too
    const key = webdatasetKey(member.name);
    let sample = samples.at(-1);
    if (sample?.key !== key) {
      sample = { key, audio: undefined, json: undefined, text: undefined };
      samples.push(sample);
      rank = Number.POSITIVE_INFINITY;
    }
    const preferred = (audioSuffixes as readonly string[]).indexOf(lastSuffix(member.name));
    if (preferred >= 0 && preferred < rank) {
      sample.audio = member;
      rank = preferred;
    } else if (suffix === "json") sample.json ??= member;
    else if ((textSuffixes as readonly string[]).includes(suffix)) sample.text ??= member;
  }
  return samples;
}

/**
 * A sample as a manifest's entry: the json member's keys are those of a manifest, or WebDataset's `transcript`; a txt member is the text.
 * @param duration seconds of the audio, where neither member says it
 * @throws ManifestError MANIFEST_NOT_AN_OBJECT for json that is none, and what a manifest's line would throw
 */
export function sampleEntry(sample: WebdatasetSample, tar: string, { json, text }: { json: Buffer | undefined; text: Buffer | undefined }, duration?: number): ManifestEntry {
  const audio = sample.audio as TarMember;
  const path = `${tar}:${sample.json?.name ?? audio.name}`;
  let value: Record<string, unknown> = {};
  if (json) {
    let parsed: unknown;
    const written = json.toString("utf8");
    try {
      parsed = mayBeTooDeep(written) ? undefined : JSON.parse(written);
    } catch {
      parsed = undefined;
    }
    if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed))
      throw new ManifestError("MANIFEST_NOT_AN_OBJECT", { at: path, message: "the json member does not hold a JSON object", fix: "write the keys of a manifest's line into it" });
    value = { ...(parsed as Record<string, unknown>) };
  }
  if (text && typeof value["text"] !== "string") value["text"] = text.toString("utf8").trim();
  if (typeof value["text"] !== "string") value["text"] = typeof value["transcript"] === "string" ? value["transcript"] : "";
  if (typeof value["duration"] !== "number" && duration !== undefined) value["duration"] = duration;
  value["audio_filepath"] = audio.name;
  const entry = parseEntry({ value, line: 0, path }, { needDuration: false });
  return { ...entry, origin: path };
}
