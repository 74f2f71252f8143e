/** A folder of small WAV files and manifests for the tests of manifests. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll } from "vitest";
import { serializeWav } from "../../../src/formats/index.ts";

export interface Corpus {
  folder: string;
  /** Writes a file below the folder. @returns its path */
  write(name: string, content: string | Uint8Array): string;
  /** Writes a WAV file of so many samples. @returns its path */
  wav(name: string, options?: { samples?: number; rate?: number; channels?: number }): string;
  /** Writes a manifest of objects or lines. @returns its path */
  manifest(name: string, lines: readonly (object | string)[]): string;
  /** The lines of a file. */
  lines(path: string): string[];
}

/** Removed after the tests of the file. */
export function corpus(): Corpus {
  const folder = mkdtempSync(join(tmpdir(), "serac-manifest-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const write = (name: string, content: string | Uint8Array): string => {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    return path;
  };
  return {
    folder,
    write,
    wav: (name, { samples = 8000, rate = 8000, channels = 1 } = {}) =>
      write(name, serializeWav({ sampleRate: rate, channels: Array.from({ length: channels }, () => Float32Array.from({ length: samples }, (_, i) => Math.sin(i / 9) / 2)) })),
    manifest: (name, lines) => write(name, lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("")),
    lines: (path) =>
      readFileSync(path, "utf8")
        .trimEnd()
        .split("\n")
        .filter((line) => line !== ""),
  };
}
