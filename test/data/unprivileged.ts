/** Runs the command line as a user whom permissions bind: root, as whom containers run tests, may read and write everything. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/util/paths.ts";

const nobody = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
const serac = join(packageRoot, "bin/serac");

export interface Finished {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs `serac` with arguments as that user. */
export function seracUnprivileged(...args: string[]): Finished {
  return spawnSync(process.execPath, [serac, ...args], { ...nobody, encoding: "utf8", env: { ...process.env, HOME: "/nonexistent" } });
}

/** False where that user cannot run Node or read this package: then nothing can be shown. */
export const canTestPermissions = process.platform === "linux" && seracUnprivileged("--version").status === 0;

/** Sets modes of files and folders. */
export function modes(byPath: Record<string, number>): void {
  for (const [path, mode] of Object.entries(byPath)) chmodSync(path, mode);
}

/**
 * Runs a shell command in a mount name space of its own, where `mount` may be used.
 * @returns undefined where this system does not allow that
 */
export function withMounts(command: string): Finished | undefined {
  if (!existsSync("/usr/bin/unshare")) return undefined;
  const arguments_ = process.getuid?.() === 0 ? ["-m"] : ["-rm"];
  if (spawnSync("unshare", [...arguments_, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status !== 0) return undefined;
  return spawnSync("unshare", [...arguments_, "bash", "-c", command], { encoding: "utf8" });
}

/** The command line, for shells. */
export const seracCommand = `"${process.execPath}" "${serac}"`;
