/**
 * What happens to the cuts of a batch before they are rendered: lhotse's transforms of cuts. What is drawn for a cut comes from a stream of its own, which
 * depends on the seed, the epoch, the transform's place in the list and the cut's id: the same cut sounds the same whoever loads it, and after a restart.
 * Source: lhotse, dataset/cut_transforms and cut/set.py (LazyCutMixer); icefall, asr_datamodule.py.
 */
import { ConfigError } from "../../util/errors.ts";
import { hashText } from "../../util/hash.ts";
import { Random } from "../../util/random.ts";
import type { SourceCut } from "../sources/cut.ts";
import type { Response } from "../sources/sound.ts";
import { appendCuts, mergeSupervisions, mixCut, type PadDirection, type PlayedCut, padCut, perturbCutSpeed, perturbCutVolume, reverbCut, truncateCut } from "./played.ts";

/** Where a transform is used. */
export interface TransformContext {
  /** Hz of the samples that are rendered. */
  sampleRate: number;
  /** The stream of a cut: equal for equal ids. */
  random(cut: PlayedCut): Random;
}

/** A step between a batch of cuts and its rendering. */
export interface CutTransform {
  /** Name and settings: a state is not gone on from with other ones. */
  readonly name: string;
  apply(cuts: readonly PlayedCut[], context: TransformContext): PlayedCut[];
}

/** The stream of random numbers for one purpose of one utterance. */
export function streamOf(...parts: readonly (string | number)[]): Random {
  const { high, low } = hashText(parts.join("\n"));
  return new Random(high).fork(low);
}

/** @throws ConfigError CONFIG_BAD_VALUE */
export function probability(name: string, p: number): number {
  if (!(p >= 0 && p <= 1)) throw new ConfigError("CONFIG_BAD_VALUE", { at: name, message: `the probability is ${p}, not within 0 to 1` });
  return p;
}

/** A transform that changes cuts one by one. */
export const eachCut = (name: string, change: (cut: PlayedCut, random: Random, context: TransformContext) => PlayedCut): CutTransform => ({
  name,
  apply: (cuts, context) => cuts.map((cut) => change(cut, context.random(cut), context)),
});

/** Plays cuts at one of the factors, with probability p. icefall's on-the-fly training uses 0.9 and 1.1 with p of 2/3. */
export function perturbSpeedTransform({ factors = [0.9, 1.1], p = 2 / 3 }: { factors?: readonly number[]; p?: number } = {}): CutTransform {
  probability("perturbSpeed", p);
  if (factors.length === 0) throw new ConfigError("CONFIG_BAD_VALUE", { at: "perturbSpeed", message: "there is no factor" });
  return eachCut(`perturbSpeed factors=${factors.join(",")} p=${p}`, (cut, random, { sampleRate }) =>
    random.uniform() <= p ? perturbCutSpeed(cut, random.choice(factors), sampleRate) : cut,
  );
}

/** Multiplies samples by a factor drawn evenly from [low, high), with probability p. */
export function perturbVolumeTransform({ p, low = 0.125, high = 2 }: { p: number; low?: number; high?: number }): CutTransform {
  probability("perturbVolume", p);
  if (!(low >= 0 && high >= low)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "perturbVolume", message: `factors from ${low} to ${high}` });
  return eachCut(`perturbVolume p=${p} low=${low} high=${high}`, (cut, random) => (random.uniform() <= p ? perturbCutVolume(cut, low + (high - low) * random.uniform()) : cut));
}

/** How noise is mixed in. */
export interface CutMixOptions {
  /** dB, or the range from which they are drawn for each cut; null mixes noise as loud as it is. 10 to 20 by default. */
  snr?: number | readonly [number, number] | null;
  /** 0.5 by default. */
  p?: number;
  /** Cuts with noise are made as long as the longest of their batch, by noise. True by default, as in lhotse's CutMix. */
  padToLongest?: boolean;
  /** Of noise that is longer than needed a part is drawn, rather than its beginning. */
  randomMixOffset?: boolean;
}

/** Seconds at the end that need no noise. Source: lhotse, LazyCutMixer. */
const edge = 0.05;

/**
 * Mixes noise into cuts: lhotse's CutMix. Noises are drawn one after another, with replacement, until a cut is covered, and all have the cut's ratio.
 * @param noises cuts of noise: `openNoise` finds them
 */
export function cutMixTransform(noises: readonly SourceCut[], { snr = [10, 20], p = 0.5, padToLongest = true, randomMixOffset = false }: CutMixOptions = {}): CutTransform {
  probability("cutMix", p);
  if (noises.length === 0) throw new ConfigError("CONFIG_BAD_VALUE", { at: "cutMix", message: "there is no noise", fix: "name a manifest or a folder that holds some" });
  const range = Array.isArray(snr) ? (snr as readonly [number, number]) : undefined;
  const drawn = range ?? (snr === null ? [] : [snr as number]);
  if (!drawn.every(Number.isFinite) || (range && range.length !== 2))
    throw new ConfigError("CONFIG_BAD_VALUE", { at: "cutMix", message: `snr is ${String(snr)}, expected dB or two of them` });
  const seconds = noises.reduce((sum, noise) => sum + noise.duration, 0);
  return {
    name: `cutMix noises=${noises.length} seconds=${seconds.toFixed(3)} snr=${String(snr)} p=${p} padToLongest=${padToLongest} randomMixOffset=${randomMixOffset}`,
    apply(cuts, { random: streamFor }) {
      const longest = cuts.reduce((most, cut) => Math.max(most, cut.duration), 0);
      return cuts.map((cut) => {
        const random = streamFor(cut);
        if (random.uniform() > p) return cut;
        const ratio = range ? range[0] + (range[1] - range[0]) * random.uniform() : ((snr ?? undefined) as number | undefined);
        const target = padToLongest ? longest : cut.duration - edge;
        const tracks: { cut: PlayedCut; offset: number; snr: number | undefined }[] = [];
        let covered = 0;
        do {
          let noise: PlayedCut = noises[random.integer(0, noises.length)] as SourceCut;
          const needed = target - covered;
          if (randomMixOffset && needed > 0 && noise.duration > needed) noise = truncateCut(noise, { offset: (noise.duration - needed) * random.uniform(), duration: needed });
          // What lies behind the end is not even read.
          const rest = Math.max(target, cut.duration) - covered;
          tracks.push({ cut: noise.duration > rest && rest > 0 ? truncateCut(noise, { duration: rest }) : noise, offset: covered, snr: ratio });
          covered = Math.round((covered + noise.duration) * 1e8) / 1e8;
        } while (covered < target - edge);
        return mixCut(cut, tracks, padToLongest ? Math.min(target, Math.max(cut.duration, covered)) : cut.duration);
      });
    },
  };
}

/** How rooms are heard. */
export interface ReverbOptions {
  /** 0.5 by default. */
  p?: number;
  /** Keep loudness; true by default. */
  normalize?: boolean;
  /** The first 50 ms of responses alone. */
  earlyOnly?: boolean;
}

/** Seconds of early reflections, and of made-up rooms until an echo has lost 60 dB. Source: lhotse, ReverbWithImpulseResponse and FastRandomRIRGenerator. */
const early = 0.05;
const reverberationTimes = [0.1, 0.8] as const;

/**
 * Convolves cuts with impulse responses drawn from a list: lhotse's ReverbWithImpulseResponse.
 * @param responses undefined makes up a room for each cut, by Polack's model rather than lhotse's generator
 */
export function reverbTransform(responses: readonly SourceCut[] | undefined, { p = 0.5, normalize = true, earlyOnly = false }: ReverbOptions = {}): CutTransform {
  probability("reverb", p);
  if (responses?.length === 0)
    throw new ConfigError("CONFIG_BAD_VALUE", { at: "reverb", message: "there is no impulse response", fix: "name a manifest or a folder that holds some" });
  return eachCut(`reverb responses=${responses?.length ?? "made up"} p=${p} normalize=${normalize} earlyOnly=${earlyOnly}`, (cut, random) => {
    if (random.uniform() > p) return cut;
    let response: Response;
    if (responses) {
      const recording = random.choice(responses);
      response = { kind: "recording", cut: earlyOnly && recording.duration > early ? truncateCut(recording, { duration: early }) : recording };
    } else {
      const [low, high] = reverberationTimes;
      response = { kind: "room", reverberationTime: earlyOnly ? early : low + (high - low) * random.uniform(), seed: random.uint32() };
    }
    return reverbCut(cut, response, { normalize });
  });
}

/** How cuts are joined. */
export interface CutConcatenateOptions {
  /** Seconds of silence between two; 1 by default. */
  gap?: number;
  /** Longest result, as a multiple of the longest cut; 1 by default. */
  durationFactor?: number;
  /** Longest result in seconds, instead. */
  maxDuration?: number | undefined;
  /** One supervision for each row, from the first to the last of its parts, as NeMo's concatenate_merge_supervisions; false by default. */
  merge?: boolean;
}

/** Appends the shortest cuts to the longest ones that still have room: lhotse's CutConcatenate, which draws nothing. */
export function cutConcatenateTransform({ gap = 1, durationFactor = 1, maxDuration, merge = false }: CutConcatenateOptions = {}): CutTransform {
  if (!(gap >= 0 && durationFactor > 0)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "cutConcatenate", message: `gap is ${gap} and durationFactor ${durationFactor}` });
  return {
    name: `cutConcatenate gap=${gap} durationFactor=${durationFactor} maxDuration=${maxDuration ?? "none"} merge=${merge}`,
    apply(cuts) {
      if (cuts.length <= 1) return [...cuts];
      const rows = byDuration(cuts).map((cut) => ({ cuts: [cut], duration: cut.duration }));
      const limit = maxDuration ?? (rows[0] as { duration: number }).duration * durationFactor;
      for (let current = 0; current < rows.length - 1; ) {
        const row = rows[current] as { cuts: PlayedCut[]; duration: number };
        const shortest = rows.at(-1) as { cuts: PlayedCut[]; duration: number };
        if (row.duration + gap + shortest.duration > limit) {
          current++;
          continue;
        }
        row.cuts.push(...shortest.cuts);
        row.duration = Math.round((row.duration + gap + shortest.duration) * 1e8) / 1e8;
        rows.pop();
      }
      return rows.map((row) => (merge && row.cuts.length > 1 ? mergeSupervisions(appendCuts(row.cuts, gap)) : appendCuts(row.cuts, gap)));
    },
  };
}

/** Which part a truncated cut is of. */
export type OffsetType = "start" | "end" | "random";

/** Parts of at most some seconds: lhotse's CutSet.truncate. Samplers have to know the durations that come of it: those of `truncate_duration` do.*/
export function truncateTransform({ duration, offsetType = "random", keepExcessive = true }: { duration: number; offsetType?: OffsetType; keepExcessive?: boolean }): CutTransform {
  if (!(duration > 0)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "truncate", message: `the duration is ${duration}, expected seconds above 0` });
  return eachCut(`truncate duration=${duration} offsetType=${offsetType} keepExcessive=${keepExcessive}`, (cut, random) => {
    const rest = cut.duration - duration;
    if (rest <= 0) return cut;
    const offset = offsetType === "start" ? 0 : offsetType === "end" ? rest : rest * random.uniform();
    return truncateCut(cut, { offset, duration, keepExcessive });
  });
}

/** Silence up to a duration: lhotse's CutSet.pad, and "random", which draws a side, as in NeMo. */
export function padTransform({ duration, direction = "right" }: { duration: number; direction?: PadDirection | "random" }): CutTransform {
  if (!(duration > 0)) throw new ConfigError("CONFIG_BAD_VALUE", { at: "pad", message: `the duration is ${duration}, expected seconds above 0` });
  return eachCut(`pad duration=${duration} direction=${direction}`, (cut, random) =>
    padCut(cut, duration, direction === "random" ? random.choice(["left", "right", "both"]) : direction),
  );
}

/** Longest first; what is equal keeps its order. */
export function byDuration<T extends { duration: number }>(cuts: readonly T[]): T[] {
  return [...cuts].sort((a, b) => b.duration - a.duration);
}
