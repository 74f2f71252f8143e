/** The augmentation that a config names, as options of a loader, in NeMo's order: noise, truncation, padding, concatenation, reverberation. */
import type { LhotseDataLoadingConfig } from "../sources/lhotseConfig.ts";
import type { LoaderOptions } from "./loader.ts";
import { openNoise } from "./noise.ts";
import { type CutTransform, cutConcatenateTransform, cutMixTransform, padTransform, reverbTransform, truncateTransform } from "./transforms.ts";

/**
 * Opens noise and impulse responses, and gives what a `Loader` takes. Speeds (`perturb_speed`) are copies in the source already, and durations of truncated
 * and padded utterances are there as they will be.
 * @throws ManifestError SOURCE_EMPTY; FormatError, AudioError of reading
 */
export async function loaderOptionsOf(config: LhotseDataLoadingConfig): Promise<Pick<LoaderOptions, "sampleRate" | "workers" | "seed" | "cutTransforms">> {
  const cutTransforms: CutTransform[] = [];
  const { noisePath, truncateDuration, keepExcessiveSupervisions: keepExcessive, padMinDuration } = config;
  if (noisePath !== undefined)
    // As in NeMo: before batches are made, so no cut becomes as long as others by noise.
    cutTransforms.push(cutMixTransform(await openNoise(noisePath), { snr: config.noiseSnr, p: config.noiseMixProb, padToLongest: false, randomMixOffset: true }));
  if (truncateDuration !== undefined) cutTransforms.push(truncateTransform({ duration: truncateDuration, offsetType: config.truncateOffsetType, keepExcessive }));
  if (padMinDuration !== undefined) cutTransforms.push(padTransform({ duration: padMinDuration, direction: config.padDirection }));
  if (config.concatenateSamples)
    cutTransforms.push(
      cutConcatenateTransform({ gap: config.concatenateGapSeconds, durationFactor: config.concatenateDurationFactor, merge: config.concatenateMergeSupervisions }),
    );
  if (config.rirEnabled) cutTransforms.push(reverbTransform(config.rirPath === undefined ? undefined : await openNoise(config.rirPath), { p: config.rirProb }));
  return { sampleRate: config.sampleRate, workers: config.numWorkers, seed: typeof config.seed === "number" ? config.seed : 0, cutTransforms };
}
