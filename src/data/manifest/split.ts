/**
 * Manifests split in parts at random, by number, share or hours. With a key (speaker, audio, any other) all lines of one value go to one
 * part, so that nothing leaks. The seed decides. Two passes; memory is about 13 bytes a line, 30 with a key of which every line has another value.
 */
import { ConfigError } from "../../util/errors.ts";
import { HashTable, hashText, NumberList } from "../../util/hash.ts";
import { Random } from "../../util/random.ts";
import { isSkipped } from "./entry.ts";
import { keyValue } from "./expression.ts";
import type { ManifestSpec } from "./inputs.ts";
import { durationOf } from "./keys.ts";
import { type ManifestLine, readManifestBatches } from "./lines.ts";
import { Rebaser } from "./rebase.ts";
import { withReplay } from "./replay.ts";
import { type SelectOptions, shuffle } from "./select.ts";
import { withWriters } from "./writer.ts";

/** How much a part gets: a share of the utterances, a number of them, hours, or what the others leave. */
export interface SplitPart {
  /** The file. */
  path: string;
  amount: { ratio: number } | { count: number } | { hours: number } | "rest";
}

export interface SplitOptions extends SelectOptions {
  /** Lines with the same value of this key stay together; undefined lets each line go alone. */
  by?: string;
  seed?: number;
}

/** What became of the lines. */
export interface SplitResult {
  parts: { path: string; utterances: number; seconds: number; groups: number }[];
  /** What no part had room for. */
  left: { utterances: number; seconds: number };
  /** Lines that `_skipme` leaves out. */
  skipped: number;
  /** Lines without a value of the key, each of which went alone. */
  withoutKey: number;
}

const unassigned = 255;

function checkParts(parts: readonly SplitPart[]): void {
  const bad = (message: string, fix: string): never => {
    throw new ConfigError("CONFIG_BAD_VALUE", { message, fix });
  };
  if (parts.length < 1 || parts.length >= unassigned) bad(`${parts.length} parts, expected 1 to ${unassigned - 1}`, "name the parts as train=0.9,valid=0.1");
  if (parts.filter(({ amount }) => amount === "rest").length > 1) bad("several parts get the rest", "give all but one of them a size");
  const paths = parts.map(({ path }) => path);
  const twice = paths.find((path, i) => paths.indexOf(path) !== i);
  if (twice !== undefined) bad(`two parts have the same name, ${twice}`, "name each part differently");
  let sum = 0;
  for (const { path, amount } of parts) {
    if (amount === "rest") continue;
    const [size] = Object.values(amount) as [number];
    if (!(size >= 0 && Number.isFinite(size))) bad(`the size of ${path} is ${size}`, "give a share from 0 to 1, a number, hours, or rest");
    if ("ratio" in amount) sum += size;
  }
  if (sum > 1 + 1e-9) bad(`the shares add up to ${sum}`, "let them add up to 1 or less");
}

/** The groups of a manifest: the lines of one value of the key, or single lines. */
class Groups {
  readonly counts = new NumberList(Uint32Array);
  readonly seconds = new NumberList(Float32Array); // for choosing; sums that are told are of doubles
  total = 0;
  totalSeconds = 0;
  withoutKey = 0;
  private readonly by: string | undefined;
  private readonly table = new HashTable();
  private singles = 0;

  constructor(by: string | undefined) {
    this.by = by;
  }

  /** The hash of the line's group; lines are numbered from 0 where they have none of their own. */
  private hash(line: ManifestLine): { high: number; low: number } {
    const value = keyValue(line.value, this.by as string);
    if (value !== undefined && value !== null && value !== "") return hashText(JSON.stringify(value));
    this.withoutKey++;
    return hashText(`\u0000line ${this.singles++}`);
  }

  add(line: ManifestLine): void {
    const seconds = durationOf(line.value) ?? 0;
    this.total++;
    this.totalSeconds += seconds;
    let group = this.counts.length;
    if (this.by !== undefined) {
      const { high, low } = this.hash(line);
      group = this.table.add(high, low);
    }
    if (group === this.counts.length) {
      this.counts.push(1);
      this.seconds.push(seconds);
    } else {
      this.counts.add(group, 1);
      this.seconds.add(group, seconds);
    }
  }

  /** Begins the second pass. */
  rewind(): void {
    this.singles = 0;
    this.withoutKey = 0;
  }

  /** The group of a line, in the order of the first pass. */
  find(line: ManifestLine, index: number): number {
    if (this.by === undefined) return index;
    const { high, low } = this.hash(line);
    return this.table.find(high, low);
  }
}

/** @returns the part of each group */
function assign(groups: Groups, parts: readonly SplitPart[], random: Random): Uint8Array {
  const count = groups.counts.length;
  const order = new Uint32Array(count);
  for (let i = 0; i < count; i++) order[i] = i;
  shuffle(order, random);
  const assigned = new Uint8Array(count).fill(unassigned);
  const rest = parts.findIndex(({ amount }) => amount === "rest");
  const ratios = parts.reduce((sum, { amount }) => sum + (amount !== "rest" && "ratio" in amount ? amount.ratio : 0), 0);
  // Shares that make up the whole get every line; the last part then takes what rounding leaves.
  const complete = rest < 0 && ratios > 1 - 1e-9;
  const targets = parts.map(({ amount }) => {
    if (amount === "rest") return { size: 0, seconds: false };
    if ("hours" in amount) return { size: amount.hours * 3600, seconds: true };
    return { size: "ratio" in amount ? amount.ratio * groups.total : amount.count, seconds: false };
  });
  if (count === groups.total && targets.every(({ seconds }) => !seconds)) {
    // Single lines: exact numbers, rounded at the borders between parts.
    let at = 0;
    let border = 0;
    parts.forEach((_, part) => {
      if (part === rest) return;
      border += (targets[part] as { size: number }).size;
      const end = complete && part === parts.length - 1 ? count : Math.min(count, Math.round(border));
      for (; at < end; at++) assigned[order[at] as number] = part;
    });
    if (rest >= 0) for (; at < count; at++) assigned[order[at] as number] = rest;
    return assigned;
  }
  const filled = parts.map(() => 0);
  for (const group of order) {
    const lines = groups.counts.get(group);
    const seconds = groups.seconds.get(group);
    let best = -1;
    let need = 0;
    targets.forEach((target, part) => {
      if (part === rest || target.size === 0) return;
      const size = target.seconds ? seconds : lines;
      const missing = target.size - (filled[part] as number);
      // Hours are a limit; shares may be passed by half a group, which is nearer than to stay below.
      if (target.seconds ? size > missing : size / 2 > missing) return;
      if (missing / target.size > need) [best, need] = [part, missing / target.size];
    });
    if (best < 0) best = rest;
    if (best < 0 && complete) {
      let most = Number.NEGATIVE_INFINITY;
      targets.forEach(({ size }, part) => {
        const missing = size - (filled[part] as number);
        if (missing > most) [best, most] = [part, missing];
      });
    }
    if (best < 0) continue;
    assigned[group] = best;
    filled[best]! += (targets[best] as { seconds: boolean }).seconds ? seconds : lines;
  }
  return assigned;
}

/**
 * Splits manifests. Each part keeps the order of its lines and their bytes.
 * @throws ConfigError CONFIG_BAD_VALUE for sizes that cannot be; ManifestError and FormatError of reading and writing
 */
export async function splitManifest(
  spec: ManifestSpec,
  parts: readonly SplitPart[],
  { by, seed = 0, paths = "auto", onProgress, ...reading }: SplitOptions = {},
): Promise<SplitResult> {
  checkParts(parts);
  return withReplay(spec, async (source) => {
    const groups = new Groups(by);
    let skipped = 0;
    for await (const lines of readManifestBatches(source, reading)) {
      for (const line of lines) {
        if (isSkipped(line.value)) skipped++;
        else groups.add(line);
      }
      onProgress?.(lines.length);
    }
    const assigned = assign(groups, parts, new Random(seed));
    const result: SplitResult = {
      parts: parts.map(({ path }) => ({ path, utterances: 0, seconds: 0, groups: 0 })),
      left: { utterances: 0, seconds: 0 },
      skipped,
      withoutKey: groups.withoutKey,
    };
    for (let group = 0; group < assigned.length; group++) {
      const part = result.parts[assigned[group] as number];
      if (part) part.groups++;
    }
    const rebase = parts.map(({ path }) => new Rebaser(path, paths));
    groups.rewind();
    return withWriters(
      parts.map(({ path }) => path),
      async (writers) => {
        let index = 0;
        for await (const lines of readManifestBatches(source, reading.onError ? { onError: () => {} } : {})) {
          for (const line of lines) {
            if (isSkipped(line.value)) continue;
            const part = assigned[groups.find(line, index++)] as number;
            const sum = result.parts[part] ?? result.left;
            sum.utterances++;
            sum.seconds += durationOf(line.value) ?? 0;
            const full = part === unassigned ? undefined : writers[part]?.writeText((rebase[part] as Rebaser).text(line));
            if (full) await full;
          }
          onProgress?.(lines.length);
        }
        return result;
      },
    );
  });
}
