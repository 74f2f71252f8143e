/** What happens to utterances while they are loaded, by the flags of icefall and by the keys of a NeMo block. */
import { SpecAugment } from "../audio/index.ts";
import { type CutTransform, cutConcatenateTransform, cutMixTransform, openNoise, type PlayedCut, reverbTransform } from "../data/index.ts";
import type { TrainOptions } from "./options.ts";

export type { CutTransform };

/** Features are computed from audio although they are stored. */
const withoutFeatures: CutTransform = {
  name: "on the fly",
  apply: (cuts) => cuts.map((cut): PlayedCut => ({ ...cut, features: undefined, tracks: cut.tracks?.map((track) => ({ ...track, features: undefined })) })),
};

/**
 * Transforms by icefall's flags, in icefall's order: joining before noise.
 * @param musan cuts of noise that --enable-musan means, where --noise-path names no other
 * @throws ManifestError, FormatError, AudioError for noise that cannot be read
 */
export async function transformsOf(options: TrainOptions, musan: string | undefined): Promise<CutTransform[]> {
  const { onTheFlyFeats, inputStrategy, concatenateCuts, gap, durationFactor, enableMusan, noisePath = musan, noiseSnr, noiseMixProb, rirEnabled, rirPath, rirProb } = options;
  const transforms: CutTransform[] = [];
  if (onTheFlyFeats || inputStrategy === "OnTheFlyFeatures") transforms.push(withoutFeatures);
  if (concatenateCuts) transforms.push(cutConcatenateTransform({ gap, durationFactor }));
  if (enableMusan && noisePath !== undefined) {
    const [low, high = low] = noiseSnr as readonly [number, number?];
    transforms.push(cutMixTransform(await openNoise(noisePath), { snr: [low, high], p: noiseMixProb }));
  }
  if (rirEnabled) transforms.push(reverbTransform(rirPath === undefined ? undefined : await openNoise(rirPath), { p: rirProb }));
  return transforms;
}

/** What masks and warps the features of training; undefined where that is off. */
export function specAugmentOf(options: TrainOptions): SpecAugment | undefined {
  if (!options.enableSpecAug) return undefined;
  return new SpecAugment({
    timeWarpFactor: Math.max(0, options.specAugTimeWarpFactor),
    numFrameMasks: options.specAugNumFrameMasks,
    framesMaskSize: options.specAugFramesMaskSize,
    maxFramesMaskFraction: options.specAugMaxFramesMaskFraction,
    numFeatureMasks: options.specAugNumFeatureMasks,
    featuresMaskSize: options.specAugFeaturesMaskSize,
    p: options.specAugP,
  });
}
