/** Names of the checkpoints of an experiment: icefall's, each as .pt or .safetensors. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isErrnoException } from "../../util/errors.ts";

const extensions = [".pt", ".safetensors"] as const;

/** The file of a name where there is one in either format, else the name that would be written. */
function find(expDir: string, stem: string): string {
  const found = extensions.map((extension) => join(expDir, stem + extension)).find(existsSync);
  return found ?? join(expDir, `${stem}.pt`);
}

/** epoch-N.pt. */
export const epochPath = (expDir: string, epoch: number): string => find(expDir, `epoch-${epoch}`);
/** checkpoint-B.pt, of the state after B updates. */
export const batchPath = (expDir: string, batch: number): string => find(expDir, `checkpoint-${batch}`);

/** Numbers of the files of a kind in a folder, each once, the highest first. */
function numbers(expDir: string, kind: "epoch" | "checkpoint"): number[] {
  let names: string[] = [];
  try {
    names = readdirSync(expDir);
  } catch (error) {
    if (!isErrnoException(error)) throw error;
  }
  const pattern = new RegExp(`^${kind}-(\\d+)\\.(pt|safetensors)$`);
  const found = names.flatMap((name) => pattern.exec(name)?.[1] ?? []).map(Number);
  return [...new Set(found)].sort((a, b) => b - a);
}

/** Epochs that have a file, the last first; none where there is no folder. */
export const savedEpochs = (expDir: string): number[] => numbers(expDir, "epoch");

/** Update counts that have a checkpoint-B file, the highest first. */
export const savedBatches = (expDir: string): number[] => numbers(expDir, "checkpoint");

/**
 * Removes the oldest checkpoint-B files of up to `newest` updates, so that `keep` of them remain. Epoch files are never removed, nor what lies ahead of a run
 * that went on from an earlier checkpoint: counted among the newest, it would have the run's own files removed.
 */
export function removeOldCheckpoints(expDir: string, { newest, keep }: { newest: number; keep: number }): void {
  const upTo = savedBatches(expDir).filter((batch) => batch <= newest);
  for (const batch of upTo.slice(keep)) for (const extension of extensions) rmSync(join(expDir, `checkpoint-${batch}${extension}`), { force: true });
}
