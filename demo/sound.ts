/** Sound as mono float samples: files, silence and joints. */
import { readFile, rename, writeFile } from "node:fs/promises";
import { parseWav, serializeWav } from "../src/formats/wav.ts";

/** The rate of everything that is trained on. */
export const sampleRate = 16_000;

export interface Sound {
  samples: Float32Array;
  sampleRate: number;
}

/** Reads a WAV file, its first channel. */
export async function readSound(path: string): Promise<Sound> {
  const { channels, sampleRate: rate } = parseWav(await readFile(path), { at: path });
  return { samples: channels[0] ?? new Float32Array(0), sampleRate: rate };
}

/** Writes a 16-bit mono WAV file, beside and renamed. Samples outside of -1 to 1 are clipped. */
export async function writeSound(path: string, { samples, sampleRate: rate }: Sound): Promise<void> {
  await writeFile(`${path}.part`, serializeWav({ sampleRate: rate, channels: [samples] }));
  await rename(`${path}.part`, path);
}

/** The largest absolute sample. */
export function peak(samples: Float32Array): number {
  let largest = 0;
  for (const x of samples) largest = Math.max(largest, Math.abs(x));
  return largest;
}

/** Cuts what is quieter than 1 % of the peak from both ends, but for `keep` seconds. */
export function trimSilence({ samples, sampleRate: rate }: Sound, keep: number): Float32Array {
  const threshold = 0.01 * peak(samples);
  let start = 0;
  let end = samples.length;
  while (start < end && Math.abs(samples[start] as number) <= threshold) start++;
  while (end > start && Math.abs(samples[end - 1] as number) <= threshold) end--;
  const margin = Math.round(keep * rate);
  return samples.slice(Math.max(0, start - margin), Math.min(samples.length, end + margin));
}

/** The parts one after the other, with `gaps[i]` seconds of silence before part i and the last gap after the last part. */
export function joinWithGaps(parts: readonly Float32Array[], gaps: readonly number[], rate: number): Float32Array {
  const silences = gaps.map((gap) => Math.round(gap * rate));
  const out = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0) + silences.reduce((sum, gap) => sum + gap, 0));
  let at = 0;
  parts.forEach((part, i) => {
    at += silences[i] ?? 0;
    out.set(part, at);
    at += part.length;
  });
  return out;
}
