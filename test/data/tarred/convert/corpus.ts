/** A small corpus of WAV files for the tests of the converter: names, lengths and times are the same on every run. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { afterAll } from "vitest";
import { serializeWav } from "../../../../src/formats/wav.ts";
import { Random } from "../../../../src/util/random.ts";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

/** @returns a new folder that goes away with the tests */
export function newFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "serac-tar-")));
  folders.push(folder);
  return folder;
}

/** The bytes of a WAV file of noise. */
export function wavBytes(seconds: number, seed = 1, sampleRate = 8000): Uint8Array {
  const random = new Random(seed);
  const samples = Float32Array.from({ length: Math.round(seconds * sampleRate) }, () => Math.round((random.uniform() - 0.5) * 20000) / 32768);
  return serializeWav({ sampleRate, channels: [samples] });
}

/** Writes a file, its folders and its time. */
export function put(path: string, bytes: Uint8Array | string): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, bytes);
  utimesSync(path, 1_700_000_000.25, 1_700_000_000.25);
  return path;
}

/** A manifest with `count` utterances of their own files, of 0.1 to 0.5 s. @returns its path */
export function corpus(folder: string, count: number): string {
  const lines = Array.from({ length: count }, (_, i) => {
    const duration = 0.1 + (i % 5) * 0.1;
    const path = put(join(folder, "audio", `s${i % 3}`, `u${i}.wav`), wavBytes(duration, i));
    return JSON.stringify({ audio_filepath: path, duration: Math.round(duration * 10) / 10, text: `words ${i}`, lang: "en" });
  });
  return put(join(folder, "train.json"), `${lines.join("\n")}\n`);
}

/** All files below a folder by their relative paths; what names times is left out. */
export function tree(folder: string): Record<string, string> {
  const files: Record<string, string> = {};
  const walk = (at: string): void => {
    for (const name of readdirSync(at)) {
      const path = join(at, name);
      if (statSync(path).isDirectory()) walk(path);
      else
        files[relative(folder, path)] = readFileSync(path, "latin1")
          .replace(/^created_datetime: .*$/m, "")
          .replace(/"created": "[^"]*"/, `"created": ""`);
    }
  };
  walk(folder);
  return files;
}
