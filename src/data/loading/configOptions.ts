/**
 * The augmentation that a config names, as options of a loader, in NeMo's order: noise, truncation, padding, loudness and concatenation, low-pass, clipping,
 * reverberation, codecs.
 */
import { ConfigError } from "../../util/errors.ts";
import type { OpenedBlocks } from "../sources/blocks.ts";
import type { LhotseDataLoadingConfig } from "../sources/lhotseConfig.ts";
import { clippingTransform, compressionTransform, loudnessTransform, lowpassTransform } from "./equipment.ts";
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
  if (config.concatenateSamples && config.dbNorm !== undefined) cutTransforms.push(loudnessTransform(config.dbNorm));
  if (config.concatenateSamples)
    cutTransforms.push(
      cutConcatenateTransform({ gap: config.concatenateGapSeconds, durationFactor: config.concatenateDurationFactor, merge: config.concatenateMergeSupervisions }),
    );
  if (config.lowpassEnabled) cutTransforms.push(lowpassTransform({ frequencies: config.lowpassFrequenciesInterval, p: config.lowpassProb }));
  if (config.clippingEnabled)
    cutTransforms.push(
      clippingTransform({
        gainDb: config.clippingGainDb,
        normalize: config.clippingNormalize,
        oversampling: config.clippingOversampling,
        p: config.clippingProb,
        pHard: config.clippingProbHard,
      }),
    );
  if (config.rirEnabled) cutTransforms.push(reverbTransform(config.rirPath === undefined ? undefined : await openNoise(config.rirPath), { p: config.rirProb }));
  if (config.compressionEnabled)
    cutTransforms.push(
      compressionTransform({
        codecs: config.compressionCodecs.map((codec) => (codec === "vorbis" ? "ogg" : codec)),
        weights: config.compressionCodecWeights,
        levels: config.compressionLevelInterval,
        p: config.compressionProb,
      }),
    );
  return { sampleRate: config.sampleRate, workers: config.numWorkers, seed: typeof config.seed === "number" ? config.seed : 0, cutTransforms };
}

/** A transform for the cuts of one config among several. */
const ofBlock = (block: string, transform: CutTransform): CutTransform => ({
  name: `${block}: ${transform.name}`,
  apply: (cuts, context) => [
    ...cuts.filter((cut) => cut.block !== block),
    ...transform.apply(
      cuts.filter((cut) => cut.block === block),
      context,
    ),
  ],
});

/**
 * The same for several configs (multi_config), each of which augments its own cuts.
 * @throws ConfigError CONFIG_BAD_VALUE where their sampling rates differ; as `loaderOptionsOf`
 */
export async function blocksLoaderOptionsOf({ blocks }: OpenedBlocks): Promise<Awaited<ReturnType<typeof loaderOptionsOf>>> {
  const options = [];
  for (const { name, opened } of blocks) options.push({ name, at: opened.places.get("sample_rate")?.at, ...(await loaderOptionsOf(opened.config)) });
  const [first, ...others] = options as [(typeof options)[number], ...typeof options];
  const other = others.find(({ sampleRate }) => sampleRate !== first.sampleRate);
  if (other)
    throw new ConfigError("CONFIG_BAD_VALUE", {
      at: other.at ?? first.at ?? other.name,
      message: `sample_rate is ${other.sampleRate} for ${other.name} and ${first.sampleRate} for ${first.name}, and a batch has one`,
      fix: "give the same to all",
    });
  const { sampleRate, workers, seed } = first;
  return { sampleRate, workers, seed, cutTransforms: options.flatMap(({ name, cutTransforms = [] }) => cutTransforms.map((transform) => ofBlock(name, transform))) };
}
