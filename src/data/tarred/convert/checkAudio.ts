/** Looks at the audio of a whole plan before a byte is written: is all of it there, which names would meet, and does it fit on the disk. */
import { createHash } from "node:crypto";
import { statfsSync } from "node:fs";
import { fileError } from "../../../formats/atomic.ts";
import { ManifestError } from "../../../util/errors.ts";
import { NameTable } from "./check.ts";
import { selectRows } from "./entries.ts";
import type { Job } from "./jobs.ts";
import type { ConvertOptions } from "./options.ts";
import { type ConversionPlan, dropRows } from "./plan.ts";
import { type JobPool, threadsOf } from "./pool.ts";
import type { ConvertListener } from "./report.ts";

/** A plan whose audio was looked at. */
export interface CheckedPlan {
  /** Without the lines that were left out. */
  plan: ConversionPlan;
  /** Lines that were left out, because their audio cannot be read. */
  unreadable: number;
  /** Digest of them; "" where there are none. */
  leftOut: string;
  /** What the files take in tar files. */
  bytes: number;
  /** Paths (`pathKey`) that get a name of their own. */
  distinct: string[];
}

/** Examples of an error. */
const shown = 5;

/**
 * All threads look at parts of the plan.
 * @throws ManifestError TARRED_AUDIO where audio is missing, unless the options leave such lines out or only write manifests
 */
export async function checkAudio(plan: ConversionPlan, pool: JobPool, options: ConvertOptions, { say, signal }: ConvertListener): Promise<CheckedPlan> {
  const step = Math.max(250, Math.min(20_000, Math.ceil(plan.count / (8 * threadsOf(options.workers)))));
  const parts = Math.ceil(plan.count / step);
  const found: { bad: { row: number; why: string }[]; hashes: Uint32Array }[] = [];
  let bytes = 0;
  function* jobs(): Generator<Extract<Job, { kind: "check" }> & { part: number }> {
    for (let part = 0; part < parts; part++) {
      const rows = Uint32Array.from({ length: Math.min(step, plan.count - part * step) }, (_, i) => part * step + i);
      yield { kind: "check", part, rows: selectRows(plan, rows) };
    }
  }
  await pool.run(
    jobs(),
    (result, { part }) => {
      found[part] = { bad: result.bad.map(({ row, why }) => ({ row: row + part * step, why })), hashes: result.hashes };
      bytes += result.bytes;
    },
    { signal, here: true },
  );
  const names = new NameTable();
  for (const { hashes } of found) names.add(hashes);
  const bad = found.flatMap((part) => part.bad);
  if (bad.length > 0) {
    const examples = bad.slice(0, shown).map(({ why }) => `  ${why}`);
    if (bad.length > shown) examples.push(`  and ${bad.length - shown} more`);
    const text = `the audio of ${bad.length} of ${plan.count} lines cannot be tarred:\n${examples.join("\n")}\n`;
    if (options.onlyManifests) say?.(text.trimEnd());
    else if (options.skipUnreadable) say?.(`left out: ${text.trimEnd()}`);
    else
      throw new ManifestError("TARRED_AUDIO", {
        at: plan.manifests.map(({ path }) => path).join(","),
        message: text,
        fix: "mend these lines, or leave them out with --skip_unreadable",
      });
  }
  const drop = options.skipUnreadable && !options.onlyManifests ? bad.map(({ row }) => row) : [];
  const leftOut = drop.length === 0 ? "" : createHash("sha256").update(drop.join()).digest("hex");
  return { plan: dropRows(plan, drop), unreadable: drop.length, leftOut, bytes, distinct: names.distinct };
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/**
 * @param bytes what the sources take in tar files
 * @throws ManifestError TARRED_NO_SPACE where copies of them do not fit (what is encoded anew can become smaller, so there it is only said); FormatError FILE_UNWRITABLE
 */
export function checkSpace(bytes: number, { targetDir, onlyManifests, forceCodec, sliceWithOffset }: ConvertOptions, say: ConvertListener["say"]): void {
  if (onlyManifests) return;
  let free: number;
  try {
    const { bavail, bsize } = statfsSync(targetDir);
    free = bavail * bsize;
  } catch (error) {
    throw fileError(targetDir, "write", error);
  }
  if (bytes <= free) return;
  if (forceCodec !== undefined || sliceWithOffset) say?.(`The sources take ${megabytes(bytes)}, and the target's disk has ${megabytes(free)} left: the tar files may not fit.`);
  else
    throw new ManifestError("TARRED_NO_SPACE", {
      at: targetDir,
      message: `the tar files take ${megabytes(bytes)}, and the disk has ${megabytes(free)} left`,
      fix: "free space, or choose a --target_dir on another disk",
    });
}
