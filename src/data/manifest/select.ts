/** Lines of manifests chosen and written again: filter, sample, merge. What is not changed is written as it was read, byte for byte. */
import { ConfigError } from "../../util/errors.ts";
import { HashTable, hashText, NumberList } from "../../util/hash.ts";
import { Random } from "../../util/random.ts";
import { isSkipped } from "./entry.ts";
import type { Condition } from "./expression.ts";
import type { ManifestSpec } from "./inputs.ts";
import { audioOf, durationOf } from "./keys.ts";
import { type ManifestLine, type ReadLinesOptions, readManifestBatches } from "./lines.ts";
import { type PathStyle, Rebaser } from "./rebase.ts";
import { withReplay } from "./replay.ts";
import { withWriters } from "./writer.ts";

/** What every command that writes manifests takes. */
export interface SelectOptions extends ReadLinesOptions {
  /** How paths are written where the output lies in another folder. */
  paths?: PathStyle;
  /** Called with the number of lines of each block. */
  onProgress?: (lines: number) => void;
}

/** Utterances and seconds on both sides of a choice. */
export interface Selection {
  kept: number;
  keptSeconds: number;
  dropped: number;
  droppedSeconds: number;
}

const none = (): Selection => ({ kept: 0, keptSeconds: 0, dropped: 0, droppedSeconds: 0 });

function count(selection: Selection, line: ManifestLine, kept: boolean): void {
  const seconds = durationOf(line.value) ?? 0;
  if (kept) {
    selection.kept++;
    selection.keptSeconds += seconds;
  } else {
    selection.dropped++;
    selection.droppedSeconds += seconds;
  }
}

/** Writes the lines for which `condition` holds to `out`, and the others to `rejected` where that is given. Order is kept. */
export async function filterManifest(
  spec: ManifestSpec,
  out: string,
  condition: Condition,
  { rejected, onProgress, paths = "auto", ...options }: SelectOptions & { rejected?: string } = {},
): Promise<Selection> {
  const selection = none();
  const rebase = new Rebaser(out, paths);
  const rebaseRejected = new Rebaser(rejected ?? out, paths);
  return withWriters(rejected === undefined ? [out] : [out, rejected], async ([kept, others]) => {
    for await (const lines of readManifestBatches(spec, options)) {
      for (const line of lines) {
        const keep = condition(line.value);
        count(selection, line, keep);
        const full = keep ? kept?.writeText(rebase.text(line)) : others?.writeText(rebaseRejected.text(line));
        if (full) await full;
      }
      onProgress?.(lines.length);
    }
    return selection;
  });
}

/** How much to sample: one of them. */
export interface SampleSize {
  count?: number;
  ratio?: number;
  hours?: number;
}

/**
 * Chooses utterances at random, every one with the same chance, and keeps their order. `hours` takes in random order what still fits.
 * @throws ConfigError CONFIG_BAD_VALUE unless exactly one size is given
 */
export async function sampleManifest(spec: ManifestSpec, out: string, size: SampleSize & { seed?: number }, options: SelectOptions = {}): Promise<Selection> {
  const { count: wanted, ratio, hours, seed = 0 } = size;
  if ([wanted, ratio, hours].filter((value) => value !== undefined).length !== 1)
    throw new ConfigError("CONFIG_BAD_VALUE", { message: "the size of the sample is not given once", fix: "give one of --count, --ratio and --hours" });
  const { onProgress, paths = "auto", ...reading } = options;
  return withReplay(spec, async (source) => {
    const durations = new NumberList();
    let total = 0;
    for await (const lines of readManifestBatches(source, reading))
      for (const { value } of lines)
        if (!isSkipped(value)) {
          total++;
          if (hours !== undefined) durations.push(durationOf(value) ?? 0);
        }
    const chosen = hours === undefined ? undefined : chooseHours(durations.take(), hours * 3600, new Random(seed));
    let left = total;
    let needed = Math.min(total, wanted ?? Math.round((ratio ?? 0) * total));
    const random = new Random(seed);
    const selection = none();
    const rebase = new Rebaser(out, paths);
    return withWriters([out], async ([writer]) => {
      let index = 0;
      for await (const lines of readManifestBatches(source, reading.onError ? { onError: () => {} } : {})) {
        for (const line of lines) {
          if (isSkipped(line.value)) continue;
          // Selection sampling (Knuth, TAOCP 2, algorithm S): each subset of the wanted size has the same chance.
          const keep = chosen === undefined ? random.uniform() * left < needed : chosen[index] === 1;
          index++;
          left--;
          if (keep) needed--;
          count(selection, line, keep);
          const full = keep ? writer?.writeText(rebase.text(line)) : undefined;
          if (full) await full;
        }
        onProgress?.(lines.length);
      }
      return selection;
    });
  });
}

function chooseHours(durations: Float64Array, seconds: number, random: Random): Uint8Array {
  const order = new Uint32Array(durations.length).map((_, i) => i);
  shuffle(order, random);
  const chosen = new Uint8Array(durations.length);
  let left = seconds;
  for (const i of order) {
    const duration = durations[i] as number;
    if (duration > left) continue;
    chosen[i] = 1;
    left -= duration;
  }
  return chosen;
}

/** Fisher and Yates on a typed array. */
export function shuffle(items: Uint32Array, random: Random): void {
  for (let i = items.length - 1; i > 0; i--) {
    const j = random.integer(0, i + 1);
    const t = items[i] as number;
    items[i] = items[j] as number;
    items[j] = t;
  }
}

/** Writes manifests one after another to `out`; `deduplicate` leaves out what names the same audio, offset and duration again. */
export async function mergeManifests(
  spec: ManifestSpec,
  out: string,
  { deduplicate = false, onProgress, paths = "auto", ...options }: SelectOptions & { deduplicate?: boolean } = {},
): Promise<Selection> {
  const selection = none();
  const rebase = new Rebaser(out, paths);
  const seen = new HashTable();
  return withWriters([out], async ([writer]) => {
    for await (const lines of readManifestBatches(spec, options)) {
      for (const line of lines) {
        let keep = true;
        if (deduplicate) {
          const { value, path } = line;
          const { high, low } = hashText(JSON.stringify([rebase.identity(audioOf(value), path), value["offset"] ?? 0, value["duration"] ?? null]));
          const before = seen.size;
          keep = seen.add(high, low) === before;
        }
        count(selection, line, keep);
        const full = keep ? writer?.writeText(rebase.text(line)) : undefined;
        if (full) await full;
      }
      onProgress?.(lines.length);
    }
    return selection;
  });
}
