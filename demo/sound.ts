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

/**
 * Changes the sampling rate by a windowed sinc (Hann, 12 zero crossings a side).
 * Said to be of rate `from * speed`, it is also how a voice is made higher and faster (speed > 1) or lower and slower.
 */
export function convertRate(samples: Float32Array, from: number, to: number): Float32Array {
  if (from === to) return samples;
  const length = Math.round((samples.length * to) / from);
  const out = new Float32Array(length);
  const cutoff = Math.min(1, to / from) * 0.94;
  const halfWidth = Math.ceil(12 / cutoff);
  const phases = 128; // the filter is tabulated at 128 offsets between two samples
  const table = new Float32Array((phases + 1) * 2 * halfWidth);
  for (let phase = 0; phase <= phases; phase++) {
    for (let k = 0; k < 2 * halfWidth; k++) {
      const x = k - halfWidth + 1 - phase / phases;
      const window = Math.abs(x) < halfWidth ? 0.5 + 0.5 * Math.cos((Math.PI * x) / halfWidth) : 0;
      const t = Math.PI * x * cutoff;
      table[phase * 2 * halfWidth + k] = window * cutoff * (Math.abs(t) < 1e-9 ? 1 : Math.sin(t) / t);
    }
  }
  for (let i = 0; i < length; i++) {
    const position = (i * from) / to;
    const left = Math.floor(position);
    const row = Math.round((position - left) * phases) * 2 * halfWidth;
    const start = left - halfWidth + 1;
    const first = Math.max(0, -start);
    const last = Math.min(2 * halfWidth, samples.length - start);
    let sum = 0;
    for (let k = first; k < last; k++) sum += (samples[start + k] as number) * (table[row + k] as number);
    out[i] = sum;
  }
  return out;
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
