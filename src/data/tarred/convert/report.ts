/** What a conversion tells while it runs, and what it comes to. */
import type { ShardResult } from "./shard.ts";

/** Who is told what happens. */
export interface ConvertListener {
  /** A line of talk. */
  say?: (line: string) => void;
  /** How many entries there are to write, before the first is. */
  begin?: (entries: number) => void;
  /** How many entries more are written. */
  entries?: (count: number) => void;
  /** A shard is finished and recorded. */
  shard?: (result: ShardResult) => void;
  signal?: AbortSignal;
}

/** What a conversion came to. */
export interface ConvertReport {
  target: string;
  /** Bounds of the bucket, where there is more than one. */
  minDuration: number | null;
  maxDuration: number | null;
  /** Lines that passed the filters, and their seconds. */
  kept: number;
  keptSeconds: number;
  filtered: number;
  filteredSeconds: number;
  /** Lines that are in no shard though they passed: the division's remainder, audio that cannot be read. */
  dropped: number;
  unreadable: number;
  /** Members that got another name than NeMo's, and utterances whose audio ends early. */
  renamed: number;
  short: number;
  shards: number;
  entriesPerShard: number;
  /** Entries that were written; 0 for a dry run. */
  written: number;
  /** Shards that an earlier run had finished. */
  resumed: number;
  seed: number | null;
  bins: number[];
}

/** The table that NeMo's script prints before it begins. */
export function figures({ minDuration, maxDuration, kept, keptSeconds, filtered, filteredSeconds, shards, entriesPerShard, dropped }: ConvertReport): string[] {
  const rows: [string, string][] = [
    ["Min duration", minDuration === null ? "none" : `${minDuration} s`],
    ["Max duration", `${maxDuration} s`],
    ["Entries after filtration", `${kept} / ${kept + filtered}`],
    ["Duration after filtration", `${keptSeconds.toFixed(2)} / ${(keptSeconds + filteredSeconds).toFixed(2)} s`],
    ["Shards", String(shards)],
    ["Entries per shard", String(entriesPerShard)],
    ["Remainder entries", `${dropped}${dropped > 0 ? " (dropped; --keep_remainder keeps them)" : ""}`],
  ];
  return rows.map(([name, value]) => `  ${`${name}:`.padEnd(28)}${value}`);
}
