/**
 * Writes the cuts of a corpus, with features or without, so that a run that was stopped goes on where it was: features are computed in pieces,
 * each of which is an archive and its cuts, put at their places whole. What is finished is left as it is.
 */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Features, fbank, speed as playFaster, readAudio } from "../../../audio/index.ts";
import { removeTemporaries, writeFileAtomic } from "../../../formats/atomic.ts";
import { ManifestError } from "../../../util/errors.ts";
import { ManifestWriter } from "../../manifest/writer.ts";
import { prefetch } from "../../prefetch.ts";
import { FeatureArchive } from "../features.ts";
import { numFrames } from "../times.ts";
import { type CutPlan, cutLine } from "./lines.ts";

/** How to write cuts. */
export interface WriteCutsOptions {
  /** The manifest: gzip by its suffix. */
  path: string;
  /** The folder of the archives; undefined writes no features. */
  featureFolder: string | undefined;
  numMelBins: number;
  /** Utterances that are computed at the same time. */
  jobs: number;
  onProgress?: ((cuts: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** Cuts of an archive. */
const pieceSize = 2000;

/** The features of a cut's audio. @throws AudioError; ManifestError CORPUS_BAD where the audio is not as long as its header said */
async function featuresOf({ item, speed, start, samples, window }: CutPlan, numMelBins: number): Promise<Features> {
  const { path, sampleRate } = item;
  const audio = await readAudio(path, window ? { offset: start / sampleRate, duration: samples / sampleRate } : {});
  const channel = audio.channels[0] as Float32Array;
  const played = speed === 1 ? channel : await playFaster(channel, speed, sampleRate);
  if (Math.abs(played.length - samples) > 2)
    throw new ManifestError("CORPUS_BAD", { at: path, message: `${played.length} samples, expected ${samples} by its header`, fix: "copy the file again" });
  let wave = played.subarray(0, samples);
  if (played.length < samples) {
    wave = new Float32Array(samples);
    wave.set(played);
    wave.fill(played.at(-1) ?? 0, played.length);
  }
  const features = await fbank(wave, { sampleRate, numMelBins });
  const expected = numFrames(samples / sampleRate, 0.01, sampleRate);
  if (features.frames === 0 || Math.abs(features.frames - expected) > 1)
    throw new ManifestError("CORPUS_BAD", { at: path, message: `${features.frames} frames of features, expected ${expected}`, fix: "leave the file out: it is too short" });
  return features;
}

/**
 * Writes a manifest of cuts.
 * @returns true where it was written, false where it was there
 * @throws FormatError FILE_UNWRITABLE; AudioError; AbortError where `signal` stopped it
 */
export async function writeCuts(plans: readonly CutPlan[], { path, featureFolder, numMelBins, jobs, onProgress, signal }: WriteCutsOptions): Promise<boolean> {
  if (existsSync(path)) {
    onProgress?.(plans.length);
    return false;
  }
  const writer = new ManifestWriter(path);
  try {
    if (featureFolder === undefined) {
      for (const plan of plans) await writer.writeText(cutLine(plan));
      onProgress?.(plans.length);
    } else {
      removeTemporaries(featureFolder);
      const pieces = Math.ceil(plans.length / pieceSize);
      for (let piece = 0; piece < pieces; piece++) {
        const part = plans.slice(piece * pieceSize, (piece + 1) * pieceSize);
        for (const line of await pieceLines(part, featureFolder, piece, { numMelBins, jobs, onProgress, signal })) await writer.writeText(line);
      }
    }
    await writer.close();
  } catch (error) {
    writer.abandon();
    throw error;
  }
  if (featureFolder !== undefined) for (let piece = 0; piece < Math.ceil(plans.length / pieceSize); piece++) rmSync(join(featureFolder, `cuts-${piece}.jsonl`), { force: true });
  return true;
}

async function pieceLines(
  plans: readonly CutPlan[],
  folder: string,
  piece: number,
  { numMelBins, jobs, onProgress, signal }: Pick<WriteCutsOptions, "numMelBins" | "jobs" | "onProgress" | "signal">,
): Promise<string[]> {
  const archivePath = join(folder, `feats-${piece}.lca`);
  const linesPath = join(folder, `cuts-${piece}.jsonl`);
  const done = finished(plans, archivePath, linesPath);
  if (done) {
    onProgress?.(plans.length);
    return done;
  }
  const archive = new FeatureArchive(archivePath);
  const lines: string[] = [];
  try {
    for await (const { plan, features } of prefetch(plans, jobs, async (plan) => ({ plan, features: await featuresOf(plan, numMelBins) }))) {
      signal?.throwIfAborted();
      lines.push(cutLine(plan, { frames: features.frames, bins: features.bins, path: archivePath, key: archive.add(features) }));
      onProgress?.(1);
    }
    archive.close();
  } catch (error) {
    archive.abandon();
    throw error;
  }
  writeFileAtomic(linesPath, `${lines.join("\n")}\n`);
  return lines;
}

/** The lines of a piece that an earlier run finished: of the same cuts. */
function finished(plans: readonly CutPlan[], archivePath: string, linesPath: string): string[] | undefined {
  if (!existsSync(archivePath) || !existsSync(linesPath)) return undefined;
  const lines = readFileSync(linesPath, "utf8").trimEnd().split("\n");
  if (lines.length !== plans.length) return undefined;
  return lines.every((line, i) => line.startsWith(`{"id": ${JSON.stringify((plans[i] as CutPlan).id)}, `)) ? lines : undefined;
}
