/** Manifests that are read twice: standard input is kept in a file meanwhile. */
import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { readBytes } from "../../formats/byteSource.ts";
import { type ManifestSpec, manifestPaths } from "./inputs.ts";

/** Calls `body` with paths that can be read more than once. */
export async function withReplay<T>(spec: ManifestSpec, body: (paths: string[]) => Promise<T>): Promise<T> {
  const paths = manifestPaths(spec);
  if (!paths.includes("-")) return body(paths);
  const folder = mkdtempSync(join(tmpdir(), "serac-stdin-"));
  try {
    const copy = join(folder, "stdin");
    await pipeline(Readable.from(readBytes("-"), { objectMode: false }), createWriteStream(copy));
    return await body(paths.map((path) => (path === "-" ? copy : path)));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
