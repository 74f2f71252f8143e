/** Transforms of cuts that sound as through bad equipment, and of loudness: lhotse's LowpassUsingResampling and ClippingTransform, NeMo's db_norm. */
import { ConfigError } from "../../util/errors.ts";
import { clipCut, lowpassCut, normalizeCutLoudness } from "./played.ts";
import { type CutTransform, eachCut, probability } from "./transforms.ts";

function interval(name: string, [low, high]: readonly [number, number], least: number): void {
  if (!(low >= least && low < high && high < Number.POSITIVE_INFINITY)) throw new ConfigError("CONFIG_BAD_VALUE", { at: name, message: `the interval is ${low} to ${high}` });
}

/** Takes away what is above a frequency, drawn evenly on a scale of octaves, with probability p. */
export function lowpassTransform({ frequencies = [3500, 8000], p = 0.5 }: { frequencies?: readonly [number, number]; p?: number } = {}): CutTransform {
  probability("lowpass", p);
  interval("lowpass", frequencies, 1);
  const [low, high] = frequencies;
  return eachCut(`lowpass frequencies=${low},${high} p=${p}`, (cut, random, { sampleRate }) => {
    if (high > sampleRate / 2)
      throw new ConfigError("CONFIG_BAD_VALUE", {
        at: "lowpass",
        message: `frequencies up to ${high} Hz, and the audio of ${sampleRate} Hz has none above ${sampleRate / 2}`,
        fix: "lower the interval",
      });
    return random.uniform() <= p ? lowpassCut(cut, Math.floor(low * (high / low) ** random.uniform())) : cut;
  });
}

/** How cuts are clipped. Defaults are NeMo's. */
export interface ClippingOptions {
  gainDb?: readonly [number, number];
  normalize?: boolean;
  oversampling?: number;
  p?: number;
  /** Of those, how many are cut off rather than saturated. */
  pHard?: number;
}

/** Clips cuts with probability p, after a gain that is drawn evenly. */
export function clippingTransform({ gainDb = [0, 24], normalize = true, oversampling = 2, p = 0.5, pHard = 0.5 }: ClippingOptions = {}): CutTransform {
  probability("clipping", p);
  probability("clipping", pHard);
  interval("clipping", gainDb, Number.NEGATIVE_INFINITY);
  const [low, high] = gainDb;
  return eachCut(`clipping gainDb=${low},${high} normalize=${normalize} oversampling=${oversampling} p=${p} pHard=${pHard}`, (cut, random) => {
    if (random.uniform() > p) return cut;
    const hard = random.uniform() <= pHard;
    return clipCut(cut, { hard, gainDb: low + (high - low) * random.uniform(), normalize, oversampling });
  });
}

/** Scales every cut to a loudness in LUFS. */
export const loudnessTransform = (target: number): CutTransform => eachCut(`loudness target=${target}`, (cut) => normalizeCutLoudness(cut, target));
