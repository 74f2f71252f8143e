/** Lines for a manifest that lies in another folder than the one they come from: relative paths keep naming the same files. */
import { dirname, resolve } from "node:path";
import { dumpPython, type PyObject, parsePython } from "../../formats/pythonJson.ts";
import { audioKeys, featureKeys, rttmKeys, videoKeys } from "./keys.ts";
import type { ManifestLine } from "./lines.ts";
import { rebasePath, resolveAudioPath } from "./paths.ts";

/** `auto`: relative paths are rewritten where the folder changes. `absolute`, `relative`: all are. `keep`: none is. */
export type PathStyle = "auto" | "absolute" | "relative" | "keep";

const pathKeys = [...audioKeys.filter((key) => key !== "context"), ...videoKeys, ...rttmKeys, ...featureKeys, "text_filepath"];

/** Rewrites lines for the manifest `to`. On standard output, which has no folder, `auto` keeps paths. */
export class Rebaser {
  private readonly to: string;
  private readonly style: PathStyle;
  private readonly folder: string;

  constructor(to: string, style: PathStyle = "auto") {
    this.to = to === "-" ? resolve("stdout") : to;
    this.style = to === "-" && style === "auto" ? "keep" : style;
    this.folder = dirname(resolve(this.to));
  }

  /** The line's text: as it was where no path changes. */
  text({ text, value, path }: ManifestLine): string {
    const { style } = this;
    if (style === "keep" || (style === "auto" && dirname(resolve(path)) === this.folder)) return text;
    let changed: PyObject | undefined;
    for (const key of pathKeys) {
      const old = value[key];
      if (typeof old !== "string" && !Array.isArray(old)) continue;
      const fresh = typeof old === "string" ? this.path(old, path) : old.map((one: unknown) => (typeof one === "string" ? this.path(one, path) : (one as string)));
      if (JSON.stringify(fresh) === JSON.stringify(old)) continue;
      changed ??= parsePython(text) as PyObject;
      changed.set(key, fresh);
    }
    return changed === undefined ? text : dumpPython(changed);
  }

  private path(path: string, manifest: string): string {
    return path === "" ? path : rebasePath(path, manifest, this.to, this.style === "keep" ? "auto" : this.style);
  }

  /** The file that a path means, for telling duplicates over several folders. */
  identity(audio: string | readonly string[] | undefined, manifest: string): string {
    if (audio === undefined) return "";
    return typeof audio === "string" ? resolveAudioPath(audio, manifest).path : audio.map((one) => resolveAudioPath(one, manifest).path).join("\n");
  }
}
