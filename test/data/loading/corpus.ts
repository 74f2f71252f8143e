/** Small audio for the tests of loading: the waves that the golden numbers were made of. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeAudio } from "../../../src/audio/index.ts";
import type { SourceCut, Supervision } from "../../../src/data/index.ts";

export const rate = 16_000;

/** scale * (sin(0.07 i + phase) + 0.3 cos(0.000013 i^2 + phase)), i = 1..n */
export function wave(n: number, phase = 0, scale = 0.3): Float32Array {
  return Float32Array.from({ length: n }, (_, k) => scale * (Math.sin(0.07 * (k + 1) + phase) + 0.3 * Math.cos(0.000013 * (k + 1) * (k + 1) + phase)));
}

export const newFolder = (): string => mkdtempSync(join(tmpdir(), "serac-loading-"));

type Span = readonly [start: number, duration: number, text: string];

/** A cut of a whole file that is written here. */
export async function cutOf(
  folder: string,
  id: string,
  samples: Float32Array,
  { sampleRate = rate, spans }: { sampleRate?: number; spans?: readonly Span[] } = {},
): Promise<SourceCut> {
  const audioPath = join(folder, `${id}.wav`);
  await writeAudio(audioPath, { sampleRate, channels: [samples] }, { format: "wavfloat" });
  return describe(id, audioPath, samples.length / sampleRate, spans);
}

/** A cut of a file that may be there. */
export function describe(id: string, audioPath: string, duration: number, spans: readonly Span[] = [[0, duration, `text ${id}`]]): SourceCut {
  const supervisions = spans.map(
    ([start, length, text], i): Supervision => ({ id: `${id}-${i}`, start, duration: length, text, language: undefined, speaker: undefined, custom: {}, alignment: undefined }),
  );
  return {
    id,
    audioPath,
    offset: undefined,
    duration,
    text: spans.map(([, , text]) => text).join(" "),
    speaker: undefined,
    lang: undefined,
    speed: 1,
    tracks: undefined,
    gap: 0,
    origin: id,
    features: undefined,
    supervisions,
    sampleRate: rate,
    channel: undefined,
    custom: {},
  };
}
