/**
 * Transforms of cuts that sound as through bad equipment, and of loudness: lhotse's LowpassUsingResampling, ClippingTransform
 * and Compress, NeMo's db_norm.
 */
import type { LossyCodec } from "../../audio/index.ts";
import { ConfigError } from "../../util/errors.ts";
import { clipCut, compressCut, lowpassCut, normalizeCutLoudness } from "./played.ts";
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

/** Which codecs, and how much they lose. Defaults are NeMo's. */
export interface CompressionOptions {
  codecs?: readonly LossyCodec[];
  /** Shares of the codecs, at any scale; equal where absent. */
  weights?: readonly number[] | undefined;
  /** From which levels of compression are drawn, 0 to 1 for the worst sound. */
  levels?: readonly [number, number];
  p?: number;
}

/** Sends cuts through a codec with probability p. */
export function compressionTransform({ codecs = ["opus"], weights, levels = [0.8, 0.99], p = 0.5 }: CompressionOptions = {}): CutTransform {
  probability("compression", p);
  const [low, high] = levels;
  if (!(low >= 0 && low <= high && high <= 1)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "compression", message: `levels from ${low} to ${high}, expected within 0 to 1` });
  if (codecs.length === 0 || (weights && (weights.length !== codecs.length || !weights.every((weight) => weight > 0))))
    throw new ConfigError("CONFIG_BAD_VALUE", {
      at: "compression",
      message: `${codecs.length} codecs and ${weights?.length ?? "no"} weights, expected a weight above 0 for each codec`,
    });
  const total = (weights ?? codecs.map(() => 1)).reduce((sum, weight) => sum + weight, 0);
  return eachCut(`compression codecs=${codecs.join(",")} weights=${weights?.join(",") ?? "equal"} levels=${low},${high} p=${p}`, (cut, random) => {
    if (random.uniform() > p) return cut;
    let left = random.uniform() * total;
    const index = codecs.findIndex((_, i) => (left -= weights?.[i] ?? 1) < 0);
    return compressCut(cut, codecs[Math.max(0, index)] as LossyCodec, low + (high - low) * random.uniform());
  });
}
