/** Which entries of which manifest belong to which tar: by the numbers in the files' names, or by each line's shard_id. Source: NeMo, nemo_adapters.py. */
import { basename } from "node:path";
import { ManifestError } from "../../util/errors.ts";
import type { ManifestEntry } from "../manifest/entry.ts";

/** The number of a shard in a file's name: "audio_12.tar", "manifest_012.json.gz"; undefined where there is none. */
export function shardNumber(path: string): number | undefined {
  const digits = /^(?:.*[^\d])?(\d+)[^\d]*$/.exec(basename(path).replace(/\.(tar|tgz|tbz2?|txz|jsonl?|gz|bz2|xz)(?=\.|$)/g, ""))?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** Pairs of places in both lists. */
export interface Pairing {
  /** For each tar the manifest that is its own; undefined where one manifest is for all. */
  manifestOf: readonly number[] | undefined;
  /** True where neither numbers nor their order tell, so that the names of members must. */
  byName: boolean;
}

const listed = (numbers: readonly number[]): string => `${numbers.slice(0, 5).join(", ")}${numbers.length > 5 ? ", ..." : ""}`;

/** Each number with its occurrence: buckets in folders of their own may use the same numbers. */
function keysOf(paths: readonly string[]): (string | undefined)[] {
  const seen = new Map<number, number>();
  return paths.map((path) => {
    const id = shardNumber(path);
    if (id === undefined) return undefined;
    const occurrence = seen.get(id) ?? 0;
    seen.set(id, occurrence + 1);
    return `${id}#${occurrence}`;
  });
}

/**
 * Pairs sharded manifests with their tars. One manifest is for all tars; as many manifests as tars are paired by their numbers, and by
 * place where names have none.
 * @param allowByName what cannot be paired so is for all tars, instead of an error
 * @throws ManifestError SHARDS_DIFFER where a shard has no manifest or the other way round
 */
export function pairShards(manifests: readonly string[], tars: readonly string[], { allowByName = false }: { allowByName?: boolean } = {}): Pairing {
  if (manifests.length === 1) return { manifestOf: undefined, byName: false };
  const differ = (message: string, fix: string): never => {
    throw new ManifestError("SHARDS_DIFFER", { at: manifests[0] ?? "no manifest", message, fix });
  };
  const ofManifests = keysOf(manifests);
  const ofTars = keysOf(tars);
  if ([...ofManifests, ...ofTars].includes(undefined)) {
    if (manifests.length !== tars.length) {
      if (allowByName) return { manifestOf: undefined, byName: true };
      differ(
        `${manifests.length} manifests and ${tars.length} tars, and not all have a number in their names`,
        "give one manifest for all tars, or one for each in the same order",
      );
    }
    return { manifestOf: tars.map((_, i) => i), byName: false };
  }
  const places = new Map(ofManifests.map((key, i) => [key, i]));
  const without = tars.filter((_, i) => !places.has(ofTars[i]));
  const known = new Set(ofTars);
  const extra = manifests.filter((_, i) => !known.has(ofManifests[i]));
  const numbers = (paths: readonly string[]): string => listed(paths.map((path) => shardNumber(path) as number));
  if (without.length > 0 || extra.length > 0)
    differ(
      [
        ...(without.length > 0 ? [`tars ${numbers(without)} have no manifest (first: ${without[0]})`] : []),
        ...(extra.length > 0 ? [`manifests ${numbers(extra)} have no tar (first: ${extra[0]})`] : []),
      ].join("; "),
      "give the same shards to both; or one manifest with all entries",
    );
  return { manifestOf: ofTars.map((key) => places.get(key) as number), byName: false };
}

/**
 * Entries by tar, for one manifest over all tars. `shard_id` is compared with the numbers in the tars' names; where all of them are off by the
 * same amount (ids from 0, names from 1) they are shifted. Entries without an id, or with one that is no tar's, are in `loose`: their names decide.
 */
export function groupByShard<E extends Pick<ManifestEntry, "shardId">>(entries: readonly E[], tars: readonly string[]): { groups: E[][]; loose: E[]; shift: number } {
  const groups: E[][] = tars.map(() => []);
  const loose: E[] = [];
  const numbers = tars.map(shardNumber);
  const unique = new Set(numbers).size === numbers.length && !numbers.includes(undefined);
  const ids = [...new Set(entries.flatMap(({ shardId }) => shardId ?? []))];
  const known = new Set(numbers);
  let shift = 0;
  if (unique && ids.length > 0 && !ids.every((id) => known.has(id))) {
    const candidate = Math.min(...(numbers as number[])) - Math.min(...ids);
    if (ids.every((id) => known.has(id + candidate))) shift = candidate;
  }
  const places = new Map(numbers.map((number, i) => [number, i]));
  for (const entry of entries) {
    const place = unique && entry.shardId !== undefined ? places.get(entry.shardId + shift) : undefined;
    if (place === undefined) loose.push(entry);
    else (groups[place] as E[]).push(entry);
  }
  return { groups, loose, shift };
}
