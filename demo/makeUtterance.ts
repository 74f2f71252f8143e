/** From takes and recordings to a finished file. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { resample } from "../src/audio/index.ts";
import { Random } from "../src/util/random.ts";
import { distort } from "./distort.ts";
import type { Utterance } from "./plan.ts";
import type { Sound } from "./sound.ts";
import { joinWithGaps, peak, readSound, sampleRate, trimSilence, writeSound } from "./sound.ts";

/** Takes by id: single digits are joined many times over, and a string is used a few times in a row. */
const kept = new Map<string, Float32Array>();
const mostKept = 2000; // about 100 MB

/**
 * Makes the file of an utterance, unless it is there already.
 * @param folder the output folder, which holds `takes/` too
 * @returns the length in seconds
 */
export async function makeUtterance(utterance: Utterance, folder: string): Promise<number> {
  const path = join(folder, `${utterance.id}.wav`);
  if (existsSync(path)) {
    const { samples, sampleRate: rate } = await readSound(path);
    return samples.length / rate;
  }
  const sound = await assemble(utterance, folder);
  await writeSound(path, sound);
  return sound.samples.length / sound.sampleRate;
}

/** Stops at what cannot be the text: an engine that said nothing, or something else. */
function checkTakes({ id, speaker, text }: Utterance, takes: readonly Float32Array[]): void {
  const seconds = takes.reduce((sum, take) => sum + take.length, 0) / sampleRate;
  const digits = text.split(" ").length;
  if (takes.some((take) => peak(take) === 0)) throw new Error(`${id} (${speaker}, "${text}") is silent`);
  if (seconds < 0.1 * digits || seconds > 3 + 2 * digits) throw new Error(`${id} (${speaker}, "${text}") lasts ${seconds.toFixed(2)} s`);
}

async function assemble(utterance: Utterance, folder: string): Promise<Sound> {
  const { set, parts, gaps, distortion } = utterance;
  if (set === "test-human") {
    const recordings = await Promise.all(parts.map(readSound));
    const rate = recordings[0]?.sampleRate as number;
    return {
      samples: joinWithGaps(
        recordings.map(({ samples }) => samples),
        gaps,
        rate,
      ),
      sampleRate: rate,
    };
  }
  const takes = await Promise.all(parts.map((id) => readTake(id, folder, gaps.length > 0)));
  checkTakes(utterance, takes);
  if (distortion === undefined) return { samples: joinWithGaps(takes, gaps, sampleRate), sampleRate };
  return { samples: await distort(joinWithGaps(takes, gaps, sampleRate), new Random(distortion)), sampleRate };
}

/** @returns a take at 16 kHz, without the silence around it if `trim` */
async function readTake(id: string, folder: string, trim: boolean): Promise<Float32Array> {
  const known = kept.get(id);
  if (known !== undefined) return known;
  const sound = await readSound(join(folder, "takes", `${id}.wav`));
  const samples = await resample(trim ? trimSilence(sound, 0.03) : sound.samples, sound.sampleRate, sampleRate);
  if (kept.size >= mostKept) kept.clear();
  kept.set(id, samples);
  return samples;
}
