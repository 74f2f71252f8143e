/** Where the audio of a manifest lies. Source: NeMo, manifest.py get_full_path; the order is the readers', not the converter's. */
import { statSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join, relative, resolve } from "node:path";

/**
 * What a path was taken from: `manifest` beside the manifest, `workingDirectory`, `member` of a tar file, a `url`.
 * `nowhere`: neither beside the manifest nor in the working directory, and then the path is the one beside the manifest.
 */
export type PathSource = "absolute" | "manifest" | "workingDirectory" | "member" | "url" | "nowhere";

/** A path and where it was found. */
export interface ResolvedPath {
  path: string;
  from: PathSource;
}

const url = /^(?:[A-Za-z][A-Za-z0-9+.-]*:\/\/|pipe:)/;

/** True for a file that is there. */
export function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
  } catch {
    return false; // a name that is too long, or a folder on the way that is a file
  }
}

/** True for manifests of tarred datasets by their names, the paths in which are members: NeMo's rule, its versions and `.jsonl` included. */
export function isTarredManifest(manifest: string): boolean {
  const name = basename(manifest).replace(/\.gz$/, "");
  return (
    /^tarred_audio_manifest(?:_version_\d+)?\.jsonl?$/.test(name) ||
    (/(?:^|\/)sharded_manifests\/[^/]+$/.test(manifest) && /^manifest_\d+\.jsonl?(?:\.gz)?$/.test(basename(manifest)))
  );
}

/**
 * Beside the manifest first, then the working directory. What names a store (s3://, http://, pipe:) stays as it is.
 * @param manifest the path of the manifest; "-" or "stdin" has no folder, so that only the working directory is left
 */
export function resolveAudioPath(audio: string, manifest: string): ResolvedPath {
  if (isAbsolute(audio)) return { path: audio, from: "absolute" };
  if (url.test(audio)) return { path: audio, from: "url" };
  if (audio === "~" || audio.startsWith("~/")) return { path: join(homedir(), audio.slice(1)), from: "absolute" };
  const standard = manifest === "-" || manifest === "stdin";
  if (!standard && !audio.includes("/") && isTarredManifest(manifest)) return { path: audio, from: "member" };
  const beside = standard ? resolve(audio) : resolve(dirname(manifest), audio);
  if (!standard && isFile(beside)) return { path: beside, from: "manifest" };
  const here = resolve(audio);
  if (isFile(here)) return { path: here, from: "workingDirectory" };
  return { path: beside, from: "nowhere" };
}

/**
 * How a manifest in another folder names the same audio. Paths beside the old manifest become relative to the new one; absolute paths, members,
 * URLs and what is found in the working directory stay.
 * @param style "absolute" gives absolute paths, "relative" turns these and those of the working directory into relative ones too
 */
export function rebasePath(audio: string, from: string, to: string, style: "auto" | "absolute" | "relative" = "auto"): string {
  const found = resolveAudioPath(audio, from);
  if (found.from === "url" || found.from === "member") return audio;
  if (style === "absolute") return found.path;
  if (style === "auto" && (found.from === "absolute" || found.from === "workingDirectory")) return audio;
  return relative(dirname(resolve(to)), found.path);
}
