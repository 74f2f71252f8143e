/** The cuts of a tarred dataset, for samplers that read at random: each knows where its member lies. */
import type { Cut } from "../cut.ts";
import type { LeftOut } from "../filter.ts";
import type { ShardSpec } from "../shards.ts";
import { openTarred } from "./open.ts";
import { type Reason, reasons } from "./report.ts";

/** What leaves utterances out; the others only leave out members that nobody asked for. */
const losses: readonly Reason[] = ["unusableLines", "entriesWithoutMember", "damaged", "samplesWithoutAudio"];

/**
 * Opens a tarred dataset by `.idx` files, which are built where absent. What cannot be used is counted in `leftOut`, the rest is said.
 * @throws ConfigError, ManifestError (SHARDS_DIFFER, SHARDS_EMPTY), FormatError TAR_COMPRESSED
 */
export async function loadTarredCuts(
  { manifest, tars }: { manifest?: ShardSpec | undefined; tars: ShardSpec },
  { leftOut, say, needDuration = true }: { leftOut: LeftOut; say: (line: string) => void; needDuration?: boolean },
): Promise<Cut[]> {
  const { shards, report } = await openTarred({ manifest, tars, index: true, onDamaged: "skip", onWarning: say });
  for (const [reason, { count, examples }] of report.findings)
    if (losses.includes(reason)) leftOut.counts.set(reasons[reason], { count, example: examples[0] as string });
    else say(`${count} ${reasons[reason]} (first: ${examples[0]})`);
  for (const note of report.notes) say(note);
  const cuts = shards.flatMap(({ items }) => items.map(({ cut }) => cut));
  if (!needDuration) return cuts;
  return cuts.filter((cut) => {
    if (!Number.isNaN(cut.duration)) return true;
    leftOut.add("without a duration", cut.origin);
    return false;
  });
}
